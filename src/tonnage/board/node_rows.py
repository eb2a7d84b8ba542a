"""A row per node with a lane per resource: used, held, promised, and of how much.

Everything is read from the columns of the snapshot at once, so that five thousand nodes cost
milliseconds, and two moments are compared as arrays.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import is_not
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from tonnage.board.moment import Moment
from tonnage.groups import limits
from tonnage.groups.readiness import COMING_UP
from tonnage.objects import quantities
from tonnage.objects.labels import ZONE
from tonnage.objects.meta import Quantity, Record
from tonnage.objects.storage import PersistentVolume, StorageClass
from tonnage.snapshot import storage_ledger
from tonnage.snapshot.rows import Ints, RowIndex
from tonnage.snapshot.slots import UNLIMITED
from tonnage.snapshot.snapshot import NodeRecord, PodRecord, Snapshot

UNKNOWN_LIMIT = -1
NO_LIMIT = -2
NOT_HERE = -3
"""In place of a limit: nobody says, there is none, and the node has nothing of the kind."""

MANY_DRIVERS = 8
_MIB = 2**20
_FIELDS = 4

Unit: TypeAlias = Literal["milli", "MiB", "count"]
NodeCondition: TypeAlias = Literal["ready", "cordoned", "notReady", "comingUp", "going"]
CONDITIONS: tuple[NodeCondition, ...] = ("ready", "cordoned", "notReady", "comingUp", "going")


class Lane(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What a lane shows: `kind` says how it is written, `name` whose it is."""

    id: str
    name: str
    kind: Literal["resource", "driver", "disk"]
    unit: Unit


class NodeTable(NamedTuple):
    """Rows in the order of `names`; a row is group, type, zone, condition, binding lane, its share
    in thousandths, and then used, held, promised and limit of each lane."""

    lanes: tuple[Lane, ...]
    labels: tuple[str, ...]
    """What groups, types and zones are called; rows have the number."""
    names: tuple[str, ...]
    rows: Ints

    def row(self, position: int) -> list[int]:
        found: list[int] = self.rows[position].tolist()
        return found

    def group_sizes(self) -> dict[str, int]:
        """Nodes that are there, by group; those in none are under the empty name."""
        groups, counts = np.unique(self.rows[:, 0], return_counts=True)
        found = zip(groups.tolist(), counts.tolist(), strict=True)
        return {self.labels[group]: count for group, count in found}

    def changed_since(self, before: "NodeTable") -> tuple[dict[str, list[int]], list[str]]:
        """Rows that are new or other, and names that are gone."""
        gone = list(set(before.names).difference(self.names))
        if self.rows.shape[1:] != before.rows.shape[1:]:
            return dict(zip(self.names, self.rows.tolist(), strict=True)), gone
        if self.names == before.names:
            positions = np.flatnonzero((self.rows != before.rows).any(axis=1)).tolist()
        else:
            known = {name: position for position, name in enumerate(before.names)}
            was = [known.get(name, -1) for name in self.names]
            other = np.asarray(was, dtype=np.intp)
            same = other >= 0
            if len(before.names):
                same &= (self.rows == before.rows[other]).all(axis=1)
            positions = np.flatnonzero(~same).tolist()
        return {self.names[position]: self.row(position) for position in positions}, gone


class Numbers:
    """Names as small numbers, which stay what they are for as long as the page is served."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {"": 0}

    def __call__(self, name: str) -> int:
        return self._of.setdefault(name, len(self._of))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._of)


class NodeReader:
    """Reads node tables; what it knows of a node it keeps while the object is the same."""

    def __init__(self) -> None:
        self._disks = _Disks()
        self._numbers = Numbers()
        self._facts: dict[str, tuple[object, int, int]] = {}

    def read(self, moment: Moment) -> NodeTable:
        snapshot = moment.inputs.cluster.snapshot
        records = [record for record in snapshot.ordered_nodes() if not record.imagined]
        rows = np.array([record.row for record in records], dtype=np.intp)
        lanes, columns = _lanes(snapshot, rows, self._disks)
        taken = _promised(moment, lanes, {record.name: n for n, record in enumerate(records)})
        table = np.zeros((len(records), 6 + _FIELDS * len(lanes)), dtype=np.int64)
        table[:, 0:4] = self._described(moment, records)
        shares = np.full((len(records), max(len(lanes), 1)), -1.0)
        for number, column in enumerate(columns):
            at = 6 + _FIELDS * number
            table[:, at] = column.used
            table[:, at + 1] = column.held
            table[:, at + 2] = taken[number]
            # What is promised to a node that has nothing of the kind is on nobody's word.
            unsaid = (column.limit == NOT_HERE) & (taken[number] > 0)
            table[:, at + 3] = np.where(unsaid, UNKNOWN_LIMIT, column.limit)
            full = column.used + column.held + taken[number]
            known = column.limit > 0
            shares[known, number] = full[known] / column.limit[known]
            # A limit of nothing is full as soon as anything is there.
            shares[(column.limit == 0) & (full > 0), number] = 1.0
        if len(records):
            table[:, 4] = shares.argmax(axis=1)
            table[:, 5] = np.rint(shares.max(axis=1).clip(min=0) * 1000).astype(np.int64)
        return NodeTable(
            lanes, self._numbers.names, tuple(record.name for record in records), table
        )

    def _described(self, moment: Moment, records: Sequence[NodeRecord]) -> Ints:
        groups = moment.inputs.group_of
        going = _going(moment)
        coming = _coming_up(moment)
        known: dict[str, tuple[object, int, int]] = {}
        found: list[tuple[int, int, int, int]] = []
        for record in records:
            name, node = record.name, record.node
            fact = self._facts.get(name)
            if fact is None or fact[0] is not node:
                type_ = self._numbers(limits.instance_type(node))
                zone = self._numbers(node.metadata.labels.get(ZONE, ""))
                fact = (node, type_, zone)
            known[name] = fact
            group = groups.get(name)
            state = moment.inputs.states.get(name)
            condition: NodeCondition = "ready"
            if name in going:
                condition = "going"
            elif state is not None and not state.ready:
                condition = "notReady"
            elif name in coming:
                condition = "comingUp"
            elif node.spec.unschedulable:
                condition = "cordoned"
            number = self._numbers(group.id) if group is not None else 0
            found.append((number, fact[1], fact[2], CONDITIONS.index(condition)))
        self._facts = known
        return np.array(found, dtype=np.int64).reshape(len(records), 4)


class _Column(NamedTuple):
    used: Ints
    held: Ints
    limit: Ints


def _lanes(
    snapshot: Snapshot, rows: RowIndex, disks: "_Disks"
) -> tuple[tuple[Lane, ...], list[_Column]]:
    found: list[tuple[Lane, _Column]] = []
    nothing = np.zeros(len(rows), dtype=np.int64)
    units: tuple[tuple[str, str, Unit, int], ...] = (
        ("cpu", "CPU", "milli", 1),
        ("memory", "memory", "MiB", _MIB),
        ("pods", "pods", "count", 1),
    )
    for resource, name, unit, divisor in units:
        found += _resource(snapshot, rows, Lane(id=resource, name=name, kind="resource", unit=unit),
                           divisor=divisor)  # fmt: skip
    drivers = sorted(snapshot.slots.drivers(), key=lambda one: one.name)
    if len(drivers) > MANY_DRIVERS:
        drivers.sort(key=lambda one: -int(one.listed.data[rows].sum()))
        drivers = sorted(drivers[:MANY_DRIVERS], key=lambda one: one.name)
    for driver in drivers:
        used, held = driver.used.data[rows], driver.idle_attachments.data[rows]
        limit, listed = driver.limit.data[rows], driver.listed.data[rows]
        here = listed | (used + held > 0) | (limit != UNLIMITED)
        without_number = np.where(listed, NO_LIMIT, UNKNOWN_LIMIT)
        limit = np.where(limit == UNLIMITED, np.where(here, without_number, NOT_HERE), limit)
        if here.any():
            lane = Lane(id=f"driver:{driver.name}", name=driver.name, kind="driver", unit="count")
            found.append((lane, _Column(used, held, limit)))
    disk = Lane(id="disk", name="local disk", kind="disk", unit="MiB")
    ephemeral = snapshot.columns.find_resource("ephemeral-storage")
    if ephemeral is not None:
        found += _resource(snapshot, rows, disk, resource="ephemeral-storage", divisor=_MIB)
    for name, (used, capacity) in disks.read(snapshot, rows).items():
        lane = Lane(id=f"class:{name}", name=name, kind="disk", unit="MiB")
        found.append((lane, _Column(used, nothing, capacity)))
    return tuple(lane for lane, _ in found), [column for _, column in found]


def _resource(
    snapshot: Snapshot, rows: RowIndex, lane: Lane, *, resource: str = "", divisor: int
) -> Iterable[tuple[Lane, _Column]]:
    number = snapshot.columns.find_resource(resource or lane.id)
    if number is None:
        return
    allocatable = snapshot.columns.allocatable[number].data[rows]
    used = snapshot.columns.used[number].data[rows]
    limit = np.where(allocatable > 0, allocatable // divisor, NOT_HERE)
    if (allocatable > 0).any():
        yield lane, _Column(used // divisor, np.zeros(len(rows), dtype=np.int64), limit)


class _Disks:
    """By storage class, what volumes take of a node's own disk and what it began with.

    Only of capacities that speak of one node: what a zone shares is no lane of a node. Read anew
    when volumes, capacities or nodes are others than before.
    """

    def __init__(self) -> None:
        self._objects: list[object] = []
        self._found: dict[str, tuple[Ints, Ints]] = {}

    def read(self, snapshot: Snapshot, rows: RowIndex) -> dict[str, tuple[Ints, Ints]]:
        storage = snapshot.storage
        classes = storage_ledger.tracked(storage)
        if not classes:
            return {}
        capacities = [one for name in classes for one in storage.capacities_of(name)]
        nodes = [record.node for record in snapshot.ordered_nodes()]
        objects: list[object] = [*nodes, *capacities, *storage.volumes.values()]
        if len(objects) != len(self._objects) or any(map(is_not, objects, self._objects)):
            self._objects = objects
            self._found = _published(snapshot, rows, classes)
        return self._found


def _published(
    snapshot: Snapshot, rows: RowIndex, classes: Mapping[str, StorageClass]
) -> dict[str, tuple[Ints, Ints]]:
    storage = snapshot.storage
    position_of = {row: position for position, row in enumerate(rows.tolist())}
    by_label: dict[tuple[str, str], list[int]] = {}
    for record in snapshot.ordered_nodes():
        for label in record.node.metadata.labels.items():
            by_label.setdefault(label, []).append(position_of.get(record.row, -1))
    taken: dict[tuple[str, int], int] = {}
    for volume in storage.volumes.values():
        if volume.class_name in classes:
            for position in _only_node(_pinned(volume), by_label):
                key = (volume.class_name, position)
                taken[key] = taken.get(key, 0) + _bytes(volume.spec.capacity.get("storage"))
    found: dict[str, tuple[Ints, Ints]] = {}
    for name in sorted(classes):
        used = np.zeros(len(rows), dtype=np.int64)
        capacity = np.full(len(rows), NOT_HERE, dtype=np.int64)
        for one in storage.capacities_of(name):
            selector = one.node_topology
            if one.capacity is None or selector is None:
                continue
            labels = [*selector.match_labels.items()]
            labels += [
                (term.key, term.values[0])
                for term in selector.match_expressions
                if term.operator == "In" and len(term.values) == 1
            ]
            for position in _only_node(labels, by_label):
                spent = taken.get((name, position), 0)
                used[position] = spent // _MIB
                left = _bytes(one.capacity)
                capacity[position] = max(capacity[position], 0) + (left + spent) // _MIB
        if (capacity >= 0).any():
            found[name] = (used, capacity)
    return found


def _only_node(
    labels: Iterable[tuple[str, str]], by_label: Mapping[tuple[str, str], list[int]]
) -> list[int]:
    for label in labels:
        positions = by_label.get(label, [])
        if len(positions) == 1 and positions[0] >= 0:
            return positions
    return []


def _pinned(volume: PersistentVolume) -> Iterable[tuple[str, str]]:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return
    for term in affinity.required.node_selector_terms:
        for part in term.match_expressions:
            if part.operator == "In" and len(part.values) == 1:
                yield part.key, part.values[0]


def _bytes(quantity: Quantity | None) -> int:
    return quantities.value(quantity) if quantity is not None else 0


def _promised(moment: Moment, lanes: Sequence[Lane], positions: Mapping[str, int]) -> list[Ints]:
    """What pods take that the plan has placed on a node that is there, or that were promised it."""
    found = [np.zeros(len(positions), dtype=np.int64) for _ in lanes]
    snapshot = moment.inputs.cluster.snapshot
    places = {}
    for node, pods in snapshot.nominated_pods.items():
        places.update(dict.fromkeys(pods, node))
    if moment.plan is not None:
        places.update({one.pod: one.node for one in moment.plan.all_on_existing})
    for pod, node in places.items():
        position = positions.get(node)
        record = snapshot.pods.get(pod)
        if position is None or record is None or not record.pending:
            continue
        for number, amount in _wanted(record, lanes, snapshot):
            found[number][position] += amount
    return found


def _wanted(
    record: PodRecord, lanes: Sequence[Lane], snapshot: Snapshot
) -> Iterable[tuple[int, int]]:
    usage = record.pod_class.usage
    drivers: dict[str, int] = {}
    for use in record.slots.uses:
        drivers[use.driver] = drivers.get(use.driver, 0) + 1
    for volume in record.volumes:
        claim = snapshot.storage.claim(record.meta.namespace, volume.claim)
        if claim is not None and not claim.spec.volume_name:
            class_ = snapshot.storage.storage_class(claim.class_name)
            if class_ is not None:
                drivers[class_.provisioner] = drivers.get(class_.provisioner, 0) + 1
    for number, lane in enumerate(lanes):
        if lane.kind == "driver":
            amount = drivers.get(lane.name, 0)
        elif lane.id == "pods":
            amount = 1
        else:
            resource = "ephemeral-storage" if lane.id == "disk" else lane.id
            amount = usage.get(resource, 0) // (_MIB if lane.unit == "MiB" else 1)
        if amount:
            yield number, amount


def _going(moment: Moment) -> frozenset[str]:
    if moment.scale_down is None:
        return frozenset()
    return frozenset(
        one.decision.node for one in moment.scale_down.nodes if one.removal is not None
    )


def _coming_up(moment: Moment) -> frozenset[str]:
    if moment.readiness is None:
        return frozenset()
    return frozenset(
        name for name, node in moment.readiness.nodes.items() if node.state == COMING_UP
    )

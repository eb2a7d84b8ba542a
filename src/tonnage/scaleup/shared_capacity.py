"""What kube-scheduler does not count and a plan does: slots that drivers share, and storage.

Both are set up for the trial of a plan and gone with it. kube-scheduler checks each claim alone
against what is published: where a plan leaves a node alone because its storage is used up,
kube-scheduler may still send a pod there, which is worth a warning.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from tonnage.groups import slot_pools
from tonnage.groups.model import Group, StorageRoom, Template
from tonnage.objects.scenarios import SlotPool
from tonnage.rules import registry
from tonnage.rules.features import Features
from tonnage.scaleup import pod_groups
from tonnage.scaleup.candidates import Candidates
from tonnage.scaleup.plan import GroupPool, Plan
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.snapshot import published_storage
from tonnage.snapshot.reservations import Reservations, Source
from tonnage.snapshot.rows import Bools
from tonnage.snapshot.slot_pools import Pool, set_pools
from tonnage.snapshot.snapshot import PodRecord, Snapshot
from tonnage.snapshot.storage_ledger import Room, size_of


def open_pools(
    snapshot: Snapshot,
    groups: Sequence[Group],
    candidates: Candidates,
    configured: Sequence[SlotPool],
) -> tuple[GroupPool, ...]:
    """Set the pools until the trial is over; gives those of new nodes, by group."""
    if not configured and not any(group.pools for group in groups):
        return ()
    rows: dict[int, list[Pool]] = {}
    nodes = [record.node for record in snapshot.nodes.values()]
    for name, pools in slot_pools.by_node(nodes, snapshot.csinodes, groups, configured):
        rows[snapshot.nodes[name].row] = pools
    told = []
    for one in candidates:
        template = one.template
        found = slot_pools.of_node(template.node, template.csinode, one.group, configured)
        rows[one.row.row] = [each.pool for each in found]
        told += [
            GroupPool(group=one.name, pool=pool.name, free=pool.free, source=source)
            for pool, source in found
        ]
    set_pools(snapshot, rows)
    return tuple(told)


def wanted(groups: Iterable[PodGroup]) -> frozenset[str]:
    """Storage classes that the pods take of."""
    return frozenset(name for group in groups for name in group.footprint.storage)


def open_ledger(
    snapshot: Snapshot,
    classes: Collection[str],
    candidates: Candidates,
    *,
    templates: Mapping[str, Template],
    coming_up: Mapping[str, str],
    reservations: Reservations,
) -> None:
    """Begin to count what is taken of these classes, until the trial is over.

    `coming_up` has nodes that are not all there yet, each with its group; `reservations`
    pods whose volumes are being made, which may not show in what is published yet.
    """
    if not classes:
        return
    published_storage.open_ledger(
        snapshot,
        classes,
        templates={one.row.row: _rooms(one.template.storage) for one in candidates},
        coming_up={
            snapshot.nodes[node].row: _rooms(templates[group].storage)
            for node, group in coming_up.items()
            if node in snapshot.nodes and group in templates
        },
    )
    ledger = snapshot.storage_ledger
    one_pod = np.ones(1, dtype=np.int64)
    for one in candidates:
        for held in one.row.starting:
            ledger.take(np.array([one.row.row]), one_pod, held.storage)
    for entry in reservations.of(Source.SELECTED_NODE):
        if entry.pod is not None and entry.node in snapshot.nodes:
            # They are on their nodes: what is still to be made is taken for them already.
            row = np.array([snapshot.nodes[entry.node].row])
            ledger.take(row, one_pod, _just_made(snapshot, entry.pod))


def with_warnings(
    plan: Plan, snapshot: Snapshot, groups: Iterable[PodGroup], features: Features
) -> Plan:
    """The plan, warning where kube-scheduler would put more on its nodes than they can store."""
    if not snapshot.storage_ledger.class_names:
        return plan
    names = {fit.node for fit in plan.all_on_existing}
    names.update(node.name for one in plan.scale_ups for node in one.nodes)
    rows = np.zeros(snapshot.table.size, dtype=np.bool_)
    rows[[snapshot.nodes[name].row for name in names]] = True
    warnings = _warnings(snapshot, groups, rows, features)
    return msgspec.structs.replace(plan, warnings=(*plan.warnings, *warnings))


def _warnings(
    snapshot: Snapshot, groups: Iterable[PodGroup], rows: Bools, features: Features
) -> Iterator[str]:
    """One for each class of which some row has too little left."""
    full: dict[str, Bools] = {}
    ledger = snapshot.storage_ledger
    for group in groups:
        plain = msgspec.structs.replace(group.footprint, storage={})
        offered = rows & (registry.room(snapshot, plain, slice(0, len(rows)), features) > 0)
        claims = [
            claim
            for claim in pod_groups.unbound_claims(snapshot, group.sample)
            if claim.class_name in group.footprint.storage
        ]
        for claim in claims:
            offered &= ledger.largest(claim.class_name) >= size_of(claim)
        for name in group.footprint.storage:
            short = offered & (ledger.left(name) < group.footprint.storage[name])
            full[name] = full.get(name, False) | short
    for name, short in sorted(full.items()):
        count = int(short.sum())
        if count:
            node = snapshot.name_of(int(np.flatnonzero(short)[0]))
            others = f" and {count - 1} more" if count > 1 else ""
            yield (
                f"storage class {name}: {node}{others} will be too full for another pod with such"
                " volumes, yet kube-scheduler, which looks at each claim alone, may send one there"
            )


def _just_made(snapshot: Snapshot, pod: PodRecord) -> Mapping[str, int]:
    """Bytes by class of volumes that were made for a pod; nobody may have published that yet."""
    found: Counter[str] = Counter()
    for name in dict.fromkeys(volume.claim for volume in pod.volumes):
        claim = snapshot.storage.claim(pod.meta.namespace, name)
        if claim is not None and claim.spec.volume_name:
            found[claim.class_name] += size_of(claim)
    return found


def _rooms(rooms: Iterable[StorageRoom]) -> list[Room]:
    return [Room(room.storage_class, room.capacity, room.largest) for room in rooms]

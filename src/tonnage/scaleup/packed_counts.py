"""What packing comes to, in numbers alone.

To choose between groups, and between orders, it matters how many pods go on how many nodes, and
not which pod goes where. Where rules between pods have no say, and nodes share nothing, that is
arithmetic on what an empty node has left: the snapshot need not be touched, nor put back. It comes
to what `packing` comes to.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from tonnage.rules import registry
from tonnage.rules.features import Features
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.snapshot.rows import Ints, RowIndex
from tonnage.snapshot.snapshot import PodRecord, Snapshot


class NodeDemand(msgspec.Struct, frozen=True):
    """What one pod must find on a node, and what it takes there: amounts of numbered resources."""

    asked: Sequence[tuple[int, int]]
    taken: Sequence[tuple[int, int]]


class Demands:
    """What pods of each group need of empty nodes of the templates on these rows."""

    def __init__(self, snapshot: Snapshot, rows: RowIndex, features: Features) -> None:
        self._snapshot = snapshot
        self._rows = rows
        self._features = features
        self._known: dict[int, NodeDemand | None] = {}
        self._numbers: dict[str, int] = {}
        self._left: list[Ints] = []

    def of(self, groups: Iterable[PodGroup]) -> list[NodeDemand] | None:
        """One for each; `None` if some of them need what cannot be counted so."""
        found = []
        for group in groups:
            key = id(group.footprint)
            if key not in self._known:
                self._known[key] = self._find(group)
            demand = self._known[key]
            if demand is None:
                return None
            found.append(demand)
        return found

    def left(self, position: int) -> list[int]:
        """What an empty node of a template has of each resource."""
        return [int(left[position]) for left in self._left]

    def _find(self, group: PodGroup) -> NodeDemand | None:
        counts = registry.counts(self._snapshot, group.footprint, self._rows, self._features)
        if counts is None:
            return None
        for one in counts:
            if one.resource not in self._numbers:
                self._numbers[one.resource] = len(self._left)
                self._left.append(one.left)
        return NodeDemand(
            [(self._numbers[one.resource], one.asked) for one in counts if one.asked],
            [(self._numbers[one.resource], one.takes) for one in counts if one.takes],
        )


class CountedPacking(msgspec.Struct, frozen=True):
    """How many pods of each group, in the order they were packed, go on how many nodes."""

    placed: Sequence[tuple[PodGroup, int]]
    node_count: int

    @property
    def pod_count(self) -> int:
        return sum(count for _, count in self.placed)

    @property
    def pods(self) -> list[PodRecord]:
        return [pod for group, count in self.placed for pod in group.members[:count]]

    def requested(self, resource: str) -> int:
        """What all placed pods request together."""
        return sum(group.requests(resource) * count for group, count in self.placed)


class _Run(msgspec.Struct, frozen=True):
    """Nodes one after the other that have the same left of each resource."""

    nodes: int
    left: list[int]


def pack(
    groups: Sequence[PodGroup],
    demands: Sequence[NodeDemand],
    empty: list[int],
    *,
    limit: int,
    fresh: Mapping[int, int],
    stop: Callable[[], bool],
) -> CountedPacking:
    """Count as `packing.pack` places; `empty` is what an empty node has of each resource.

    First fit fills nodes one after the other, so nearly all of them are like the next, and those
    that nobody still to come fits on need not be looked at again.
    """
    runs: list[_Run] = []
    nodes = 0
    placed: list[tuple[PodGroup, int]] = []
    floors = _floors(demands)
    for group, demand, floor in zip(groups, demands, floors, strict=True):
        if stop():
            break
        wanted = group.size
        before, runs = runs, []
        for run in before:
            if any(run.left[resource] < least for resource, least in floor):
                continue
            if wanted:
                wanted = _fill(run, demand, _room(run.left, demand, wanted), wanted, runs)
            else:
                runs.append(run)
        each = fresh[id(group.footprint)]
        more = min(-(-wanted // each), limit - nodes) if each > 0 and wanted else 0
        if more > 0:
            nodes += more
            wanted = _fill(_Run(more, empty), demand, each, wanted, runs)
        if wanted < group.size:
            placed.append((group, group.size - wanted))
    return CountedPacking(placed, nodes)


def _floors(demands: Sequence[NodeDemand]) -> list[list[tuple[int, int]]]:
    """Of what all from one on ask for, the least that any of them does, for each to begin with."""
    floors: list[list[tuple[int, int]]] = []
    least: dict[int, int] | None = None
    for demand in reversed(demands):
        asked = dict(demand.asked)
        if least is not None:
            asked = {
                resource: min(amount, least[resource])
                for resource, amount in asked.items()
                if resource in least
            }
        least = asked
        floors.append(list(least.items()))
    floors.reverse()
    return floors


def _room(left: list[int], demand: NodeDemand, wanted: int) -> int:
    """How many pods, at most so many, find what they ask for on a node."""
    room = wanted
    for resource, amount in demand.asked:
        here = left[resource] // amount
        if here < room:
            if here <= 0:
                return 0
            room = here
    return room


def _fill(run: _Run, demand: NodeDemand, room: int, wanted: int, runs: list[_Run]) -> int:
    """Put so many pods on each node from the first on, and add what becomes of the run to `runs`.

    Gives how many pods are still without a place.
    """
    if not room:
        runs.append(run)
        return wanted
    full = min(wanted // room, run.nodes)
    rest = wanted - full * room
    untouched = run.nodes - full
    if full:
        runs.append(_Run(full, _after(run.left, demand, room)))
    if untouched and rest:
        runs.append(_Run(1, _after(run.left, demand, rest)))
        untouched, rest = untouched - 1, 0
    if untouched:
        runs.append(_Run(untouched, run.left))
    return rest


def _after(left: list[int], demand: NodeDemand, pods: int) -> list[int]:
    """What a node has left with so many pods more."""
    left = left.copy()
    for resource, amount in demand.taken:
        left[resource] -= amount * pods
    return left

"""What packing comes to, in numbers alone.

To choose between groups, and between orders, it matters how many pods go on how many nodes, and
not which pod goes where. Where rules between pods have no say, and nodes share nothing, that is
arithmetic on what an empty node has left: the snapshot need not be touched, nor put back. It comes
to what `packing` comes to.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tonnage.rules import registry
from tonnage.rules.features import Features
from tonnage.scaleup import packing
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.snapshot.rows import Ints, RowIndex, Rows
from tonnage.snapshot.snapshot import PodRecord, Snapshot


class NodeDemand(NamedTuple):
    """What one pod must find on a node, and what it takes there: amounts of numbered resources."""

    asked: tuple[Rows, Ints]
    taken: tuple[Rows, Ints]


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

    def left(self, position: int) -> Ints:
        """What an empty node of a template has of each resource."""
        return np.array([left[position] for left in self._left], dtype=np.int64)

    def _find(self, group: PodGroup) -> NodeDemand | None:
        counts = registry.counts(self._snapshot, group.footprint, self._rows, self._features)
        if counts is None:
            return None
        for one in counts:
            if one.resource not in self._numbers:
                self._numbers[one.resource] = len(self._left)
                self._left.append(one.left)
        return NodeDemand(
            self._amounts({one.resource: one.asked for one in counts if one.asked}),
            self._amounts({one.resource: one.takes for one in counts if one.takes}),
        )

    def _amounts(self, amounts: Mapping[str, int]) -> tuple[Rows, Ints]:
        numbers = [self._numbers[name] for name in amounts]
        first, beyond = min(numbers), max(numbers) + 1
        # A slice need not be copied; nearly always all pods need the same resources.
        together = numbers == list(range(first, beyond))
        rows = slice(first, beyond) if together else np.array(numbers, dtype=np.intp)
        return rows, np.array(list(amounts.values()), dtype=np.int64)[:, None]


class CountedPacking(NamedTuple):
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


def pack(
    groups: Sequence[PodGroup],
    demands: Sequence[NodeDemand],
    empty: Ints,
    *,
    limit: int,
    fresh: Mapping[int, int],
    stop: Callable[[], bool],
) -> CountedPacking:
    """Count as `packing.pack` places; `empty` is what an empty node has of each resource."""
    # A row for each resource, a column for each node.
    left: Ints = np.empty((len(empty), 0), dtype=np.int64)
    placed: list[tuple[PodGroup, int]] = []
    for group, demand in zip(groups, demands, strict=True):
        if stop():
            break
        asked, amounts = demand.asked
        room = np.maximum((left[asked] // amounts).min(axis=0), 0)
        counts, more = packing.first_fit_and_more(
            room, group.size, fresh[id(group.footprint)], most=limit - left.shape[1]
        )
        if more:
            added = np.repeat(empty[:, None], more, axis=1)
            left = np.concatenate((left, added), axis=1)
        count = int(counts.sum())
        if count:
            taken, amounts = demand.taken
            left[taken] -= amounts * counts
            placed.append((group, count))
    return CountedPacking(placed, left.shape[1])

"""Other places for pods that only take up room: nodes as bins of whole numbers.

For pods of a kind a destination is a matter of counting, and thousands of nodes are emptied in one
decision. So what is free is copied out of the columns once, and nothing of the snapshot changes.
Room only shrinks while nodes are emptied, so each kind goes on where it found room last.
"""

from collections.abc import Sequence

import numpy as np

from tonnage.scaledown.facts import NodeFacts
from tonnage.scaledown.portability import PodKind, PodKinds
from tonnage.scaledown.relocation import Relocated
from tonnage.snapshot.nodes import PODS
from tonnage.snapshot.records import PodRecord
from tonnage.snapshot.rows import Bools, RowIndex
from tonnage.snapshot.snapshot import Snapshot

_NOTHING_LEFT = -1
_TOO_MUCH = 1 << 60


def suits(kind: PodKind | None) -> bool:
    """Whether counting is enough for the kind: it has no ports, and takes no published storage."""
    return kind is not None and not kind.footprint.pod_class.ports and not kind.footprint.storage


class Bins:
    """What is free on every row, less what the pods that were moved take."""

    def __init__(self, snapshot: Snapshot, kinds: PodKinds, *, usable: Bools) -> None:
        self._kinds = kinds
        self.usable = usable
        self.unplaced: PodRecord | None = None
        self._measures = _Measures(snapshot)
        self._free = self._measures.free(usable)
        self._order: RowIndex | None = None
        self._queues: dict[int, _Queue] = {}
        self._rows_of_mask: dict[bytes, list[int]] = {}

    def remove(self, facts: NodeFacts, order: RowIndex) -> list[Relocated] | None:
        """Take the node away; where its pods go, or `None` if not all of them find a place."""
        if order is not self._order:
            self._order = order
            self._queues = {}
            self._rows_of_mask = {}
        free, own = self._free, facts.row
        kept = free[own]
        # Nobody goes where they come from.
        free[own] = self._measures.nothing
        taken: list[tuple[int, Sequence[tuple[int, int]]]] = []
        moved: dict[int, int] = {}
        placed: list[Relocated] = []
        for record, kind in self._sorted(facts):
            queue = self._queue(kind)
            if id(kind) not in moved:
                moved[id(kind)] = queue.next
            row = queue.find(free)
            if row is None:
                self.unplaced = record
                for where, needs in taken:
                    there = free[where]
                    for number, amount in needs:
                        there[number] += amount
                for known, position in moved.items():
                    self._queues[known].next = position
                free[own] = kept
                return None
            there = free[row]
            for number, amount in queue.needs:
                there[number] -= amount
            taken.append((row, queue.needs))
            placed.append(Relocated(record, row))
        self.usable[own] = False
        return placed

    def _sorted(self, facts: NodeFacts) -> list[tuple[PodRecord, PodKind]]:
        """Large pods choose first."""
        found = []
        for moving in facts.move:
            kind = self._kinds.of(moving.record)
            assert kind is not None, "a pod that is followed by name is no matter of counting"
            found.append((moving.record, kind))
        found.sort(key=_size, reverse=True)
        return found

    def _queue(self, kind: PodKind) -> "_Queue":
        queue = self._queues.get(id(kind))
        if queue is None:
            queue = _Queue(self._rows(kind), self._measures.needs(kind))
            self._queues[id(kind)] = queue
        return queue

    def _rows(self, kind: PodKind) -> list[int]:
        """The destinations that take the kind, in their order."""
        assert self._order is not None
        key = kind.rows.tobytes()
        known = self._rows_of_mask.get(key)
        if known is None:
            order = self._order
            known = order[kind.rows[order] & self.usable[order]].tolist()
            self._rows_of_mask[key] = known
        return known


def _size(pair: tuple[PodRecord, PodKind]) -> float:
    return pair[1].size


class _Queue:
    """The destinations of a kind; those before `next` have no room for it any more."""

    __slots__ = ("needs", "next", "rows")

    def __init__(self, rows: list[int], needs: tuple[tuple[int, int], ...]) -> None:
        self.rows = rows
        self.needs = needs
        self.next = 0

    def find(self, free: list[list[int]]) -> int | None:
        rows, needs, position = self.rows, self.needs, self.next
        end = len(rows)
        while position < end:
            row = rows[position]
            there = free[row]
            for number, amount in needs:
                if there[number] < amount:
                    break
            else:
                self.next = position
                return row
            position += 1
        self.next = position
        return None


class _Measures:
    """Every countable thing has a number: resources first, then the slots of drivers."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        columns = snapshot.columns
        self._resources = {name: number for number, name in enumerate(columns.resource_names)}
        self._drivers = {
            driver.name: len(self._resources) + number
            for number, driver in enumerate(snapshot.slots.drivers())
        }
        self.nothing = [_NOTHING_LEFT] * (len(self._resources) + len(self._drivers))
        self._known: dict[int, tuple[tuple[int, int], ...]] = {}

    def free(self, usable: Bools) -> list[list[int]]:
        """By row, what is free of everything."""
        snapshot, size = self._snapshot, len(usable)
        columns = snapshot.columns
        table = np.zeros((size, len(self.nothing)), dtype=np.int64)
        for number in self._resources.values():
            has, used = columns.allocatable[number].data, columns.used[number].data
            table[:, number] = has[:size] - used[:size]
        for name, number in self._drivers.items():
            driver = snapshot.slots.driver(name)
            table[:, number] = driver.limit.data[:size] - snapshot.slots.taken(driver)[:size]
        table[~usable] = _NOTHING_LEFT
        return table.tolist()

    def needs(self, kind: PodKind) -> tuple[tuple[int, int], ...]:
        """What one pod of the kind takes."""
        known = self._known.get(id(kind))
        if known is None:
            found = [(PODS, 1)]
            for name, amount in kind.footprint.pod_class.requests.items():
                if amount:
                    number = self._resources.get(name)
                    # What nobody offers has no number, and nobody has room for it.
                    found.append((PODS, _TOO_MUCH) if number is None else (number, amount))
            found += [
                (self._drivers[name], amount)
                for name, amount in kind.footprint.slots.items()
                if name in self._drivers
            ]
            known = self._known[id(kind)] = tuple(found)
        return known

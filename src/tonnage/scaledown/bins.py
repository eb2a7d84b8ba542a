"""Other places for pods that only take up room: nodes as bins of whole numbers.

For pods of a kind a destination is a matter of counting, and thousands of nodes are emptied in one
decision. So what is free is copied out of the columns once, and nothing of the snapshot changes.
Room only shrinks while nodes are emptied, so each kind goes on where it found room last. The bins
may outlive a decision: the next one takes in what has changed in the columns since.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tonnage.scaledown.facts import NodeFacts
from tonnage.scaledown.portability import PodKind, PodKinds
from tonnage.scaledown.relocation import Relocated
from tonnage.snapshot.nodes import PODS
from tonnage.snapshot.records import PodRecord
from tonnage.snapshot.rows import Bools, Ints, RowIndex
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
        self._measures = Measures(snapshot)
        self._columns = self._measures.columns(len(usable))
        self._free = self._columns.tolist()
        self._taken: dict[str, Sequence[tuple[int, int]]] = {}
        """What every pod takes at its new place, whatever becomes of it where it is."""
        self._order: RowIndex | None = None
        self._queues: dict[int, _Queue] = {}
        self._shared: dict[tuple[bytes, tuple[tuple[int, int], ...]], _Queue] = {}
        """Kinds that need as much and may go to the same rows stand in one queue."""

    def remove(self, facts: NodeFacts, order: RowIndex) -> list[Relocated] | None:
        """Take the node away; where its pods go, or `None` if not all of them find a place."""
        if order is not self._order:
            self._order = order
            self._queues = {}
            self._shared = {}
        free, own = self._free, facts.row
        kept = free[own]
        # Nobody goes where they come from.
        free[own] = self._measures.nothing
        taken: list[tuple[int, Sequence[tuple[int, int]]]] = []
        moved: dict[_Queue, int] = {}
        placed: list[Relocated] = []
        for record, kind in self._sorted(facts):
            queue = self._queue(kind)
            if queue not in moved:
                moved[queue] = queue.next
            row = queue.find(free)
            if row is None:
                self.unplaced = record
                for where, needs in taken:
                    there = free[where]
                    for number, amount in needs:
                        there[number] += amount
                for known, position in moved.items():
                    known.next = position
                free[own] = kept
                return None
            there = free[row]
            for number, amount in queue.needs:
                there[number] -= amount
            taken.append((row, queue.needs))
            self._taken[record.key] = queue.needs
            placed.append(Relocated(record, row))
        self.usable[own] = False
        return placed

    def put_back(self, facts: NodeFacts, placed: Iterable[Relocated]) -> None:
        """Undo `remove`; the pods' places are free again, the node's own room is as it was."""
        for one in placed:
            there = self._free[one.row]
            for number, amount in self._taken.pop(one.pod.key):
                there[number] += amount
        self._free[facts.row] = self._columns[facts.row].tolist()
        self.usable[facts.row] = True

    def renew(self, usable: Bools) -> list[int] | None:
        """Take in what has changed since, with the nodes still away that were taken away.

        Gives the rows that have less than was given away of them, or that may take nobody any
        more. `None` if other things are counted by now.
        """
        if len(usable) != len(self.usable) or not self._measures.stand:
            return None
        self._order = None
        columns = self._measures.columns(len(usable))
        more = columns - self._columns
        for row in np.flatnonzero(more.any(axis=1)).tolist():
            there = self._free[row]
            if there is not self._measures.nothing:
                self._free[row] = [
                    have + extra for have, extra in zip(there, more[row].tolist(), strict=True)
                ]
        self._columns = columns
        self.usable = usable.copy()
        short = []
        for row, there in enumerate(self._free):
            if there is self._measures.nothing:
                self.usable[row] = False
            elif not usable[row] or min(there) < 0:
                short.append(row)
        return short

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
            key = (kind.rows.tobytes(), self._measures.needs(kind))
            queue = self._shared.get(key)
            if queue is None:
                queue = self._shared[key] = _Queue(self._rows(kind), key[1])
            self._queues[id(kind)] = queue
        return queue

    def _rows(self, kind: PodKind) -> list[int]:
        """The destinations that take the kind, in their order."""
        order = self._order
        assert order is not None
        return order[kind.rows[order] & self.usable[order]].tolist()


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


class Measures:
    """Every countable thing has a number: resources, then the slots of drivers, then of pools."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._things = self._counted()
        resources, drivers, pools = self._things
        self._resources = {name: number for number, name in enumerate(resources)}
        self._drivers = {name: len(resources) + number for number, name in enumerate(drivers)}
        self._first_pool = len(resources) + len(drivers)
        self.nothing = [_NOTHING_LEFT] * (self._first_pool + len(pools))
        self._known: dict[int, tuple[tuple[int, int], ...]] = {}

    @property
    def stand(self) -> bool:
        """Whether the same things are counted still."""
        return self._things == self._counted()

    def columns(self, size: int) -> Ints:
        """By row, what is free of everything."""
        snapshot = self._snapshot
        columns = snapshot.columns
        table = np.zeros((size, len(self.nothing)), dtype=np.int64)
        for number in self._resources.values():
            has, used = columns.allocatable[number].data, columns.used[number].data
            table[:, number] = has[:size] - used[:size]
        for name, number in self._drivers.items():
            driver = snapshot.slots.driver(name)
            table[:, number] = driver.limit.data[:size] - snapshot.slots.taken(driver)[:size]
        for number, pool in enumerate(snapshot.slot_pools.columns, start=self._first_pool):
            table[:, number] = pool.left(slice(0, size))
        return table

    def _counted(self) -> tuple[list[str], list[str], list[tuple[str, dict[str, int]]]]:
        """Resources, drivers and pools, in the order of their columns."""
        snapshot = self._snapshot
        return (
            list(snapshot.columns.resource_names),
            [driver.name for driver in snapshot.slots.drivers()],
            [(pool.name, pool.weights) for pool in snapshot.slot_pools.columns],
        )

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
            found += [
                (number, weight)
                for number, (_, weights) in enumerate(self._things[2], start=self._first_pool)
                if (weight := _weight(weights, kind.footprint.slots))
            ]
            known = self._known[id(kind)] = tuple(found)
        return known


def _weight(weights: Mapping[str, int], slots: Mapping[str, int]) -> int:
    """What so many volumes of each driver take of a pool."""
    return sum(weights.get(driver, 0) * count for driver, count in slots.items())

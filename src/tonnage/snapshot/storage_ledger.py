"""What is left of published storage while volumes are placed: a ledger of bytes.

kube-scheduler asks of each claim alone whether some CSIStorageCapacity is large enough, and
subtracts nothing. A plan that goes by that puts any number of volumes on one disk. So while a plan
is made there is a ledger: what a volume takes is no longer there for the next.

Storage is taken from a pool. Mostly that is a node's own disk; where the topology of a capacity
covers several nodes, say a zone, they all draw on one. Classes may share a pool, too.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from tonnage.objects import quantities
from tonnage.objects.storage import CSIStorageCapacity, PersistentVolumeClaim, StorageClass
from tonnage.snapshot.interner import Interner
from tonnage.snapshot.rows import Bools, Column, Ints, RowIndex, Rows, RowTable, distinct
from tonnage.snapshot.storage import StorageState, limit_of

POOL_ANNOTATION = "tonnage.dev/storage-pool"
PLENTY = 2**60
"""Stands for an amount that nobody told; no disk comes near."""

NOTHING = -1
OWN = 0


class Room(NamedTuple):
    """What an empty node has for a storage class: bytes in all, and for a single volume."""

    storage_class: str
    capacity: int
    largest: int


class _Pool:
    """What was taken: by row from disks of the rows' own, by segment from shared storage."""

    def __init__(self, table: RowTable) -> None:
        self.taken = table.column(np.int64)
        self.shared: Ints = np.zeros(1, dtype=np.int64)


class ClassColumns:
    """What a class has on each row, the segment it comes from, and the pool it is taken from."""

    def __init__(self, table: RowTable) -> None:
        self.capacity = table.column(np.int64)
        self.largest = table.column(np.int64, NOTHING)
        self.segment = table.column(np.int32)
        self.is_shared = False
        self.pool: _Pool


class StorageLedger:
    """What is left of a pool is what was published less what was taken since; both by row.

    It lives as long as the trial it was opened in. With `claims_alone`, claims of a pod are not
    added up, and rows of which nothing was taken are as if there were no ledger.
    """

    claims_alone = False

    def __init__(self, table: RowTable) -> None:
        self._table = table
        self._columns: list[Column[np.int64] | Column[np.int32]] = []
        self._classes: dict[str, ClassColumns] = {}
        self.segments: Interner[tuple[object, ...]] = Interner(first=1)

    @property
    def class_names(self) -> Iterable[str]:
        return self._classes.keys()

    def tracks(self, class_name: str) -> bool:
        return class_name in self._classes

    def counted(self, storage: Mapping[str, int]) -> Mapping[str, int]:
        """What is taken of classes that are in the ledger."""
        return {name: amount for name, amount in storage.items() if name in self._classes}

    def pool(self, class_name: str) -> int:
        """Equal for classes that draw on the same pools."""
        return id(self._classes[class_name].pool)

    def capacity(self, class_name: str) -> Ints:
        """Bytes published for each row."""
        return self._classes[class_name].capacity.data[: self._table.size]

    def largest(self, class_name: str) -> Ints:
        """Bytes of the largest volume each row can have; below zero where there is none."""
        return self._classes[class_name].largest.data[: self._table.size]

    def left(self, class_name: str, rows: Rows | None = None) -> Ints:
        """Bytes left on each row, or on those asked for."""
        rows = slice(0, self._table.size) if rows is None else rows
        found = self._classes[class_name]
        taken = found.pool.taken.data[rows] + found.pool.shared[found.segment.data[rows]]
        left: Ints = found.capacity.data[rows] - taken
        return left

    def room(self, storage: Mapping[str, int], rows: Rows) -> Ints | None:
        """How many pods the rows have storage for, if each takes this much by class.

        Where rows share storage each is told what all of them have. `None`: nothing is counted.
        """
        room: Ints | None = None
        for names, amount in self._by_pool(storage):
            for name in names:
                here = self.left(name, rows) // amount
                room = here if room is None else np.minimum(room, here)
        return room

    def shares(self, storage: Mapping[str, int]) -> bool:
        """Whether some of it comes from storage that several rows share."""
        return any(found.is_shared for found, _ in self._known(storage))

    def of_its_own(self, class_name: str, rows: Rows) -> Bools:
        """Which of the rows have storage of the class that no other row takes of."""
        own: Bools = self._classes[class_name].segment.data[rows] == OWN
        return own

    def within_shared(self, storage: Mapping[str, int], room: Ints, rows: RowIndex) -> Ints:
        """The room of the rows, cut where rows before have used up what they share."""
        for names, amount in self._by_pool(storage):
            for name in names:
                segments = self._classes[name].segment.data[rows]
                for segment in distinct(segments[segments != OWN]).tolist():
                    here = np.flatnonzero(segments == segment)
                    left = max(int(self.left(name, rows[here[:1]])[0]) // amount, 0)
                    room = room.copy()
                    room[here] = np.diff(np.minimum(room[here].cumsum(), left), prepend=0)
        return room

    def take(self, rows: RowIndex, counts: Ints, storage: Mapping[str, int]) -> None:
        """Take so much of each class for each of so many pods on the rows; negative gives back.

        Templates take only of their own.
        """
        alive = self._table.alive.data[rows]
        for found, amount in self._known(storage):
            segments = found.segment.data[rows]
            own = segments == OWN
            found.pool.taken.data[rows[own]] += amount * counts[own]
            if found.is_shared:
                shared = ~own & alive
                np.add.at(found.pool.shared, segments[shared], amount * counts[shared])

    def _known(self, storage: Mapping[str, int]) -> Iterable[tuple[ClassColumns, int]]:
        return (
            (self._classes[name], amount)
            for name, amount in storage.items()
            if amount and name in self._classes
        )

    def _by_pool(self, storage: Mapping[str, int]) -> Iterable[tuple[list[str], int]]:
        """Classes that share a pool, with what is taken of all of them together."""
        names: dict[int, list[str]] = {}
        for name, amount in storage.items():
            if amount and name in self._classes:
                names.setdefault(self.pool(name), []).append(name)
        return ((found, sum(storage[name] for name in found)) for found in names.values())

    # Opening and closing.

    def add_class(self, name: str) -> ClassColumns:
        """Columns of a class, for whoever knows what is published to fill in."""
        columns = self._classes[name] = ClassColumns(self._table)
        self._columns += [columns.capacity, columns.largest, columns.segment]
        return columns

    def furnish(self, row: int, rooms: Iterable[Room], *, only_missing: bool = False) -> None:
        """Say what a row has of its own; with `only_missing` only where nothing is published."""
        for room in rooms:
            found = self._classes.get(room.storage_class)
            if found is None or (only_missing and found.largest.data[row] != NOTHING):
                continue
            found.capacity.data[row] = min(room.capacity, PLENTY)
            found.largest.data[row] = min(room.largest, PLENTY)
            found.segment.data[row] = OWN

    def form_pools(self, classes: Mapping[str, StorageClass]) -> None:
        """Decide which classes share a pool, once all rows have what they have."""
        formed: list[list[str]] = []
        for name in self._classes:
            group = next((one for one in formed if self._share(one[0], name, classes)), None)
            if group is None:
                formed.append([name])
            else:
                group.append(name)
        for group in formed:
            pool = _Pool(self._table)
            pool.shared = np.zeros(len(self.segments), dtype=np.int64)
            self._columns.append(pool.taken)
            for name in group:
                found = self._classes[name]
                found.pool, found.is_shared = pool, bool(found.segment.data.any())

    def close(self) -> None:
        self._table.drop(self._columns)

    def _share(self, one: str, other: str, classes: Mapping[str, StorageClass]) -> bool:
        if classes[one].provisioner != classes[other].provisioner:
            return False
        named = [classes[name].metadata.annotations.get(POOL_ANNOTATION) for name in (one, other)]
        if any(named):
            return named[0] == named[1]
        both = (self.largest(one) != NOTHING) & (self.largest(other) != NOTHING)
        first, second = self._classes[one], self._classes[other]
        size = self._table.size
        alike = (self.capacity(one) == self.capacity(other)) & (
            first.segment.data[:size] == second.segment.data[:size]
        )
        return bool(both.any() and alike[both].all())


def tracked(storage: StorageState) -> dict[str, StorageClass]:
    """Classes whose volumes are made when a pod has a node, by drivers that publish capacity."""
    return {
        name: one
        for name, one in storage.classes.items()
        if one.volume_binding_mode == "WaitForFirstConsumer"
        and (driver := storage.drivers.get(one.provisioner)) is not None
        and driver.spec.storage_capacity
    }


def size_of(claim: PersistentVolumeClaim) -> int:
    """Bytes a claim takes of a pool; 0 if it does not say."""
    return min(quantities.value(claim.spec.resources.requests.get("storage", 0)), PLENTY)


def room_of(capacity: CSIStorageCapacity) -> Room | None:
    """What an object says a node has; `None` if it promises nothing.

    Where it names only the largest volume, nobody knows how many of them there is room for.
    """
    limit = limit_of(capacity)
    if limit is None:
        return None
    amount = PLENTY if capacity.capacity is None else quantities.value(capacity.capacity)
    return Room(capacity.storage_class_name, min(amount, PLENTY), min(limit, PLENTY))

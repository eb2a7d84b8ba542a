"""Opening the ledger of storage: what each row has, as published or as known otherwise."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tonnage.objects import selectors
from tonnage.objects.storage import CSIStorageCapacity
from tonnage.snapshot.interner import Interner
from tonnage.snapshot.rows import Bools, Ints, RowIndex, distinct
from tonnage.snapshot.snapshot import Snapshot
from tonnage.snapshot.storage_ledger import (
    NOTHING,
    OWN,
    PLENTY,
    ClassColumns,
    Room,
    StorageLedger,
    room_of,
    size_of,
    tracked,
)


def open_ledger(
    snapshot: Snapshot,
    class_names: Iterable[str],
    *,
    templates: Mapping[int, Sequence[Room]],
    coming_up: Mapping[int, Sequence[Room]],
) -> None:
    """Begin a ledger of these classes, until the trial is over.

    `templates` are rows of nodes that do not exist, with what each would have of its own.
    `coming_up` are rows of nodes that will have so much and may not have published it yet.
    """
    names = _tracked_names(snapshot, class_names)
    if not names:
        return
    ledger = _filled(snapshot, names)
    for row, rooms in templates.items():
        ledger.furnish(row, rooms)
    for row, rooms in coming_up.items():
        ledger.furnish(row, rooms, only_missing=True)
    ledger.form_pools(tracked(snapshot.storage))
    _take_for_placed(snapshot, ledger)
    before, snapshot.storage_ledger = snapshot.storage_ledger, ledger
    snapshot.undo_by(_go_back_to, snapshot, before)


def open_for_given(
    snapshot: Snapshot, class_names: Iterable[str], *, given: Iterable[tuple[int, str, int]]
) -> None:
    """Begin a ledger of these classes, until `close`: only what claims were given is taken.

    `given` are rows with a class and bytes of it. Where there is none, each claim is judged
    alone, as kube-scheduler does.
    """
    names = _tracked_names(snapshot, class_names)
    if not names:
        return
    ledger = _filled(snapshot, names)
    ledger.form_pools(tracked(snapshot.storage))
    ledger.claims_alone = True
    one = np.ones(1, dtype=np.int64)
    for row, name, size in given:
        ledger.take(np.array([row]), one, {name: size})
    snapshot.storage_ledger = ledger


def close(snapshot: Snapshot) -> None:
    """End the ledger, if there is one."""
    snapshot.storage_ledger.close()
    snapshot.storage_ledger = StorageLedger(snapshot.table)


def _go_back_to(snapshot: Snapshot, before: StorageLedger) -> None:
    close(snapshot)
    snapshot.storage_ledger = before


def _tracked_names(snapshot: Snapshot, class_names: Iterable[str]) -> list[str]:
    return sorted(set(class_names) & tracked(snapshot.storage).keys())


def _filled(snapshot: Snapshot, names: Iterable[str]) -> StorageLedger:
    """A ledger of what is published of the classes."""
    ledger = StorageLedger(snapshot.table)
    for name in names:
        published = _Published(snapshot, ledger.segments)
        for capacity in snapshot.storage.capacities_of(name):
            published.add(capacity)
        published.write(ledger.add_class(name))
    return ledger


def _take_for_placed(snapshot: Snapshot, ledger: StorageLedger) -> None:
    """Pods that have a node and whose volumes are still to be made, as after preemption."""
    one = np.ones(1, dtype=np.int64)
    for (namespace, name), users in snapshot.used_claims():
        claim = snapshot.storage.claim(namespace, name)
        if claim is None or claim.spec.volume_name or not ledger.tracks(claim.class_name):
            continue
        for row in {record.row for record in users}:
            ledger.take(np.array([row]), one, {claim.class_name: size_of(claim)})


class _Published:
    """Adds up the capacities of one class by row.

    Several that match a row are several disks: they are added up, and the largest volume is that
    of the best. A row with storage of its own does not draw on what it shares with others.
    """

    def __init__(self, snapshot: Snapshot, segments: "Interner[tuple[object, ...]]") -> None:
        self._snapshot = snapshot
        self._segments = segments
        size = snapshot.table.size
        self._size = size
        self._taken = snapshot.table.taken
        self._alive = snapshot.table.alive.data[:size]
        self._own = (np.zeros(size, dtype=np.int64), np.full(size, NOTHING, dtype=np.int64))
        self._shared = (np.zeros(size, dtype=np.int64), np.full(size, NOTHING, dtype=np.int64))
        self._segment = np.zeros(size, dtype=np.int32)
        self._by_label: dict[str, dict[str, tuple[int, int]]] = {}

    def add(self, capacity: CSIStorageCapacity) -> None:
        room, topology = room_of(capacity), capacity.node_topology
        if room is None or topology is None or not selectors.is_valid(topology):
            return
        label = selectors.single_label(topology)
        if label is not None:
            # Local storage publishes an object per node: these are looked at all at once.
            key, value = label
            by_value = self._by_label.setdefault(key, {})
            amount, largest = by_value.get(value, (0, NOTHING))
            amount = min(amount + room.capacity, PLENTY)
            by_value[value] = (amount, max(largest, room.largest))
            return
        rows = np.flatnonzero(self._snapshot.columns.labels.matching(topology) & self._taken)
        if len(rows) == 1 and self._alive[rows[0]]:
            self._add(self._own, rows, room.capacity, room.largest)
        elif len(rows):
            self._add(self._shared, rows, room.capacity, room.largest)
            self._join_segment(rows, ("selector", selectors.canonical(topology)))

    def write(self, columns: ClassColumns) -> None:
        for key, by_value in self._by_label.items():
            self._add_labelled(key, by_value)
        has_own = self._own[1] != NOTHING
        rows = slice(0, self._size)
        columns.capacity.data[rows] = np.where(has_own, self._own[0], self._shared[0])
        columns.largest.data[rows] = np.where(has_own, self._own[1], self._shared[1])
        columns.segment.data[rows] = np.where(has_own, OWN, self._segment)

    def _add_labelled(self, key: str, by_value: Mapping[str, tuple[int, int]]) -> None:
        column = self._snapshot.columns.labels.find(key)
        data = column.data[: self._size]
        ids = {known: value for value in by_value if (known := column.values.get(value))}
        amounts = np.zeros(len(column.values), dtype=np.int64)
        largest = np.full(len(column.values), NOTHING, dtype=np.int64)
        for known, value in ids.items():
            amounts[known], largest[known] = by_value[value]
        rows_with = np.bincount(data, minlength=len(column.values))
        living = np.bincount(data[self._alive], minlength=len(column.values))
        # Only a node that exists cannot be copied, label and all.
        alone = (rows_with == 1) & (living == 1)
        matched = largest[data] != NOTHING
        own = np.flatnonzero(matched & alone[data])
        self._add(self._own, own, amounts[data[own]], largest[data[own]])
        shared = np.flatnonzero(matched & ~alone[data])
        self._add(self._shared, shared, amounts[data[shared]], largest[data[shared]])
        for known in distinct(data[shared]).tolist():
            rows = shared[data[shared] == known]
            self._join_segment(rows, ("label", key, ids[known]))

    @staticmethod
    def _add(
        to: tuple[Ints, Ints], rows: RowIndex, amounts: Ints | int, largest: Ints | int
    ) -> None:
        to[0][rows] = np.minimum(to[0][rows] + amounts, PLENTY)
        to[1][rows] = np.maximum(to[1][rows], largest)

    def _join_segment(self, rows: RowIndex, segment: tuple[object, ...]) -> None:
        """Rows that draw on several segments draw on them together."""
        number = self._segments.id_of(segment)
        for before in distinct(self._segment[rows]).tolist():
            those: Bools = self._segment[rows] == before
            together = number if before == OWN else self._segments.id_of(("both", before, number))
            self._segment[rows[those]] = together

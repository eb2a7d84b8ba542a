"""Slots that several drivers share: a machine may have one number for all of them.

A pool belongs to a row and counts what its members use there, each with its weight. What they use
is in the columns of the drivers already, so there is nothing to keep in step.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tonnage.snapshot.rows import Column, Ints, Rows, RowTable
from tonnage.snapshot.slots import UNLIMITED, SlotLedger

if TYPE_CHECKING:
    from tonnage.snapshot.snapshot import Snapshot


class Pool(NamedTuple):
    """A pool of one node: `free` slots for what its members attach, all of them together."""

    name: str
    members: tuple[tuple[str, int], ...]
    free: int


class PoolColumn:
    """Pools of one name and the same members, on all rows that have one."""

    def __init__(self, pool: Pool, table: RowTable, slots: SlotLedger) -> None:
        self.name = pool.name
        self.weights = dict(pool.members)
        self.free: Column[np.int64] = table.column(np.int64, UNLIMITED)
        self._slots = slots

    def weight(self, wanted: Mapping[str, int]) -> int:
        """Slots that so many volumes of each driver take."""
        return sum(self.weights.get(driver, 0) * count for driver, count in wanted.items())

    def taken(self, rows: Rows) -> Ints:
        """Slots in use on the rows, by pods or by attachments."""
        taken: Ints = np.zeros(len(self.free.data[rows]), dtype=np.int64)
        for driver, weight in self.weights.items():
            column = self._slots.driver(driver)
            taken += weight * (column.used.data[rows] + column.idle_attachments.data[rows])
        return taken

    def left(self, rows: Rows) -> Ints:
        left: Ints = self.free.data[rows] - self.taken(rows)
        return left


class SlotPoolColumns:
    """Every pool of every row, by name and members; lives as long as the trial it was set in."""

    def __init__(self) -> None:
        self.columns: list[PoolColumn] = []

    def of(self, wanted: Mapping[str, int]) -> Iterable[tuple[PoolColumn, int]]:
        """Pools that these volumes take slots of, with how many they take."""
        for column in self.columns:
            weight = column.weight(wanted)
            if weight:
                yield column, weight


class PoolRows(NamedTuple):
    """A pool, and what each of the rows that have it has free."""

    pool: Pool
    rows: npt.NDArray[np.intp]
    free: Ints


def set_pools(snapshot: "Snapshot", by_row: Mapping[int, Sequence[Pool]]) -> None:
    """Give rows their pools, until the trial is over; rows copied from them have them too."""
    set_rows(snapshot, by_pool(by_row))


def by_pool(by_row: Mapping[int, Sequence[Pool]]) -> list[PoolRows]:
    """The pools of rows, as columns."""
    known: dict[tuple[str, tuple[tuple[str, int], ...]], tuple[Pool, list[int], list[int]]] = {}
    for row, found in by_row.items():
        for pool in found:
            _, rows, free = known.setdefault((pool.name, pool.members), (pool, [], []))
            rows.append(row)
            free.append(pool.free)
    return [
        PoolRows(pool, np.array(rows, dtype=np.intp), np.array(free, dtype=np.int64))
        for pool, rows, free in known.values()
    ]


def set_rows(snapshot: "Snapshot", found: Iterable[PoolRows]) -> None:
    """The same, of pools that are columns already."""
    pools = SlotPoolColumns()
    for pool, rows, free in found:
        column = PoolColumn(pool, snapshot.table, snapshot.slots)
        column.free.data[rows] = free
        pools.columns.append(column)
    if pools.columns:
        clear_pools(snapshot)
        snapshot.slot_pools = pools
        snapshot.undo_by(clear_pools, snapshot)


def clear_pools(snapshot: "Snapshot") -> None:
    """Let rows have no pools any more."""
    known = snapshot.slot_pools
    if known.columns:
        snapshot.undo_by(_put_back, snapshot, known)
        snapshot.table.drop(column.free for column in known.columns)
        snapshot.slot_pools = SlotPoolColumns()


def _put_back(snapshot: "Snapshot", pools: SlotPoolColumns) -> None:
    snapshot.table.take_back(column.free for column in pools.columns)
    snapshot.slot_pools = pools

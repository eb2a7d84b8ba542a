"""Rows of nodes, the columns over them, and answers derived from columns.

A node is a row. Columns grow together, removed rows are reused, and a derived
column (say, "matches this selector") is brought up to date only for the rows
that changed since it was last asked for.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
RowIndex: TypeAlias = npt.NDArray[np.intp]
Rows: TypeAlias = slice | RowIndex

S = TypeVar("S", bound=np.generic)

_INITIAL_CAPACITY = 64
_LOG_LIMIT = 8192
_DERIVED_LIMIT = 16384


class Column(Generic[S]):
    """One value per row; `data` always covers every row there is, and more."""

    __slots__ = ("data", "fill")

    def __init__(self, capacity: int, dtype: type[S], fill: int | bool) -> None:
        self.fill = fill
        self.data: npt.NDArray[S] = np.full(capacity, fill, dtype=dtype)


def distinct(values: npt.NDArray[S]) -> npt.NDArray[S]:
    """Each value once, in ascending order.

    `np.unique` does the same, and loads masked arrays first: a tenth of a small plan's time.
    """
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


Facts: TypeAlias = list[tuple[Column[Any], Any]]
"""What a row holds, without the columns in which it holds nothing of its own."""


class RowTable:
    """Every column has the same capacity, and a row that is not taken holds only fill values.

    A row that is taken but not alive is a shadow: it can be asked about, but it is no part
    of the cluster.
    """

    def __init__(self) -> None:
        self.size = 0
        self._capacity = _INITIAL_CAPACITY
        self._columns: list[Column[Any]] = []
        self._tallies: list[Column[Any]] = []
        self._taken_count = 0
        self._log: list[int] = []
        self._epoch = 0
        self._derived: dict[Hashable, _Derived] = {}
        self._taken = self.column(np.bool_)
        self.alive = self.column(np.bool_)

    def column(self, dtype: type[S], fill: int | bool = 0) -> Column[S]:
        column = Column(self._capacity, dtype, fill)
        self._columns.append(column)
        return column

    def tally(self, dtype: type[S]) -> Column[S]:
        """A column that counts what is on a row, and is zero once that has left.

        There may be thousands of them, so nobody else writes to one: it is not copied with a
        row, nor blanked, nor kept.
        """
        column = Column(self._capacity, dtype, 0)
        self._tallies.append(column)
        return column

    @property
    def taken(self) -> Bools:
        """Rows that hold a node or a template."""
        return self._taken.data[: self.size]

    def drop(self, columns: Iterable[Column[Any]]) -> None:
        """Forget columns nobody reads any more."""
        gone = {id(column) for column in columns}
        self._columns = [column for column in self._columns if id(column) not in gone]
        self._tallies = [column for column in self._tallies if id(column) not in gone]

    def take_back(self, columns: Iterable[Column[Any]]) -> None:
        """Undo a `drop` of columns that are no tallies."""
        for column in columns:
            self._fit(column)
            self._columns.append(column)

    def allocate(self, *, shadow: bool = False) -> int:
        """A blank row: the first there is."""
        if self._taken_count < self.size:
            row = int(self.taken.argmin())
        else:
            row = self.size
            self._extend(1)
        self._taken_count += 1
        self._taken.data[row] = True
        self.alive.data[row] = not shadow
        return row

    def copy(self, row: int, count: int) -> slice:
        """So many living rows, side by side, that hold what `row` holds."""
        rows = slice(self.size, self.size + count)
        self._extend(count)
        self._taken_count += count
        for column in self._columns:
            column.data[rows] = column.data[row]
        self.alive.data[rows] = True
        for copied in range(rows.start, rows.stop):
            self.touch(copied)
        return rows

    def release(self, rows: int | slice) -> None:
        released = range(rows, rows + 1) if isinstance(rows, int) else range(rows.start, rows.stop)
        self._blank(rows)
        self._taken_count -= len(released)
        for row in released:
            self.touch(row)
        while self.size and not self._taken.data[self.size - 1]:
            self.size -= 1

    def facts(self, row: int) -> Facts:
        """What a row holds now, for `put_back` or `reset`."""
        return [
            (column, value)
            for column in self._columns
            if (value := column.data.item(row)) != column.fill
        ]

    def put_back(self, row: int, facts: Facts) -> None:
        """Undo the release of a row; nobody may have it now."""
        if row >= self.size:
            # Free rows before it were beyond the end when masks were last brought up to date.
            for free in range(self.size, row):
                self.touch(free)
            self._extend(row + 1 - self.size)
        self._taken_count += 1
        self._write(row, facts)

    def reset(self, row: int, facts: Facts) -> None:
        """Let a row hold what it held when it was asked for its facts."""
        self._blank(row)
        self._write(row, facts)

    def touch(self, row: int) -> None:
        """Say that what is derived from `row` may have changed."""
        if len(self._log) >= _LOG_LIMIT:
            self._log.clear()
            self._epoch += 1
        self._log.append(row)

    def derived(self, key: Hashable, compute: Callable[[Rows], Bools]) -> Bools:
        """The mask `compute` gives for all rows, recomputed only where rows were touched.

        `compute` takes the rows to answer for and must depend on nothing but those rows
        and `key`. The result is the caller's to read, not to change.
        """
        entry = self._derived.get(key)
        position = len(self._log)
        if entry is None or entry.epoch != self._epoch or len(entry.mask) != self._capacity:
            if len(self._derived) >= _DERIVED_LIMIT:
                self._derived.clear()
            mask = np.zeros(self._capacity, dtype=np.bool_)
            mask[: self.size] = compute(slice(0, self.size))
            self._derived[key] = entry = _Derived(mask, self._epoch, position)
        elif entry.position != position:
            touched = distinct(np.array(self._log[entry.position :], dtype=np.intp))
            entry.mask[touched] = compute(touched)
            entry.position = position
        return entry.mask[: self.size]

    def forget_derived(self) -> None:
        """Let answers go; they are found again when somebody asks."""
        self._derived.clear()

    def _blank(self, rows: int | slice) -> None:
        for column in self._columns:
            column.data[rows] = column.fill

    def _write(self, row: int, facts: Facts) -> None:
        for column, value in facts:
            column.data[row] = value
        self.touch(row)

    def _extend(self, count: int) -> None:
        self.size += count
        if self.size > self._capacity:
            self._grow()

    def _grow(self) -> None:
        while self._capacity < self.size:
            self._capacity *= 2
        for column in (*self._columns, *self._tallies):
            self._fit(column)

    def _fit(self, column: Column[Any]) -> None:
        if len(column.data) < self._capacity:
            grown = np.full(self._capacity, column.fill, dtype=column.data.dtype)
            grown[: len(column.data)] = column.data
            column.data = grown


class _Derived:
    __slots__ = ("epoch", "mask", "position")

    def __init__(self, mask: Bools, epoch: int, position: int) -> None:
        self.mask = mask
        self.epoch = epoch
        self.position = position

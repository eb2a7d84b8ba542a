"""Small integers for values that recur."""

from collections.abc import Hashable
from typing import Generic, TypeVar

import numpy as np

from tonnage.snapshot.rows import Column

T = TypeVar("T", bound=Hashable)


class Interner(Generic[T]):
    """Ids are dense, start at `first` and are never given twice."""

    __slots__ = ("_ids", "first", "values")

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self.values: list[T] = []
        self._ids: dict[T, int] = {}

    def __len__(self) -> int:
        return self.first + len(self.values)

    def id_of(self, value: T) -> int:
        known = self._ids.get(value)
        if known is None:
            known = self._ids[value] = self.first + len(self.values)
            self.values.append(value)
        return known

    def get(self, value: T) -> int | None:
        return self._ids.get(value)

    def forget_last(self) -> None:
        """Let the value go that was given an id last."""
        del self._ids[self.values.pop()]

    def compacted(self, column: Column[np.int32], *, always: int = 0) -> "Interner[T]":
        """Those of the values that the column has, and the first `always` of all.

        The column, the only one that has ids of these values, has the new ids from then on.
        """
        there = np.zeros(len(self), dtype=np.bool_)
        there[column.data] = True
        there[: self.first + always] = True
        made: Interner[T] = Interner(self.first)
        renumbered = np.zeros(len(self), dtype=np.int32)
        for old in np.flatnonzero(there[self.first :]).tolist():
            renumbered[self.first + old] = made.id_of(self.values[old])
        column.data = renumbered[column.data]
        return made

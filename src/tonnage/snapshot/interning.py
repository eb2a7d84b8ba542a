"""Small integers for values that recur."""

from collections.abc import Hashable
from typing import Generic, TypeVar

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

"""Records by name, in the order they came.

A dictionary alone has that order until something is taken out and put back, as a reverted trial
does. Finding the old place at once would cost as much as there are entries; here the order
is mended when somebody next looks at all of them, which costs as much anyway.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_keys, dict_values


class Arrived(Protocol):
    @property
    def order(self) -> int:
        """Larger than that of all that came before."""
        ...


R = TypeVar("R", bound=Arrived)


class Arrivals(dict[str, R]):
    """Iterates by the `order` of its records, whatever was taken out and put back meanwhile.

    New ones come by `add` or `append`. To assign is to replace one by another of the same order.
    """

    __slots__ = ("_mixed_up", "_newest")

    def __init__(self) -> None:
        super().__init__()
        self._newest = -1
        self._mixed_up = False

    def add(self, name: str, record: R) -> None:
        """Put in one that may be older than others here."""
        if record.order < self._newest:
            self._mixed_up = True
        else:
            self._newest = record.order
        self[name] = record

    def append(self, names: Iterable[str], records: Sequence[R]) -> None:
        """Put in many that are newer than all there are, in order."""
        self.update(zip(names, records, strict=True))
        if records:
            self._newest = records[-1].order

    def __iter__(self) -> Iterator[str]:
        self._sort()
        return super().__iter__()

    def __reversed__(self) -> Iterator[str]:
        self._sort()
        return super().__reversed__()

    def keys(self) -> "dict_keys[str, R]":
        self._sort()
        return super().keys()

    def values(self) -> "dict_values[str, R]":
        self._sort()
        return super().values()

    def items(self) -> "dict_items[str, R]":
        self._sort()
        return super().items()

    def _sort(self) -> None:
        if self._mixed_up:
            self._mixed_up = False
            in_order = sorted(super().items(), key=lambda entry: entry[1].order)
            self.clear()
            self.update(in_order)

"""A packing problem in numbers: classes of items, types of bins, and what links them."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.float64]
Counts: TypeAlias = npt.NDArray[np.int64]


class ItemClass(NamedTuple):
    """A `number` of items that are alike; `demand` is what one takes, by resource."""

    name: str
    number: int
    demand: tuple[int, ...]


class BinType(NamedTuple):
    """Bins that are alike: nodes of a group, or, with `most` 1, a node that is there.

    `capacity` is what one has of each resource, infinite where it has no limit. `caps` says how
    many items of each class one bin takes at most whatever room it has: 0 where it takes none.
    `most` is how many such bins there may be, `None` if nothing but quotas says so.
    """

    name: str
    capacity: tuple[float, ...]
    price: float
    caps: tuple[int, ...]
    most: int | None = None


class BinQuota(NamedTuple):
    """What all bins together may not exceed; `amounts` is what one bin of each type counts."""

    amounts: tuple[float, ...]
    most: float


class EvenSpread(NamedTuple):
    """Items of a class that are spread over domains: none may be `max_skew` above the lowest.

    `domains` is the domain of each bin type by number, `None` where such a bin is in none.
    `heights` is what each domain has to begin with, `counted` whether it is among those that the
    lowest is of though nothing is put in it. `floor`, if it is set, is the height of the lowest
    domain that no bin is in, and that therefore stays as low as it is.
    """

    item: int
    domains: tuple[int | None, ...]
    heights: tuple[int, ...]
    max_skew: int
    floor: int | None = None
    counted: tuple[bool, ...] | None = None

    @property
    def lowest(self) -> list[int]:
        """The heights that the lowest is of, whatever is put where."""
        counted = self.counted or (True,) * len(self.heights)
        found = [height for height, counts in zip(self.heights, counted, strict=True) if counts]
        return found if self.floor is None else [*found, self.floor]

    def lowest_of(self, levels: Sequence[int]) -> int:
        """The lowest of domains with these heights, as far as they count."""
        counted = self.counted or (True,) * len(levels)
        grown = [
            level
            for level, counts, height in zip(levels, counted, self.heights, strict=True)
            if counts or level > height
        ]
        return min(grown if self.floor is None else [*grown, self.floor], default=0)

    def least_level(self, number: int) -> int:
        """How high the lowest is at least once so many items are in the domains.

        Others have room up to the skew above it, and not for parts of an item. With one item less
        it is at most one lower.
        """
        wanted = sum(self.heights) + number
        if self.floor is None and self.lowest:
            wanted += self.max_skew
        level = min(self.lowest, default=0)
        if self.heights:
            while sum(max(one, level + self.max_skew) for one in self.heights) < wanted:
                level += 1
        return level

    def most_level(self, number: int) -> int:
        """How high the lowest is at most with so many items."""
        if self.floor is not None:
            return self.floor
        level = min(self.lowest, default=0)
        while self.lowest and sum(max(level + 1 - one, 0) for one in self.lowest) <= number:
            level += 1
        return level


class PackingProblem:
    """Put all items into bins at the least price.

    An item that is left out costs more than any bins could, so that the most items are placed
    first, and the least is paid second.
    """

    def __init__(
        self,
        items: Sequence[ItemClass],
        bins: Sequence[BinType],
        *,
        quotas: Sequence[BinQuota] = (),
        spreads: Sequence[EvenSpread] = (),
    ) -> None:
        self.items = tuple(items)
        self.bins = tuple(bins)
        self.quotas = tuple(quotas)
        self.spreads = tuple(spreads)

    def with_counts(self, counts: Counts) -> "PackingProblem":
        """The same with other numbers of items."""
        numbers = zip(self.items, counts.tolist(), strict=True)
        items = [item._replace(number=number) for item, number in numbers]
        return PackingProblem(items, self.bins, quotas=self.quotas, spreads=self.spreads)

    def with_most(self, most: Sequence[float]) -> "PackingProblem":
        """The same with no more than so many bins of each type."""
        bins = [one._replace(most=int(few)) for one, few in zip(self.bins, most, strict=True)]
        return PackingProblem(self.items, bins, quotas=self.quotas, spreads=self.spreads)

    @cached_property
    def counts(self) -> Counts:
        return np.array([item.number for item in self.items], dtype=np.int64)

    @cached_property
    def demands(self) -> Numbers:
        """By class and resource."""
        return np.array([item.demand for item in self.items], dtype=np.float64)

    @cached_property
    def capacities(self) -> Numbers:
        """By bin type and resource."""
        return np.array([one.capacity for one in self.bins], dtype=np.float64)

    @cached_property
    def prices(self) -> Numbers:
        return np.array([one.price for one in self.bins], dtype=np.float64)

    @cached_property
    def caps(self) -> Counts:
        """By bin type and class: how many one bin takes of a class alone, in room and by cap."""
        caps = np.array([one.caps for one in self.bins], dtype=np.int64)
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = self.capacities[:, None, :] / self.demands[None, :, :]
        alone = np.where(self.demands[None, :, :] > 0, alone, np.inf)
        room = np.floor(np.maximum(alone.min(axis=2, initial=np.inf), 0.0))
        most = np.minimum(room, self.counts[None, :])
        return np.minimum(caps, most.astype(np.int64))

    @cached_property
    def most(self) -> Numbers:
        """By bin type, infinite where nothing says so."""
        return np.array([math.inf if one.most is None else one.most for one in self.bins])

    @cached_property
    def penalty(self) -> float:
        """The price of an item that is left out."""
        return 100.0 * max(float(self.prices.max(initial=0.0)), 1e-6)

    def home(self, item: int, bin_type: int) -> tuple[int | None, ...]:
        """Where an item is in such a bin, by all of its spreads."""
        return tuple(one.domains[bin_type] for one in self.spreads if one.item == item)

    def holds(self, bin_type: int, counts: Counts) -> bool:
        """Whether one such bin takes these items."""
        return bool(
            (counts <= self.caps[bin_type]).all()
            and (counts @ self.demands <= self.capacities[bin_type]).all()
        )


class Pattern(NamedTuple):
    """A way to fill a bin: its type by position, and how many items of each class are in it."""

    bin_type: int
    counts: tuple[int, ...]


class PackingSolution(NamedTuple):
    """Filled bins: each way to fill one, and how often.

    `left` are items without a place, by class. No packing of the same items costs less than
    `bound`; `gap` is how much more this one costs, as a part of the bound. `stopped` says that
    time ran out before the search had ended; `work` is how much was done, so that the same
    search can be stopped there again.
    """

    patterns: tuple[tuple[Pattern, int], ...]
    left: tuple[int, ...]
    cost: float
    bound: float
    stopped: bool = False
    work: int = 0

    @property
    def gap(self) -> float:
        return (self.cost - self.bound) / self.bound if self.bound > 0 else 0.0

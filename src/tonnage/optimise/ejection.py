"""Items packed into bins that are given: one that finds no room drives others out of a bin.

What is driven out looks for a place in turn. Classes that were hard to place are driven out last,
so that the search does not go in circles. Spreads are not looked at: items may go into any bin that
takes them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tonnage.optimise.effort import Effort
from tonnage.optimise.problem import Counts, Numbers, PackingProblem, Pattern

_FAR = 1e18
"""For what a class does not take: no number of its items makes room for it."""
_PLACED = 0.3
"""What driving out an item counts that has room elsewhere, against one that has none."""
_CHANCE = 0.3


class _Swap(NamedTuple):
    """A bin to put an item in, and how many of which class have to leave it."""

    place: int
    item: int
    number: int


class Ejection:
    """Bins with their content and the room they have left, as columns."""

    def __init__(
        self, problem: PackingProblem, bins: Sequence[Pattern], *, rng: np.random.Generator
    ) -> None:
        self._problem = problem
        self._rng = rng
        self._types = np.array([one.bin_type for one in bins], dtype=np.int64)
        counts = [one.counts for one in bins]
        self._counts = np.array(counts, dtype=np.int64).reshape(len(bins), len(problem.items))
        self._caps = problem.caps[self._types]
        self._left = problem.capacities[self._types] - self._counts @ problem.demands
        finite = np.where(np.isfinite(problem.capacities), problem.capacities, 0.0)
        self._scale = 1.0 / np.maximum(finite.max(axis=0, initial=1.0), 1.0)
        self._sizes = problem.demands @ self._scale + 1e-9
        takes = problem.demands > 0
        self._per_unit = np.where(takes, 1.0 / np.where(takes, problem.demands, 1.0), _FAR)
        # By bin and class: whether one more fits.
        room = (problem.demands[None] <= self._left[:, None]).all(axis=2)
        self._fits = room & (self._counts < self._caps)

    def bins(self) -> list[Pattern]:
        filled = zip(self._types.tolist(), self._counts.tolist(), strict=True)
        return [Pattern(bin_type, tuple(counts)) for bin_type, counts in filled if any(counts)]

    def place(self, items: Counts, effort: Effort, *, steps: int) -> bool:
        """Whether all of the items find a place, with so many times driving others out."""
        pool = [item for item, count in enumerate(items.tolist()) for _ in range(count)]
        # Large items first: they find the fewest places.
        pool.sort(key=lambda item: self._sizes[item])
        hardness = np.ones(len(items))
        each = 80 + 0.004 * self._counts.size * self._left.shape[1]
        effort.spend(500 + 0.2 * self._counts.size)
        while pool:
            item = pool.pop()
            fitting = np.flatnonzero(self._fits[:, item])
            if len(fitting):
                self._put(item, 1, int(fitting[int(self._spare(fitting).argmin())]))
                effort.spend(20)
                continue
            steps -= 1
            hardness[item] += 1.0
            effort.spend(each)
            swap = self._swap(item, hardness) if steps >= 0 else None
            if swap is None:
                return False
            self._put(swap.item, -swap.number, swap.place)
            self._put(item, 1, swap.place)
            pool += [swap.item] * swap.number
            if self._rng.random() < _CHANCE:
                at = int(self._rng.integers(len(pool)))
                pool[-1], pool[at] = pool[at], pool[-1]
        return True

    def _spare(self, places: Counts) -> Numbers:
        left = self._left[places]
        return np.where(np.isfinite(left), left, 0.0) @ self._scale

    def _put(self, item: int, number: int, place: int) -> None:
        self._counts[place, item] += number
        self._left[place] -= number * self._problem.demands[item]
        fits = (self._problem.demands <= self._left[place]).all(axis=1)
        self._fits[place] = fits & (self._counts[place] < self._caps[place])

    def _swap(self, item: int, hardness: Numbers) -> _Swap | None:
        """The swap that drives out the least of what is hard to place."""
        taking = np.flatnonzero(self._counts[:, item] < self._caps[:, item])
        lacks = np.maximum(self._problem.demands[item] - self._left[taking], 0.0)
        # By bin and class: how many have to leave for the item to fit.
        number = np.ones((len(taking), len(hardness)))
        for resource in range(lacks.shape[1]):
            out = lacks[:, resource, None] * self._per_unit[:, resource]
            np.maximum(number, np.ceil(out - 1e-9), out=number)
        possible = number <= self._counts[taking]
        possible[:, item] = False
        rows, others = np.nonzero(possible)
        if not len(rows):
            return None
        many = number[rows, others]
        score = many * (hardness * self._sizes)[others]
        score *= np.where(self._fits.any(axis=0), _PLACED, 1.0)[others]
        score *= self._rng.uniform(0.7, 1.3, size=len(rows))
        best = int(score.argmin())
        return _Swap(int(taking[rows[best]]), int(others[best]), int(many[best]))

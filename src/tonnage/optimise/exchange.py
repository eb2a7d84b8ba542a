"""Some bins exchanged for cheaper ones that hold as much on the whole, and all items packed anew.

Which bins go for which is tried where room is left most: by every resource in sum, and by what bins
of each type may be worth at most.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tonnage.optimise.effort import Effort
from tonnage.optimise.ejection import Ejection
from tonnage.optimise.problem import Counts, Numbers, PackingProblem, Pattern

_AT_ONCE = 2
"""Bins that go, and bins that come, at most."""
_TYPES = 12
"""Types of bins that are looked at together, at most."""
_IN_PLAY = 100
"""Bins whose items may be moved."""
_STEPS = 300
_NEAR = 1e-6


class Offer(NamedTuple):
    """How many bins of each type go and come, and how many there are afterwards."""

    gone: Counts
    come: Counts
    after: Counts


class Exchange:
    """Remembers which numbers of bins were tried in vain."""

    def __init__(
        self, problem: PackingProblem, effort: Effort, *, rng: np.random.Generator
    ) -> None:
        self._problem = problem
        self._effort = effort
        self._rng = rng
        self._in_vain: Counter[tuple[int, ...]] = Counter()
        finite = np.isfinite(problem.capacities).all(axis=0)
        capacities = problem.capacities[:, finite]
        wanted = problem.counts @ problem.demands[:, finite]
        self._has = capacities.T / np.maximum(wanted, 1.0)[:, None]

    def followed(
        self, offer: Offer, bins: Sequence[Pattern], order: Sequence[int]
    ) -> list[Pattern] | None:
        """The same items in the bins of the offer, where those that come first in the order go."""
        left = offer.gone.tolist()
        gone, rest = [], []
        for at in order:
            if left[bins[at].bin_type]:
                left[bins[at].bin_type] -= 1
                gone.append(bins[at])
            else:
                rest.append(bins[at])
        items = np.array([one.counts for one in gone], dtype=np.int64).sum(axis=0)
        empty = (0,) * len(self._problem.items)
        come = [
            Pattern(bin_type, empty)
            for bin_type, number in enumerate(offer.come.tolist())
            for _ in range(number)
        ]
        packing = Ejection(self._problem, [*come, *rest[:_IN_PLAY]], rng=self._rng)
        if packing.place(items, self._effort, steps=_STEPS):
            return [*packing.bins(), *rest[_IN_PLAY:]]
        self._in_vain[tuple(offer.after.tolist())] += 1
        return None

    def offer(self, bins: Sequence[Pattern], worth: Numbers) -> Offer | None:
        """An exchange for less that leaves much room, and was not often in vain, if there is one.

        `worth` is what the best content of a bin of each type is worth, as a part of what all items
        are worth.
        """
        problem = self._problem
        used = np.bincount([one.bin_type for one in bins], minlength=len(problem.bins))
        room = np.vstack((self._has, worth))
        sets = self._sets(used)
        gone, come = (
            one.ravel() for one in np.meshgrid(*[np.arange(len(sets))] * 2, indexing="ij")
        )
        prices = sets @ problem.prices
        dear = prices[gone] - prices[come] > _NEAR * prices[gone]
        there = np.flatnonzero((sets <= used).all(axis=1))
        chosen = np.flatnonzero(dear & np.isin(gone, there))
        gone, come = gone[chosen], come[chosen]
        after = used - sets[gone] + sets[come]
        allowed = (after <= problem.most).all(axis=1)
        allowed &= ~((sets[gone] > 0) & (sets[come] > 0)).any(axis=1)
        for quota in problem.quotas:
            allowed &= after @ np.array(quota.amounts) <= quota.most
        spare = (after @ room.T).min(axis=1) - 1.0
        self._effort.spend(500 + 0.05 * after.size)
        places = np.flatnonzero(allowed & (spare > 0))
        if not len(places):
            return None
        tried = np.array([self._in_vain[tuple(after[at].tolist())] for at in places.tolist()])
        score = spare[places] * self._rng.uniform(0.3, 1.0, size=len(places)) / (1 + tried)
        best = places[int(score.argmax())]
        return Offer(sets[gone[best]], sets[come[best]], after[best])

    def _sets(self, used: Counts) -> Counts:
        """Numbers of bins by type, of a few in all: types that are in use, and some others."""
        takes = self._problem.caps.any(axis=1) & (self._problem.prices > 0)
        keys = (used > 0) + self._rng.uniform(0.0, 1.0, size=len(used))
        types = [at for at in np.argsort(-keys, kind="stable").tolist() if takes[at]][:_TYPES]
        found = [
            one
            for number in range(_AT_ONCE + 1)
            for one in itertools.combinations_with_replacement(types, number)
        ]
        sets = np.zeros((len(found), len(used)), dtype=np.int64)
        for row, one in enumerate(found):
            for bin_type in one:
                sets[row, bin_type] += 1
        return sets

"""From parts of bins to whole ones: diving, and what makes a packing cheaper afterwards."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tonnage.optimise import column_generation
from tonnage.optimise.effort import Effort
from tonnage.optimise.master import Master
from tonnage.optimise.pricing_problem import PricingProblem
from tonnage.optimise.problem import Counts, EvenSpread, Numbers, PackingProblem, Pattern

_WHOLE = 1e-6
_FEW = 0.2
"""The part of the items that is put anywhere once all others have their place."""
_ROUNDS = 6
"""Rounds of pricing between patterns that are fixed."""
_QUICK_ROUNDS = 2
_QUICK_PART = 1 / 6
"""What part of the bins that are not whole is made so at once."""


class Dive:
    """Fixes patterns one after the other, pricing new ones for what is left in between.

    A quick one fixes several at once and prices less, so that there is time for more of them.
    """

    def __init__(
        self,
        problem: PackingProblem,
        master: Master,
        pricing: PricingProblem,
        effort: Effort,
        *,
        seed: int = 0,
        quick: bool = False,
    ) -> None:
        self._problem = problem
        self._master = master
        self._pricing = pricing
        self._effort = effort
        self._rng = np.random.default_rng(seed)
        self._rounds = _QUICK_ROUNDS if quick else _ROUNDS
        self._part = _QUICK_PART if quick else 0.0

    def run(
        self, kept: Iterable[Pattern], *, cutoff: float, greed: float = 1.0
    ) -> list[Pattern] | None:
        """Complete the bins that are kept; `None` if that comes to no less than the cutoff.

        The lower the `greed`, the more is left to chance.
        """
        kept = list(kept)
        self._master.add(kept)
        held = Counter(self._master.place_of(pattern) for pattern in kept)
        try:
            return self._complete(held, cutoff, greed)
        finally:
            self._master.hold({})

    def _complete(self, held: Counter[int], cutoff: float, greed: float) -> list[Pattern] | None:
        master = self._master
        few = -1.0
        while True:
            master.hold(held)
            bins = [master.patterns[place] for place in held.elements()]
            left = missing(self._problem, bins)
            few = _FEW * float(left.sum()) if few < 0 else few
            useful = _useful(self._problem, bins, left)
            found = column_generation.generate(
                self._problem,
                master,
                self._pricing,
                self._effort,
                caps=useful,
                patience=1,
                rounds=self._rounds,
            )
            if not found.feasible or self._effort.over:
                return None
            # The last few may be dear here and find a place beside others afterwards.
            if found.value > cutoff - _WHOLE and left.sum() > few:
                return None
            amounts = found.amounts.copy()
            for place, times in held.items():
                amounts[place] -= times
            whole = np.flatnonzero(amounts >= 1 - _WHOLE).tolist()
            parts = np.flatnonzero(amounts > _WHOLE)
            if left.any() and whole:
                held.update({place: int(amounts[place] + _WHOLE) for place in whole})
            elif left.any() and len(parts):
                held.update(self._choose(parts, amounts[parts], useful, greed))
            else:
                return [master.patterns[place] for place in held.elements()]

    def _choose(self, parts: Counts, amounts: Numbers, useful: Counts, greed: float) -> list[int]:
        """Patterns that are used most, and waste little of themselves.

        After the first no more of a bin type than are used of it on the whole: limits hold then.
        """
        counts = np.array([self._master.patterns[place].counts for place in parts])
        types = np.array([self._master.patterns[place].bin_type for place in parts])
        most = np.broadcast_to(useful, self._problem.caps.shape)[types]
        used = np.minimum(counts, most).sum(axis=1) / np.maximum(counts.sum(axis=1), 1)
        score = amounts * used**2 * self._rng.uniform(greed, 1.0, size=len(parts))
        room = np.bincount(types, weights=amounts)
        number = max(int(amounts.sum() * self._part), 1)
        chosen: list[int] = []
        for at in np.argsort(-score, kind="stable").tolist():
            if len(chosen) < number and (not chosen or room[types[at]] >= 1 - _WHOLE):
                chosen.append(int(parts[at]))
                room[types[at]] -= 1
        return chosen


def missing(problem: PackingProblem, bins: Iterable[Pattern]) -> Counts:
    """Items by class that have no place in the bins."""
    filled = list(bins)
    if not filled:
        return problem.counts
    counts = np.array([one.counts for one in filled], dtype=np.int64)
    held = counts.sum(axis=0)
    if problem.spreads:
        types = np.array([one.bin_type for one in filled])
        for spread in problem.spreads:
            usable = _usable(spread, types, counts[:, spread.item])
            held[spread.item] = min(held[spread.item], usable)
    return np.maximum(problem.counts - held, 0)


def _usable(spread: EvenSpread, types: Counts, counts: Counts) -> int:
    """How many of the places a spread allows to be used: up to its skew above the lowest."""
    levels, elsewhere = _levels(spread, types, counts)
    if not len(levels):
        return elsewhere
    top = spread.lowest_of(levels.tolist()) + spread.max_skew
    heights = np.array(spread.heights, dtype=np.int64)
    return int(np.maximum(np.minimum(levels, top) - heights, 0).sum()) + elsewhere


def _levels(spread: EvenSpread, types: Counts, counts: Counts) -> tuple[Counts, int]:
    """The height of each domain with the items in these bins, and how many are in none."""
    domains = np.array([-1 if one is None else one for one in spread.domains])[types]
    inside = domains >= 0
    added = np.bincount(
        domains[inside], weights=counts[inside], minlength=len(spread.heights)
    ).astype(np.int64)
    return np.array(spread.heights, dtype=np.int64) + added, int(counts[~inside].sum())


def _useful(problem: PackingProblem, bins: Sequence[Pattern], left: Counts) -> Counts:
    """How many more of each class a bin of each type is of use for."""
    if not problem.spreads:
        return left[None, :]
    found = np.repeat(left[None, :], len(problem.bins), axis=0)
    types = np.array([one.bin_type for one in bins], dtype=np.int64)
    counts = np.array([one.counts for one in bins], dtype=np.int64).reshape(-1, len(problem.items))
    for spread in problem.spreads:
        levels, _ = _levels(spread, types, counts[:, spread.item])
        if not len(levels):
            continue
        even = (sum(spread.heights) + int(problem.counts[spread.item])) // len(levels)
        lowest = even if spread.floor is None else min(even, spread.floor)
        room = np.maximum(lowest + spread.max_skew - levels, 0)
        for bin_type, domain in enumerate(spread.domains):
            if domain is not None:
                room_here = min(int(left[spread.item]), int(room[domain]))
                found[bin_type, spread.item] = min(found[bin_type, spread.item], room_here)
    return found


def trimmed(problem: PackingProblem, bins: Sequence[Pattern]) -> list[Pattern]:
    """The same without items that are there too often, each bin of the cheapest type for it."""
    for spread in problem.spreads:
        bins = levelled(problem, spread, bins)
    if not bins:
        return []
    extra = np.array([one.counts for one in bins], dtype=np.int64).sum(axis=0) - problem.counts
    extra = np.maximum(extra, 0)
    used = Counter(one.bin_type for one in bins)
    by_price = np.argsort(problem.prices, kind="stable").tolist()
    found: list[Pattern] = []
    # Bins with the fewest items give places up first: some may be spared altogether.
    for bin_type, counts in sorted(bins, key=lambda one: sum(one.counts)):
        held = np.array(counts, dtype=np.int64)
        off = np.minimum(extra, held)
        held, extra = held - off, extra - off
        used[bin_type] -= 1
        if held.any():
            best = _cheapest(problem, held, bin_type, used, by_price)
            used[best] += 1
            found.append(Pattern(best, tuple(held.tolist())))
    return found


def levelled(problem: PackingProblem, spread: EvenSpread, bins: Sequence[Pattern]) -> list[Pattern]:
    """The same without items that are too many, or too high above the lowest domain."""
    found = [list(one.counts) for one in bins]
    levels = list(spread.heights)
    for one in bins:
        domain = spread.domains[one.bin_type]
        if domain is not None:
            levels[domain] += one.counts[spread.item]
    extra = sum(one.counts[spread.item] for one in bins) - int(problem.counts[spread.item])
    # Bins with the fewest items give places up first.
    order = sorted(range(len(bins)), key=lambda place: sum(bins[place].counts))
    for _ in range(sum(one.counts[spread.item] for one in bins)):
        if not levels or (extra <= 0 and max(levels) <= spread.lowest_of(levels) + spread.max_skew):
            break
        highest = levels.index(max(levels))
        place = next(
            (
                place
                for place in order
                if spread.domains[bins[place].bin_type] == highest and found[place][spread.item]
            ),
            None,
        )
        if place is None:
            break
        found[place][spread.item] -= 1
        levels[highest] -= 1
        extra -= 1
    return [
        Pattern(one.bin_type, tuple(counts))
        for one, counts in zip(bins, found, strict=True)
        if any(counts)
    ]


def _cheapest(
    problem: PackingProblem,
    held: Counts,
    bin_type: int,
    used: Mapping[int, int],
    by_price: Sequence[int],
) -> int:
    """The cheapest type that takes the items and may be used once more."""
    if problem.quotas or problem.spreads:
        return bin_type
    for other in by_price:
        if problem.prices[other] >= problem.prices[bin_type]:
            break
        if used[other] < problem.most[other] and problem.holds(other, held):
            return other
    return bin_type

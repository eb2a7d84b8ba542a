"""Some bins of a packing filled anew as well as can be: a small problem of its own.

What the bins that stay use is taken off limits and quotas. Items of a spread stay in their domain,
so that whatever solves the rest solves the whole. Patterns of the rest are priced until none is
worth it, and an integer program puts them together.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tonnage.optimise import column_generation, enumeration
from tonnage.optimise.effort import Effort
from tonnage.optimise.master import Duals, Master
from tonnage.optimise.pricing_problem import PricingProblem
from tonnage.optimise.problem import BinType, PackingProblem, Pattern

_NODES = 30
_MOST = 150
"""Patterns that are put together: those that lose least."""
_NEAR = 1e-6


class Neighbourhood:
    """The problem of what was in the bins that are gone, beside those that are kept."""

    def __init__(
        self, problem: PackingProblem, kept: Sequence[Pattern], gone: Sequence[Pattern]
    ) -> None:
        self._whole = problem
        self._kept = list(kept)
        self._gone = gone
        held: Counter[tuple[int, tuple[int | None, ...]]] = Counter()
        for one in gone:
            for item in np.flatnonzero(one.counts).tolist():
                held[item, problem.home(item, one.bin_type)] += one.counts[item]
        # A class for every domain that items of a class are in.
        self._parts = sorted(held, key=str)
        self._problem = self._residual(held)

    def _residual(self, held: Counter[tuple[int, tuple[int | None, ...]]]) -> PackingProblem:
        whole = self._whole
        items = [whole.items[item]._replace(number=held[item, at]) for item, at in self._parts]
        used = Counter(one.bin_type for one in self._kept)
        bins = [self._bin(place, one, used[place]) for place, one in enumerate(whole.bins)]
        quotas = [
            one._replace(most=one.most - sum(one.amounts[place] * n for place, n in used.items()))
            for one in whole.quotas
        ]
        return PackingProblem(items, bins, quotas=quotas)

    def _bin(self, place: int, one: BinType, used: int) -> BinType:
        caps = [
            one.caps[item] if self._whole.home(item, place) == at else 0 for item, at in self._parts
        ]
        most = None if one.most is None else one.most - used
        return one._replace(caps=tuple(caps), most=most)

    def _inside(self, one: Pattern) -> Pattern:
        counts = [
            one.counts[item] if self._whole.home(item, one.bin_type) == at else 0
            for item, at in self._parts
        ]
        return Pattern(one.bin_type, tuple(counts))

    def _outside(self, one: Pattern) -> Pattern:
        counts = [0] * len(self._whole.items)
        for (item, _), count in zip(self._parts, one.counts, strict=True):
            counts[item] += count
        return Pattern(one.bin_type, tuple(counts))

    def refilled(self, effort: Effort) -> list[Pattern] | None:
        """All bins, with cheaper ones for those that are gone; `None` if none are found."""
        rest = self._problem
        master = Master(rest, effort=effort)
        master.add(self._inside(one) for one in self._gone)
        pricing = PricingProblem(rest, effort=effort)
        relaxed = column_generation.generate(rest, master, pricing, effort, patience=2)
        cost = float(sum(rest.prices[one.bin_type] for one in self._gone))
        gain = cost - relaxed.value
        if effort.over or not relaxed.feasible or gain < _NEAR * cost:
            return None
        # A pattern that loses more than there is to be gained is in no cheaper packing.
        lost = _lost(rest, master.patterns, relaxed.duals)
        best = [at for at in np.argsort(lost, kind="stable").tolist() if lost[at] < gain][:_MOST]
        patterns = [master.patterns[at] for at in best]
        found = enumeration.solve(rest, patterns, effort, nodes=_NODES, lean=True)
        return None if found is None else [*self._kept, *map(self._outside, found[0])]


def _lost(problem: PackingProblem, patterns: Sequence[Pattern], duals: Duals) -> list[float]:
    """What each pattern costs more than its items are worth."""
    prices = problem.prices + duals.rents
    return [float(prices[one] - np.dot(counts, duals.values[one])) for one, counts in patterns]

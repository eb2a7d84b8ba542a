"""Some bins of a packing filled anew as well as can be: a small problem of its own.

What the bins that stay use is taken off limits and quotas. Items of a spread stay in their domain,
so that whatever solves the rest solves the whole. Patterns of the rest are priced until none is
worth it, and an integer program puts them together.
"""

from collections.abc import Sequence

import numpy as np

from tonnage.optimise import column_generation, division, enumeration
from tonnage.optimise.division import Division
from tonnage.optimise.effort import Effort
from tonnage.optimise.master import Duals, Master
from tonnage.optimise.pricing_problem import PricingProblem
from tonnage.optimise.problem import PackingProblem, Pattern

_NODES = 30
_MOST = 150
"""Patterns that are put together: those that lose least."""
_NEAR = 1e-6


class Neighbourhood:
    """The problem of what was in the bins that are gone, beside those that are kept."""

    def __init__(
        self, problem: PackingProblem, kept: Sequence[Pattern], gone: Sequence[Pattern]
    ) -> None:
        self._kept = list(kept)
        self._gone = gone
        self._division = Division(problem, division.as_packed(problem, gone), kept=kept)

    def refilled(self, effort: Effort) -> list[Pattern] | None:
        """All bins, with cheaper ones for those that are gone; `None` if none are found."""
        rest = self._division.problem
        master = Master(rest, effort=effort)
        master.add(self._division.inside(one) for one in self._gone)
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
        return None if found is None else [*self._kept, *map(self._division.outside, found[0])]


def _lost(problem: PackingProblem, patterns: Sequence[Pattern], duals: Duals) -> list[float]:
    """What each pattern costs more than its items are worth."""
    prices = problem.prices + duals.rents
    return [float(prices[one] - np.dot(counts, duals.values[one])) for one, counts in patterns]

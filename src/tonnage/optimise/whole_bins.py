"""A bound in whole bins: no bin is bought in part, though it may be filled so.

Whatever items are taken to be worth, bins hold all of them only if together they may hold that much
worth. Each round of pricing says so for other worths. The least price of whole numbers of bins that
have the room for all items on the whole, and that satisfy all rounds, is a bound.
"""

from typing import NamedTuple

import numpy as np

from tonnage.optimise import fractional_bins, highs
from tonnage.optimise.effort import Effort
from tonnage.optimise.master import Duals
from tonnage.optimise.problem import Counts, Numbers, PackingProblem

_KEPT = 60
"""So many of the newest rounds are remembered."""
_MOST = 2_000
"""Bin types times classes of items up to which it is worth its time."""
_NODES = 300
_FEW_NODES = 60
"""While patterns are still priced, and the bound will rise by itself."""


class WholeBins:
    """Remembers what no bin of each type is worth more than, round by round."""

    def __init__(self, problem: PackingProblem) -> None:
        self._problem = problem
        self._rounds: list[tuple[Duals, Numbers]] = []

    def add(self, duals: Duals, at_most: Numbers) -> None:
        self._rounds = [*self._rounds[1 - _KEPT :], (duals, at_most)]

    def bound(self, effort: Effort) -> float:
        """What no whole bins cost less than."""
        return self.least(effort, nodes=_FEW_NODES).bound

    def least(self, effort: Effort, *, nodes: int = _NODES) -> "LeastBins":
        """Whole bins that all rounds allow, if some are found, and what none cost less than."""
        problem = self._problem
        if len(problem.bins) * len(problem.items) > _MOST:
            return LeastBins(0.0, None)
        model = highs.integer(gap=1e-4, nodes=nodes, lean=True)
        _, bins = fractional_bins.build(problem, model, effort)
        for duals, at_most in self._rounds:
            wanted = float(duals.items @ problem.counts) + duals.evenness
            # The first columns are items that are left out.
            entries = {item: float(worth) for item, worth in enumerate(duals.items) if worth > 0}
            entries.update(zip(bins, at_most.tolist(), strict=True))
            scale = max(abs(wanted), 1e-9)
            highs.add_row(model, wanted / scale, {at: v / scale for at, v in entries.items() if v})
        highs.make_integer(model, bins)
        found = highs.solve(model)
        effort.spend(20_000 + 120 * found.iterations)
        # The solver's tolerance may be worth something.
        bound = found.bound * (1 - 1e-6) if np.isfinite(found.bound) else 0.0
        return LeastBins(
            bound, np.rint(found.columns[bins]).astype(np.int64) if found.feasible else None
        )


class LeastBins(NamedTuple):
    """A bound, and numbers of bins by type that may reach it."""

    bound: float
    bins: Counts | None

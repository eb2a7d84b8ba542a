"""What bins cost at least that hold all items: bought in part, or as whole ones filled in part.

Whatever items are taken to be worth, bins of a type hold no more worth than so many times the most
valuable content. Each round of pricing says so for other worths. The least price of bins that have
the room for all items on the whole, and that satisfy all rounds, type by type, is a bound; that of
whole numbers of bins is a higher one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tonnage.optimise import fractional_bins, highs
from tonnage.optimise.effort import Effort
from tonnage.optimise.problem import Counts, Numbers, PackingProblem

if TYPE_CHECKING:
    from highspy import Highs

_KEPT = 60
"""So many of the newest worths are remembered of each type, where bins are whole."""
_MOST = 2_000
"""Bin types times classes of items up to which it is worth its time."""
_NODES = 1_000
_FEW_NODES = 60
"""While patterns are still priced, and the bound will rise by itself."""
_LITTLE = 1e-9


class WholeBins:
    """Remembers what no bin of each type is worth more than, whatever items are worth."""

    def __init__(self, problem: PackingProblem) -> None:
        self._problem = problem
        self._told: list[list[tuple[Numbers, float]]] = [[] for _ in problem.bins]
        self._fresh: list[tuple[int, Numbers, float]] = []
        self._linear: tuple[Highs, list[int]] | None = None
        self._is_small = len(problem.bins) * len(problem.items) <= _MOST

    def add(self, bin_type: int, values: Numbers, at_most: float) -> None:
        """No bin of the type is worth more where items are worth this."""
        if self._is_small:
            told = self._told[bin_type]
            self._told[bin_type] = [*told[1 - _KEPT :], (values, at_most)]
            self._fresh.append((bin_type, values, at_most))

    def in_part(self, effort: Effort) -> float:
        """What no bins cost less than, also where they are bought in part."""
        if not self._is_small:
            return 0.0
        if self._linear is None:
            model = highs.linear()
            _, bins = fractional_bins.build(self._problem, model, effort)
            self._linear = model, bins
        model, bins = self._linear
        for bin_type, values, at_most in self._fresh:
            self._tell(model, bins, bin_type, values, at_most)
        self._fresh = []
        found = highs.solve(model)
        effort.spend(1_000 + 40 * found.iterations)
        return _safely(found.value) if found.feasible else 0.0

    def bound(self, effort: Effort) -> float:
        """What no whole bins cost less than."""
        return self.least(effort, nodes=_FEW_NODES).bound

    def least(self, effort: Effort, *, nodes: int = _NODES) -> "LeastBins":
        """Whole bins that all rounds allow, if some are found, and what none cost less than."""
        if not self._is_small:
            return LeastBins(0.0, None)
        model = highs.integer(gap=1e-4, nodes=nodes, lean=True)
        _, bins = fractional_bins.build(self._problem, model, effort)
        for bin_type, told in enumerate(self._told):
            for values, at_most in told:
                self._tell(model, bins, bin_type, values, at_most)
        highs.make_integer(model, bins)
        found = highs.solve(model)
        effort.spend(20_000 + 120 * found.iterations)
        return LeastBins(
            _safely(found.bound),
            np.rint(found.columns[bins]).astype(np.int64) if found.feasible else None,
        )

    def _tell(
        self, model: "Highs", bins: Sequence[int], bin_type: int, values: Numbers, at_most: float
    ) -> None:
        """A row: what is in bins of the type is worth no more than that for each of them."""
        scale = max(at_most, _LITTLE)
        # The columns of what bins of a type hold come after that of the bins.
        items = np.flatnonzero(self._problem.caps[bin_type]).tolist()
        worth = {
            column: -float(values[item]) / scale
            for column, item in enumerate(items, bins[bin_type] + 1)
            if values[item] > 0
        }
        highs.add_row(model, 0.0, {bins[bin_type]: 1.0, **worth})


def _safely(bound: float) -> float:
    """The solver's tolerance may be worth something."""
    return bound * (1 - 1e-6) if np.isfinite(bound) else 0.0


class LeastBins(NamedTuple):
    """A bound, and numbers of bins by type that may reach it."""

    bound: float
    bins: Counts | None

"""Patterns worth more than they cost: greedily for all bin types at once, or the best of one.

Greedy: items go in by value per size, where size is a weighted sum of what they take; many
weightings and all bin types are filled side by side, as rows of one array.
"""

import numpy as np

from tonnage.optimise import knapsack
from tonnage.optimise.effort import Effort
from tonnage.optimise.knapsack import Contents, Knapsack
from tonnage.optimise.problem import Counts, Numbers, PackingProblem

_WEIGHTINGS = 24
_LITTLE = 1e-9


class PricingProblem:
    """Fills single bins for the most value. Chance is seeded: the same asked again is the same."""

    def __init__(self, problem: PackingProblem, *, effort: Effort, seed: int = 0) -> None:
        self._problem = problem
        self._effort = effort
        self._rng = np.random.default_rng(seed)
        finite = np.where(np.isfinite(problem.capacities), problem.capacities, np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            self._sizes = np.nan_to_num(
                problem.demands[None, :, :] / np.maximum(finite, _LITTLE)[:, None, :], posinf=0.0
            )

    def greedy(
        self, values: Numbers, *, caps: Counts | None = None, bins: Counts | None = None
    ) -> tuple[Counts, Counts, Numbers]:
        """Filled bins: the type of each, its items by class, and what they are worth.

        `values` is what an item is worth by bin type and class, `caps` how many of each class one
        bin may take.
        """
        problem = self._problem
        chosen = np.arange(len(problem.bins)) if bins is None else bins
        weights = self._weights(_WEIGHTINGS)
        # By bin type, weighting and class.
        sizes = np.einsum("tcr,wr->twc", self._sizes[chosen], weights)
        worth = values[chosen][:, None, :] / np.maximum(sizes, _LITTLE)
        worth *= self._rng.uniform(0.9, 1.1, size=(1, len(weights), len(problem.items)))
        types = np.repeat(chosen, len(weights))
        limits = (problem.caps if caps is None else np.minimum(caps, problem.caps))[types]
        limits = np.where(values[types] > _LITTLE, limits, 0)
        order = np.argsort(-worth.reshape(len(types), -1), axis=1, kind="stable")
        counts = self._fill(types, order, limits)
        self._effort.spend(1_000 + 0.3 * counts.size)
        return types, counts, (counts * values[types]).sum(axis=1)

    def _weights(self, count: int) -> Numbers:
        resources = self._problem.demands.shape[1]
        drawn = self._rng.dirichlet(np.full(resources, 0.5), size=count)
        return np.vstack((np.eye(resources), np.full((1, resources), 1 / resources), drawn))

    def _fill(self, types: Counts, order: Counts, limits: Counts) -> Counts:
        """Fill a bin per row with as many as fit of each class, in the row's order."""
        problem = self._problem
        rows = np.arange(len(types))
        left = problem.capacities[types].copy()
        counts = np.zeros(limits.shape, dtype=np.int64)
        for place in range(order.shape[1]):
            item = order[:, place]
            most = limits[rows, item]
            if not most.any():
                continue
            demand = problem.demands[item]
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(demand > 0, np.floor((left + 1e-6) / demand), np.inf)
            taken = np.minimum(room.min(axis=1, initial=np.inf), most)
            taken = np.maximum(taken, 0.0)
            counts[rows, item] = taken.astype(np.int64)
            left -= np.where(taken[:, None] > 0, demand * taken[:, None], 0.0)
        return counts

    def best(self, bin_type: int, values: Numbers, *, gap: float = 1e-3) -> Contents:
        """The most valuable pattern of one bin type, and what none is worth more than."""
        problem = self._problem
        caps, capacity = problem.caps[bin_type], problem.capacities[bin_type]
        found = knapsack.best(Knapsack(values, problem.demands, caps, capacity), gap=gap)
        self._effort.spend(8_000 + 80 * found.iterations)
        return found

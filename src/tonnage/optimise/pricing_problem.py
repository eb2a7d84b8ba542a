"""Patterns worth more than they cost: quickly or with care for all bin types, or the best of one.

Greedy: items go in by value per size, where size is a weighted sum of what they take; many
weightings and all bin types are filled side by side, as rows of one array. With care: a beam of
fillings by the one weighting that says most about what the room that is left is worth.
"""

import numpy as np

from tonnage.optimise import knapsack
from tonnage.optimise.effort import Effort
from tonnage.optimise.knapsack import Contents, Knapsack
from tonnage.optimise.problem import Counts, Numbers, PackingProblem

_WEIGHTINGS = 24
_WIDTH = 24
"""Fillings of each bin type that are gone on with."""
_FEWER = 4
"""Numbers of a class that are tried: as many as fit, one and two less, and none."""
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
        self._scale = np.where(np.isfinite(finite), 1.0 / np.maximum(finite, _LITTLE), 0.0)
        self._weighting: Numbers | None = None

    def greedy(
        self, values: Numbers, *, caps: Counts | None = None
    ) -> tuple[Counts, Counts, Numbers]:
        """Filled bins: the type of each, its items by class, and what they are worth.

        `values` is what an item is worth by bin type and class, `caps` how many of each class one
        bin may take.
        """
        problem = self._problem
        most = self._limits(values, caps)
        chosen = np.flatnonzero(most.any(axis=1))
        weights = self._weights(_WEIGHTINGS)
        # By bin type, weighting and class.
        sizes = np.einsum("tcr,wr->twc", self._sizes[chosen], weights)
        worth = values[chosen, None, :] / np.maximum(sizes, _LITTLE)
        worth *= self._rng.uniform(0.9, 1.1, size=(1, len(weights), len(problem.items)))
        types = np.repeat(chosen, len(weights))
        order = np.argsort(-worth.reshape(len(types), len(problem.items)), axis=1, kind="stable")
        counts = self._fill(types, order, most[types])
        self._effort.spend(1_000 + 0.16 * counts.size)
        return types, counts, (counts * values[types]).sum(axis=1)

    def _limits(self, values: Numbers, caps: Counts | None) -> Counts:
        most = self._problem.caps if caps is None else np.minimum(caps, self._problem.caps)
        return np.where(values > _LITTLE, most, 0)

    def beam(
        self, values: Numbers, *, caps: Counts | None = None, chance: float = 0.0
    ) -> tuple[Counts, Counts, Numbers]:
        """The same with more care: of all types the fillings that promise most, class by class.

        What the room that is left may be worth at most is told by the weighting of resources at
        which it is worth least.
        """
        limits = self._limits(values, caps)
        weights, _ = self._tightest(values, limits)
        sizes = np.einsum("tcr,tr->tc", self._sizes, weights)
        density = np.where(limits > 0, values / np.maximum(sizes, _LITTLE), -1.0)
        beam = _Beam(self._problem, weights, self._scale)
        noise = self._rng.uniform(1 - chance, 1.0, size=density.shape)
        order = np.argsort(-density * noise, axis=1, kind="stable")
        counts = beam.fill(values, density, order, limits)
        types = np.repeat(np.arange(len(limits)), counts.shape[1])
        counts = counts.reshape(len(types), -1)
        self._effort.spend(2_000 + 0.65 * counts.size)
        return types, counts, (counts * values[types]).sum(axis=1)

    def at_most(self, values: Numbers) -> Numbers:
        """What no pattern of each bin type is worth more than, without a search."""
        return self._tightest(values, self._limits(values, None))[1]

    def _tightest(self, values: Numbers, limits: Counts) -> tuple[Numbers, Numbers]:
        """By type, the weighting with which the best content in part is worth least, and that."""
        drawn = np.repeat(self._weights(_WEIGHTINGS)[None], len(limits), axis=0)
        if self._weighting is not None:
            spread = self._rng.lognormal(0.0, 0.25, size=(len(limits), _WEIGHTINGS, drawn.shape[2]))
            near = self._weighting[:, None, :] * spread
            drawn = np.concatenate((drawn, self._weighting[:, None, :], near), axis=1)
        drawn = drawn / np.maximum(drawn.sum(axis=2, keepdims=True), _LITTLE)
        sizes = np.einsum("tcr,twr->twc", self._sizes, drawn)
        density = values[:, None, :] / np.maximum(sizes, _LITTLE)
        order = np.argsort(-density, axis=2, kind="stable")
        takes = np.take_along_axis(sizes * limits[:, None, :], order, axis=2)
        whole = np.broadcast_to((values * limits)[:, None, :], sizes.shape)
        worth = np.take_along_axis(whole, order, axis=2)
        before = np.cumsum(takes, axis=2) - takes
        part = np.clip((1.0 - before) / np.maximum(takes, _LITTLE), 0.0, 1.0)
        total = (part * worth).sum(axis=2)
        best = total.argmin(axis=1)
        self._weighting = drawn[np.arange(len(limits)), best]
        self._effort.spend(1_000 + 0.05 * sizes.size)
        return self._weighting, total.min(axis=1) + _LITTLE

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
        self._effort.spend(6_000 + 75 * found.iterations)
        return found


class _Beam:
    """Fillings of all bin types side by side; of each type the most promising are gone on with."""

    def __init__(self, problem: PackingProblem, weights: Numbers, scale: Numbers) -> None:
        self._problem = problem
        # What a unit of each resource is worth at density 1, by type.
        self._worth = weights * scale

    def fill(self, values: Numbers, density: Numbers, order: Counts, limits: Counts) -> Counts:
        """Contents by type, filling and class; `order` is that of the classes by type."""
        problem = self._problem
        types = np.arange(len(limits))
        left = problem.capacities[:, None, :].copy()
        counts = np.zeros((len(types), 1, limits.shape[1]), dtype=np.int64)
        worth = np.zeros((len(types), 1))
        fewer = np.arange(_FEWER)
        ordered = np.maximum(np.take_along_axis(density, order, axis=1), 0.0)
        best = np.maximum.accumulate(ordered[:, ::-1], axis=1)[:, ::-1]
        best = np.hstack((best, np.zeros((len(types), 1))))
        for place in range(order.shape[1]):
            item = order[:, place]
            most = limits[types, item]
            if not most.any():
                break
            demand = problem.demands[item][:, None, :]
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(demand > 0, np.floor((left + 1e-6) / demand), np.inf)
            top = np.maximum(np.minimum(room.min(axis=2), most[:, None]), 0.0)
            # As many as fit, a few less, or none.
            number = np.maximum(top[:, :, None] - fewer, 0.0)
            number[:, :, -1] = 0.0
            twice = number[:, :, 1:] == number[:, :, :-1]
            gain = worth[:, :, None] + number * values[types, item][:, None, None]
            after = best[:, place + 1]
            rest = (np.where(np.isfinite(left), left, 0.0) * self._worth[:, None, :]).sum(axis=2)
            takes = (demand[:, 0, :] * self._worth).sum(axis=1)
            promise = rest[:, :, None] - number * takes[:, None, None]
            promise = gain + after[:, None, None] * promise
            promise[:, :, 1:][twice] = -np.inf
            flat = promise.reshape(len(types), -1)
            kept = np.argsort(-flat, axis=1, kind="stable")[:, :_WIDTH]
            source, choice = kept // _FEWER, kept % _FEWER
            rows = types[:, None]
            taken = np.where(np.isfinite(flat[rows, kept]), number[rows, source, choice], 0.0)
            worth = np.where(np.isfinite(flat[rows, kept]), gain[rows, source, choice], -np.inf)
            left = left[rows, source] - demand * taken[:, :, None]
            counts = counts[rows, source]
            counts[rows, np.arange(kept.shape[1])[None, :], item[:, None]] = taken.astype(np.int64)
        return counts

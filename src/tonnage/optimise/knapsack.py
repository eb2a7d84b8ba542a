"""The most valuable content of one bin: a search over all classes at once, state by state.

The linear relaxation says what each class is worth beyond the room it takes. Every content loses
against the relaxation: by each item that it has and should not, or should have and has not, and by
room that stays empty. Classes are decided one after the other, those that lose most by deviating
first; all states of a level are rows of one array. States that have lost too much are dropped, and
so are the worst where they are too many. What was dropped is remembered, so that the search knows
what no content is worth more than.
"""

from typing import NamedTuple

import numpy as np

from tonnage.optimise import highs
from tonnage.optimise.problem import Counts, Numbers

_LITTLE = 1e-9
_FIRST = 0.003
"""What a content may lose at first, as a part of the relaxation; more if there is none."""


class Knapsack(NamedTuple):
    """Items by class: what one is worth, what it takes, how many there may be; and the room."""

    values: Numbers
    demands: Numbers
    caps: Counts
    capacity: Numbers


class Contents(NamedTuple):
    """The best contents found, the most valuable first, and what none is worth more than."""

    counts: Counts
    at_most: float
    states: int
    """How many were looked at."""


def search(sack: Knapsack, *, width: int, keep: int) -> Contents:
    """The most valuable contents, with so many states a level."""
    chosen = np.flatnonzero((sack.values > _LITTLE) & (sack.caps > 0))
    limited = np.flatnonzero(np.isfinite(sack.capacity))
    if not len(chosen):
        return Contents(np.zeros((0, len(sack.values)), dtype=np.int64), 0.0, 0)
    values = sack.values[chosen]
    demands = sack.demands[np.ix_(chosen, limited)]
    caps, capacity = sack.caps[chosen], sack.capacity[limited]
    rents = _rents(values, demands, caps, capacity)
    excess = values - demands @ rents
    relaxed = float(rents @ capacity + caps @ np.maximum(excess, 0.0))
    others = _others(rents, values, demands)
    sizes = (demands / np.maximum(capacity, 1.0)).sum(axis=1)
    may_lose, states = _FIRST * relaxed, 0
    while True:
        # Classes that may not deviate at all, then large items before those that fill gaps.
        order = np.lexsort((-sizes, np.abs(excess) <= may_lose))
        tree = _Tree(capacity, may_lose, width)
        ahead = _Ahead(others, values[order], demands[order], caps[order], relaxed)
        for level, item in enumerate(order.tolist()):
            tree.branch(demands[item], int(caps[item]), float(excess[item]), ahead, level)
        losses = tree.losses + tree.left @ rents
        least = min(may_lose, tree.dropped, float(losses.min(initial=np.inf)))
        states += tree.states
        if len(losses) and (losses.min() <= may_lose or tree.dropped < may_lose):
            break
        may_lose *= 3
    best = np.argsort(losses, kind="stable")[:keep]
    counts = np.zeros((len(best), len(sack.values)), dtype=np.int64)
    counts[:, chosen[order]] = tree.counts(best)
    return Contents(counts, relaxed - least + 1e-9 * max(relaxed, 1.0), states)


def exact(sack: Knapsack, *, gap: float, nodes: int = 5_000) -> Contents:
    """The most valuable content by integer programming: slower, and right to the gap."""
    chosen = np.flatnonzero((sack.values > _LITTLE) & (sack.caps > 0))
    limited = np.flatnonzero(np.isfinite(sack.capacity))
    counts = np.zeros((1, len(sack.values)), dtype=np.int64)
    if not len(chosen):
        return Contents(counts[:0], 0.0, 0)
    capacity = sack.capacity[limited]
    scale = np.maximum(capacity, 1.0)
    demands = sack.demands[np.ix_(chosen, limited)] / scale
    model = highs.integer(gap=gap, nodes=nodes)
    highs.add_rows(model, [-highs.INFINITY] * len(limited), (capacity / scale).tolist())
    upper = sack.caps[chosen].astype(np.float64)
    highs.add_columns(model, -sack.values[chosen], demands, upper)
    highs.make_integer(model, range(len(chosen)))
    found = highs.solve(model)
    if found.feasible:
        counts[0, chosen] = np.rint(found.columns).astype(np.int64)
    # Within the solver's tolerance may be beyond ours.
    if (counts[0] @ sack.demands > sack.capacity).any() or (counts[0] > sack.caps).any():
        counts = counts[:0]
    return Contents(counts, -found.bound + 1e-9, 10_000 + 200 * found.iterations)


def _rents(values: Numbers, demands: Numbers, caps: Counts, capacity: Numbers) -> Numbers:
    """What a unit of each resource is worth: the duals of the linear relaxation."""
    scale = np.maximum(capacity, 1.0)
    model = highs.linear()
    highs.add_rows(model, [-highs.INFINITY] * len(capacity), (capacity / scale).tolist())
    highs.add_columns(model, -values, demands / scale, caps.astype(np.float64))
    found = highs.solve(model)
    if len(found.rows) != len(capacity):
        return np.zeros(len(capacity))
    return np.maximum(-found.rows, 0.0) / scale


def _others(rents: Numbers, values: Numbers, demands: Numbers) -> Numbers:
    """Other rents, for states that use resources in other proportions."""
    count = len(rents)
    swings = 1.0 + 0.5 * (2.0 * np.eye(count) - 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        density = np.where(demands > 0, values[:, None] / demands, 0.0)
    alone = np.diag(np.quantile(density, 0.8, axis=0))
    return np.vstack((rents, rents * swings, rents * (2.0 - swings), alone, 0.5 * (alone + rents)))


class _Ahead:
    """What states may still lose at least, by the best of several rents."""

    def __init__(
        self, rents: Numbers, values: Numbers, demands: Numbers, caps: Counts, relaxed: float
    ) -> None:
        self._rents = rents.T
        self._values = values
        self._relaxed = relaxed
        gains = caps[:, None] * np.maximum(values[:, None] - demands @ rents.T, 0.0)
        self._later = np.vstack((gains[::-1].cumsum(axis=0)[::-1][1:], np.zeros(len(rents))))

    def value(self, level: int) -> float:
        return float(self._values[level])

    def losses(self, worth: Numbers, left: Numbers, level: int) -> Numbers:
        """Of states after a level that are worth so much and leave so much room."""
        most = (left @ self._rents + self._later[level]).min(axis=1)
        found: Numbers = self._relaxed - worth - most
        return found


class _Tree:
    """States after each class: their worth, the room they leave and what they have lost."""

    def __init__(self, capacity: Numbers, may_lose: float, width: int) -> None:
        self.left = capacity[None, :].copy()
        self.losses = np.zeros(1)
        self.dropped = np.inf
        """The least loss of a state that was dropped for want of width."""
        self.states = 0
        self._worth = np.zeros(1)
        self._may_lose = may_lose
        self._width = width
        self._levels: list[tuple[Counts, Counts]] = []

    def branch(self, demand: Numbers, cap: int, excess: float, ahead: _Ahead, level: int) -> None:
        """Every number of items that the room and the loss allow."""
        most = self._room(demand, cap)
        spare = self._may_lose - self.losses
        least = np.zeros(len(most), dtype=np.int64)
        if excess > _LITTLE:
            least = np.maximum(np.ceil(cap - spare / excess - 1e-9), 0.0).astype(np.int64)
        elif excess < -_LITTLE:
            most = np.minimum(most, np.floor(np.minimum(spare / -excess, cap) + 1e-9))
        most = most.astype(np.int64)
        ways = np.maximum(most - least + 1, 0)
        parents = np.repeat(np.arange(len(ways)), ways)
        first = np.cumsum(ways) - ways
        numbers = least[parents] + np.arange(len(parents)) - first[parents]
        lost = (cap - numbers) * excess if excess > 0 else numbers * -excess
        worth = self._worth[parents] + numbers * ahead.value(level)
        left = self.left[parents] - numbers[:, None] * demand
        foreseen = ahead.losses(worth, left, level)
        kept = np.flatnonzero(foreseen <= self._may_lose)
        if len(kept) > self._width:
            best = np.argpartition(foreseen[kept], self._width)
            self.dropped = min(self.dropped, float(foreseen[kept[best[self._width :]]].min()))
            kept = np.sort(kept[best[: self._width]])
        self.losses = self.losses[parents[kept]] + lost[kept]
        self.left, self._worth = left[kept], worth[kept]
        parents, numbers = parents[kept], numbers[kept]
        self._levels.append((parents, numbers))
        self.states += 20 + len(ways)

    def _room(self, demand: Numbers, cap: int) -> Numbers:
        takes = np.flatnonzero(demand > 0)
        if not len(takes):
            return np.full(len(self.left), float(cap))
        room = np.floor(self.left[:, takes] / demand[takes]).min(axis=1)
        return np.minimum(np.maximum(room, 0.0), cap)

    def counts(self, states: Counts) -> Counts:
        """How many of each class are in a state, class by class as they were decided."""
        found = np.zeros((len(states), len(self._levels)), dtype=np.int64)
        for level in range(len(self._levels) - 1, -1, -1):
            parents, numbers = self._levels[level]
            found[:, level] = numbers[states]
            states = parents[states]
        return found

"""Column generation: price patterns into the master until none is worth more than it costs."""

import numpy as np

from tonnage.optimise.effort import Effort
from tonnage.optimise.knapsack import Contents
from tonnage.optimise.master import Duals, Master, Relaxed
from tonnage.optimise.pricing_problem import PricingProblem
from tonnage.optimise.problem import Counts, Numbers, PackingProblem, Pattern

_AT_ONCE = 40
_WORTH = 1e-6
_NARROW, _WIDE = 400, 1_600
"""How many states of a bin are looked at side by side: at first, and when that proves no more."""
_GAP = 1e-4
_STEADY = 0.6
"""How much of the best duals so far is in those that are priced: they swing less."""


def generate(
    problem: PackingProblem,
    master: Master,
    pricing: PricingProblem,
    effort: Effort,
    *,
    caps: Counts | None = None,
    rounds: int = 200,
    patience: int = 3,
) -> Relaxed:
    """Price greedily until that finds nothing new several times in a row."""
    found = master.solve()
    in_vain = 0
    for _ in range(rounds):
        if effort.over or in_vain >= patience or not found.feasible:
            break
        types, counts, worth = pricing.greedy(found.duals.values, caps=caps)
        gain = worth - problem.prices[types] - found.duals.rents[types]
        if master.add(_best(problem, types, counts, gain)):
            in_vain = 0
            found = master.solve()
        else:
            in_vain += 1
    return found


def _best(problem: PackingProblem, types: Counts, counts: Counts, gain: Numbers) -> list[Pattern]:
    worth = np.flatnonzero(gain > _WORTH)
    price = np.maximum(problem.prices[types[worth]], _WORTH)
    chosen = worth[np.argsort(-gain[worth] / price, kind="stable")][:_AT_ONCE]
    return [Pattern(int(types[row]), tuple(counts[row].tolist())) for row in chosen]


class Proof:
    """A lower bound that rises with each round of pricing, until it meets the master.

    It begins with what items are worth where bins may be bought in part.
    """

    def __init__(
        self,
        problem: PackingProblem,
        master: Master,
        pricing: PricingProblem,
        *,
        begin: Duals | None,
    ) -> None:
        self._problem = problem
        self._master = master
        self._pricing = pricing
        self._width = _NARROW
        self._steady = _STEADY
        self._exact = False
        self._centre: tuple[Duals, Numbers] | None = None
        self.bound = 0.0
        self.complete = False
        if begin is not None:
            self._price(begin, begin)

    def bound_of(self, counts: Counts) -> float:
        """The same for fewer items."""
        if self._centre is None:
            return 0.0
        return farley(self._problem, *self._centre, counts)

    def round(self, effort: Effort) -> None:
        """Price every bin type once, with duals between the best so far and the newest."""
        found = generate(self._problem, self._master, self._pricing, effort)
        if effort.over or not found.feasible:
            return
        newest = duals = found.duals
        if self._centre is not None and self._steady > 0:
            duals = _between(self._centre[0], newest, self._steady)
        better, added = self._price(duals, newest)
        if found.value - self.bound <= 1e-6 * abs(found.value):
            self.complete = True
        elif added or better:
            self._steady = _STEADY
        elif self._steady > 0:
            # Nothing to learn there: look nearer to the newest.
            self._steady = max(self._steady - _STEADY / 2, 0.0)
        else:
            self.complete = self._exact
            self._exact = self._width >= _WIDE
            self._steady, self._width = _STEADY, min(4 * self._width, _WIDE)

    def _price(self, duals: Duals, newest: Duals) -> tuple[bool, int]:
        """Whether the bound has risen, and how many patterns are new."""
        at_most = np.zeros(len(self._problem.bins))
        added: list[Pattern] = []
        for bin_type, price in enumerate(self._problem.prices.tolist()):
            values = duals.values[bin_type]
            found = self._pricing.search(bin_type, values, width=self._width)
            if self._exact and found.at_most > price + duals.rents[bin_type] + _WORTH:
                closer = self._pricing.exact(bin_type, values, gap=_GAP)
                at_most_of = min(found.at_most, closer.at_most)
                counts = np.vstack((found.counts, closer.counts))
                found = Contents(counts, at_most_of, found.states)
            at_most[bin_type] = found.at_most
            worth = found.counts @ newest.values[bin_type]
            added += [
                Pattern(bin_type, tuple(found.counts[row].tolist()))
                for row in np.flatnonzero(worth > price + newest.rents[bin_type] + _WORTH).tolist()
            ]
        bound = farley(self._problem, duals, at_most)
        better = bound > self.bound * (1 + 1e-9)
        if better or self._centre is None:
            self._centre = (duals, at_most)
        self.bound = max(self.bound, bound)
        return better, self._master.add(added)


def _between(centre: Duals, newest: Duals, steady: float) -> Duals:
    def mixed(one: Numbers, other: Numbers) -> Numbers:
        return steady * one + (1 - steady) * other

    return Duals(
        items=mixed(centre.items, newest.items),
        values=mixed(centre.values, newest.values),
        rents=mixed(centre.rents, newest.rents),
        constant=steady * centre.constant + (1 - steady) * newest.constant,
    )


def farley(
    problem: PackingProblem, duals: Duals, at_most: Numbers, counts: Counts | None = None
) -> float:
    """What no packing of the items costs less than, given what no pattern is worth more than.

    Duals that some pattern beats are scaled down until none does; where a bin type has a limit,
    what its bins gain at most is taken off instead, if that is the better bound.
    """
    wanted = problem.counts if counts is None else counts
    prices, gain = problem.prices, np.maximum(at_most - duals.rents, 0.0)
    total = float(duals.items @ wanted) + duals.constant
    limited = np.isfinite(problem.most)
    best = 0.0
    for scaled in (~limited, prices > 0):
        tight = scaled & (gain > 0)
        share = min(1.0, float((prices[tight] / gain[tight]).min(initial=1.0)))
        over = np.maximum(share * gain - prices, 0.0)
        over = np.where(over > 1e-12, over, 0.0)
        if not over[~limited].any():
            lost = float((over[limited] * problem.most[limited]).sum())
            best = max(best, share * total - lost)
    return best

"""Column generation: price patterns into the master until none is worth more than it costs."""

import numpy as np

from tonnage.optimise.effort import Effort
from tonnage.optimise.master import Duals, Master, Relaxed
from tonnage.optimise.pricing_problem import PricingProblem
from tonnage.optimise.problem import Counts, Numbers, PackingProblem, Pattern

_AT_ONCE = 40
_WORTH = 1e-6
_LOOSE, _TIGHT = 2e-3, 1e-5
"""How near to the best pattern exact pricing goes: at first, and when that proves no more."""
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
    """A lower bound that rises with each round of exact pricing, until it meets the master."""

    def __init__(self, problem: PackingProblem, master: Master, pricing: PricingProblem) -> None:
        self._problem = problem
        self._master = master
        self._pricing = pricing
        self._gap = _LOOSE
        self._centre: tuple[Duals, Numbers] | None = None
        self.bound = 0.0
        self.complete = False

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
        if self._centre is not None:
            duals = _between(self._centre[0], newest)
        at_most, added = self._priced(duals, newest)
        bound = farley(self._problem, duals, at_most)
        if bound > self.bound:
            self.bound, self._centre = bound, (duals, at_most)
        elif not added:
            # Nothing to learn between the two: look at the newest alone next time.
            self._centre = None if self._gap == _TIGHT else self._centre
            self._gap = _TIGHT
        self._master.add(added)
        if found.value - self.bound <= 1e-6 * abs(found.value):
            self.complete = True
        elif duals is newest and not added:
            self.complete, self._gap = self._gap == _TIGHT, _TIGHT

    def _priced(self, duals: Duals, newest: Duals) -> tuple[Numbers, list[Pattern]]:
        at_most = np.zeros(len(self._problem.bins))
        added: list[Pattern] = []
        for bin_type, price in enumerate(self._problem.prices.tolist()):
            priced = self._pricing.exact(bin_type, duals.values[bin_type], gap=self._gap)
            at_most[bin_type] = priced.at_most
            worth = float(np.dot(priced.pattern.counts, newest.values[bin_type]))
            if worth > price + newest.rents[bin_type] + _WORTH:
                added.append(priced.pattern)
        return at_most, added


def _between(steady: Duals, newest: Duals) -> Duals:
    return Duals(
        items=_STEADY * steady.items + (1 - _STEADY) * newest.items,
        values=_STEADY * steady.values + (1 - _STEADY) * newest.values,
        rents=_STEADY * steady.rents + (1 - _STEADY) * newest.rents,
        constant=_STEADY * steady.constant + (1 - _STEADY) * newest.constant,
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

"""Column generation: price patterns into the master until none is worth more than it costs."""

import numpy as np

from tonnage.optimise.effort import Effort
from tonnage.optimise.given_bins import GivenBins
from tonnage.optimise.master import Duals, Master, Relaxed
from tonnage.optimise.pricing_problem import PricingProblem
from tonnage.optimise.problem import Counts, Numbers, PackingProblem, Pattern
from tonnage.optimise.whole_bins import WholeBins

_AT_ONCE = 40
_WORTH = 1e-6
_LITTLE = 1e-9
_CLOSE = 2e-4
"""How near the bound is to the master when nothing more is to be gained by pricing."""
_CAREFUL = 8
"""Rounds of pricing without a proof before each with one."""
_CHANCE = 0.15
_RISEN = 1e-5
_PATIENCE = 3
"""Rounds in which the bound in whole bins may stay where it is."""
_STEADY = 0.2
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
    careful: bool = False,
) -> Relaxed:
    """Price greedily, and once that finds nothing with care, until that finds nothing either."""
    found = master.solve()
    in_vain = 0
    for _ in range(rounds):
        if effort.over or in_vain >= patience or not found.feasible:
            break
        if not careful and not in_vain:
            types, counts, worth = pricing.greedy(found.duals.values, caps=caps)
        else:
            chance = _CHANCE * max(in_vain - 1, 0)
            types, counts, worth = pricing.beam(found.duals.values, caps=caps, chance=chance)
            careful = True
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

    It begins with what items are worth where bins may be bought in part: no bin is worth more than
    it costs then.
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
        self._steady = _STEADY
        self._centre: tuple[Duals, Numbers] | None = None
        self._given: GivenBins | None = None
        self._unraised = 0
        self.whole = WholeBins(problem)
        self.bound = 0.0
        self.in_whole_bins = 0.0
        self.complete = False
        self.settled = False
        """Whether the bound in whole bins is not expected to rise either."""
        if begin is not None:
            self._learn(begin, problem.prices + begin.rents + _LITTLE)

    def bound_of(self, counts: Counts) -> float:
        """The same for fewer items."""
        if self._centre is None:
            return 0.0
        return farley(self._problem, *self._centre, counts)

    def round(self, effort: Effort) -> None:
        """Price every bin type once, with duals between the best so far and the newest."""
        found = generate(
            self._problem, self._master, self._pricing, effort, rounds=_CAREFUL, careful=True
        )
        if effort.over or not found.feasible:
            return
        newest = duals = found.duals
        if self._centre is not None and self._steady > 0:
            duals = _between(self._centre[0], newest, self._steady)
        better, added = self._price(duals, newest)
        in_part = self.whole.in_part(effort)
        better = better or in_part > self.bound * (1 + _RISEN)
        self.bound = max(self.bound, in_part)
        if found.value - self.bound <= _CLOSE * abs(found.value):
            self.complete = True
        elif added or better:
            self._steady = _STEADY
        elif self._steady > 0:
            # Nothing to learn there: look nearer to the newest.
            self._steady = max(self._steady - _STEADY / 2, 0.0)
        else:
            self.complete = True

    def round_in_whole_bins(self, effort: Effort) -> None:
        """Rule out the cheapest whole bins there may be, if the items do not fit into them."""
        least = self.whole.least(effort)
        risen = least.bound > self.in_whole_bins * (1 + _RISEN)
        self._unraised = 0 if risen else self._unraised + 1
        self.in_whole_bins = max(self.in_whole_bins, least.bound)
        if least.bins is None or self._unraised > _PATIENCE:
            self.settled = True
            return
        if self._given is None:
            self._given = GivenBins(self._problem, effort=effort)
        self._given.add(self._master.patterns)
        self._given.give(least.bins)
        found = generate(
            self._problem, self._given, self._pricing, effort, rounds=_CAREFUL, careful=True
        )
        if effort.over or not found.feasible:
            return
        if found.value <= _CLOSE / 10 * max(least.bound, _LITTLE):
            self.settled = True
            return
        _, added = self._priced(found.duals, found.duals)
        self._given.add(added)
        self._master.add(added)

    def _price(self, duals: Duals, newest: Duals) -> tuple[bool, int]:
        """Whether the bound has risen, and how many patterns are new."""
        at_most, added = self._priced(duals, newest)
        return self._learn(duals, at_most), self._master.add(added)

    def _priced(self, duals: Duals, newest: Duals) -> tuple[Numbers, list[Pattern]]:
        """What no bin of each type is worth more than, and patterns that are worth their price."""
        at_most = self._pricing.at_most(duals.values)
        added: list[Pattern] = []
        dear = at_most > self._problem.prices + duals.rents
        for bin_type in np.flatnonzero(dear).tolist():
            price = float(self._problem.prices[bin_type])
            found = self._pricing.best(bin_type, duals.values[bin_type])
            at_most[bin_type] = found.at_most
            self.whole.add(bin_type, duals.values[bin_type], found.at_most)
            worth = found.counts @ newest.values[bin_type]
            added += [
                Pattern(bin_type, tuple(found.counts[row].tolist()))
                for row in np.flatnonzero(worth > price + newest.rents[bin_type] + _WORTH).tolist()
            ]
        return at_most, added

    def _learn(self, duals: Duals, at_most: Numbers) -> bool:
        """Whether the bound has risen."""
        bound = farley(self._problem, duals, at_most)
        better = bound > self.bound * (1 + 1e-9)
        if better or self._centre is None:
            self._centre = (duals, at_most)
        self.bound = max(self.bound, bound)
        return better


def _between(centre: Duals, newest: Duals, steady: float) -> Duals:
    def mixed(one: Numbers, other: Numbers) -> Numbers:
        return steady * one + (1 - steady) * other

    return Duals(
        items=mixed(centre.items, newest.items),
        values=mixed(centre.values, newest.values),
        rents=mixed(centre.rents, newest.rents),
        constant=steady * centre.constant + (1 - steady) * newest.constant,
        evenness=steady * centre.evenness + (1 - steady) * newest.evenness,
    )


def farley(
    problem: PackingProblem, duals: Duals, at_most: Numbers, counts: Counts | None = None
) -> float:
    """What no packing of the items costs less than, given what no pattern is worth more than.

    Duals are scaled until the best pattern is worth just its price; where a bin type has a limit,
    what its bins gain at most is taken off instead, if that is the better bound.
    """
    wanted = problem.counts if counts is None else counts
    prices, gain = problem.prices, np.maximum(at_most - duals.rents, 0.0)
    total = float(duals.items @ wanted) + duals.constant + duals.evenness
    limited = np.isfinite(problem.most)
    # Nor may an item be worth more than it costs to leave it out.
    most = problem.penalty / max(float(duals.items.max(initial=0.0)), _LITTLE)
    best = 0.0
    for scaled in (~limited, prices > 0):
        tight = scaled & (gain > 0)
        share = float((prices[tight] / gain[tight]).min(initial=most))
        over = np.maximum(share * gain - prices, 0.0)
        over = np.where(over > 1e-12, over, 0.0)
        if not over[~limited].any():
            lost = float((over[limited] * problem.most[limited]).sum())
            best = max(best, share * total - lost)
    return best

"""The best packing so far, and ways to a cheaper one: each is taken as often as it has gained."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from tonnage.optimise import column_generation, integer_solution, local_search
from tonnage.optimise.effort import Effort
from tonnage.optimise.exchange import Exchange
from tonnage.optimise.integer_solution import Dive
from tonnage.optimise.master import Master, Relaxed
from tonnage.optimise.neighbourhood import Neighbourhood
from tonnage.optimise.pricing_problem import PricingProblem
from tonnage.optimise.problem import Numbers, PackingProblem, Pattern

_SMALLEST_PART = 3
_QUICK = 150_000
"""The effort for filling a few bins anew with which it may be one more the next time, and for
exchanging some until one is gained with."""
_NEAR = 1e-6
_CHANCE = 0.6
_FIRST = 6
"""How often diving anew is taken to have gained to begin with."""
_LATER = 150_000
"""The effort that other ways are taken to have spent."""
_SAVED = 0.3
_IMPROVED = 3.0
"""What a packing may cost more than the best and yet be improved, in bins of the dearest type."""


class Improvement:
    """Keeps the best packing, and patterns for others."""

    def __init__(
        self, problem: PackingProblem, effort: Effort, *, seed: int, quick: bool = False
    ) -> None:
        self._problem = problem
        self._effort = effort
        self._rng = np.random.default_rng(seed)
        self._dearest = float(problem.prices.max(initial=0.0))
        self._size = _SMALLEST_PART + 1.0
        self.best: list[Pattern] = []
        self.cost = problem.penalty * float(problem.counts.sum())
        self.master = Master(problem, effort=effort)
        self.pricing = PricingProblem(problem, effort=effort, seed=seed)
        self._dive = Dive(problem, self.master, self.pricing, effort, seed=seed, quick=quick)
        self._exchange = Exchange(problem, effort, rng=self._rng)
        self._worth: tuple[Relaxed, Numbers] | None = None
        # The effort each way has taken, and how often it has gained; some have to wait.
        self._ways: dict[Callable[[Relaxed], bool], tuple[int, int]] = {
            self._dive_anew: (0, _FIRST),
            self._refill: (_LATER, 1),
            self._dive_part: (_LATER, 1),
        }
        if not problem.spreads:
            self._ways[self._exchanged] = (_LATER, 1)

    def offer(self, bins: Sequence[Pattern]) -> bool:
        """Take the bins if they are better than the best so far."""
        found = integer_solution.trimmed(self._problem, bins)
        cost = self.cost_of(found)
        if cost < self.cost + _IMPROVED * self._dearest:
            found = local_search.improve(self._problem, found)
            self._effort.spend(10_000 + 1_300 * min(len(found), 100))
            cost = self.cost_of(found)
        if cost >= self.cost - _NEAR * abs(self.cost):
            return False
        self.best, self.cost = found, cost
        return True

    def cost_of(self, bins: Sequence[Pattern]) -> float:
        left = int(integer_solution.missing(self._problem, bins).sum())
        prices = sum(float(self._problem.prices[one.bin_type]) for one in bins)
        return prices + self._problem.penalty * left

    def relax(self, *, patience: int = 3) -> Relaxed:
        """Price patterns quickly, those of the best packing being known."""
        self.master.add(self.best)
        return column_generation.generate(
            self._problem, self.master, self.pricing, self._effort, patience=patience
        )

    def dive(self) -> bool:
        """Whether making whole bins of the master's is better than the best so far."""
        found = self._dive.run((), cutoff=self._cutoff)
        return found is not None and self.offer(found)

    @property
    def _cutoff(self) -> float:
        """What a dive may cost: moving things afterwards may make it cheaper than the best."""
        return self.cost + _SAVED * self._dearest

    def prefer(self, way: Callable[[Relaxed], bool], *, effort: int) -> None:
        """Another way, which is taken alone until it has spent so much without a gain."""
        self._ways = dict.fromkeys(self._ways, (effort, 1))
        self._ways[way] = (0, 1)

    def step(self, relaxed: Relaxed) -> bool:
        """Whether the way that has gained more often for its effort does so again."""
        way = min(self._ways, key=lambda one: self._ways[one][0] / self._ways[one][1])
        before = self._effort.done
        gained = way(relaxed)
        spent, gains = self._ways[way]
        self._ways[way] = spent + self._effort.done - before, gains + gained
        return gained

    def _dive_anew(self, _: Relaxed) -> bool:
        """All of it, with some chance."""
        found = self._dive.run((), cutoff=self._cutoff, greed=_CHANCE)
        return found is not None and self.offer(found)

    def _dive_part(self, relaxed: Relaxed) -> bool:
        """Many small parts, and now and then nearly all of it."""
        most = max(math.log(max(len(self.best), 1) / _SMALLEST_PART), 0.0)
        size = int(_SMALLEST_PART * math.exp(self._rng.uniform(0.0, most)))
        kept = [self.best[at] for at in sorted(self._order(relaxed)[size:])]
        found = self._dive.run(kept, cutoff=self._cutoff, greed=0.5)
        return found is not None and self.offer(found)

    def _refill(self, relaxed: Relaxed) -> bool:
        """Fill a few bins anew as well as can be; as well as before is another packing to go on."""
        before = self._effort.done
        order, size = self._order(relaxed), int(self._size)
        gone = [self.best[at] for at in order[:size]]
        if not gone:
            return False
        kept = [self.best[at] for at in sorted(order[size:])]
        found = Neighbourhood(self._problem, kept, gone).refilled(self._effort)
        # More bins at a time as long as that is quick.
        quick = self._effort.done - before < _QUICK
        self._size = max(self._size + (0.1 if quick else -0.5), float(_SMALLEST_PART))
        if found is None:
            return False
        found = integer_solution.trimmed(self._problem, found)
        cost = self.cost_of(found)
        if cost < self.cost - _NEAR * abs(self.cost):
            return self.offer(found)
        if cost <= self.cost + _NEAR * abs(self.cost):
            self.best = found
        return False

    def _exchanged(self, relaxed: Relaxed) -> bool:
        """Exchange a few bins for cheaper ones, if all items find room in these."""
        until = self._effort.done + _QUICK
        offer = self._exchange.offer(self.best, self._worths(relaxed))
        if offer is None:
            return self._refill(relaxed)
        while offer is not None and self._effort.done < until and not self._effort.over:
            found = self._exchange.followed(offer, self.best, self._order(relaxed))
            if found is not None:
                return self.offer(found)
            offer = self._exchange.offer(self.best, self._worths(relaxed))
        return False

    def _worths(self, relaxed: Relaxed) -> Numbers:
        """What the best known content of each bin type is worth, as a part of all there is."""
        if self._worth is None or self._worth[0] is not relaxed:
            types, _, worth = self.pricing.beam(relaxed.duals.values)
            most = np.zeros(len(self._problem.bins))
            np.maximum.at(most, types, worth)
            total = float(relaxed.duals.items @ self._problem.counts)
            self._worth = relaxed, most / max(total, 1e-9)
        return self._worth[1]

    def _order(self, relaxed: Relaxed) -> list[int]:
        """Bins to be looked at first: mostly those that lose most, and those alike to the first."""
        values = relaxed.duals.values
        losses = np.array(
            [
                self._problem.prices[one.bin_type] - np.dot(one.counts, values[one.bin_type])
                for one in self.best
            ]
        )
        chance = self._rng.uniform(0.0, 1.0, size=len(losses))
        keys = losses / max(float(np.abs(losses).max(initial=0.0)), 1e-9) + chance
        if len(keys):
            first = self.best[int(keys.argmax())].bin_type
            keys += self._alike[first][[one.bin_type for one in self.best]]
        return [int(at) for at in np.argsort(-keys, kind="stable")]

    @cached_property
    def _alike(self) -> Numbers:
        """By bin types: what part of the items of one may be put into the other."""
        problem = self._problem
        takes = problem.caps > 0
        found = np.zeros((len(problem.bins), len(problem.bins)))
        for item, number in enumerate(problem.counts.tolist()):
            homes = [problem.home(item, place) for place in range(len(problem.bins))]
            at = np.array([homes.index(home) for home in homes])
            found += number * np.outer(takes[:, item], takes[:, item]) * (at[:, None] == at)
        return found / np.maximum(np.diag(found), 1.0)[:, None]

"""The search: a bound from below, packings from above, until they meet or the effort is spent."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property, partial

import numpy as np

from tonnage.optimise import (
    column_generation,
    enumeration,
    fractional_bins,
    integer_solution,
    local_search,
)
from tonnage.optimise.column_generation import Proof
from tonnage.optimise.effort import Effort
from tonnage.optimise.integer_solution import Dive
from tonnage.optimise.master import Master
from tonnage.optimise.neighbourhood import Neighbourhood
from tonnage.optimise.pricing_problem import PricingProblem
from tonnage.optimise.problem import Counts, Numbers, PackingProblem, PackingSolution, Pattern

_FEW_PATTERNS = 1_500
_FEW_NODES = 3_000
_FEW_UNITS = 400_000
"""The effort for the bound of items that no packing is looked for."""
_SMALLEST_PART = 3
_QUICK = 150_000
"""The effort for filling a few bins anew with which it may be one more the next time."""
_IN_VAIN = 120
"""Local searches without a gain after which nothing more is expected."""
_PROOF = 0.4
"""What part of the effort is to go into the bound, and into better patterns with it."""
_WHOLE = 0.05
"""And into the bound in whole bins, before all is priced."""
_LOWER = 1e-3
"""How much lower the master has to be for all of it to be put together again."""
_NEAR = 1e-6
_SAVED = 0.3
_IMPROVED = 3.0
"""What a packing may cost more than the best and yet be improved, in bins of the dearest type."""


def solve(
    problem: PackingProblem,
    effort: Effort,
    *,
    start: Sequence[Pattern] | None = None,
    seed: int = 0,
) -> PackingSolution:
    """The cheapest packing that is found, never dearer than `start`, and how cheap it can be."""
    search = _Search(problem, effort, seed=seed)
    if start is not None:
        search.offer(start)
    if problem.counts.any():
        search.run()
    return search.result()


class _Search:
    """Keeps the best packing and the best bound so far."""

    def __init__(self, problem: PackingProblem, effort: Effort, *, seed: int) -> None:
        self._problem = problem
        self._effort = effort
        self._rng = np.random.default_rng(seed)
        self._best: list[Pattern] = []
        self._cost = problem.penalty * float(problem.counts.sum())
        self._bound = 0.0
        self._dearest = float(problem.prices.max(initial=0.0))
        self._proof: Proof | None = None
        self._size = _SMALLEST_PART + 1.0

    def offer(self, bins: Sequence[Pattern]) -> bool:
        """Take the bins if they are better than the best so far."""
        found = integer_solution.trimmed(self._problem, bins)
        cost = self._cost_of(found)
        if cost < self._cost + _IMPROVED * self._dearest:
            found = local_search.improve(self._problem, found)
            self._effort.spend(20_000 + 1_500 * min(len(found), 100))
            cost = self._cost_of(found)
        if cost >= self._cost - _NEAR * abs(self._cost):
            return False
        self._best, self._cost = found, cost
        return True

    def _cost_of(self, bins: Sequence[Pattern]) -> float:
        left = int(integer_solution.missing(self._problem, bins).sum())
        prices = sum(float(self._problem.prices[one.bin_type]) for one in bins)
        return prices + self._problem.penalty * left

    @property
    def _cutoff(self) -> float:
        """What a dive may cost: moving things afterwards may make it cheaper than the best."""
        return self._cost + _SAVED * self._dearest

    @property
    def _met(self) -> bool:
        return self._cost <= self._bound * (1 + _NEAR) + 1e-9

    def run(self) -> None:
        patterns = enumeration.maximal_patterns(self._problem, most=_FEW_PATTERNS)
        if patterns is not None:
            found = enumeration.solve(self._problem, patterns, self._effort, nodes=_FEW_NODES)
            if found is not None:
                self.offer(found[0])
                self._raise(found[1])
        if not self._met:
            self._search()

    def _search(self) -> None:
        problem, effort = self._problem, self._effort
        master = Master(problem, effort=effort)
        pricing = PricingProblem(problem, effort=effort)
        dive = Dive(problem, master, pricing, effort)
        begin = fractional_bins.relax(problem, effort)
        proof = self._proof = Proof(problem, master, pricing, begin=begin)
        self._raise(proof.bound)
        master.add(self._best)
        relaxed = column_generation.generate(problem, master, pricing, effort)
        dived_at, in_vain, priced, whole = math.inf, 0, 0, 0
        began = effort.done
        ways: dict[Callable[[Numbers], bool], tuple[int, int]] = {
            self._refill: (0, 1),
            partial(self._dive_part, dive): (0, 1),
        }
        while not effort.over and not self._met and not (in_vain >= _IN_VAIN and proof.complete):
            is_due = priced < (effort.done - began) * _PROOF
            if not proof.complete and (is_due or in_vain >= _IN_VAIN):
                before = effort.done
                proof.round(effort)
                self._raise(proof.bound)
                if proof.complete or whole <= effort.done * _WHOLE:
                    whole -= effort.done
                    self._raise(proof.whole.bound(effort))
                    whole += effort.done
                relaxed = master.solve()
                priced += effort.done - before
            elif relaxed.feasible and relaxed.value < dived_at * (1 - _LOWER):
                dived_at = relaxed.value
                found = dive.run((), cutoff=self._cutoff)
                in_vain = 0 if found is not None and self.offer(found) else in_vain
            else:
                # The way that has gained more often for its effort.
                before, step = effort.done, min(ways, key=lambda one: ways[one][0] / ways[one][1])
                gained = step(relaxed.duals.values)
                spent, gains = ways[step]
                ways[step] = spent + effort.done - before, gains + gained
                in_vain = 0 if gained else in_vain + 1

    def _dive_part(self, dive: Dive, values: Numbers) -> bool:
        """Many small parts, and now and then nearly all of it."""
        most = max(math.log(max(len(self._best), 1) / _SMALLEST_PART), 0.0)
        size = int(_SMALLEST_PART * math.exp(self._rng.uniform(0.0, most)))
        kept, _ = self._parted(values, size)
        found = dive.run(kept, cutoff=self._cutoff, greed=0.5)
        return found is not None and self.offer(found)

    def _refill(self, values: Numbers) -> bool:
        """Fill a few bins anew as well as can be; as well as before is another packing to go on."""
        before = self._effort.done
        kept, gone = self._parted(values, int(self._size))
        if not gone:
            return False
        found = Neighbourhood(self._problem, kept, gone).refilled(self._effort)
        # More bins at a time as long as that is quick.
        quick = self._effort.done - before < _QUICK
        self._size = max(self._size + (0.1 if quick else -0.5), float(_SMALLEST_PART))
        if found is None:
            return False
        found = integer_solution.trimmed(self._problem, found)
        cost = self._cost_of(found)
        if cost < self._cost - _NEAR * abs(self._cost):
            return self.offer(found)
        if cost <= self._cost + _NEAR * abs(self._cost):
            self._best = found
        return False

    def _parted(self, values: Numbers, size: int) -> tuple[list[Pattern], list[Pattern]]:
        """Bins to keep and some to fill anew: mostly those that lose most against their worth."""
        losses = np.array(
            [
                self._problem.prices[one.bin_type] - np.dot(one.counts, values[one.bin_type])
                for one in self._best
            ]
        )
        chance = self._rng.uniform(0.0, 1.0, size=len(losses))
        keys = losses / max(float(np.abs(losses).max(initial=0.0)), 1e-9) + chance
        if len(keys):
            first = self._best[int(keys.argmax())].bin_type
            keys += self._alike[first][[one.bin_type for one in self._best]]
        order = np.argsort(-keys, kind="stable").tolist()
        chosen, others = order[:size], sorted(order[size:])
        return [self._best[at] for at in others], [self._best[at] for at in chosen]

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

    def _raise(self, bound: float) -> None:
        if len(set(self._problem.prices.tolist())) == 1:
            # All bins cost the same, so that it is a whole number of them.
            price = float(self._problem.prices[0])
            bound = math.ceil(bound / price - 1e-6) * price if price > 0 else bound
        self._bound = max(self._bound, float(bound))

    def result(self) -> PackingSolution:
        left = integer_solution.missing(self._problem, self._best)
        cost = self._cost_of(self._best) - self._problem.penalty * int(left.sum())
        return PackingSolution(
            patterns=tuple(Counter(self._best).items()),
            left=tuple(left.tolist()),
            cost=float(cost),
            bound=float(min(self._bound_without(left), cost)),
            stopped=self._effort.over and not self._met,
            work=self._effort.done,
        )

    def _bound_without(self, left: Counts) -> float:
        """The bound for the items that have a place."""
        if not left.any():
            return self._bound
        counts = self._problem.counts - left
        known = 0.0 if self._proof is None else self._proof.bound_of(counts)
        return max(known, bound(self._problem.with_counts(counts)))


def bound(problem: PackingProblem) -> float:
    """What no packing costs less than, without looking for one."""
    effort = Effort(_FEW_UNITS)
    patterns = enumeration.maximal_patterns(problem, most=_FEW_PATTERNS)
    if patterns is not None:
        found = enumeration.solve(problem, patterns, effort, nodes=_FEW_NODES)
        return 0.0 if found is None else found[1]
    begin = fractional_bins.relax(problem, effort)
    if begin is None:
        return 0.0
    master, pricing = Master(problem, effort=effort), PricingProblem(problem, effort=effort)
    proof = Proof(problem, master, pricing, begin=begin)
    while not effort.over and not proof.complete:
        proof.round(effort)
    return max(proof.bound, proof.whole.bound(effort))

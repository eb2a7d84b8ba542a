"""The search: a bound from below, packings from above, until they meet or the effort is spent."""

import math
from collections import Counter
from collections.abc import Sequence

from tonnage.optimise import division, enumeration, fractional_bins, integer_solution
from tonnage.optimise.column_generation import Proof
from tonnage.optimise.division import Division
from tonnage.optimise.effort import Effort
from tonnage.optimise.improvement import Improvement
from tonnage.optimise.master import Master, Relaxed
from tonnage.optimise.pricing_problem import PricingProblem
from tonnage.optimise.problem import Counts, PackingProblem, PackingSolution, Pattern

_FEW_PATTERNS = 1_500
_FEW_NODES = 3_000
_FEW_UNITS = 400_000
"""The effort for the bound of items that no packing is looked for."""
_IN_VAIN = 120
"""Local searches without a gain after which nothing more is expected."""
_LONGER = 3
"""And how many times the effort of the last gain has been spent by then."""
_PROOF = 0.4
"""What part of the effort is to go into the bound, and into better patterns with it."""
_WHOLE = 0.05
"""And into the bound in whole bins, before all is priced."""
_WHOLE_FIRST = 6_000_000
"""The effort after which that begins."""
_LOWER = 1e-3
"""How much lower the master has to be for all of it to be put together again."""
_NEAR = 1e-6
_DIVIDED = 10_000_000
"""The effort that goes into a search with settled domains first, for each gain."""


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
        self._seed = seed
        self._packing = Improvement(problem, effort, seed=seed)
        self.offer = self._packing.offer
        self._divided: _Divided | None = None
        self._bound = 0.0
        self._whole_at = _WHOLE_FIRST
        self._in_vain = 0
        self._gained_at = 0
        self._proof: Proof | None = None

    @property
    def _met(self) -> bool:
        return self._packing.cost <= self._bound * (1 + _NEAR) + 1e-9

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
        problem, effort, packing = self._problem, self._effort, self._packing
        begin = fractional_bins.relax(problem, effort)
        proof = self._proof = Proof(problem, packing.master, packing.pricing, begin=begin)
        self._raise(proof.bound)
        relaxed = packing.relax()
        dived_at, priced = math.inf, 0
        began = effort.done
        while not effort.over and not self._met and not (self._is_in_vain and proof.settled):
            is_due = priced < (effort.done - began) * _PROOF
            if not proof.settled and (is_due or self._is_in_vain):
                before = effort.done
                self._prove(proof)
                relaxed = packing.master.solve()
                priced += effort.done - before
            elif relaxed.feasible and relaxed.value < dived_at * (1 - _LOWER):
                dived_at = relaxed.value
                self._count(self._dive(relaxed))
            else:
                self._count(packing.step(relaxed))

    def _count(self, gained: bool) -> None:
        self._in_vain = 0 if gained else self._in_vain + 1
        self._gained_at = self._effort.done if gained else self._gained_at

    @property
    def _is_in_vain(self) -> bool:
        """Whether nothing more is expected of the search for a cheaper packing."""
        return self._in_vain >= _IN_VAIN and self._effort.done >= _LONGER * self._gained_at

    def _prove(self, proof: Proof) -> None:
        """A round for the bound: of the linear program, then in whole bins."""
        effort = self._effort
        if proof.complete:
            proof.round_in_whole_bins(effort)
            self._raise(proof.in_whole_bins)
            return
        proof.round(effort)
        self._raise(proof.bound)
        if effort.done > self._whole_at:
            before = effort.done
            self._raise(proof.whole.bound(effort))
            self._whole_at = effort.done + int((effort.done - before) / _WHOLE)

    def _dive(self, relaxed: Relaxed) -> bool:
        if not self._problem.spreads:
            return self._packing.dive()
        if self._divided is not None:
            return False
        self._divided = _Divided(self._problem, self._packing, relaxed, self._effort, self._seed)
        self._packing.prefer(self._step_divided, effort=_DIVIDED)
        return self.offer(self._divided.bins())

    def _step_divided(self, _: Relaxed) -> bool:
        assert self._divided is not None
        return self._divided.step() and self.offer(self._divided.bins())

    def _raise(self, bound: float) -> None:
        if len(set(self._problem.prices.tolist())) == 1:
            # All bins cost the same, so that it is a whole number of them.
            price = float(self._problem.prices[0])
            bound = math.ceil(bound / price - 1e-6) * price if price > 0 else bound
        self._bound = max(self._bound, float(bound))

    def result(self) -> PackingSolution:
        left = integer_solution.missing(self._problem, self._packing.best)
        cost = self._packing.cost_of(self._packing.best) - self._problem.penalty * int(left.sum())
        return PackingSolution(
            patterns=tuple(Counter(self._packing.best).items()),
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


class _Divided:
    """The same search where it is settled how many items go into which domain."""

    def __init__(
        self,
        problem: PackingProblem,
        whole: Improvement,
        relaxed: Relaxed,
        effort: Effort,
        seed: int,
    ) -> None:
        held = division.as_relaxed(problem, whole.master.patterns, relaxed.amounts)
        self._division = Division(problem, held)
        self._packing = Improvement(self._division.problem, effort, seed=seed, quick=True)
        self._packing.relax(patience=2)
        self._packing.dive()

    def step(self) -> bool:
        return self._packing.step(self._packing.master.solve())

    def bins(self) -> list[Pattern]:
        return [self._division.outside(one) for one in self._packing.best]


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

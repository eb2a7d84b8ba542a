"""The expander `least-cost`: all groups, prices and kinds of pods looked at together.

The greedy plan is the start. Its pods, on the nodes there are and on nodes of every group, are one
packing problem (`joint_problem`), which `tonnage.optimise` solves within its time; what comes of it
is bought by the rules (`advised_purchase`). It is kept if it helps nobody less and costs less, so
that the plan is never worse than the greedy one, and either has a bound over all groups.
"""

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from tonnage.optimise import highs, solver
from tonnage.optimise.effort import UNITS_PER_SECOND, Effort
from tonnage.optimise.problem import PackingSolution
from tonnage.scaleup import expanders, joint_problem, orders, planner, refusals
from tonnage.scaleup.advised_purchase import Advice, AdvisedPlanBuilder
from tonnage.scaleup.attempts import Attempt, RowOrder
from tonnage.scaleup.candidates import Candidates
from tonnage.scaleup.joint_problem import JointProblem, Prices, ProblemBuilder
from tonnage.scaleup.plan import NotHelped, Optimisation, Plan
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.scaleup.priorities import read_priorities
from tonnage.scaleup.request import Request

_AGAIN = 2
"""How often it is solved once more without kinds of pods that were refused their places."""

Worth: TypeAlias = tuple[tuple[int, ...], int, float]
"""Pods left out by priority, nodes that have no price, and the cost: the less, the better."""


def plan(request: Request) -> Plan:
    """Decide, as the planner does, and jointly where the expander says so."""
    greedy = planner.plan(request)
    if expanders.LEAST_COST not in expanders.names(request.options.expander):
        return greedy
    if not greedy.scale_ups or greedy.partial or greedy.waiting:
        # Pods that wait for room being freed are looked at again when it is.
        return greedy
    if not highs.installed():
        return _warned(greedy, [f"least-cost: {highs.MISSING}; this is the greedy plan"])
    return _JointChoice(request, greedy).plan()


class _Asked(NamedTuple):
    """A problem with the prices it goes by, and what nodes that are there get beside it."""

    joint: JointProblem
    prices: Prices
    existing: Advice


class _JointChoice:
    """Looks for a cheaper plan than the greedy one."""

    def __init__(self, request: Request, greedy: Plan) -> None:
        self._greedy = greedy
        helped = {pod for one in greedy.gang_outcomes if one.helped for pod in one.pods}
        gangs = [
            group for one in request.gangs for group in one.groups if group.members[0].key in helped
        ]
        # Gangs that are helped are pods like any other here: nobody who is helped loses it.
        self._request = request._replace(pending=[*request.pending, *gangs], gangs=())
        self._effort = self._allowed(request)
        self._notes: list[str] = []

    def _allowed(self, request: Request) -> Effort:
        if request.solver_work is not None:
            return Effort(request.solver_work)
        seconds = request.options.optimise_seconds
        late = request.own_time.over_in(seconds)
        return Effort(int(seconds * UNITS_PER_SECOND), out_of_time=late)

    def plan(self) -> Plan:
        asked = self._asked(frozenset())
        start = asked.joint.patterns(self._greedy)
        found = solver.solve(asked.joint.problem, self._effort, start=start)
        solved, bound = asked, found.bound if asked.joint.whole else 0.0
        left = found.left
        first = self._worth(self._greedy, asked.prices)
        best, least = self._greedy, first
        refused: frozenset[int] = frozenset()
        for _ in range(1 + _AGAIN):
            made = self._made(asked, found)
            if made is None:
                break
            worth = self._worth(made, asked.prices)
            if self._helps_all(made) and worth < least:
                best, least = made, worth
            newly = _refused(asked, found, made) - refused
            if not newly or worth[2] <= bound * (1 + 1e-6) or self._effort.over:
                break
            # Rules that numbers do not show kept these from their places: they go by themselves.
            refused |= newly
            asked = self._asked(refused)
            start = asked.joint.patterns(self._greedy)
            found = solver.solve(asked.joint.problem, self._effort, start=start)
        out = self._out(best, solved.joint)
        if any(gone > count for gone, count in zip(out, left, strict=True)):
            # More pods cost no less, but fewer may.
            bound = 0.0
        if solved.joint.whole and not solved.existing.existing and out != list(left):
            helped = np.maximum(solved.joint.problem.counts - out, 0)
            bound = max(bound, solver.bound(solved.joint.problem.with_counts(helped)))
        return self._told(best, least=least, first=first, bound=bound, prices=asked.prices)

    def _out(self, plan: Plan, joint: JointProblem) -> list[int]:
        """How many pods of each kind the plan leaves out."""
        out = Counter(kind for one in plan.not_helped if (kind := self._kinds().get(one.pod)))
        return [out[id(group.footprint)] for group in joint.groups]

    def _asked(self, refused: frozenset[int]) -> _Asked:
        """The problem before anything is placed, or beside what the greedy plan has placed."""
        request = self._request
        groups = [
            group
            for group in request.pending
            if not refusals.is_daemon(group.sample) and id(group.footprint) not in refused
        ]
        with request.snapshot.trial():
            builder = self._builder(Advice((), {}))
            builder.prepare()
            prices, self._notes = joint_problem.prices(builder.candidates)
            maker = ProblemBuilder(
                request.snapshot,
                builder.candidates,
                request.features,
                budget=builder.budget,
                prices=prices,
                skipped=request.skipped,
                preferred=self._preferred(builder.candidates),
            )
            rows = builder.rows_with_room(groups)
            if len(rows) <= joint_problem.MOST_EXISTING and not builder.has_daemons:
                return _Asked(maker.build(groups, rows), prices, Advice((), {}))
            existing = Advice((), self._on_existing())
            builder.follow(existing)
            return _Asked(maker.build(self._on_new_nodes(groups), ()), prices, existing)

    def _preferred(self, candidates: Candidates) -> dict[str, float]:
        """How high the operator put each group, if that goes before the cost; lower is better."""
        names = expanders.names(self._request.options.expander)
        before = names[: names.index(expanders.LEAST_COST)]
        if expanders.PRIORITY not in before:
            return {}
        ranking = expanders.Priority(read_priorities(self._request.options.priorities))
        return {one.name: ranking.rank(one.name) for one in candidates}

    def _on_existing(self) -> dict[str, dict[int, int]]:
        """What the greedy plan puts on nodes that are there before it buys, by node and kind."""
        kind = self._kinds()
        found: dict[str, Counter[int]] = {}
        for one in self._greedy.fit_on_existing:
            if one.pod in kind:
                found.setdefault(one.node, Counter())[kind[one.pod]] += 1
        return {node: dict(counts) for node, counts in found.items()}

    def _on_new_nodes(self, groups: Sequence[PodGroup]) -> list[PodGroup]:
        """The pods for which the greedy plan buys."""
        kind = self._kinds()
        bought = Counter(
            kind[pod]
            for one in self._greedy.scale_ups
            for node in one.nodes
            for pod in node.pods
            if pod in kind
        )
        return [
            group.part(slice(bought[id(group.footprint)]))
            for group in groups
            if bought[id(group.footprint)]
        ]

    def _kinds(self) -> dict[str, int]:
        return {
            pod.key: id(group.footprint) for group in self._request.pending for pod in group.members
        }

    def _made(self, asked: _Asked, found: PackingSolution) -> Plan | None:
        """The plan that follows the solution as far as the rules allow."""
        advice = asked.joint.advice(found)
        advice = Advice(advice.new, {**asked.existing.existing, **advice.existing})
        with self._request.snapshot.trial():
            builder = self._builder(advice)
            builder.run()
            # Room that is kept ready may not suffer for it.
            return None if builder.partial or builder.lacks_room else builder.result()

    def _builder(self, advice: Advice) -> AdvisedPlanBuilder:
        rng = random.Random(self._request.options.random_seed)
        attempt = Attempt(self._request.pending, orders.as_they_came, RowOrder.FIRST, rng)
        nodes = len(advice.new)
        reason = f"least-cost over all groups: {nodes} node{'s' if nodes != 1 else ''} in all"
        return AdvisedPlanBuilder(self._request, attempt, advice, reason=reason)

    def _helps_all(self, made: Plan) -> bool:
        """Whether no more pods are left out than by the greedy plan."""
        asked = self._kinds()
        lost = sum(one.pod in asked for one in made.not_helped)
        return lost <= sum(one.pod in asked for one in self._greedy.not_helped)

    def _priorities(self) -> dict[str, int]:
        return {
            pod.key: group.sample.pod_class.priority
            for group in self._request.pending
            for pod in group.members
        }

    def _worth(self, made: Plan, prices: Prices) -> Worth:
        priorities = self._priorities()
        left = Counter(priorities[one.pod] for one in made.not_helped if one.pod in priorities)
        levels = sorted(set(priorities.values()), reverse=True)
        bought = {one.group: one.delta for one in made.scale_ups}
        without, cost = prices.of(bought)
        return tuple(left[level] for level in levels), without, round(cost, 9)

    def _told(
        self, best: Plan, *, least: Worth, first: Worth, bound: float, prices: Prices
    ) -> Plan:
        greedy = self._greedy
        bounds, cost = best.bounds, least[2]
        if prices.counted:
            nodes = max(bounds.nodes, math.ceil(bound - 1e-6))
            nodes = min(nodes, sum(one.delta for one in best.scale_ups))
            bought = sum(one.delta for one in best.scale_ups)
            gap = round((bought - nodes) / nodes, 6) if nodes else 0.0
            bounds = msgspec.structs.replace(bounds, nodes=nodes, gap=gap)
            bound = float(nodes)
        else:
            bound = min(max(bound, bounds.cost_per_hour or 0.0), cost)
            if bounds.cost_per_hour is not None:
                bounds = msgspec.structs.replace(bounds, cost_per_hour=_rounded_down(bound))
        found = Optimisation(
            unit="nodes" if prices.counted else "price",
            cost=round(cost, 6),
            greedy=round(first[2], 6),
            bound=_rounded_down(bound),
            gap=round((cost - bound) / bound, 6) if bound > 0 else 0.0,
            stopped=self._effort.late,
            work=self._effort.done,
        )
        notes = list(self._notes)
        if self._effort.late:
            notes.append(
                "least-cost: the solver ran out of time (optimiseSeconds); this is the best plan"
                " until then"
            )
        kept = msgspec.structs.replace(
            best,
            bounds=bounds,
            optimisation=found,
            gangs=greedy.gangs,
            not_helped=best.not_helped if best is greedy else self._all_left(best),
        )
        return _warned(kept, notes)

    def _all_left(self, best: Plan) -> tuple[NotHelped, ...]:
        """Those left out of the plan, and the pods of gangs that it was not asked about."""
        asked = self._kinds()
        gangs = (one for one in self._greedy.not_helped if one.pod not in asked)
        return (*best.not_helped, *gangs)


def _refused(asked: _Asked, found: PackingSolution, made: Plan) -> frozenset[int]:
    """Kinds of pods that are not where the solution has them, if more had to be bought for that."""
    advised = asked.joint.advice(found).new
    if sum(one.delta for one in made.scale_ups) <= len(advised):
        return frozenset()
    planned: Counter[tuple[str, int]] = Counter()
    for node in advised:
        for held, count in node.pods.items():
            planned[node.group, held] += count
    kind = {pod.key: id(group.footprint) for group in asked.joint.groups for pod in group.members}
    got = Counter(
        (one.group, kind[pod])
        for one in made.scale_ups
        for node in one.nodes
        for pod in node.pods
        if pod in kind
    )
    return frozenset(held for (group, held), count in planned.items() if got[group, held] < count)


def _rounded_down(amount: float) -> float:
    return math.floor(amount * 1e6 + 1e-3) / 1e6


def _warned(plan: Plan, notes: Sequence[str]) -> Plan:
    warnings = tuple(dict.fromkeys((*plan.warnings, *notes)))
    return msgspec.structs.replace(plan, warnings=warnings)

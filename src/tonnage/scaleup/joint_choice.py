"""The expander `least-cost`: all groups, prices and kinds of pods looked at together.

The greedy plan is the start. Its pods, on the nodes there are and on nodes of every group, are one
packing problem (`joint_problem`), which `tonnage.optimise` solves within its time; what comes of it
is bought by the rules (`advised_purchase`). Where pods mind each other and nodes are few, rules
between pods are part of the problem, and the order is thought out too (`ordered_purchase`). It is
kept if it helps nobody less and helps more or costs less, so that the plan is never worse than the
greedy one, and either has a bound over all groups.
"""

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from tonnage.optimise import highs, ordered_program, placement_program, solver
from tonnage.optimise.effort import UNITS_PER_SECOND, Effort
from tonnage.optimise.ordered_program import Stage
from tonnage.optimise.placement_program import Care
from tonnage.optimise.problem import PackingSolution
from tonnage.scaleup import expanders, joint_problem, orders, planner, refusals
from tonnage.scaleup.advised_purchase import Advice, AdvisedPlanBuilder
from tonnage.scaleup.attempts import Attempt, RowOrder
from tonnage.scaleup.candidates import Candidates
from tonnage.scaleup.joint_problem import JointProblem, Prices, ProblemBuilder
from tonnage.scaleup.ordered_purchase import OrderedPlanBuilder, StagedPlanBuilder
from tonnage.scaleup.plan import NotHelped, Optimisation, Plan
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.scaleup.priorities import read_priorities
from tonnage.scaleup.request import Request

_CARES = (
    Care(all_counted=True),
    Care(all_there=True, all_counted=True),
    Care(all_there=True),
)
"""How much is left to the order in which nodes and pods come: what helps most is tried first."""

_AGAIN = 2
"""How often it is solved once more without kinds of pods that were refused their places."""

Worth: TypeAlias = tuple[tuple[int, ...], int, float]
"""Pods left out by priority, nodes that have no price, and the cost: the less, the better."""


def plan(request: Request) -> Plan:
    """Decide, as the planner does, and jointly where the expander says so."""
    greedy = planner.plan(request)
    if expanders.LEAST_COST not in expanders.names(request.options.expander):
        return greedy
    if not (greedy.scale_ups or greedy.not_helped) or greedy.partial or greedy.waiting:
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


class _Made(NamedTuple):
    plan: Plan
    worth: Worth


class _JointChoice:
    """Looks for a cheaper plan than the greedy one."""

    def __init__(self, request: Request, greedy: Plan) -> None:
        self._greedy = greedy
        helped = {pod for one in greedy.gang_outcomes if one.helped for pod in one.pods}
        gangs = [
            group for one in request.gangs for group in one.groups if group.members[0].key in helped
        ]
        # Gangs that are helped are pods like any other here: nobody who is helped loses it.
        self._request = msgspec.structs.replace(
            request, pending=[*request.pending, *gangs], gangs=()
        )
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
        first = self._best = _Made(self._greedy, self._worth(self._greedy, asked.prices))
        bound = 0.0
        if asked.joint.ties and placement_program.is_small(asked.joint.problem):
            bound = self._look_at_ties(asked)
        elif self._greedy.scale_ups:
            bound = self._look_at_numbers(asked)
        if self._best is first and not self._greedy.scale_ups:
            # Nothing can be bought that helps anybody.
            return self._greedy
        if not asked.joint.whole:
            bound = 0.0
        return self._told(first=first.worth, bound=bound, asked=asked)

    def _look_at_ties(self, asked: _Asked) -> float:
        """All rules between pods at once, where nodes are few; gives the bound for the best."""
        problem, ties = asked.joint.problem, asked.joint.ties
        found = placement_program.solve(problem, ties, self._effort)
        fewest = sum(found.left)
        tries = self._tried(asked, found)
        while not self._meets(asked, fewest, found.bound) and (made := next(tries, None)):
            self._offer(made, asked.prices)
        out = self._out(self._best.plan, asked.joint)
        if sum(out) == fewest:
            return found.bound
        return placement_program.bound(problem, ties, np.array(out), self._effort)

    def _tried(self, asked: _Asked, bold: PackingSolution) -> Iterator[Plan]:
        """Plans by the bold solution, by one with its order, and by those that need less of one."""
        problem, ties = asked.joint.problem, asked.joint.ties
        yield from self._made_in_order(asked, bold)
        if self._effort.over:
            return
        stages = ordered_program.solve(problem, ties, self._effort, bold=bold)
        if stages and (made := self._made_in_stages(asked, stages)):
            yield made
        for care in _CARES:
            if self._effort.over:
                return
            careful = placement_program.solve(problem, ties, self._effort, care=care)
            yield from self._made_in_order(asked, careful)

    def _meets(self, asked: _Asked, fewest: int, bound: float) -> bool:
        """Whether no more pods could be helped, nor for less."""
        plan, (_, without, cost) = self._best
        out = sum(self._out(plan, asked.joint))
        return out <= fewest and not without and cost <= bound * (1 + 1e-6) + 1e-6

    def _look_at_numbers(self, asked: _Asked) -> float:
        """Counts and amounts; gives the bound for the best."""
        start = asked.joint.patterns(self._greedy)
        found = solver.solve(asked.joint.problem, self._effort, start=start)
        problem, bound, left = asked.joint.problem, found.bound, list(found.left)
        one, refused = asked, frozenset[int]()
        for _ in range(1 + _AGAIN):
            made = self._made(one, found)
            if made is None:
                break
            worth = self._offer(made, asked.prices)
            newly = _refused(one, found, made) - refused
            if not newly or worth[2] <= bound * (1 + 1e-6) or self._effort.over:
                break
            # Rules that numbers do not show kept these from their places: they go by themselves.
            refused |= newly
            one = self._asked(refused)
            start = one.joint.patterns(self._greedy)
            found = solver.solve(one.joint.problem, self._effort, start=start)
        out = self._out(self._best.plan, asked.joint)
        if any(gone > count for gone, count in zip(out, left, strict=True)):
            # More pods cost no less, but fewer may.
            bound = 0.0
        if not asked.existing.existing and out != left:
            helped = np.maximum(problem.counts - out, 0)
            bound = max(bound, solver.bound(problem.with_counts(helped)))
        return bound

    def _offer(self, made: Plan, prices: Prices) -> Worth:
        """Keep the plan if it is better than the best so far; gives what it is worth."""
        worth = self._worth(made, prices)
        if self._helps_all(made) and worth < self._best.worth:
            self._best = _Made(made, worth)
        return worth

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
        advice = self._advice(asked, found)
        return self._run(self._builder(advice))

    def _made_in_order(self, asked: _Asked, found: PackingSolution) -> Iterator[Plan]:
        """The same, with nodes that are there filled first or last, and new ones bought apart."""
        advice = self._advice(asked, found)
        reason = _reason(len(advice.new))
        for at_once in (0, len(advice.new), 1):
            if at_once:
                builder: AdvisedPlanBuilder = OrderedPlanBuilder(
                    self._request, self._attempt(), advice, reason=reason, at_once=at_once
                )
            else:
                builder = self._builder(advice)
            made = self._run(builder)
            if made is not None:
                yield made

    def _made_in_stages(self, asked: _Asked, found: Sequence[Stage]) -> Plan | None:
        reason = _reason(ordered_program.bought(found, asked.joint.problem))
        stages = asked.joint.stages(found)
        return self._run(
            StagedPlanBuilder(self._request, self._attempt(), asked.existing, stages, reason=reason)
        )

    def _advice(self, asked: _Asked, found: PackingSolution) -> Advice:
        advice = asked.joint.advice(found)
        return Advice(advice.new, {**asked.existing.existing, **advice.existing})

    def _run(self, builder: AdvisedPlanBuilder) -> Plan | None:
        with self._request.snapshot.trial():
            builder.run()
            # Room that is kept ready may not suffer for it.
            return None if builder.partial or builder.lacks_room else builder.result()

    def _builder(self, advice: Advice) -> AdvisedPlanBuilder:
        return AdvisedPlanBuilder(
            self._request, self._attempt(), advice, reason=_reason(len(advice.new))
        )

    def _attempt(self) -> Attempt:
        rng = random.Random(self._request.options.random_seed)
        return Attempt(self._request.pending, orders.as_they_came, RowOrder.FIRST, rng)

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

    def _told(self, *, first: Worth, bound: float, asked: _Asked) -> Plan:
        greedy, best, prices = self._greedy, self._best.plan, asked.prices
        bounds, cost = best.bounds, self._best.worth[2]
        # What pods on new nodes need is no bound where they might change places with others.
        is_simple = not asked.joint.whole or not asked.joint.existing
        if prices.counted:
            nodes = max(bounds.nodes if is_simple else 0, math.ceil(bound - 1e-6))
            nodes = min(nodes, sum(one.delta for one in best.scale_ups))
            bought = sum(one.delta for one in best.scale_ups)
            gap = round((bought - nodes) / nodes, 6) if nodes else 0.0
            bounds = msgspec.structs.replace(bounds, nodes=nodes, gap=gap)
            bound = float(nodes)
        else:
            simple = (bounds.cost_per_hour or 0.0) if is_simple else 0.0
            bound = min(max(bound, simple), cost)
            if bounds.cost_per_hour is not None:
                bounds = msgspec.structs.replace(bounds, cost_per_hour=_rounded_down(bound))
        found = Optimisation(
            unit="nodes" if prices.counted else "price",
            cost=round(cost, 6),
            greedy=round(first[2], 6),
            bound=_rounded_down(bound),
            gap=_gap(cost, bound),
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


def _reason(nodes: int) -> str:
    return f"least-cost over all groups: {nodes} node{'s' if nodes != 1 else ''} in all"


def _gap(cost: float, bound: float) -> float:
    """How far the cost is above the bound, as a part of it; 1 if it is all above."""
    if bound <= 0:
        return 1.0 if cost > 0 else 0.0
    return round((cost - bound) / bound, 6)


def _rounded_down(amount: float) -> float:
    return math.floor(amount * 1e6 + 1e-3) / 1e6


def _warned(plan: Plan, notes: Sequence[str]) -> Plan:
    warnings = tuple(dict.fromkeys((*plan.warnings, *notes)))
    return msgspec.structs.replace(plan, warnings=warnings)

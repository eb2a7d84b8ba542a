"""From a cluster to a consolidation plan: what is bought, what goes, in which order, and why."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tonnage.consolidation import (
    cluster_problem,
    joint_replacement,
    lower_bound,
    move_rehearsal,
    move_waves,
    search,
    steps,
)
from tonnage.consolidation.assignment import Assignment
from tonnage.consolidation.cluster_problem import ClusterProblem, Stay
from tonnage.consolidation.move_waves import WavePlan
from tonnage.consolidation.plan import (
    ConsolidatedNode,
    ConsolidationPlan,
    ConsolidationStep,
    CostOfNodes,
    MissedSaving,
    NodePurchase,
    PodMove,
)
from tonnage.consolidation.problem import Problem
from tonnage.consolidation.state import ConsolidationState
from tonnage.consolidation.steps import StepDraft
from tonnage.groups.consolidation_options import ConsolidationReason
from tonnage.objects.phrases import listed
from tonnage.objects.timestamps import rfc3339
from tonnage.scaledown import kept_room
from tonnage.scaledown.codes import KeepCode
from tonnage.scaledown.decision import money, volumes_of
from tonnage.scaledown.decision_cache import DecisionCache
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.node_pools import NodePools
from tonnage.scaledown.plan import Action
from tonnage.scaleup import placement, pod_groups
from tonnage.snapshot import imagined
from tonnage.snapshot.rows import Bools

NOTHING_CHEAPER = "nothing-cheaper"
BUDGET_SPENT = "budget-spent"

_LOOKED_AT_TWICE = 300
"""Nodes up to which it is told what would be replaced if moves cost nothing."""

_MOST_ROUNDS = 12
"""Times that a plan is made anew because a rule forbids one of its moves."""


class ConsolidationQuestion(NamedTuple):
    """`inputs` are those of scale-down. `only` are nodes that may go, if not any may: the rest of
    a step that was begun, for which nothing is bought any more and which needs no reason."""

    inputs: ScaleDownInputs
    state: ConsolidationState = ConsolidationState()
    only: frozenset[str] | None = None


def decide(
    question: ConsolidationQuestion,
    *,
    cache: DecisionCache | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
) -> ConsolidationPlan:
    """What to replace. The snapshot is left as it was."""
    kept: dict[str, Stay] = {}
    for _ in range(_MOST_ROUNDS):
        with question.inputs.snapshot.trial():
            made = _Round(question, kept, cache or DecisionCache(), out_of_time)
            plan = made.run()
        if plan is not None:
            return plan
        kept = {**kept, **made.failed}
    with question.inputs.snapshot.trial():
        everybody = dict.fromkeys(question.inputs.snapshot.nodes, Stay(KeepCode.NO_PLACE.value))
        plan = _Round(question, {**everybody, **kept}, cache or DecisionCache(), out_of_time).run()
    assert plan is not None, "nothing moves where nothing goes"
    return plan


class _Outcome(NamedTuple):
    """Steps that are taken and those that are not, with the reason; how, and the bins' names."""

    state: Assignment
    accepted: Sequence[StepDraft]
    refused: Sequence[tuple[StepDraft, str]]
    planned: WavePlan
    names: Mapping[int, str]


class _Round:
    """One plan in the making, on a trial of the snapshot; `failed` are nodes that did not go."""

    def __init__(
        self,
        question: ConsolidationQuestion,
        kept: Mapping[str, Stay],
        cache: DecisionCache,
        out_of_time: Callable[[], bool],
    ) -> None:
        self._inputs = inputs = question.inputs
        self._question = question
        self._options = inputs.options.consolidation
        self._snapshot = inputs.snapshot
        self._out_of_time = out_of_time
        self.failed: dict[str, Stay] = {}
        self._bound = 0.0
        NodePools().open(inputs)
        self._facts = cache.facts(inputs, {})
        stay = {
            name: Stay(KeepCode.NOT_THIS_TIME.value, "a pod that waits has its place there")
            for name in self._waited_for()
        }
        stay |= {
            self._snapshot.name_of(row): Stay(KeepCode.KEPT_ROOM.value, listed(titles))
            for row, titles in kept_room.place(inputs, self._usable()).items()
        }
        reservations = inputs.assessed.reservations
        reservations.place(self._snapshot)
        stay |= {
            entry.node: Stay(KeepCode.NOT_THIS_TIME.value, "a pod is being bound to it")
            for entry in reservations
        }
        if question.only is not None:
            stay |= {
                name: Stay(NOTHING_CHEAPER) for name in self._facts if name not in question.only
            }
        self._zones = cache.zones(inputs, anew=True)
        self._built: ClusterProblem = cluster_problem.build(
            inputs,
            self._facts,
            question.state,
            kept={**stay, **kept},
            begun=question.only or frozenset(),
        )

    def _waited_for(self) -> set[str]:
        """Give pods that wait their place; gives the nodes that have it."""
        pending = self._inputs.assessed.pending
        if not pending:
            return set()
        groups = pod_groups.group(self._snapshot, pending)
        fits, _ = placement.place(
            self._snapshot, groups, self._inputs.features, rows=self._usable()
        )
        return {self._snapshot.name_of(placed.row) for placed in fits}

    def _usable(self) -> Bools:
        usable = np.zeros(self._snapshot.table.size, dtype=np.bool_)
        usable[[facts.row for facts in self._facts.values()]] = True
        return usable

    def run(self) -> ConsolidationPlan | None:
        """The plan; `None` if a rule forbids one of its moves, so that it has to be made anew."""
        problem = self._built.problem
        if self._question.only is not None:
            problem = problem._replace(
                templates=tuple(one._replace(room=0) for one in problem.templates)
            )
        self._bound = lower_bound.cost_per_hour(problem)
        state = self._searched(problem)
        accepted, refused = self._sorted_out(state)
        if not self._zones_allow(accepted):
            return None
        planned = move_waves.schedule(state, accepted, self._built.pods, at_once=self._at_once)
        if planned.stuck:
            self.failed = {
                problem.bins[number].name: Stay(KeepCode.NO_PLACE.value, "no way round")
                for number in planned.stuck
                if number < len(problem.bins)
            }
            return None
        accepted = self._with_detours(state, accepted, planned)
        if self.failed:
            return None
        refused += self._too_dear(problem, [*accepted, *(step for step, _ in refused)])
        names = self._names(state, accepted, planned)
        if not self._holds(state, planned, names):
            return None
        return self._plan(_Outcome(state, accepted, refused, planned, names))

    def _searched(self, problem: Problem) -> Assignment:
        """The cheapest assignment; or, if too little of prices is saved by it, the best of less."""
        state = search.solve(problem, self._out_of_time)
        if self._question.only is not None:
            return state
        state = joint_replacement.improved(state, bound=self._bound, out_of_time=self._out_of_time)
        if all(steps.saves_its_share(step, self._options) for step in steps.drafts(state)):
            return state
        share = self._options.min_saving_percent / 100
        other = search.solve(problem._replace(least_share=share), self._out_of_time)
        return max(state, other, key=self._saving_of_steps)

    def _saving_of_steps(self, state: Assignment) -> float:
        """What the steps save that are worth it."""
        found = steps.drafts(state)
        return sum(one.saving for one in found if steps.refusal(one, self._options) is None)

    def _sorted_out(self, state: Assignment) -> tuple[list[StepDraft], list[tuple[StepDraft, str]]]:
        """Steps that are worth it, and the others with the reason; their pods go back home."""
        accepted, refused = [], []
        for step in steps.drafts(state):
            code = steps.refusal(step, self._options) if self._question.only is None else None
            if code is None and step.going and not self._at_once(not step.moving):
                code = BUDGET_SPENT
            if code is None:
                accepted.append(step)
            else:
                refused.append((step, code))
        for step, _ in refused:
            for number in step.going:
                state.reopen(number)
            for item in step.moving:
                state.move(item, state.problem.items[item].home)
            for number in step.new:
                state.close(number)
        return accepted, refused

    def _with_detours(
        self, state: Assignment, accepted: Sequence[StepDraft], planned: WavePlan
    ) -> list[StepDraft]:
        """Steps with what it costs that pods move twice, and that a spare node is there for an
        hour; one that is not worth that is `failed`."""
        times = Counter(move.item for move in planned.moves)
        items = state.problem.items
        spares = {
            move.item: state.price(move.target)
            for move in planned.moves
            if move.target in planned.spares
        }
        found = []
        for step in accepted:
            more = sum(items[item].cost * (times[item] - 1) for item in step.moving)
            more += sum(spares.get(item, 0.0) for item in step.moving)
            dearer = step._replace(cost=step.cost + more) if more else step
            found.append(dearer)
            code = steps.refusal(dearer, self._options) if more else None
            if code is not None and self._question.only is None:
                names = (self._built.facts[number].name for number in step.going)
                self.failed |= {name: Stay(code, "with the stops on the way") for name in names}
        return found

    def _too_dear(
        self, problem: Problem, known: Sequence[StepDraft]
    ) -> list[tuple[StepDraft, str]]:
        """Steps beside those that are known which would be taken if moves cost nothing.

        Not looked for in a large cluster.
        """
        if self._question.only is not None or len(problem.bins) > _LOOKED_AT_TWICE:
            return []
        free = problem._replace(items=tuple(item._replace(cost=0.0) for item in problem.items))
        going = {number for step in known for number in step.going}
        return [
            (step, steps.NOT_WORTH_THE_MOVES)
            for step in steps.drafts(search.solve(free, self._out_of_time, in_parts=False))
            if step.going and not going.intersection(step.going)
        ]

    def _at_once(self, empty: bool, beside: int = 0) -> int:
        """How many nodes may go at once, `beside` so many empty ones and those on their way out."""
        removing = Counter(self._inputs.state.removing.values())
        going: dict[ConsolidationReason, int] = {
            "empty": removing[Action.DELETE] + beside,
            "consolidation": removing[Action.DRAIN],
        }
        reason: ConsolidationReason = "empty" if empty else "consolidation"
        return self._options.at_once(reason, of=len(self._facts), going=going)

    def _zones_allow(self, accepted: Sequence[StepDraft]) -> bool:
        guard = self._zones.guard()
        for step in accepted:
            for number in step.going:
                facts = self._built.facts[number]
                if not guard(facts):
                    self.failed = {facts.name: Stay(KeepCode.LAST_OF_ZONE.value)}
                    return False
        return True

    def _names(
        self, state: Assignment, accepted: Sequence[StepDraft], planned: WavePlan
    ) -> dict[int, str]:
        """Names of all bins; new nodes are in the snapshot from here on."""
        names = {number: facts.name for number, facts in enumerate(self._built.facts)}
        by_template: dict[int, list[int]] = {}
        for number in (*(number for step in accepted for number in step.new), *planned.spares):
            by_template.setdefault(state.template_of[number], []).append(number)
        for template, numbers in by_template.items():
            candidate = self._built.candidates[template]
            free = imagined.free_names(self._snapshot, f"{candidate.name}-new-", len(numbers))
            imagined.add_copies(self._snapshot, candidate.row, free)
            names.update(zip(numbers, free, strict=True))
        return names

    def _holds(self, state: Assignment, planned: WavePlan, names: Mapping[int, str]) -> bool:
        by_name: Collection[str] = self._built.by_name
        if self._snapshot.slot_pools.columns:
            by_name = {moving.record.key for moving in self._built.pods}
        if not any(state.problem.items[move.item].pod in by_name for move in planned.moves):
            return True
        failure = move_rehearsal.first_failure(
            self._snapshot,
            self._inputs.features,
            planned.moves,
            records=[moving.record for moving in self._built.pods],
            names=names,
            deleted=planned.deleted,
            asked=by_name,
        )
        if failure is None:
            return True
        item = state.problem.items[failure.item]
        name = self._built.facts[item.home].name
        self.failed = {
            name: Stay(KeepCode.NO_PLACE.value, "no place that all rules allow", item.pod)
        }
        return False

    def _plan(self, outcome: _Outcome) -> ConsolidationPlan:
        state, accepted, refused, planned, names = outcome
        problem, built = state.problem, self._built
        spares = set(planned.spares)
        step_of = {item: number for number, step in enumerate(accepted, 1) for item in step.moving}
        moves = tuple(
            PodMove(
                pod=problem.items[move.item].pod,
                source=names[move.source],
                to=names[move.target],
                wave=move.wave,
                detach=volumes_of(self._snapshot, built.pods[move.item].record),
                seconds=built.costs[move.item].seconds,
                cost=money(built.costs[move.item].money),
                step=step_of[move.item],
            )
            for move in planned.moves
        )
        before = sum(one.price for one in problem.bins)
        saved = sum(step.saving for step in accepted)
        gone = sum(len(step.going) for step in accepted)
        bought = sum(len(step.new) for step in accepted)
        return ConsolidationPlan(
            steps=tuple(self._step(outcome, step) for step in accepted),
            buys=(
                *self._purchases(outcome, [n for step in accepted for n in step.new]),
                *self._purchases(outcome, sorted(spares), spare=True),
            ),
            moves=moves,
            nodes=self._nodes(outcome),
            missed=tuple(
                MissedSaving(
                    reason=code,
                    nodes=tuple(names[number] for number in step.going),
                    saves_per_hour=money(step.saving),
                )
                for step, code in refused
            ),
            cost=CostOfNodes(
                unit="price" if built.priced else "nodes",
                before=money(before),
                after=money(before - saved),
                bound=money(min(self._bound, before - saved)),
                nodes_before=len(problem.bins),
                nodes_after=len(problem.bins) - gone + bought,
            ),
            saves_per_hour=money(saved),
            cost_of_moves=money(sum(built.costs[move.item].money for move in planned.moves)),
            horizon=self._options.horizon,
            partial=self._out_of_time(),
            warnings=(
                *self._inputs.budgets.problems,
                *(problem for group in self._inputs.groups for problem in group.problems),
                *built.warnings,
            ),
        )

    def _step(self, outcome: _Outcome, step: StepDraft) -> ConsolidationStep:
        return ConsolidationStep(
            nodes=tuple(outcome.names[number] for number in step.going),
            buys=tuple(self._purchases(outcome, step.new)),
            moves=len(step.moving),
            saves_per_hour=money(step.saving),
            saves_percent=round(100 * step.saving / step.replaced_price, 1)
            if step.replaced_price
            else 0.0,
            cost=money(step.cost),
            pays_back_in=round(step.pay_back_hours * 3600.0, 1) if step.saving > 0 else 0.0,
        )

    def _purchases(
        self, outcome: _Outcome, bins: Sequence[int], *, spare: bool = False
    ) -> list[NodePurchase]:
        state, names = outcome.state, outcome.names
        by_group: dict[str, list[int]] = {}
        for number in bins:
            template = state.problem.templates[state.template_of[number]]
            by_group.setdefault(template.group, []).append(number)
        return [
            NodePurchase(
                group=group,
                nodes=tuple(names[number] for number in numbers),
                price_per_hour=money(state.price(numbers[0])) if self._built.priced else None,
                spare=spare,
            )
            for group, numbers in by_group.items()
        ]

    def _nodes(self, outcome: _Outcome) -> tuple[ConsolidatedNode, ...]:
        names = outcome.names
        going = {
            names[number]: (position, number)
            for position, step in enumerate(outcome.accepted, 1)
            for number in step.going
        }
        codes = {names[number]: code for step, code in outcome.refused for number in step.going}
        found = []
        for name, facts in self._facts.items():
            group = facts.group.id if facts.group is not None else None
            if name in going:
                position, number = going[name]
                found.append(
                    ConsolidatedNode(
                        node=name,
                        group=group,
                        action=Action.DELETE if facts.is_empty else Action.DRAIN,
                        step=position,
                        wave=outcome.planned.deleted[number],
                        saves=money(outcome.state.price(number)) if self._built.priced else None,
                    )
                )
                continue
            stay = self._built.stay.get(name) or Stay(codes.get(name, NOTHING_CHEAPER))
            found.append(
                ConsolidatedNode(
                    node=name,
                    group=group,
                    action=Action.KEEP,
                    code=stay.code,
                    message=stay.message or None,
                    pod=stay.pod,
                    until=rfc3339(stay.until) if stay.until is not None else None,
                )
            )
        return tuple(found)

"""The cluster as a question in whole numbers: which nodes may go, what could be bought instead."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from tonnage.consolidation.move_costs import MoveCost, MoveCosts
from tonnage.consolidation.problem import Item, ItemKind, NodeBin, Problem, TemplateBin
from tonnage.consolidation.state import ConsolidationState
from tonnage.groups.model import Group
from tonnage.groups.readiness import READY
from tonnage.objects import timestamps
from tonnage.objects.labels import HOSTNAME
from tonnage.rules import inter_pod_affinity
from tonnage.rules.framework import Ask
from tonnage.scaledown import bins, eligibility, stand_ins
from tonnage.scaledown.codes import KeepCode
from tonnage.scaledown.facts import MovingPod, NodeFacts
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.portability import PodKind, PodKinds
from tonnage.scaleup.budget import Budget
from tonnage.scaleup.candidates import Candidate, Candidates
from tonnage.scaleup.decision import skipped_groups
from tonnage.snapshot import imagined
from tonnage.snapshot.pod_counters import Scope
from tonnage.snapshot.records import PodRecord

TOO_YOUNG = "too-young"
NOT_PAID_BACK = "not-paid-back"
NO_PRICE = "no-price"


_PODS_MAY_MOVE = frozenset(
    (
        KeepCode.GROUP_AT_MIN_SIZE.value,
        KeepCode.NO_GROUP.value,
        KeepCode.BLOCKED_BY_POD.value,
        KeepCode.WAITS_FOR_COMPLETION.value,
        KeepCode.ALL_OR_NOTHING.value,
        NO_PRICE,
    )
)
"""Why nodes stay whose pods may make room for others all the same."""


class Stay(NamedTuple):
    """Why a node is not looked at."""

    code: str
    message: str = ""
    pod: str | None = None
    until: float | None = None


class ClusterProblem(NamedTuple):
    """The problem, and what its numbers stand for."""

    problem: Problem
    facts: tuple[NodeFacts, ...]
    """Of each bin."""
    pods: tuple[MovingPod, ...]
    """Of each item."""
    costs: tuple[MoveCost, ...]
    candidates: tuple[Candidate, ...]
    """Of each template."""
    stay: dict[str, Stay]
    by_name: frozenset[str]
    """Pods whose places other pods, or single volumes, have a say in."""
    priced: bool
    """Whether prices are known; without any a node counts as one."""
    warnings: tuple[str, ...]


def build(
    inputs: ScaleDownInputs,
    facts: Mapping[str, NodeFacts],
    state: ConsolidationState,
    *,
    kept: Mapping[str, Stay],
    begun: Collection[str] = (),
) -> ClusterProblem:
    """Works on a trial of the snapshot that the caller opened: templates and a copy of each stay.

    `kept` are nodes that stay anyway, with the reason; `begun` those of a step that was begun,
    whatever their age.
    """
    return _Builder(inputs, facts, state, kept, begun).build()


class _Builder:
    def __init__(
        self,
        inputs: ScaleDownInputs,
        facts: Mapping[str, NodeFacts],
        state: ConsolidationState,
        kept: Mapping[str, Stay],
        begun: Collection[str],
    ) -> None:
        self._inputs = inputs
        self._begun = begun
        self._options = inputs.options.consolidation
        self._snapshot = inputs.snapshot
        self._facts = facts
        self._state = state
        self._kept = kept
        self._warnings: list[str] = []
        self._prices = self._known_prices()
        self._stay: dict[str, Stay] = {}

    def build(self) -> ClusterProblem:
        copies = self._add_templates()
        kinds = _Kinds(self._inputs)
        rows = [facts for name, facts in self._facts.items() if self._is_there(name)]
        going = [facts for facts in rows if self._may_go(facts)]
        may_go = {facts.row for facts in going}
        pods = [
            moving
            for facts in rows
            if facts.row in may_go or self._stay[facts.name].code in _PODS_MAY_MOVE
            for moving in facts.move
        ]
        found = [kinds.of(moving.record) for moving in pods]
        apart = _Apart(self._inputs, pods)
        measures = bins.Measures(self._snapshot)
        free = measures.columns(self._snapshot.table.size).tolist()
        for facts in rows:
            free[facts.row] += apart.left(facts)
        for _, row in copies:
            free[row] += apart.whole
        numbers: dict[tuple[int, tuple[int, ...]], int] = {}
        item_kinds: list[ItemKind] = []
        items: list[Item] = []
        costs: list[MoveCost] = []
        position = {facts.row: number for number, facts in enumerate(rows)}
        money = self._move_costs(rows)
        for moving, kind in zip(pods, found, strict=True):
            dimensions = apart.needs(moving.record)
            key = (id(kind), dimensions)
            if key not in numbers:
                numbers[key] = len(item_kinds)
                first = len(measures.nothing)
                item_kinds.append(
                    ItemKind(
                        (*measures.needs(kind), *((first + number, 1) for number in dimensions)),
                        kind.size,
                        tuple(bool(kind.rows[facts.row]) for facts in rows),
                        tuple(bool(kind.rows[row]) for _, row in copies),
                    )
                )
            pod = self._inputs.cluster.pod(moving.record.key)
            assert pod is not None
            costs.append(money.of(pod, kind.footprint.slots))
            items.append(
                Item(
                    moving.record.key,
                    numbers[key],
                    position[moving.record.row],
                    costs[-1].money,
                )
            )
        budget = Budget(
            self._inputs.options,
            (one.node for one in self._snapshot.nodes.values() if not one.imagined),
        )
        return ClusterProblem(
            problem=Problem(
                kinds=tuple(item_kinds),
                items=tuple(items),
                bins=tuple(
                    NodeBin(
                        facts.name,
                        facts.group.id if facts.group is not None else "",
                        self._price(facts.group),
                        tuple(free[facts.row]),
                        facts.row in may_go,
                    )
                    for facts in rows
                ),
                templates=tuple(
                    TemplateBin(
                        one.name,
                        self._price(one.group),
                        tuple(free[row]),
                        min(budget.group_room(one.group), budget.cluster_room(one.template)),
                    )
                    for one, row in copies
                ),
                spare={
                    group.id: max(
                        group.target
                        - group.min_size
                        - sum(name in self._inputs.state.removing for name in group.nodes),
                        0,
                    )
                    for group in self._inputs.groups
                },
                hours=self._options.pay_back_hours,
                cluster_room=min(
                    (budget.cluster_room(one.template) for one, _ in copies), default=0
                ),
            ),
            facts=tuple(rows),
            pods=tuple(pods),
            costs=tuple(costs),
            candidates=tuple(one for one, _ in copies),
            stay=self._stay,
            by_name=frozenset(kinds.by_name),
            priced=self._prices is not None,
            warnings=tuple(self._warnings),
        )

    def _known_prices(self) -> dict[str, float] | None:
        """By group; `None` if there is not one that can be used."""
        found = {
            group.id: group.price_per_hour
            for group in self._inputs.groups
            if group.price_per_hour is not None
        }
        without = [group.id for group in self._inputs.groups if group.id not in found]
        if found and without:
            self._warnings.append(
                f"no price of {', '.join(without[:5])}{' and more' if len(without) > 5 else ''}:"
                " its nodes are neither replaced nor bought"
            )
        if not found and self._inputs.groups:
            self._warnings.append("no group has a price: a node counts as one, whatever its size")
        return found or None

    def _price(self, group: Group | None) -> float:
        """Of an hour of a node, with what it costs beside; nodes without a price never go."""
        overhead = self._options.node_overhead_per_hour
        if group is None:
            return 0.0
        if self._prices is None:
            return 1.0 + overhead
        price = self._prices.get(group.id)
        return 0.0 if price is None else price + overhead

    def _has_price(self, group: Group) -> bool:
        return self._prices is None or group.id in self._prices

    def _move_costs(self, rows: list[NodeFacts]) -> MoveCosts:
        prices = [self._price(one.group) for one in rows if one.group is not None]
        return MoveCosts(
            self._options,
            self._inputs.controllers,
            price_of_node=sum(prices) / len(prices) if prices else 0.0,
            observed=self._state.volume_seconds,
            has_stand_in=lambda pod: stand_ins.possible(
                pod, self._inputs.controllers, self._snapshot.storage, self._inputs.options
            ),
        )

    def _add_templates(self) -> list[tuple[Candidate, int]]:
        """Groups that can be bought from, each with a copy of its template in the snapshot."""
        inputs, snapshot = self._inputs, self._snapshot
        assessed = inputs.assessed
        skipped = inputs.inputs.skipped
        if skipped is None:
            skipped = skipped_groups(assessed.readiness)
        groups = [
            group
            for group in inputs.groups
            if group.id not in skipped
            and not group.all_or_nothing
            and group.max_size > group.target
            and self._has_price(group)
        ]
        candidates = Candidates(
            snapshot, groups, assessed.templates.by_group, inputs.options, inputs.features
        )
        found = []
        for one in candidates:
            names = imagined.free_names(snapshot, f"{one.name}-looked-at-", 1)
            found.append((one, imagined.add_copies(snapshot, one.row, names).start))
        return found

    def _is_there(self, name: str) -> bool:
        """Whether pods may go to the node, or stay there."""
        inputs = self._inputs
        readiness = inputs.assessed.readiness.nodes.get(name)
        if name in inputs.state.removing:
            self._stay[name] = Stay(KeepCode.BEING_REMOVED.value)
            return False
        if readiness is not None and readiness.state != READY:
            self._stay[name] = Stay(readiness.state, readiness.reason)
            return False
        return True

    def _may_go(self, facts: NodeFacts) -> bool:
        stay = self._why_not(facts)
        if stay is not None:
            self._stay[facts.name] = stay
        return stay is None

    def _why_not(self, facts: NodeFacts) -> Stay | None:
        inputs, name, group = self._inputs, facts.name, facts.group
        if name in self._kept:
            return self._kept[name]
        whatever_used = inputs._replace(wanted=frozenset((name,)))
        known = eligibility.of(facts, whatever_used)
        if known.code is not None:
            return Stay(known.code.value, known.message)
        assert group is not None
        if facts.blocker is not None:
            why = facts.blocker.code or KeepCode.BLOCKED_BY_POD.value
            return Stay(KeepCode.BLOCKED_BY_POD.value, why, facts.blocker.pod)
        if facts.on_completion:
            return Stay(KeepCode.WAITS_FOR_COMPLETION.value, "", facts.on_completion[0])
        if group.all_or_nothing:
            return Stay(KeepCode.ALL_OR_NOTHING.value)
        if not self._has_price(group):
            return Stay(NO_PRICE, f"group {group.id} has no price")
        if name in self._begun:
            return None
        born = timestamps.moment(facts.node.metadata.creation_timestamp)
        if born is not None and inputs.now - born < self._options.min_age:
            return Stay(TOO_YOUNG, until=born + self._options.min_age)
        until = self._state.pays_back.get(name, 0.0)
        if until > inputs.now:
            return Stay(NOT_PAID_BACK, "what was moved to it has yet to pay back", until=until)
        return None


class _Kinds:
    """Kinds of pods, also of those that are followed by name: as far as counting goes."""

    def __init__(self, inputs: ScaleDownInputs) -> None:
        self._kinds = PodKinds(inputs.snapshot, inputs.features)
        self.by_name: set[str] = set()
        self._counted: dict[int, PodKind] = {}

    def of(self, record: PodRecord) -> PodKind:
        kind = self._kinds.of(record)
        if kind is not None:
            if not bins.suits(kind):
                self.by_name.add(record.key)
            return kind
        self.by_name.add(record.key)
        if record.volumes:
            return self._kinds.counted(record)
        known = self._counted.get(id(record.pod_class))
        if known is None:
            known = self._counted[id(record.pod_class)] = self._kinds.counted(record)
        return known


class _Apart:
    """Pods that keep a node for themselves among their like: a dimension for each such term."""

    def __init__(self, inputs: ScaleDownInputs, pods: list[MovingPod]) -> None:
        self._snapshot = inputs.snapshot
        self._scopes: list[Scope] = []
        self._of_class: dict[int, tuple[int, ...]] = {}
        classes = {id(moving.record.pod_class): moving.record for moving in pods}
        known: dict[object, int] = {}
        for record in classes.values():
            for term in record.pod_class.anti_affinity:
                if term.topology_key != HOSTNAME:
                    continue
                scope = inter_pod_affinity.scope_of(
                    Ask(self._snapshot, record, inputs.features), term
                )
                if scope.covers(record.pod_class) and scope.key() not in known:
                    known[scope.key()] = len(self._scopes)
                    self._scopes.append(scope)
        for number, record in classes.items():
            self._of_class[number] = tuple(
                place for place, scope in enumerate(self._scopes) if scope.covers(record.pod_class)
            )
        self.whole = [1] * len(self._scopes)

    def needs(self, record: PodRecord) -> tuple[int, ...]:
        return self._of_class[id(record.pod_class)]

    def left(self, facts: NodeFacts) -> list[int]:
        """By term: none where one of them is on the node already."""
        if not self._scopes:
            return []
        there = self._snapshot.pods_on(facts.name)
        return [
            0 if any(scope.covers(record.pod_class) for record in there) else 1
            for scope in self._scopes
        ]

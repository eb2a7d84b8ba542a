"""What is known of each node before anything is chosen: its pods, and what keeps them there.

Facts of a node are found anew only when the node, one of its pods, or what the rules look at
beside them has changed, or a time has come that a rule waits for.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from tonnage.groups import daemons
from tonnage.groups.model import Group
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.scaledown import codes, drain_rules, stand_ins
from tonnage.scaledown.budgets import AllowedDisruptions
from tonnage.scaledown.drain_rules import DrainQuestion, DrainVerdict
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.plan import Drain, PodDecision
from tonnage.snapshot.records import NodeRecord, PodRecord

DISRUPTION_COST = "node-autoscaling.kubernetes.io/disruption-cost"
_MOST_COST = 2**31 - 1
_ONE_AT_A_TIME = ("StatefulSet",)


class MovingPod(NamedTuple):
    """A pod that needs another place when its node goes, and the budgets that speak of it."""

    record: PodRecord
    budgets: tuple[AllowedDisruptions, ...]
    replica_of: str | None = None
    """The set whose replicas move one at a time, if it is one of them."""

    @property
    def is_paced(self) -> bool:
        """Whether it may have to wait for others before it moves."""
        return bool(self.budgets) or self.replica_of is not None


class NodeFacts(NamedTuple):
    """A node, its group, and its pods by what becomes of them; each in the order they came."""

    name: str
    row: int
    node: Node
    group: Group | None
    pods: tuple[PodDecision, ...]
    move: tuple[MovingPod, ...]
    daemons: tuple[str, ...]
    on_completion: tuple[str, ...]
    blocker: PodDecision | None
    blocker_detail: str
    uncounted: tuple[Pod, ...]
    """Pods that should be gone by now, which count for nothing."""
    valid_until: float
    is_paced: bool = False
    """Whether one of its pods may have to wait for others before it moves."""
    disruption_cost: int = 0
    """What owners say that moving the pods costs, all together."""

    @property
    def is_empty(self) -> bool:
        return not self.move


class _Basis(NamedTuple):
    """What the facts of a node come from."""

    node: NodeRecord
    group: Group | None
    pods: tuple[Pod, ...]
    records: tuple[PodRecord, ...]
    promised: Sequence[Pod] | None

    def holds_for(self, now: "_Basis") -> bool:
        # Equal tuples of the same objects are compared without a look into these. Records that
        # were asked about may stand in another order.
        return (
            self.node == now.node
            and self.group == now.group
            and self.pods == now.pods
            and (self.records == now.records or {*self.records} == {*now.records})
            and self.promised == now.promised
        )


class FactCache:
    """The facts of all nodes; those of a node that is as it was are not found again."""

    def __init__(self, *, only: str | None = None) -> None:
        """With `only` the pods of one node alone are looked at; the others are there without."""
        self.only = only
        self._sources: tuple[object, ...] = ()
        self._groups: dict[str, Group] = {}
        self._known: dict[str, tuple[_Basis, NodeFacts]] = {}

    def of(
        self, inputs: ScaleDownInputs, promised: Mapping[str, Sequence[Pod]] = MappingProxyType({})
    ) -> dict[str, NodeFacts]:
        """By name, in the order of the snapshot; `promised` are pods to come, by node."""
        sources = (inputs.controllers, inputs.budgets, inputs.options)
        if len(self._sources) != len(sources) or any(
            old is not new and old != new for old, new in zip(self._sources, sources, strict=True)
        ):
            self._known = {}
        self._sources = sources
        snapshot, pods_by_node = inputs.snapshot, inputs.cluster.pods_by_node
        # A group that is what it was is the same one: its nodes are compared once, not by each.
        self._groups = {
            group.id: old if (old := self._groups.get(group.id)) == group else group
            for group in inputs.groups
        }
        groups = {name: group for group in self._groups.values() for name in group.nodes}
        known: dict[str, tuple[_Basis, NodeFacts]] = {}
        for record in snapshot.nodes.values():
            name = record.name
            if record.imagined:
                continue
            group = groups.get(name)
            basis = _Basis(
                record,
                group,
                tuple(pods_by_node.get(name, ())),
                tuple(snapshot.records_on(name)),
                promised.get(name),
            )
            before = self._known.get(name)
            if before and before[1].valid_until > inputs.now and before[0].holds_for(basis):
                known[name] = before
                continue
            pods = []
            if self.only is None or self.only == name:
                pods = _pods_on(inputs, name, promised.get(name, ()))
            known[name] = (basis, _facts(inputs, name, record.row, pods, group))
        self._known = known
        return {name: facts for name, (_, facts) in known.items()}

    def with_fresh(self, inputs: ScaleDownInputs, name: str) -> dict[str, NodeFacts]:
        """The facts as they were found last, and those of one node anew."""
        snapshot = inputs.snapshot
        found = {
            known: facts for known, (_, facts) in self._known.items() if known in snapshot.nodes
        }
        record = snapshot.nodes.get(name)
        if record is not None:
            pods = _pods_on(inputs, name, ())
            found[name] = _facts(inputs, name, record.row, pods, inputs.group_of.get(name))
        return found


def _pods_on(
    inputs: ScaleDownInputs, name: str, promised: Iterable[Pod]
) -> list[tuple[Pod, PodRecord]]:
    """The pods of a node that count, each as the snapshot has it."""
    records = inputs.snapshot.pods
    return [
        (pod, found)
        for pod in (*inputs.cluster.pods_by_node.get(name, ()), *promised)
        if (found := records.get(pod.metadata.key)) is not None
    ]


def judged(inputs: ScaleDownInputs, pods: Iterable[Pod]) -> list[PodDecision]:
    """What the rules say of pods that are on no certain node yet."""
    return [_decision(pod.metadata.key, "", _judge(inputs, pod)[0]) for pod in pods]


def _judge(
    inputs: ScaleDownInputs, pod: Pod
) -> tuple[DrainVerdict, tuple[AllowedDisruptions, ...]]:
    budgets = inputs.budgets.of(pod.metadata)
    has_stand_in = stand_ins.possible(
        pod, inputs.controllers, inputs.snapshot.storage, inputs.options
    )
    question = DrainQuestion(
        pod, budgets, inputs.controllers, inputs.options, inputs.now, has_stand_in
    )
    return drain_rules.judge(question), budgets


def _facts(
    inputs: ScaleDownInputs,
    name: str,
    row: int,
    pods: Sequence[tuple[Pod, PodRecord]],
    group: Group | None,
) -> NodeFacts:
    judged: list[PodDecision] = []
    move: list[MovingPod] = []
    daemon_keys: list[str] = []
    on_completion: list[str] = []
    uncounted: list[Pod] = []
    blocker: PodDecision | None = None
    detail = ""
    until = math.inf
    for pod, record in pods:
        verdict, budgets = _judge(inputs, pod)
        until = min(until, verdict.until)
        decision = _decision(record.key, name, verdict)
        judged.append(decision)
        if drain_rules.is_overdue(pod, inputs.now):
            uncounted.append(pod)
        match verdict.drain:
            case Drain.BLOCK:
                if blocker is None:
                    blocker, detail = decision, verdict.detail
            case Drain.WAIT:
                on_completion.append(record.key)
            case Drain.OK if daemons.is_daemon(pod.metadata):
                daemon_keys.append(record.key)
            case Drain.OK | Drain.UNDEFINED:
                move.append(MovingPod(record, budgets, _replica_of(record)))
            case Drain.SKIP:
                pass
    snapshot = inputs.snapshot
    return NodeFacts(
        name=name,
        row=row,
        node=snapshot.nodes[name].node,
        group=group,
        pods=tuple(judged),
        move=tuple(move),
        daemons=tuple(daemon_keys),
        on_completion=tuple(on_completion),
        blocker=blocker,
        blocker_detail=detail,
        uncounted=tuple(uncounted),
        valid_until=until,
        is_paced=any(moving.is_paced for moving in move),
        disruption_cost=sum(disruption_cost_of(moving.record.meta.annotations) for moving in move),
    )


def disruption_cost_of(annotations: Mapping[str, str]) -> int:
    """What the pod's owner says that moving it costs; what cannot be read is the default."""
    text = annotations.get(DISRUPTION_COST, "")
    return int(text) if text.isdecimal() and int(text) <= _MOST_COST else 0


def _replica_of(record: PodRecord) -> str | None:
    owner = record.meta.controller
    if owner is None or owner.kind not in _ONE_AT_A_TIME:
        return None
    return f"{record.meta.namespace}/{owner.name}"


def _decision(key: str, node: str, verdict: DrainVerdict) -> PodDecision:
    if verdict.code is None:
        return PodDecision(pod=key, node=node, drain=verdict.drain)
    return PodDecision(
        pod=key,
        node=node,
        drain=verdict.drain,
        reason=codes.POD_REASONS[verdict.code],
        code=verdict.code.value,
    )

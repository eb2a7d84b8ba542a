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
from tonnage.scaledown import codes, drain_rules
from tonnage.scaledown.budgets import AllowedDisruptions
from tonnage.scaledown.drain_rules import DrainQuestion, DrainVerdict
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.plan import Drain, PodDecision
from tonnage.snapshot.records import PodRecord


class MovingPod(NamedTuple):
    """A pod that needs another place when its node goes, and the budgets that speak of it."""

    record: PodRecord
    budgets: tuple[AllowedDisruptions, ...]


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

    @property
    def is_empty(self) -> bool:
        return not self.move


class FactCache:
    """The facts of all nodes; those of a node that is as it was are not found again."""

    def __init__(self, *, only: str | None = None) -> None:
        """With `only` the pods of one node alone are looked at; the others are there without."""
        self.only = only
        self._sources: tuple[object, ...] = ()
        self._known: dict[str, tuple[tuple[object, ...], NodeFacts]] = {}

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
        cluster = inputs.cluster
        groups = inputs.group_of
        known: dict[str, tuple[tuple[object, ...], NodeFacts]] = {}
        for record in cluster.snapshot.nodes.values():
            if record.imagined:
                continue
            pods = []
            if self.only is None or self.only == record.name:
                pods = _pods_on(inputs, record.name, promised.get(record.name, ()))
            group = groups.get(record.name)
            basis = (record, group, *(found for _, found in pods))
            before = self._known.get(record.name)
            if (
                before is not None
                and before[1].valid_until > inputs.now
                and _same(before[0], basis)
            ):
                known[record.name] = before
            else:
                known[record.name] = (basis, _facts(inputs, record.name, record.row, pods, group))
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
    question = DrainQuestion(pod, budgets, inputs.controllers, inputs.options, inputs.now)
    return drain_rules.judge(question), budgets


def _same(before: tuple[object, ...], now: tuple[object, ...]) -> bool:
    return len(before) == len(now) and all(old is new for old, new in zip(before, now, strict=True))


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
            case Drain.OK if daemons.is_daemon(pod):
                daemon_keys.append(record.key)
            case Drain.OK | Drain.UNDEFINED:
                move.append(MovingPod(record, budgets))
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
    )


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

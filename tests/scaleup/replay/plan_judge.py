"""The judge: placements in the plan's order, then the sums, and who was left out."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

import msgspec

from tests.scaleup.replay import accounts
from tests.scaleup.replay.context import PlanViolation, ReplayContext
from tonnage.groups.memory import TemplateMemory
from tonnage.groups.options import Options
from tonnage.objects.pods import Pod
from tonnage.rules.features import Features
from tonnage.scaleup.plan import Plan, Step
from tonnage.testing.reference import ReferenceVerdict, verdict
from tonnage.testing.reference.outcomes import SUCCESS, UNSCHEDULABLE

DEPENDING_ON_OTHERS = frozenset(
    {"PodTopologySpread", "InterPodAffinity", "VolumeRestrictions", "NodePorts"}
)
"""Filters that may refuse an empty node today and take it tomorrow."""

STORAGE, POOLS = "VolumeBinding", "SlotPools"
"""The filters that speak for what kube-scheduler does not know of."""

_PROBE = "a-node-to-ask-about"


def violations(
    objects: Iterable[object],
    plan: Plan,
    *,
    options: Options,
    features: Features,
    now: float,
    memory: TemplateMemory | None = None,
) -> list[PlanViolation]:
    """Every promise the plan does not keep; a good plan has none.

    The arguments are those the plan was made with. The old accounting of in-tree volumes
    (`legacy_attach_limits`) is not modelled.
    """
    context = ReplayContext(objects, options=options, features=features, now=now, memory=memory)
    judge = _Judge(context, plan)
    return [
        *judge.never_fitting(),
        *accounts.of_pods(context, plan),
        *accounts.of_nodes(context, plan),
        *judge.placements(),
    ]


def missed(
    objects: Iterable[object],
    plan: Plan,
    *,
    options: Options,
    features: Features,
    now: float,
    memory: TemplateMemory | None = None,
) -> list[PlanViolation]:
    """Pods that the plan leaves out though a node, or one more purchase, would take them.

    A partial plan may leave out anybody.
    """
    if plan.partial:
        return []
    context = ReplayContext(objects, options=options, features=features, now=now, memory=memory)
    judge = _Judge(context, plan)
    for _ in judge.placements():
        pass
    return list(judge.left_out())


class _Judge:
    """Replays a plan on a stage, which afterwards is the cluster the plan leads to."""

    def __init__(self, context: ReplayContext, plan: Plan) -> None:
        self._context = context
        self._cluster = context.cluster
        self._plan = plan
        self._pods = {**context.waiting, **context.optional}
        self._existing = {
            name
            for name, hosted in context.cluster.nodes.items()
            if not (context.options.as_upstream and hosted.node.spec.unschedulable)
        }
        self._node_of = {
            pod: node.name for one in plan.scale_ups for node in one.nodes for pod in node.pods
        }

    def never_fitting(self) -> Iterator[PlanViolation]:
        """A pod that never fits is refused by an empty node of every group, whatever else runs."""
        for left in self._plan.not_helped:
            pod = self._pods.get(left.pod)
            if left.never_fits and pod is not None:
                for group in self._context.templates:
                    found = self._on_empty(pod, group)
                    if found.code == SUCCESS or found.plugin in DEPENDING_ON_OTHERS:
                        detail = f"a node of {group} says {_said(found)}"
                        yield PlanViolation(rule="never fits", subject=left.pod, detail=detail)

    def placements(self) -> Iterator[PlanViolation]:
        """Every pod in its turn, on the cluster as it is then.

        Before anything is bought, nodes that are on their way may be there or not: those that
        nobody was placed on yet may come later.
        """
        idle = set(self._context.upcoming)
        for fit in self._plan.fit_on_existing:
            if fit.node in self._existing:
                idle.discard(fit.node)
                yield from self._place(fit.pod, fit.node, not_there_yet=idle)
            else:
                detail = f"{fit.node} is no node that takes pods"
                yield PlanViolation(rule="fits an existing node", subject=fit.pod, detail=detail)
        taken: Counter[str] = Counter()
        for number, step in enumerate(self._plan.steps, 1):
            yield from self._step(number, step, taken)

    def left_out(self) -> Iterator[PlanViolation]:
        for left in self._plan.not_helped:
            pod = self._pods.get(left.pod)
            help_from = None if pod is None else self._help_for(pod)
            if help_from is not None:
                detail = f"{help_from} would take it"
                yield PlanViolation(rule="complete", subject=left.pod, detail=detail)

    def _step(self, number: int, step: Step, taken: Counter[str]) -> Iterator[PlanViolation]:
        nodes = {one.group: one.nodes for one in self._plan.scale_ups}
        for one in step.scale_ups:
            start = taken[one.group]
            taken[one.group] += one.delta
            for node in nodes.get(one.group, ())[start : taken[one.group]]:
                if node.name in self._cluster.nodes:
                    detail = f"step {number} adds a node of a name that is taken"
                    yield PlanViolation(rule="new names", subject=node.name, detail=detail)
                elif one.group in self._context.templates:
                    self._context.add(one.group, node.name)
        existing = {fit.pod: fit.node for fit in step.fit_on_existing}
        for pod in step.pods:
            node_name = existing.get(pod) or self._node_of.get(pod)
            if node_name is None or node_name not in self._cluster.nodes:
                detail = f"step {number} places it on {node_name}, which is not there yet"
                yield PlanViolation(rule="placement", subject=pod, detail=detail)
            else:
                yield from self._place(pod, node_name, f"step {number}: ")

    def _place(
        self, name: str, node: str, where: str = "", *, not_there_yet: Collection[str] = ()
    ) -> Iterator[PlanViolation]:
        pod = self._pods.pop(name, None)
        if pod is None:
            detail = f"{where}nobody waits by that name any more"
            yield PlanViolation(rule="placement", subject=name, detail=detail)
            return
        found = self._verdict(pod, node)
        if found.code != SUCCESS and not_there_yet:
            found = self._verdict_without(not_there_yet, pod, node)
        if found.code != SUCCESS:
            detail = f"{where}{node} says {_said(found)}"
            yield PlanViolation(rule="placement", subject=name, detail=detail)
        self._context.stores.take(pod, node)
        self._cluster.place(pod, node, assume_volumes=False)

    def _help_for(self, pod: Pod) -> str | None:
        """Who would take the pod in the cluster as it is: a node, or a group that may grow."""
        bought = {node.name for one in self._plan.scale_ups for node in one.nodes}
        for node in self._cluster.nodes:
            takes_pods = node in self._existing or node in bought
            if takes_pods and self._verdict(pod, node).code == SUCCESS:
                return node
        for group in self._context.templates:
            room = accounts.room(self._context, self._plan, group)
            if room > 0 and self._on_empty(pod, group).code == SUCCESS:
                return f"one more node of {group}"
        return None

    def _verdict(self, pod: Pod, node: str) -> ReferenceVerdict:
        """What kube-scheduler says, and then what it does not know of."""
        found = verdict(self._cluster, pod, node)
        if found.code != SUCCESS and found.plugin not in DEPENDING_ON_OTHERS:
            return found
        for plugin, judge in ((STORAGE, self._context.stores), (POOLS, self._context.shared_slots)):
            refusal = judge.refusal(pod, node)
            if refusal is not None:
                return _refused(found, plugin, refusal)
        return found

    def _verdict_without(self, others: Collection[str], pod: Pod, node: str) -> ReferenceVerdict:
        nodes = self._cluster.nodes
        everything = dict(nodes)
        for name in others:
            del nodes[name]
        found = self._verdict(pod, node)
        nodes.clear()
        nodes.update(everything)
        return found

    def _on_empty(self, pod: Pod, group: str) -> ReferenceVerdict:
        self._context.add(group, _PROBE)
        found = self._verdict(pod, _PROBE)
        self._context.remove(_PROBE)
        return found


def _refused(found: ReferenceVerdict, plugin: str, reason: str) -> ReferenceVerdict:
    return msgspec.structs.replace(
        found, phase="Filter", plugin=plugin, code=UNSCHEDULABLE, reasons=(reason,)
    )


def _said(found: ReferenceVerdict) -> str:
    if found.code == SUCCESS:
        return SUCCESS
    return f"{found.plugin}: {found.code}: {', '.join(found.reasons)}"

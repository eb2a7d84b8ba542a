"""Clusters and questions for tests of whole decisions, with defaults that do not get in the way."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

import msgspec

from tests.scaleup.replay import missed, violations
from tonnage.groups import options as settings
from tonnage.groups.inputs import Inputs
from tonnage.groups.memory import TemplateMemory
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node, Taint
from tonnage.objects.pods import Pod, PodTemplateSpec
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.objects.storage import PersistentVolumeClaim
from tonnage.objects.workloads import DaemonSet, DaemonSetSpec
from tonnage.rules import features
from tonnage.scaleup import assessment, decision
from tonnage.scaleup.assessment import Assessment
from tonnage.scaleup.plan import NotHelped, Plan
from tonnage.testing import builders as make

NOW = 1_800_000_000.0
EBS = "ebs.csi.aws.com"
TYPE = "node.kubernetes.io/instance-type"
UPSTREAM = "cluster-autoscaler-1.37"
CLASS = make.storage_class("fast", EBS)


def ago(seconds: float) -> str:
    return datetime.fromtimestamp(NOW - seconds, UTC).isoformat().replace("+00:00", "Z")


def decide(
    *objects: KubeObject | Iterable[KubeObject],
    memory: TemplateMemory | None = None,
    gates: Mapping[str, bool] | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
    judged: bool = True,
    all_helped: bool = True,
    **options: object,
) -> Plan:
    """What is decided for the objects, single or in lists; every plan is replayed as well.

    Without `all_helped` it may leave out pods that a node could take.
    """
    held: list[KubeObject] = []
    for one in objects:
        if isinstance(one, Iterable):
            held.extend(one)
        else:
            held.append(one)
    chosen, version = settings.of(options), features.of_version("", gates)
    plan = decision.decide(
        Inputs.of_objects(held, options=chosen, features=version, now=NOW, memory=memory),
        out_of_time=out_of_time,
    ).plan
    if judged:
        for judge in (violations, missed) if all_helped else (violations,):
            asked = {"options": chosen, "features": version, "now": NOW, "memory": memory}
            assert judge(held, plan, **asked) == []  # type: ignore[arg-type]
    return plan


def assessed(objects: Iterable[KubeObject]) -> Assessment:
    """What is found in a cluster of the objects before anything is decided."""
    inputs = Inputs.of_objects(
        objects, options=settings.of({}), features=features.of_version(), now=NOW
    )
    return assessment.assess(inputs)


def group(
    name: str,
    *,
    slots: Mapping[str, int | None] | None = None,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: int = 110,
    zone: str = "",
    kind: str = "",
    taints: Iterable[Taint] = (),
    most: int = 1000,
    target: int | None = None,
    nodes: Iterable[str] = (),
    price: str | None = None,
    limits: Mapping[str, int] | None = None,
    labels: Mapping[str, str] | None = None,
    whole: bool = False,
    described: bool = True,
) -> NodeGroup:
    """A group; `slots` are the drivers of its template's CSINode, which it lacks without them.

    `kind` is the instance type, `whole` makes it all or nothing, and without `described` its
    provider has no template.
    """
    template = GroupTemplate(
        node=make.node(
            "template",
            cpu=cpu,
            memory=memory,
            pods=pods,
            zone=zone,
            labels={**({TYPE: kind} if kind else {}), **(labels or {})} or None,
            taints=taints,
        ),
        csi_node=make.csinode("template", slots) if slots is not None else None,
    )
    return NodeGroup(
        metadata=ObjectMeta(name=name),
        spec=NodeGroupSpec(
            max_size=most,
            target_size=target,
            scaling="zeroOrMax" if whole else "any",
            limits=dict(limits or {}),
            nodes=tuple(nodes),
            price_per_hour=price,
            template=template if described else None,
        ),
    )


def stateful(
    name: str, replicas: int, *, claims: int = 1, storage_class: str = "fast", **pod: object
) -> list[KubeObject]:
    """Replicas of a set that wait, each with claims of its own that are not bound."""
    made: list[KubeObject] = []
    for ordinal in range(replicas):
        own = [
            make.pvc(f"data{number}-{name}-{ordinal}", storage_class=storage_class)
            for number in range(claims)
        ]
        names = [claim.metadata.name for claim in own]
        made += own
        made.append(make.pod(f"{name}-{ordinal}", pvcs=names, **pod))  # type: ignore[arg-type]
    return made


def running(name: str, node: str, count: int = 1, **pod: object) -> list[KubeObject]:
    """Pods on a node, each with a volume of its own that is attached there."""
    made: list[KubeObject] = []
    for number in range(count):
        own = f"{name}-{number}"
        claim = make.pvc(f"data-{own}", storage_class="fast", volume=f"pv-{own}")
        made += [
            claim,
            make.pv(f"pv-{own}", driver=EBS, storage_class="fast", claim=claim),
            make.attachment(f"pv-{own}", node, attacher=EBS),
            make.pod(own, on=node, pvcs=[claim.metadata.name], **pod),  # type: ignore[arg-type]
        ]
    return made


def daemons(name: str, pod: Pod) -> DaemonSet:
    """A DaemonSet whose pods are like the given one."""
    template = PodTemplateSpec(metadata=ObjectMeta(labels=pod.metadata.labels), spec=pod.spec)
    metadata = ObjectMeta(name=name, namespace="default", uid=f"uid-ds-{name}")
    return DaemonSet(metadata=metadata, spec=DaemonSetSpec(template=template))


def created(one: Node | PersistentVolumeClaim, seconds_ago: float) -> KubeObject:
    metadata = msgspec.structs.replace(one.metadata, creation_timestamp=ago(seconds_ago))
    return msgspec.structs.replace(one, metadata=metadata)


def bought(plan: Plan) -> dict[str, int]:
    return {one.group: one.delta for one in plan.scale_ups}


def helped(plan: Plan) -> int:
    return sum(len(step.pods) for step in plan.steps)


def left_out(plan: Plan, pod: str) -> NotHelped:
    (found,) = (one for one in plan.not_helped if one.pod == f"default/{pod}")
    return found


def sources(plan: Plan) -> dict[str, tuple[int | None, str]]:
    """Limits of the EBS driver by group."""
    return {one.group: (one.count, one.source) for one in plan.limits if one.driver == EBS}

"""Groups, nodes with a past, and a round of templates, with defaults that do not get in the way."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from tonnage.groups import options, readiness, templates
from tonnage.groups.cluster_state import ClusterState
from tonnage.groups.inputs import Inputs
from tonnage.groups.memory import Absences, TemplateMemory
from tonnage.groups.model import Group, Template
from tonnage.groups.options import Options
from tonnage.groups.policy import GroupPolicy
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import Condition, LabelSelector, ObjectMeta, OwnerReference
from tonnage.objects.nodes import Node, Taint
from tonnage.objects.pods import Pod, PodSpec, PodTemplateSpec
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.objects.storage import CSINode
from tonnage.objects.workloads import DaemonSet, DaemonSetSpec
from tonnage.rules import features
from tonnage.testing import builders

NOW = 1_800_000_000.0
EBS = "ebs.csi.aws.com"
EFS = "efs.csi.aws.com"
TYPE = "node.kubernetes.io/instance-type"

DEFAULT = GroupPolicy()
UPSTREAM = GroupPolicy(as_upstream=True)


def ago(seconds: float) -> str:
    return datetime.fromtimestamp(NOW - seconds, UTC).isoformat().replace("+00:00", "Z")


def group(
    name: str = "g",
    *,
    nodes: Sequence[str] = (),
    target: int | None = None,
    max_size: int = 10,
    limits: Mapping[str, int] | None = None,
    provider: GroupTemplate | None = None,
) -> Group:
    return Group(
        id=name,
        max_size=max_size,
        target=len(nodes) if target is None else target,
        nodes=tuple(nodes),
        limits=dict(limits or {}),
        provider_template=provider,
    )


def node_group(
    name: str,
    *,
    nodes: Sequence[str] = (),
    selector: LabelSelector | None = None,
    max_size: int = 10,
    **spec: object,
) -> NodeGroup:
    made = NodeGroupSpec(max_size=max_size, nodes=tuple(nodes), node_selector=selector)
    return NodeGroup(metadata=ObjectMeta(name=name), spec=msgspec.structs.replace(made, **spec))


def declared(
    drivers: Mapping[str, int | None] | None = None, *, node: Node | None = None
) -> GroupTemplate:
    """A template as a provider gives it; without drivers it has no CSINode."""
    return GroupTemplate(
        node=node if node is not None else builders.node("any"),
        csi_node=builders.csinode("any", drivers) if drivers is not None else None,
    )


def aged(
    node: Node,
    *,
    created: float | None = None,
    ready: str | None = None,
    since: float = 3600,
    conditions: Mapping[str, str] | None = None,
    deleting: bool = False,
) -> Node:
    """The node, created so many seconds ago, with conditions that changed `since` seconds ago."""
    statuses = {**({"Ready": ready} if ready is not None else {}), **(conditions or {})}
    return msgspec.structs.replace(
        node,
        metadata=msgspec.structs.replace(
            node.metadata,
            creation_timestamp=ago(created) if created is not None else None,
            deletion_timestamp=ago(5) if deleting else None,
        ),
        status=msgspec.structs.replace(
            node.status,
            conditions=tuple(
                Condition(type=kind, status=status, last_transition_time=ago(since))
                for kind, status in statuses.items()
            ),
        ),
    )


def tainted(key: str, effect: str = "NoSchedule") -> Taint:
    return Taint(key=key, effect=effect)


def topologies(csinode: CSINode, keys: Sequence[str]) -> CSINode:
    """The CSINode with these topology keys on every driver."""
    drivers = tuple(
        msgspec.structs.replace(driver, topology_keys=tuple(keys))
        for driver in csinode.spec.drivers
    )
    return msgspec.structs.replace(
        csinode, spec=msgspec.structs.replace(csinode.spec, drivers=drivers)
    )


def daemon_set(name: str, *, uid: str | None = None, spec: PodSpec | None = None) -> DaemonSet:
    return DaemonSet(
        metadata=ObjectMeta(
            name=name, namespace="kube-system", uid=f"uid-ds-{name}" if uid is None else uid
        ),
        spec=DaemonSetSpec(template=PodTemplateSpec(spec=spec if spec is not None else PodSpec())),
    )


def daemon_pod(owner: DaemonSet, node: str, **fields: object) -> Pod:
    meta = owner.metadata
    reference = OwnerReference(kind="DaemonSet", name=meta.name, uid=meta.uid, controller=True)
    return builders.pod(
        f"{meta.name}-abcde",
        namespace="kube-system",
        owner=reference,
        on=node,
        **fields,  # type: ignore[arg-type]
    )


def build(
    *groups: Group,
    nodes: Iterable[Node] = (),
    csinodes: Iterable[CSINode] = (),
    pods: Iterable[Pod] = (),
    daemon_sets: Iterable[DaemonSet] = (),
    memory: TemplateMemory | None = None,
    policy: GroupPolicy = DEFAULT,
    wanted: Iterable[str] = (),
    now: float = NOW,
) -> templates.Templates:
    objects: list[KubeObject] = [*nodes, *csinodes, *pods, *daemon_sets]
    made = inputs(*groups, objects=objects, memory=memory, policy=policy, now=now)
    return templates.build(made, wanted=wanted)


def inputs(
    *groups: Group,
    objects: Iterable[KubeObject] = (),
    memory: TemplateMemory | None = None,
    policy: GroupPolicy = DEFAULT,
    now: float = NOW,
) -> Inputs:
    """Inputs whose options give this policy; only a live cluster requires conditions."""
    shared = set(GroupPolicy.__struct_fields__) & set(Options.__struct_fields__)
    compatibility = options.UPSTREAM if policy.as_upstream else "none"
    chosen = Options(
        compatibility=compatibility, **{name: getattr(policy, name) for name in shared}
    )
    version = features.of_version()
    return Inputs(
        cluster=ClusterState.of(list(objects), version),
        groups=groups,
        memory=memory if memory is not None else TemplateMemory(),
        options=chosen,
        features=version,
        now=now,
        live=policy.conditions_required,
    )


def template(one: Group, **cluster: object) -> Template:
    """The template of a single group, which has to have one."""
    return build(one, **cluster).by_group[one.id]  # type: ignore[arg-type]


def assess(
    *groups: Group,
    nodes: Sequence[Node] = (),
    csinodes: Sequence[CSINode] = (),
    policy: GroupPolicy = DEFAULT,
    absences: Absences | None = None,
) -> readiness.Readiness:
    """Readiness with the templates that the same cluster gives."""
    if absences is not None:
        policy = msgspec.structs.replace(policy, conditions_required=True)
    memory = TemplateMemory(absences={key: dict(nodes) for key, nodes in (absences or {}).items()})
    asked = inputs(*groups, objects=[*nodes, *csinodes], memory=memory, policy=policy)
    return readiness.assess(asked, templates.build(asked).by_group)


def counts(made: Template) -> dict[str, int | None]:
    """The drivers of a template's CSINode, and their numbers."""
    assert made.csinode is not None
    return {driver.name: driver.limit for driver in made.csinode.spec.drivers}


def sources(made: Template) -> dict[str, tuple[int | None, str]]:
    return {limit.driver: (limit.count, limit.source) for limit in made.limits}

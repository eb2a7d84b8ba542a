"""Pods that come with a node: those of DaemonSets, and the kubelet's own (mirror pods)."""

from collections.abc import Collection, Iterable, Iterator

import msgspec

from tonnage.objects import kinds, selectors, taints
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.pods import (
    FINISHED,
    Affinity,
    NodeSelector,
    NodeSelectorRequirement,
    Pod,
    PodSpec,
    PodStatus,
    Toleration,
)
from tonnage.objects.workloads import DaemonSet

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
DAEMON_ANNOTATION = "cluster-autoscaler.kubernetes.io/daemonset-pod"
NODE_CRITICAL = "system-node-critical"

_KIND = "DaemonSet"
_NODE_NAME_FIELD = "metadata.name"
_AUTOMATIC = (
    Toleration(key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute"),
    Toleration(key="node.kubernetes.io/unreachable", operator="Exists", effect="NoExecute"),
    Toleration(key="node.kubernetes.io/disk-pressure", operator="Exists", effect="NoSchedule"),
    Toleration(key="node.kubernetes.io/memory-pressure", operator="Exists", effect="NoSchedule"),
    Toleration(key="node.kubernetes.io/pid-pressure", operator="Exists", effect="NoSchedule"),
    Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule"),
)
_ON_HOST_NETWORK = Toleration(
    key="node.kubernetes.io/network-unavailable", operator="Exists", effect="NoSchedule"
)


def staying(pods: Iterable[Pod]) -> list[Pod]:
    """Of a node's pods those that the next node of its group would have as well."""
    return [
        pod
        for pod in pods
        if pod.metadata.deletion_timestamp is None
        and pod.status.phase not in FINISHED
        and (is_mirror(pod) or is_daemon(pod.metadata))
    ]


def is_mirror(pod: Pod) -> bool:
    return MIRROR_ANNOTATION in pod.metadata.annotations


def is_daemon(pod: ObjectMeta) -> bool:
    controller = pod.controller
    return (controller is not None and controller.kind == _KIND) or (
        pod.annotations.get(DAEMON_ANNOTATION) == "true"
    )


def moved(pod: Pod, node: str) -> Pod:
    """The pod as it would be on another node: new name and uid, and pinned there, if at all."""
    name = f"{pod.metadata.name}-{node}"
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(
            pod.metadata, name=name, uid=f"{pod.metadata.namespace}/{name}", resource_version=""
        ),
        spec=msgspec.structs.replace(
            pod.spec, node_name=node, affinity=_pinned_to(pod.spec.affinity, node)
        ),
    )


def missing(
    node: Node, present: Iterable[Pod], daemon_sets: Iterable[DaemonSet], *, critical_only: bool
) -> list[Pod]:
    """Pods of the DaemonSets that would run on the node and have none among those present.

    `critical_only` leaves out those that could not make room for themselves, which is how
    upstream completes a copy of a real node.
    """
    running = {_owner(pod) for pod in present}
    return [
        _new_pod(daemon_set, node.metadata.name)
        for daemon_set in daemon_sets
        if not running & _identities(daemon_set)
        and (not critical_only or _makes_room(daemon_set))
        and runs_on(daemon_set, node)
    ]


def registering(
    node: Node, daemon_sets: Iterable[DaemonSet], drivers: Collection[str]
) -> frozenset[str]:
    """Of these CSI drivers those that a DaemonSet brings to the node.

    Such a DaemonSet mounts the driver's directory among the kubelet's plugins.
    """
    return frozenset(
        driver
        for daemon_set in daemon_sets
        for driver in set(map(plugin_of, _host_paths(daemon_set))).intersection(drivers)
        if runs_on(daemon_set, node)
    )


def plugin_of(path: str) -> str:
    """The directory among the kubelet's plugins that a path of a node leads to, if it does."""
    _, _, below = path.partition("/kubelet/plugins/")
    return below.partition("/")[0]


def _host_paths(daemon_set: DaemonSet) -> Iterator[str]:
    for volume in daemon_set.spec.template.spec.volumes:
        if volume.host_path is not None:
            yield volume.host_path.path


def runs_on(daemon_set: DaemonSet, node: Node) -> bool:
    """Whether the DaemonSet controller would create a pod for the node."""
    spec = daemon_set.spec.template.spec
    if spec.node_name not in ("", node.metadata.name):
        return False
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    if required is not None and not selectors.node_matches(required, labels, node.metadata.name):
        return False
    return taints.untolerated(node.spec.taints, _tolerations(spec)) is None


def _tolerations(spec: PodSpec) -> tuple[Toleration, ...]:
    """A daemon pod's tolerations: its own, and those the controller gives to all of them."""
    own = (*spec.tolerations, *_AUTOMATIC)
    return (*own, _ON_HOST_NETWORK) if spec.host_network else own


def _new_pod(daemon_set: DaemonSet, node: str) -> Pod:
    template = daemon_set.spec.template
    name = f"{daemon_set.metadata.name}-{node}"
    namespace = daemon_set.metadata.namespace
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"{namespace}/{name}",
            labels=template.metadata.labels,
            annotations=template.metadata.annotations,
            owner_references=(kinds.owner_reference(daemon_set),),
        ),
        spec=msgspec.structs.replace(
            template.spec, node_name=node, tolerations=_tolerations(template.spec)
        ),
        status=PodStatus(phase="Running"),
    )


def _owner(pod: Pod) -> tuple[str, ...]:
    controller = pod.metadata.controller
    if controller is None or controller.kind != _KIND:
        return ()
    if controller.uid:
        return (controller.uid,)
    return (pod.metadata.namespace, controller.name)


def _identities(daemon_set: DaemonSet) -> set[tuple[str, ...]]:
    """How its pods may name it: by uid, or by name where a file leaves uids out."""
    meta = daemon_set.metadata
    by_name = (meta.namespace, meta.name)
    return {by_name, (meta.uid,)} if meta.uid else {by_name}


def _makes_room(daemon_set: DaemonSet) -> bool:
    spec = daemon_set.spec.template.spec
    return spec.priority_class_name == NODE_CRITICAL and spec.preemption_policy in (
        "",
        "PreemptLowerPriority",
    )


def _pinned_to(affinity: Affinity | None, node: str) -> Affinity | None:
    """The affinity with the node's name in place of the one it was pinned to by name."""
    if (
        affinity is None
        or affinity.node_affinity is None
        or affinity.node_affinity.required is None
    ):
        return affinity
    terms = tuple(
        msgspec.structs.replace(
            term, match_fields=tuple(_renamed(field, node) for field in term.match_fields)
        )
        for term in affinity.node_affinity.required.node_selector_terms
    )
    return msgspec.structs.replace(
        affinity,
        node_affinity=msgspec.structs.replace(
            affinity.node_affinity, required=NodeSelector(node_selector_terms=terms)
        ),
    )


def _renamed(field: NodeSelectorRequirement, node: str) -> NodeSelectorRequirement:
    if field.key == _NODE_NAME_FIELD and field.operator == "In":
        return msgspec.structs.replace(field, values=(node,))
    return field

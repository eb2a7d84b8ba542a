"""The filters that look at a node alone: name, cordon, taints, labels, declared features."""

from collections.abc import Iterable

from tonnage.objects import selectors
from tonnage.objects.nodes import Node, Taint
from tonnage.objects.pods import Container, NodeSelector, Pod, Toleration
from tonnage.testing.reference.cluster import ReferenceCluster
from tonnage.testing.reference.inventory import HostedNode
from tonnage.testing.reference.outcomes import SKIP, PluginRefusal, Stance, unresolvable

OTHER_NAME = "node(s) didn't match the requested node name"
CORDONED = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"
WRONG_LABELS = "node(s) didn't match Pod's node affinity/selector"
CONFLICT = "pod affinity terms conflict"
MISSING_FEATURES = "node(s) didn't match Pod's required features"

CORDON_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
REPELLING = frozenset({"NoSchedule", "NoExecute"})


def node_name(cluster: ReferenceCluster, pod: Pod) -> Stance:
    wanted = pod.spec.node_name

    def check(hosted: HostedNode) -> PluginRefusal | None:
        return unresolvable(OTHER_NAME) if wanted not in ("", hosted.name) else None

    narrows = wanted != "" and cluster.kubernetes_version >= (1, 37)
    return Stance(check=check, only=frozenset({wanted}) if narrows else None)


def node_unschedulable(cluster: ReferenceCluster, pod: Pod) -> Stance:
    def check(hosted: HostedNode) -> PluginRefusal | None:
        if not hosted.node.spec.unschedulable or _tolerates(cluster, pod, CORDON_TAINT):
            return None
        return unresolvable(CORDONED)

    return Stance(check=check)


def taint_toleration(cluster: ReferenceCluster, pod: Pod) -> Stance:
    def check(hosted: HostedNode) -> PluginRefusal | None:
        return None if tolerates_node(cluster, pod, hosted.node) else unresolvable(TAINTED)

    return Stance(check=check)


def tolerates_node(cluster: ReferenceCluster, pod: Pod, node: Node) -> bool:
    """Whether no taint of the node keeps the pod away."""
    return all(
        _tolerates(cluster, pod, taint) for taint in node.spec.taints if taint.effect in REPELLING
    )


def node_affinity(_: ReferenceCluster, pod: Pod) -> Stance:
    required = required_terms(pod)
    if required is None and not pod.spec.node_selector:
        return SKIP
    only = _named_nodes(required) if required is not None else None
    if only is not None and not only:
        return Stance(refusal=unresolvable(CONFLICT))

    def check(hosted: HostedNode) -> PluginRefusal | None:
        return None if attracted(pod, hosted.node) else unresolvable(WRONG_LABELS)

    return Stance(check=check, only=only)


def attracted(pod: Pod, node: Node) -> bool:
    """Whether the node has what the pod's nodeSelector and required node affinity ask for."""
    labels = node.metadata.labels
    if any(labels.get(label) != value for label, value in pod.spec.node_selector.items()):
        return False
    required = required_terms(pod)
    return required is None or selectors.node_matches(required, labels, node.metadata.name)


def required_terms(pod: Pod) -> NodeSelector | None:
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    return affinity.node_affinity.required


def node_declared_features(cluster: ReferenceCluster, pod: Pod) -> Stance:
    needed = _needed_features(cluster, pod) if cluster.enabled("NodeDeclaredFeatures") else set()
    if not needed:
        return SKIP

    def check(hosted: HostedNode) -> PluginRefusal | None:
        declared = hosted.node.status.declared_features
        return None if needed.issubset(declared) else unresolvable(MISSING_FEATURES)

    return Stance(check=check)


def _named_nodes(required: NodeSelector) -> frozenset[str] | None:
    """The nodes the terms name one by one; `None` as soon as one term names none."""
    names: set[str] = set()
    for term in required.node_selector_terms:
        listed = [
            set(requirement.values)
            for requirement in term.match_fields
            if requirement.key == "metadata.name" and requirement.operator == "In"
        ]
        if not listed:
            return None
        names |= set.intersection(*listed)
    return frozenset(names) if required.node_selector_terms else None


def _tolerates(cluster: ReferenceCluster, pod: Pod, taint: Taint) -> bool:
    compares = cluster.enabled("TaintTolerationComparisonOperators")
    return any(_tolerated_by(entry, taint, compares) for entry in pod.spec.tolerations)


def _tolerated_by(toleration: Toleration, taint: Taint, compares: bool) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt" if compares:
            return _compares(toleration, taint)
        case _:
            return False


def _compares(toleration: Toleration, taint: Taint) -> bool:
    asked, actual = _decimal(toleration.value), _decimal(taint.value)
    if asked is None or actual is None:
        return False
    return actual < asked if toleration.operator == "Lt" else actual > asked


def _decimal(text: str) -> int | None:
    digits = text.removeprefix("-")
    plain = digits.isascii() and digits.isdecimal() and str(int(digits)) == digits
    return int(text) if plain and text != "-0" and -(2**63) <= int(text) < 2**63 else None


def _needed_features(cluster: ReferenceCluster, pod: Pod) -> set[str]:
    containers = pod.spec.init_containers + pod.spec.containers
    needed = set()
    if _restarts_all(containers):
        needed.add("RestartAllContainersOnContainerExits")
    if pod.spec.host_network and pod.spec.host_users is False:
        needed.add("UserNamespacesHostNetworkSupport")
    if cluster.kubernetes_version >= (1, 37) and _binds_with_options(containers):
        needed.add("VolumeBindMountOptions")
    return needed


def _restarts_all(containers: Iterable[Container]) -> bool:
    return any(
        rule.action == "RestartAllContainers"
        for container in containers
        for rule in container.restart_policy_rules
    )


def _binds_with_options(containers: Iterable[Container]) -> bool:
    return any(
        mount.bind_mount_options for container in containers for mount in container.volume_mounts
    )

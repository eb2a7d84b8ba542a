"""What a new node of a group would be: from annotations, infrastructure and the group's own nodes.

Where several say something, the later of this list wins: general defaults, the status of the
infrastructure template, labels that Cluster API puts on nodes, annotations, a node of the group.
"""

from collections.abc import Mapping

from tonnage.objects.labels import (
    ARCH,
    BETA_INSTANCE_TYPE,
    BETA_REGION,
    BETA_ZONE,
    INSTANCE_TYPE,
    OS,
    REGION,
)
from tonnage.objects.meta import ObjectMeta, ResourceList
from tonnage.objects.nodes import Node, NodeSpec, NodeStatus, Taint
from tonnage.objects.scenarios import GroupTemplate
from tonnage.objects.storage import CSINode, CSINodeSpec
from tonnage.providers.clusterapi.annotations import Capacity
from tonnage.providers.clusterapi.shapes import InfrastructureStatus, Scalable

DEFAULT_PODS = "110"
ARCHITECTURES = ("amd64", "arm64", "ppc64le", "s390x")

_OF_A_NODE = (
    ARCH,
    OS,
    INSTANCE_TYPE,
    BETA_INSTANCE_TYPE,
    REGION,
    BETA_REGION,
    BETA_ZONE,
)
"""Labels that the next node shares with one of the group. Not the zone: a group may have several;
upstream takes it over under its old name only."""

_ROLE = "node-role.kubernetes.io"
_MANAGED = ("node-restriction.kubernetes.io", "node.cluster.x-k8s.io")


def template(
    scalable: Scalable,
    capacity: Capacity,
    *,
    infrastructure: InfrastructureStatus,
    example: Node | None,
    architecture: str,
) -> GroupTemplate | None:
    """The template, or `None` where CPU or memory is not known."""
    resources: ResourceList = {**infrastructure.capacity, **capacity.resources}
    if "cpu" not in resources or "memory" not in resources:
        return None
    resources.setdefault("pods", DEFAULT_PODS)
    name = scalable.metadata.name
    made_from = scalable.spec.template
    info = infrastructure.node_info
    labels = {
        ARCH: info.architecture or architecture,
        OS: info.operating_system or "linux",
        **_managed(made_from.spec.metadata.labels),
        **_managed(made_from.metadata.labels),
        **capacity.labels,
        **_shared(example),
    }
    node = Node(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=NodeSpec(taints=_merged(made_from.spec.taints, capacity.taints)),
        status=NodeStatus(capacity=resources, allocatable=resources),
    )
    csi_node = None
    if capacity.drivers:
        csi_node = CSINode(
            metadata=ObjectMeta(name=name), spec=CSINodeSpec(drivers=capacity.drivers)
        )
    return GroupTemplate(node=node, csi_node=csi_node)


def _managed(labels: Mapping[str, str]) -> dict[str, str]:
    """Those labels of a machine that Cluster API copies to its node."""
    return {key: value for key, value in labels.items() if _is_managed(key.partition("/")[0])}


def _is_managed(domain: str) -> bool:
    return domain == _ROLE or any(domain == one or domain.endswith(f".{one}") for one in _MANAGED)


def _shared(example: Node | None) -> dict[str, str]:
    labels = example.metadata.labels if example is not None else {}
    return {key: labels[key] for key in _OF_A_NODE if key in labels}


def _merged(declared: tuple[Taint, ...], annotated: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """A taint of the annotation stands for one with the same key and effect."""
    found = {(one.key, one.effect): one for one in declared}
    found |= {(one.key, one.effect): one for one in annotated}
    return tuple(found.values())

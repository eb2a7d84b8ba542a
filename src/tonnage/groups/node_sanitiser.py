"""Taking what is particular to one node out of it, so that it can stand for the next one."""

from collections.abc import Iterable

import msgspec

from tonnage.groups import passing_taints
from tonnage.groups.model import TEMPLATE_NODE_LABEL
from tonnage.groups.policy import GroupPolicy
from tonnage.objects.labels import (
    BETA_INSTANCE_TYPE,
    BETA_REGION,
    BETA_ZONE,
    HOSTNAME,
    INSTANCE_TYPE,
    REGION,
    ZONE,
)
from tonnage.objects.meta import ObjectMeta, OwnerReference
from tonnage.objects.nodes import Node, NodeSpec, NodeStatus
from tonnage.objects.storage import CSINode

DEFAULT_PODS = 110
_DEPRECATED = ((INSTANCE_TYPE, BETA_INSTANCE_TYPE), (ZONE, BETA_ZONE), (REGION, BETA_REGION))


def template_name(group: str) -> str:
    return f"template-node-for-{group}"


def node(example: Node, name: str, *, host_keys: Iterable[str], policy: GroupPolicy) -> Node:
    """A new node like the example: own name and hostname, no passing taints, nothing of its past.

    Upstream keeps a cordon, and every host label but the hostname.
    """
    return Node(
        metadata=ObjectMeta(
            name=name,
            uid=name,
            labels={
                **example.metadata.labels,
                HOSTNAME: name,
                **dict.fromkeys(host_keys, name),
                TEMPLATE_NODE_LABEL: "true",
            },
            annotations=example.metadata.annotations,
        ),
        spec=NodeSpec(
            unschedulable=example.spec.unschedulable and policy.as_upstream,
            taints=passing_taints.lasting(example.spec.taints, policy),
        ),
        status=NodeStatus(
            capacity=example.status.capacity,
            allocatable=example.status.allocatable,
            declared_features=example.status.declared_features,
        ),
    )


def csinode(example: CSINode, name: str) -> CSINode:
    """The CSINode of the new node; drivers, labels and annotations stay as they are."""
    owner = OwnerReference(api_version="v1", kind="Node", name=name, uid=name)
    return CSINode(
        metadata=ObjectMeta(
            name=name,
            uid=name,
            labels=example.metadata.labels,
            annotations=example.metadata.annotations,
            owner_references=(owner,),
        ),
        spec=example.spec,
    )


def with_labels(example: Node, labels: dict[str, str]) -> Node:
    """The node with further labels."""
    if not labels:
        return example
    metadata = msgspec.structs.replace(
        example.metadata, labels={**example.metadata.labels, **labels}
    )
    return msgspec.structs.replace(example, metadata=metadata)


def with_deprecated_labels(example: Node) -> Node:
    """The node with the old names of its instance type, zone and region beside the new ones."""
    labels = example.metadata.labels
    return with_labels(example, {old: labels[new] for new, old in _DEPRECATED if new in labels})


def with_room(example: Node) -> Node:
    """The node with what a declaration may leave out: pods, and capacity or allocatable."""
    status = example.status
    allocatable = status.allocatable or status.capacity
    if "pods" not in allocatable:
        allocatable = {**allocatable, "pods": status.capacity.get("pods", DEFAULT_PODS)}
    return msgspec.structs.replace(
        example,
        status=msgspec.structs.replace(
            status, allocatable=allocatable, capacity=status.capacity or allocatable
        ),
    )

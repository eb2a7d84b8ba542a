"""Node and Namespace."""

import msgspec

from tonnage.objects.meta import Condition, ObjectMeta, ObjectRecord, Record, ResourceList

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The one label that the API server gives every namespace."""


class Taint(Record, frozen=True, kw_only=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Record, frozen=True, kw_only=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeStatus(Record, frozen=True, kw_only=True):
    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[Condition, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(ObjectRecord, frozen=True, kw_only=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(ObjectRecord, frozen=True, kw_only=True):
    @staticmethod
    def bare(name: str) -> "Namespace":
        """As the API server would have made it."""
        return Namespace(metadata=ObjectMeta(name=name, labels={NAMESPACE_NAME: name}))

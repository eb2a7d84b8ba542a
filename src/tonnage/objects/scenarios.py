"""The two kinds of our own: NodeGroup and Scenario."""

from typing import Annotated, Any, TypeAlias

import msgspec

from tonnage.objects.meta import LabelSelector, ObjectMeta, ObjectRecord, Quantity, Record
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSINode

API_VERSION = "tonnage.dev/v1alpha1"

_PRICE = ("string", "integer", "number", "null")

MOST_NODES = 100_000
"""No group is larger: that is several times what the largest clusters have."""


class StorageCapacity(Record, frozen=True, kw_only=True):
    """What a new node would have for a storage class: in all, and for a single volume."""

    storage_class_name: str
    capacity: Quantity
    maximum_volume_size: Quantity | None = None


class GroupTemplate(Record, frozen=True, kw_only=True):
    """What a new node of the group would look like, as its provider says."""

    node: Node
    csi_node: CSINode | None = msgspec.field(default=None, name="csiNode")
    storage_capacity: tuple[StorageCapacity, ...] = ()


class SlotPool(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Slots of a node that volumes of several drivers share.

    `members` are drivers with the slots one of their volumes takes, `occupied` slots that other
    things take: network interfaces, local disks. Without a size it is the one that the catalogue
    has for the machine. With a selector it is for those nodes only.
    """

    name: str
    size: int | None = None
    members: dict[str, int] = {}
    occupied: int = 0
    node_selector: LabelSelector | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name: expected a name that is not empty")
        if not self.members:
            raise ValueError("members: expected drivers with weights, such as {ebs.csi.aws.com: 1}")
        for driver, weight in self.members.items():
            if weight < 1:
                raise ValueError(f"members.{driver}: {weight}: expected 1 slot or more")
        if self.size is not None and self.size < 0:
            raise ValueError(f"size: {self.size}: expected 0 slots or more")
        if self.occupied < 0:
            raise ValueError(f"occupied: {self.occupied}: expected 0 slots or more")


# Whether it is negative is checked below: msgspec would not name the key.
_Slots: TypeAlias = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0})]


class LimitOverrides(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the operator says of attach limits of new nodes, for whatever provider.

    By group or by instance type, then by driver; a group's number goes before its type's.
    """

    groups: dict[str, dict[str, _Slots]] = {}
    instance_types: dict[str, dict[str, _Slots]] = {}

    def __post_init__(self) -> None:
        for field, numbers in (("groups", self.groups), ("instanceTypes", self.instance_types)):
            for name, by_driver in numbers.items():
                for driver, count in by_driver.items():
                    if count < 0:
                        raise ValueError(f"{field}.{name}.{driver}: {count}: expected 0 or more")

    def of(self, group: str, instance_type: str) -> dict[str, int]:
        """Numbers by driver for new nodes of a group."""
        by_type = self.instance_types.get(instance_type, {})
        return {**by_type, **self.groups.get(group, {})}


class NodeGroupSpec(Record, frozen=True, kw_only=True):
    min_size: int = 0
    max_size: int
    target_size: int | None = None
    scaling: str = "any"
    limits: dict[str, int] = {}
    pools: tuple[SlotPool, ...] = ()
    nodes: tuple[str, ...] = ()
    node_selector: LabelSelector | None = None
    price_per_hour: Annotated[
        Any, msgspec.Meta(extra_json_schema={"anyOf": [{"type": t} for t in _PRICE]})
    ] = None
    """A quantity; anything else is no price, and no reason to refuse the group (`prices`)."""
    options: dict[str, float | str | bool] = {}
    template: GroupTemplate | None = None


class NodeGroup(ObjectRecord, frozen=True, kw_only=True):
    spec: NodeGroupSpec


class ScenarioSpec(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cluster in one document; `objects` are decoded by kind, so that a bad one has a name."""

    kubernetes_version: str = ""
    feature_gates: dict[str, bool] = {}
    options: dict[str, object] = {}
    objects: tuple[msgspec.Raw, ...] = ()


class Scenario(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: ScenarioSpec = ScenarioSpec()

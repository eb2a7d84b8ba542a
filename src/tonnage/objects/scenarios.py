"""The two kinds of our own: NodeGroup and Scenario."""

import msgspec

from tonnage.objects.meta import LabelSelector, ObjectMeta, Quantity, Record
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSINode

API_VERSION = "tonnage.dev/v1alpha1"


class GroupTemplate(Record, frozen=True, kw_only=True):
    """What a new node of the group would look like, as its provider says."""

    node: Node
    csi_node: CSINode | None = msgspec.field(default=None, name="csiNode")


class NodeGroupSpec(Record, frozen=True, kw_only=True):
    min_size: int = 0
    max_size: int
    target_size: int | None = None
    scaling: str = "any"
    limits: dict[str, int] = {}
    nodes: tuple[str, ...] = ()
    node_selector: LabelSelector | None = None
    price_per_hour: Quantity | None = None
    template: GroupTemplate | None = None


class NodeGroup(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeGroupSpec


class ScenarioSpec(Record, frozen=True, kw_only=True):
    """A cluster in one document; `objects` are decoded by kind, so that a bad one has a name."""

    kubernetes_version: str = ""
    feature_gates: dict[str, bool] = {}
    options: dict[str, object] = {}
    objects: tuple[msgspec.Raw, ...] = ()


class Scenario(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ScenarioSpec = ScenarioSpec()

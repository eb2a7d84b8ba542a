"""The Node and CSINode of a machine that exists as objects only."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from tonnage.errors import InputError
from tonnage.groups.passing_taints import NOT_READY
from tonnage.objects.labels import HOSTNAME
from tonnage.objects.meta import Condition, LabelSelector, ObjectMeta, OwnerReference
from tonnage.objects.nodes import Node, NodeSpec, Taint
from tonnage.objects.scenarios import NodeGroup
from tonnage.objects.storage import CSINode, CSINodeSpec

GROUP_LABEL = "kwok.tonnage.dev/group"
STOCK_ANNOTATION = "kwok.tonnage.dev/stock"
CSI_NODE_ANNOTATION = "kwok.tonnage.dev/csi-node"

NEVER_UPDATED = "NodeStatusNeverUpdated"
"""The reason that the node lifecycle controller gives for a node nobody ever spoke for."""

CSI_NODE_STATES = ("registered", "empty", "absent")
"""What comes with a new node: its template's drivers registered, none of them yet, no CSINode."""

_NOT_STARTED = Condition(type="Ready", status="False", reason=NEVER_UPDATED)
"""From a node without any condition the node lifecycle controller takes the not-ready taint."""

_GROUP_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")


def check(group: NodeGroup) -> NodeGroup:
    """The group as it is, if its nodes can be named and labelled after it."""
    name = group.metadata.name
    if not _GROUP_NAME.fullmatch(name):
        raise InputError(
            f"NodeGroup {name}: metadata.name: expected at most 63 lower-case letters, digits,"
            " dots and dashes, as nodes are named and labelled after it"
        )
    stock = group.metadata.annotations.get(STOCK_ANNOTATION)
    if stock is not None and not stock.isdecimal():
        raise InputError(
            f"NodeGroup {name}: metadata.annotations[{STOCK_ANNOTATION}]: expected a number of"
            f" machines, found {stock!r}"
        )
    told = group.metadata.annotations.get(CSI_NODE_ANNOTATION)
    if told is not None and told not in CSI_NODE_STATES:
        raise InputError(
            f"NodeGroup {name}: metadata.annotations[{CSI_NODE_ANNOTATION}]: expected"
            f" {', '.join(CSI_NODE_STATES)}, found {told!r}"
        )
    return group


def by_label(group: NodeGroup, label: str = GROUP_LABEL) -> NodeGroup:
    """The group with the nodes that carry its name under the label, whatever it declares."""
    selector = LabelSelector(match_labels={label: group.metadata.name})
    spec = msgspec.structs.replace(group.spec, nodes=(), node_selector=selector)
    return msgspec.structs.replace(group, spec=spec)


def stock(group: NodeGroup) -> int | None:
    """How many machines of its kind the world has; `None` is no end of them."""
    text = group.metadata.annotations.get(STOCK_ANNOTATION)
    return None if text is None else int(text)


def provider_id(group: str, name: str) -> str:
    return f"kwok://{group}/{name}"


def node(group: NodeGroup, name: str, *, startup_taints: Sequence[Taint] = ()) -> Node:
    """A new node of the group, which has said nothing of itself yet and takes no pods so far."""
    template = group.spec.template.node if group.spec.template is not None else Node()
    labels = {
        **_renamed(template.metadata.labels, template.metadata.name, name),
        HOSTNAME: name,
        GROUP_LABEL: group.metadata.name,
    }
    # An API server with the usual admission adds this taint by itself; others do not.
    taints = (*template.spec.taints, *startup_taints, Taint(key=NOT_READY, effect="NoSchedule"))
    return Node(
        metadata=ObjectMeta(name=name, labels=labels, annotations=template.metadata.annotations),
        spec=NodeSpec(
            unschedulable=template.spec.unschedulable,
            taints=tuple({(taint.key, taint.effect): taint for taint in taints}.values()),
            provider_id=provider_id(group.metadata.name, name),
        ),
        status=msgspec.structs.replace(template.status, conditions=(_NOT_STARTED,)),
    )


def csi_node(group: NodeGroup, owner: Node) -> CSINode | None:
    """What the node's kubelet has published when the node appears, if anything."""
    state = group.metadata.annotations.get(CSI_NODE_ANNOTATION, "registered")
    if state == "absent":
        return None
    template = group.spec.template.csi_node if group.spec.template is not None else None
    template = template or CSINode()
    name = owner.metadata.name
    reference = OwnerReference(api_version="v1", kind="Node", name=name, uid=owner.metadata.uid)
    drivers = template.spec.drivers if state == "registered" else ()
    return CSINode(
        metadata=ObjectMeta(
            name=name,
            annotations=template.metadata.annotations,
            owner_references=(reference,),
        ),
        spec=CSINodeSpec(
            drivers=tuple(msgspec.structs.replace(driver, node_id=name) for driver in drivers)
        ),
    )


def has_started(node: Node) -> bool:
    """Whether its kubelet, or whoever plays it, has ever spoken for the node."""
    return any(
        condition.type == "Ready" and condition.reason != NEVER_UPDATED
        for condition in node.status.conditions
    )


def _renamed(labels: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Labels whose value is the template's own name are about the node, not about the group."""
    return {key: new if old and value == old else value for key, value in labels.items()}

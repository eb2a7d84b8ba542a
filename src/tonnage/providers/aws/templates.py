"""A new node of an Auto Scaling group, before there is any: from its instance type and its tags."""

from collections.abc import Sequence

from tonnage.groups import catalogue
from tonnage.objects.labels import ARCH, HOSTNAME, INSTANCE_TYPE, OS, REGION, ZONE
from tonnage.objects.meta import Condition, ObjectMeta, Quantity
from tonnage.objects.nodes import Node, NodeSpec, NodeStatus
from tonnage.objects.scenarios import GroupTemplate
from tonnage.objects.storage import CSINode, CSINodeSpec, NodeDriver, NodeDriverAllocatable
from tonnage.providers.aws.machines import InstanceType
from tonnage.providers.aws.tags import TagTemplate

EBS_ZONE = "topology.ebs.csi.aws.com/zone"
_PODS = 110


def build(
    group: str, machine: InstanceType, told: TagTemplate, *, zones: Sequence[str]
) -> GroupTemplate:
    """With several zones the first one stands for all, as upstream has it."""
    name = f"{group}-asg-template"
    zone = zones[0] if zones else ""
    resources: dict[str, Quantity] = {
        "pods": _PODS,
        "cpu": machine.cpus,
        "memory": machine.memory * 1024 * 1024,
        **({"nvidia.com/gpu": machine.gpus} if machine.gpus else {}),
        **told.resources,
    }
    labels = {
        ARCH: machine.architecture,
        OS: "linux",
        HOSTNAME: name,
        INSTANCE_TYPE: machine.name,
        **({ZONE: zone, EBS_ZONE: zone} if zone else {}),
        **({REGION: zone.rstrip("abcdefghij")} if zone else {}),
        **told.labels,
    }
    node = Node(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=NodeSpec(taints=told.taints),
        status=NodeStatus(
            capacity=resources,
            allocatable=resources,
            conditions=(Condition(type="Ready", status="True"),),
        ),
    )
    if told.drivers is None:
        return GroupTemplate(node=node)
    drivers = tuple(_driver(one, count, machine, name) for one, count in told.drivers.items())
    return GroupTemplate(
        node=node,
        csi_node=CSINode(metadata=ObjectMeta(name=name), spec=CSINodeSpec(drivers=drivers)),
    )


def _driver(name: str, count: int | None, machine: InstanceType, node: str) -> NodeDriver:
    """A number of the group's own goes before what the machine is known for."""
    is_ebs = name == catalogue.EBS
    if count is None and is_ebs:
        count = machine.ebs_slots or None
    return NodeDriver(
        name=name,
        node_id=node,
        topology_keys=(EBS_ZONE, ZONE, OS) if is_ebs else (),
        allocatable=NodeDriverAllocatable(count=count) if count is not None else None,
    )

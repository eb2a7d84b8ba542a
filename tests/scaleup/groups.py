"""Node groups for tests of plans, built by keyword."""

from collections.abc import Iterable, Mapping

from tonnage.objects.meta import ObjectMeta, OwnerReference
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.testing import builders as make

DRIVER = "disk.example.com"


def group(
    name: str,
    *,
    slots: Mapping[str, int | None] | None = None,
    cpu: str = "4",
    most: int = 10,
    target: int | None = None,
    nodes: Iterable[str] = (),
    price: str | None = None,
    limits: Mapping[str, int] | None = None,
    labels: Mapping[str, str] | None = None,
    template: bool = True,
) -> NodeGroup:
    """A group whose template lists the drivers of `slots`, if given, each with its limit."""
    csinode = make.csinode("template", slots) if slots is not None else None
    described = GroupTemplate(node=make.node("template", cpu=cpu, labels=labels), csi_node=csinode)
    return NodeGroup(
        metadata=ObjectMeta(name=name),
        spec=NodeGroupSpec(
            max_size=most,
            target_size=target,
            nodes=tuple(nodes),
            price_per_hour=price,
            limits=dict(limits or {}),
            template=described if template else None,
        ),
    )


def owned_by(kind: str, name: str = "owner") -> OwnerReference:
    return OwnerReference(api_version="apps/v1", kind=kind, name=name, uid=name, controller=True)

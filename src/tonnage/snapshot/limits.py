"""Where the attach limits of a node that exists are read from.

kube-scheduler reads the CSINode and nothing else. The KEP of 2018 read keys of the
node's allocatable resources and had defaults of its own; that accounting is kept as
an option for clusters that still live by it.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from tonnage.objects import limitkeys, quantities
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSINode

INSTANCE_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")


class NodeLimits(NamedTuple):
    """Drivers the node lists, and the limits among them; no entry is no limit."""

    listed: tuple[str, ...]
    limits: dict[str, int]
    csinode: bool


LimitReader: TypeAlias = Callable[[Node, CSINode | None, Iterable[str]], NodeLimits]
"""Reads a node's limits; the names of all drivers known are there to recognise hashed keys by."""


def from_csinode(
    node: Node,  # noqa: ARG001
    csinode: CSINode | None,
    known: Iterable[str] = (),  # noqa: ARG001
) -> NodeLimits:
    """As kube-scheduler has it since 1.32."""
    if csinode is None:
        return NodeLimits((), {}, csinode=False)
    drivers = csinode.spec.drivers
    return NodeLimits(
        tuple(driver.name for driver in drivers),
        {driver.name: driver.limit for driver in drivers if driver.limit is not None},
        csinode=True,
    )


def from_csinode_and_allocatable(
    node: Node, csinode: CSINode | None, known: Iterable[str] = ()
) -> NodeLimits:
    """As the KEP of 2018 has it: allocatable keys beside the CSINode, which wins, then defaults."""
    listed, limits, exists = from_csinode(node, csinode)
    found = dict(limits)
    allocatable = {
        name: quantities.value(amount)
        for name, amount in node.status.allocatable.items()
        if limitkeys.is_attachable_volumes(name)
    }
    for driver in {*listed, *limitkeys.drivers_of(allocatable, {*listed, *known})}:
        if (
            driver not in found
            and (limit := allocatable.get(limitkeys.key_for(driver))) is not None
        ):
            found[driver] = limit
    instance_type = next(
        (node.metadata.labels[key] for key in INSTANCE_TYPE_LABELS if key in node.metadata.labels),
        "",
    )
    for plugin, driver in limitkeys.INTREE_DRIVERS.items():
        if driver not in found:
            key = limitkeys.INTREE_KEYS[plugin]
            found[driver] = allocatable.get(
                key, limitkeys.intree_default(plugin, instance_type, None)
            )
    return NodeLimits(listed, found, csinode=exists)

"""Where the attach limits of a node that exists are read from.

kube-scheduler reads the CSINode and nothing else. The KEP of 2018 read keys of the
node's allocatable resources and had defaults of its own; that accounting is kept as
an option for clusters that still live by it.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from tonnage.objects import limit_keys
from tonnage.objects.labels import BETA_INSTANCE_TYPE, INSTANCE_TYPE
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSINode

INSTANCE_TYPE_LABELS = (INSTANCE_TYPE, BETA_INSTANCE_TYPE)


class NodeLimits(NamedTuple):
    """Drivers the node lists, and the limits among them; no entry is no limit."""

    listed: tuple[str, ...]
    limits: dict[str, int]
    csinode: bool


class LimitReader(Protocol):
    """Reads a node's limits.

    The names of all drivers known are there to recognise hashed keys by, and with them the keys
    that CSIDrivers name.
    """

    def __call__(
        self, node: Node, csinode: CSINode | None, known: Iterable[str], own: Mapping[str, str], /
    ) -> NodeLimits: ...


def from_csinode(
    node: Node,  # noqa: ARG001
    csinode: CSINode | None,
    known: Iterable[str] = (),  # noqa: ARG001
    own: Mapping[str, str] = MappingProxyType({}),  # noqa: ARG001
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
    node: Node,
    csinode: CSINode | None,
    known: Iterable[str] = (),
    own: Mapping[str, str] = MappingProxyType({}),
    *,
    max_pd_vols: int | None = None,
) -> NodeLimits:
    """As the KEP of 2018 has it: allocatable keys beside the CSINode, which wins, then defaults.

    Where nobody tells a limit there is none for CSI volumes. For volumes of in-tree plugins there
    is the scheduler's own, which stands under the name of the plugin: `max_pd_vols`, its
    `KUBE_MAX_PD_VOLS`, or the number of old.
    """
    listed, limits, exists = from_csinode(node, csinode)
    told = limit_keys.published(node.status.allocatable, {*listed, *known}, own)
    found = {driver: limit.slots for driver, limit in told.items()} | limits
    for plugin, driver in limit_keys.INTREE_DRIVERS.items():
        if driver not in found:
            found[plugin] = intree_default(plugin, node, max_pd_vols)
    return NodeLimits(listed, found, csinode=exists)


def intree_default(plugin: str, node: Node, max_pd_vols: int | None) -> int:
    """The limit of an in-tree plugin's volumes on a node that tells none."""
    labels = node.metadata.labels
    instance_type = next((labels[key] for key in INSTANCE_TYPE_LABELS if key in labels), "")
    return limit_keys.intree_default(plugin, instance_type, max_pd_vols)

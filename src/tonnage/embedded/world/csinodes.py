"""CSINode objects as kubelets write them: made once, changed only from their newest version."""

from collections.abc import Callable
from contextlib import suppress

import msgspec

from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.objects.meta import ObjectMeta, OwnerReference
from tonnage.objects.nodes import Node
from tonnage.objects.storage import MIGRATED_PLUGINS_ANNOTATION, CSINode, NodeDriver

Drivers = tuple[NodeDriver, ...]

_MIGRATED = ",".join(
    f"kubernetes.io/{name}"
    for name in (
        "aws-ebs",
        "azure-disk",
        "azure-file",
        "cinder",
        "gce-pd",
        "portworx-volume",
        "vsphere-volume",
    )
)
_ATTEMPTS = 5


async def drivers_of(client: Client, node: Node) -> Drivers:
    """Who has registered on the node, as the server knows it."""
    try:
        found = await client.get(CSINode, node.metadata.name)
    except errors.NotFound:
        return ()
    return () if _of_a_former(found, node) else found.spec.drivers


async def ensure(client: Client, node: Node) -> CSINode:
    """The node's CSINode; a new one without drivers if there is none, or one of a former node."""
    try:
        found = await client.get(CSINode, node.metadata.name)
    except errors.NotFound:
        return await client.create(CSINode, _empty(node))
    if _of_a_former(found, node):
        # Garbage collectors remove it too, and may be faster.
        with suppress(errors.NotFound):
            await client.delete(CSINode, node.metadata.name, uid=found.metadata.uid)
        return await client.create(CSINode, _empty(node))
    return found


async def change(client: Client, node: Node, change: Callable[[Drivers], Drivers]) -> None:
    """Write what `change` makes of the node's drivers; `Conflict` if others are ever faster."""
    for attempt in range(1, _ATTEMPTS + 1):
        found = await ensure(client, node)
        drivers = change(found.spec.drivers)
        if drivers == found.spec.drivers:
            return
        patch = {
            "metadata": {"resourceVersion": found.metadata.resource_version},
            "spec": {"drivers": [msgspec.to_builtins(driver) for driver in drivers]},
        }
        try:
            await client.patch(CSINode, node.metadata.name, patch)
            return
        except errors.Conflict:
            if attempt == _ATTEMPTS:
                raise


def _of_a_former(csi_node: CSINode, node: Node) -> bool:
    """Whether it is left from another node of this name; one without an owner is anybody's."""
    owners = [
        reference.uid
        for reference in csi_node.metadata.owner_references
        if reference.kind == "Node"
    ]
    return bool(owners) and node.metadata.uid not in owners


def _empty(node: Node) -> CSINode:
    name, uid = node.metadata.name, node.metadata.uid
    return CSINode(
        metadata=ObjectMeta(
            name=name,
            annotations={MIGRATED_PLUGINS_ANNOTATION: _MIGRATED},
            owner_references=(OwnerReference(api_version="v1", kind="Node", name=name, uid=uid),),
        )
    )

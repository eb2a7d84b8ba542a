"""Taking back what agents have published, when nobody needs it any more."""

from collections.abc import AsyncIterator
from contextlib import suppress

from tonnage.cluster import errors
from tonnage.cluster.client import EVERYTHING, Client, PatchStyle, Selection
from tonnage.nodeagent import limit_patches, provenance
from tonnage.objects.meta import Record
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSINode


class Removed(Record, frozen=True, kw_only=True):
    """What was, or would be, taken off one node."""

    node: str
    keys: tuple[str, ...]
    csinode: tuple[str, ...]
    """Drivers whose count in the CSINode is put back."""


async def remove(
    client: Client, *, node: str = "", dry_run: bool = False
) -> AsyncIterator[Removed]:
    """Clean one node, or all; of a node without our annotation nothing is ours."""
    selection = Selection(fields=f"metadata.name={node}") if node else EVERYTHING
    for one in (await client.list(Node, selection)).items:
        entries = provenance.decode(one.metadata.annotations)
        if provenance.ANNOTATION not in one.metadata.annotations:
            continue
        counts = await _counts_before(client, one.metadata.name, entries)
        keys = [entry.key for entry in entries.values() if entry.count is not None]
        if not dry_run:
            if counts:
                await client.patch(
                    CSINode,
                    one.metadata.name,
                    limit_patches.csinode_change(counts),
                    style=PatchStyle.STRATEGIC,
                )
            change = limit_patches.node_change(one, {})
            with suppress(errors.NotFound):
                await client.patch(Node, one.metadata.name, change, subresource="status")
        yield Removed(node=one.metadata.name, keys=tuple(keys), csinode=tuple(sorted(counts)))


async def _counts_before(
    client: Client, node: str, entries: dict[str, provenance.ProvenanceEntry]
) -> dict[str, int | None]:
    """The counts of the CSINode as they were, of those that are still ours."""
    written = {name: one.csinode for name, one in entries.items() if one.csinode is not None}
    if not written:
        return {}
    try:
        csinode = await client.get(CSINode, node)
    except errors.NotFound:
        return {}
    return {
        listed.name: ours.before
        for listed in csinode.spec.drivers
        if (ours := written.get(listed.name)) is not None and listed.limit == ours.count
    }

"""What to change so that node and CSINode say what holds; nothing if they do already."""

from collections.abc import Mapping

from tonnage.errors import InputError
from tonnage.nodeagent import provenance
from tonnage.nodeagent.provenance import ProvenanceEntry
from tonnage.objects import limit_keys, quantities, resources
from tonnage.objects.meta import ResourceList
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSIDriver, CSINode

Change = dict[str, object]


def node_change(node: Node, entries: Mapping[str, ProvenanceEntry]) -> Change | None:
    """A merge patch of the node's status; of keys that are not ours nothing is touched."""
    ours = {entry.key for entry in provenance.decode(node.metadata.annotations).values()}
    wanted = {entry.key: entry.count for entry in entries.values() if entry.count is not None}
    changed: dict[str, str | None] = {}
    for key in sorted({*ours, *wanted}):
        count = wanted.get(key)
        if count is None:
            # The kubelet would copy it back from one to the other: gone only if gone from both.
            if key in node.status.capacity or key in node.status.allocatable:
                changed[key] = None
        elif not (
            _is(node.status.capacity, key, count) and _is(node.status.allocatable, key, count)
        ):
            changed[key] = str(count)
    change: Change = {}
    text = provenance.encode(entries) if entries else None
    if node.metadata.annotations.get(provenance.ANNOTATION) != text:
        change["metadata"] = {"annotations": {provenance.ANNOTATION: text}}
    if changed:
        change["status"] = {"capacity": changed, "allocatable": changed}
    return change or None


def csinode_counts(
    csinode: CSINode | None,
    entries: Mapping[str, ProvenanceEntry],
    drivers: Mapping[str, CSIDriver],
) -> dict[str, int]:
    """The counts of a CSINode that are to be replaced.

    Of a driver that has the kubelet ask it again and again, the count is the kubelet's: it would
    be put back within seconds.
    """
    counts = {}
    for listed in csinode.spec.drivers if csinode is not None else ():
        entry = entries.get(listed.name)
        driver = drivers.get(listed.name)
        refreshed = driver is not None and driver.spec.node_allocatable_update_period_seconds
        if entry is None or entry.count is None or refreshed or listed.limit == entry.count:
            continue
        counts[listed.name] = entry.count
    return counts


def csinode_change(counts: Mapping[str, int | None]) -> Change:
    """A strategic merge patch of a CSINode; `None` takes the limit away.

    Of a driver that is no longer listed nothing comes of it: an entry without the id of the node
    is refused.
    """
    drivers = [
        {"name": name, "allocatable": None if count is None else {"count": count}}
        for name, count in sorted(counts.items())
    ]
    return {"spec": {"drivers": drivers}}


def key_of(name: str, driver: CSIDriver | None) -> str:
    """The key of a driver's limit: the one its object names, else by rule.

    An `InputError` if neither can be the name of a resource.
    """
    key = limit_keys.key_of(driver) if driver is not None else limit_keys.key_for(name)
    if not resources.valid_qualified_name(key):
        raise InputError(f"driver {name!r}: {key!r} cannot be a resource name")
    return key


def _is(published: ResourceList, key: str, count: int) -> bool:
    return key in published and quantities.value(published[key]) == count

"""Which slot pools a node has: what is configured for it, for its group, or known of its machine.

The catalogue knows how many slots a machine shares between volumes and everything else, but not
which drivers there are: a pool is configured by naming them. Without a size it is the
catalogue's. Each driver has already taken off what it knows of, interfaces say; so where members
publish numbers of their own, the largest of these is what they share.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tonnage.groups import catalogue, limits
from tonnage.groups.model import CATALOGUE, OVERRIDE, Group
from tonnage.objects import selectors
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import SlotPool
from tonnage.objects.storage import CSINode
from tonnage.snapshot.slot_pools import Pool

OCCUPIED_ANNOTATION = "tonnage.dev/occupied-slots"
"""On a Node, slots that things other than volumes take: `nitro=5,other=2`, by pool."""


class NodePool(NamedTuple):
    """A pool of a node, and where its size comes from."""

    pool: Pool
    source: str


def of_node(
    node: Node, csinode: CSINode | None, group: Group | None, configured: Sequence[SlotPool]
) -> list[NodePool]:
    """The pools of a node. Those of its group come first; one name is used once."""
    found: dict[str, NodePool] = {}
    own = group.pools if group is not None else ()
    for declared in (*own, *configured):
        if declared.name not in found and _is_for(declared, node):
            pool = _sized(declared, node) or _from_catalogue(declared, node, csinode)
            if pool is not None:
                found[declared.name] = pool
    return list(found.values())


def by_node(
    nodes: Iterable[Node],
    csinodes: Mapping[str, CSINode],
    groups: Iterable[Group],
    configured: Sequence[SlotPool],
) -> Iterator[tuple[str, list[Pool]]]:
    """The pools of nodes that have any, by name of the node."""
    group_of = {name: group for group in groups for name in group.nodes}
    for node in nodes:
        name = node.metadata.name
        group = group_of.get(name)
        if configured or (group is not None and group.pools):
            found = of_node(node, csinodes.get(name), group, configured)
            if found:
                yield name, [one.pool for one in found]


def problems(nodes: Iterable[Node]) -> Iterator[str]:
    """Annotations that cannot be read."""
    for node in nodes:
        text = node.metadata.annotations.get(OCCUPIED_ANNOTATION)
        if text is not None and _occupied(text) is None:
            yield (
                f"node {node.metadata.name}: annotation {OCCUPIED_ANNOTATION} is {text!r}, expected"
                " pools with numbers such as nitro=5,other=2; what is configured is used"
            )


def _is_for(declared: SlotPool, node: Node) -> bool:
    if declared.node_selector is None:
        return True
    try:
        return selectors.matches(declared.node_selector, node.metadata.labels)
    except selectors.SelectorError:
        return False


def _sized(declared: SlotPool, node: Node) -> NodePool | None:
    if declared.size is None:
        return None
    here = _occupied(node.metadata.annotations.get(OCCUPIED_ANNOTATION, "")) or {}
    free = max(declared.size - here.get(declared.name, declared.occupied), 0)
    return NodePool(Pool(declared.name, _members(declared.members), free), OVERRIDE)


def _from_catalogue(declared: SlotPool, node: Node, csinode: CSINode | None) -> NodePool | None:
    known = catalogue.pool(limits.instance_type(node))
    if known is None or known.name != declared.name:
        return None
    weights = {member.name: member.weight for member in known.members if member.kind == "driver"}
    members = {**weights, **declared.members}
    listed = csinode.spec.drivers if csinode is not None else ()
    numbers = [
        driver.limit * members[driver.name]
        for driver in listed
        if driver.name in members and driver.limit is not None
    ]
    held = sum(member.weight * member.held for member in known.members)
    free = max(numbers, default=max(known.size - max(held, declared.occupied), 0))
    return NodePool(Pool(declared.name, _members(members), free), CATALOGUE)


def _members(members: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(members.items()))


def _occupied(text: str) -> dict[str, int] | None:
    """Numbers by pool; `None` if the text is not of that form."""
    found: dict[str, int] = {}
    for part in text.split(",") if text else ():
        name, _, number = part.strip().rpartition("=")
        if not name or not (number.isascii() and number.isdigit()):
            return None
        found[name] = int(number)
    return found

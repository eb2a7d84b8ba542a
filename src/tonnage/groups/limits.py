"""How many volumes of each driver a node that does not exist will take, and who says so.

The order of the sources is fixed: the operator, a live node of the group, the provider, nodes the
group once had, the same instance type elsewhere, the catalogue. An entry without a number lets
the search go on; a driver that is listed and has no number anywhere is unlimited, one that
nobody lists is unknown.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from tonnage.groups import catalogue
from tonnage.groups.model import UNKNOWN, Limit
from tonnage.objects import quantities
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSINode, NodeDriver

Listing: TypeAlias = Mapping[str, int | None]
"""The drivers a source lists, each with its number or without."""

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
BETA_INSTANCE_TYPE = "beta.kubernetes.io/instance-type"
_GIB = 2**30


def resolve(driver: str, sources: Iterable[tuple[str, Listing]]) -> Limit:
    """The limit from the first source that has a number; sources are asked one by one."""
    listed_by = UNKNOWN
    for source, listing in sources:
        if driver not in listing:
            continue
        count = listing[driver]
        if count is not None:
            return Limit(driver=driver, count=count, source=source)
        if listed_by == UNKNOWN:
            listed_by = source
    return Limit(driver=driver, count=None, source=listed_by)


def as_listed(csinode: CSINode | None, source: str, wanted: Iterable[str]) -> tuple[Limit, ...]:
    """What a CSINode says and nothing else, and unknown for the wanted drivers it does not list."""
    drivers = csinode.spec.drivers if csinode is not None else ()
    found = {
        driver.name: Limit(driver=driver.name, count=driver.limit, source=source)
        for driver in reversed(drivers)
    }
    for driver in wanted:
        found.setdefault(driver, Limit(driver=driver, count=None, source=UNKNOWN))
    return tuple(found[driver] for driver in sorted(found))


def listing(drivers: Iterable[NodeDriver]) -> dict[str, int | None]:
    """The numbers of a CSINode's drivers."""
    return {driver.name: driver.limit for driver in drivers}


def typical(counts: Iterable[int | None]) -> int | None:
    """The number most nodes give, the lowest of those equally common; `None` if none gives one."""
    votes = Counter(count for count in counts if count is not None)
    return min(votes, key=lambda count: (-votes[count], count), default=None)


def instance_type(node: Node) -> str:
    """The instance type by its label, the deprecated one as second choice; empty if unknown."""
    labels = node.metadata.labels
    return labels.get(INSTANCE_TYPE) or labels.get(BETA_INSTANCE_TYPE) or ""


def from_catalogue(driver: str, node: Node) -> int | None:
    """The catalogue's number for a driver on a node of this type, size and labels."""
    memory = node.status.capacity.get("memory")
    found = catalogue.lookup(
        driver,
        instance_type(node),
        # What a node reports is a little less than what the machine has.
        memory_gib=-(-quantities.value(memory) // _GIB) if memory is not None else None,
        labels=node.metadata.labels,
    )
    return found.count if found is not None else None


class Registered(NamedTuple):
    """A ready node with what is registered on it, and its group if it has one."""

    node: Node
    csinode: CSINode
    group: str | None


class _Sighting(NamedTuple):
    group: str | None
    driver: NodeDriver


class Learned:
    """What nodes show of their instance types, by type and driver."""

    def __init__(self, nodes: Iterable[Registered]) -> None:
        self._sightings: dict[str, dict[str, list[_Sighting]]] = {}
        for node, csinode, group in nodes:
            kind = instance_type(node)
            if not kind:
                continue
            of_type = self._sightings.setdefault(kind, {})
            for driver in csinode.spec.drivers:
                of_type.setdefault(driver.name, []).append(_Sighting(group, driver))

    def elsewhere(self, kind: str, driver: str, group: str) -> NodeDriver | None:
        """A driver as nodes of the type outside the group show it, with the typical number."""
        sightings = [
            sighting.driver
            for sighting in self._sightings.get(kind, {}).get(driver, ())
            if sighting.group != group
        ]
        if not sightings:
            return None
        count = typical(sighting.limit for sighting in sightings)
        return next((sighting for sighting in sightings if sighting.limit == count), sightings[0])

"""How many volumes of each driver a node that does not exist will take, and who says so.

The order of the sources is fixed: the operator, a live node of the group, the provider, nodes the
group once had, the same instance type elsewhere, the catalogue. An entry without a number lets
the search go on; a driver that is listed and has no number anywhere is unlimited, one that
nobody lists is unknown.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from tonnage.groups import catalogue
from tonnage.groups.model import UNKNOWN, Limit
from tonnage.objects import quantities
from tonnage.objects.labels import BETA_INSTANCE_TYPE, INSTANCE_TYPE
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSINode, NodeDriver

Listing: TypeAlias = Mapping[str, int | None]
"""The drivers a source lists, each with its number or without."""

_GIB = 2**30

_TypeAndDriver: TypeAlias = tuple[str, str]
_Votes: TypeAlias = Counter[int | None]


def resolve(driver: str, told: Iterable[Limit]) -> Limit:
    """The first that has a number, else the first there is; they are asked for one by one."""
    listed = None
    for limit in told:
        if limit.count is not None:
            return limit
        listed = listed or limit
    return listed or Limit(driver=driver, count=None, source=UNKNOWN)


def listed_in(listing: Listing, driver: str, source: str) -> Iterator[Limit]:
    """What a source says of a driver, if it lists it."""
    if driver in listing:
        yield Limit(driver=driver, count=listing[driver], source=source)


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
    return _commonest(Counter(counts))


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


class Learned:
    """What nodes show of their instance types, counted once by type, driver and group."""

    def __init__(self, nodes: Iterable[Registered]) -> None:
        self._examples: dict[_TypeAndDriver, dict[int | None, NodeDriver]] = defaultdict(dict)
        self._votes: dict[_TypeAndDriver, _Votes] = defaultdict(Counter)
        self._own: dict[tuple[str, str, str | None], _Votes] = defaultdict(Counter)
        for node, csinode, group in nodes:
            kind = instance_type(node)
            for driver in csinode.spec.drivers if kind else ():
                count = driver.limit
                self._examples[kind, driver.name].setdefault(count, driver)
                self._votes[kind, driver.name][count] += 1
                self._own[kind, driver.name, group][count] += 1

    def elsewhere(self, kind: str, driver: str, group: str) -> NodeDriver | None:
        """A driver as nodes of the type outside the group show it, with the typical number."""
        outside = self._votes[kind, driver] - self._own[kind, driver, group]
        return self._examples[kind, driver][_commonest(outside)] if outside else None


def _commonest(votes: _Votes) -> int | None:
    numbers = (count for count in votes if count is not None)
    return min(numbers, key=lambda count: (-votes[count], count), default=None)

"""Drivers that are missing on most of the nodes that should have them: the driver is at fault then.

A node that is deleted for it would be replaced by one that fares no better.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from tonnage.groups import drivers
from tonnage.groups.node_state import NodeState
from tonnage.objects.meta import Record
from tonnage.objects.storage import CSINode


class LackingNode(msgspec.Struct, frozen=True):
    """A node that lacks drivers; `lost` says that it was up before, `late` that its time is up."""

    group: str | None
    drivers: tuple[str, ...]
    lost: bool
    late: bool


class DriverOutage(Record, frozen=True, kw_only=True):
    """A driver that more nodes lack than have.

    `late` of the nodes that lack it are past their deadline. `groups` are theirs. `proven` is
    false where a single node that never had the driver is all there is to go by: that may as well
    be the node.
    """

    driver: str
    lacking: int
    late: int
    registered: int
    groups: tuple[str, ...] = ()
    proven: bool = True

    @property
    def total(self) -> bool:
        """Whether it is the driver for sure, and no node of the cluster has it."""
        return self.proven and self.registered == 0

    def __str__(self) -> str:
        if self.registered == 0:
            return f"driver {self.driver} is registered on no node of the cluster"
        nodes = self.lacking + self.registered
        return f"driver {self.driver} is missing on {self.lacking} of {nodes} nodes"

    def warnings(self) -> Iterator[str]:
        """What is wrong, for every group that expects the driver of its nodes."""
        for group in self.groups:
            yield f"group {group}: {self}, and expected of this group's nodes"


def find(
    lacking: Iterable[LackingNode],
    csinodes: Mapping[str, CSINode],
    states: Mapping[str, NodeState],
) -> tuple[DriverOutage, ...]:
    """The outages, in order of driver."""
    without: defaultdict[str, list[LackingNode]] = defaultdict(list)
    for node in lacking:
        for driver in node.drivers:
            without[driver].append(node)
    if not without:
        return ()
    registered = Counter(
        name
        for node, state in states.items()
        if not state.deleting
        for name in drivers.by_name(csinodes.get(node))
    )
    return tuple(
        DriverOutage(
            driver=driver,
            lacking=len(nodes),
            late=sum(node.late for node in nodes),
            registered=registered[driver],
            groups=tuple(sorted({node.group for node in nodes if node.group is not None})),
            proven=len(nodes) > 1 or any(node.lost for node in nodes),
        )
        for driver, nodes in sorted(without.items())
        if len(nodes) > registered[driver]
    )

"""Attach slots by node group, instance type or driver, and what lies idle because they ran out.

CPU and memory are stranded on a node when all slots of a driver are taken there: no pod with a
volume of that driver can use them any more. A type with more slots per CPU would strand less.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from tonnage.api import slots
from tonnage.api.slots import DriverTotal, SlotUse
from tonnage.groups import limits, templates
from tonnage.groups.catalogue import denser
from tonnage.groups.catalogue.denser import DenserType
from tonnage.groups.inputs import Inputs
from tonnage.groups.model import LIVE, UNKNOWN, Limit
from tonnage.nodeagent import provenance
from tonnage.snapshot.snapshot import NodeRecord, Snapshot

By: TypeAlias = Literal["group", "type", "driver"]

NO_GROUP = "(no group)"
NO_TYPE = "(no type)"


class SlotShare(msgspec.Struct, frozen=True, kw_only=True):
    """The slots of one driver in one group, on one instance type, or everywhere.

    `sources` say where the limits of its nodes come from. `new_node` is what the group's next node
    will have, and who says so. `full_nodes` have no slot left; their free CPU, in thousandths, and
    memory, in bytes, are stranded. `denser` are types that would strand less of them.
    """

    name: str
    total: DriverTotal
    sources: tuple[str, ...] = ()
    new_node: Limit | None = None
    full_nodes: tuple[str, ...] = ()
    stranded_cpu: int = 0
    stranded_memory: int = 0
    denser: tuple[DenserType, ...] = ()


class StrandingReport(msgspec.Struct, frozen=True, kw_only=True):
    """Shares by name and driver."""

    shares: tuple[SlotShare, ...]
    warnings: tuple[str, ...] = ()


def report(inputs: Inputs, *, by: By) -> StrandingReport:
    """The slots of a cluster, added up."""
    snapshot = inputs.cluster.snapshot
    counted = slots.report(snapshot)
    next_nodes: dict[tuple[str, str], Limit] = {}
    if by == "group":
        drivers = [total.driver for total in counted.totals]
        next_nodes = _limits_of_next(inputs, wanted=drivers)

    def name_of(use: SlotUse) -> str:
        if by == "group":
            group = inputs.group_of.get(use.node)
            return group.id if group is not None else NO_GROUP
        return (_type(snapshot.nodes[use.node]) or NO_TYPE) if by == "type" else use.driver

    uses: dict[tuple[str, str], list[SlotUse]] = {key: [] for key in next_nodes}
    for use in counted.slots:
        uses.setdefault((name_of(use), use.driver), []).append(use)
    warnings = counted.warnings
    if by == "group" and not inputs.groups:
        warnings = (*warnings, "there is no NodeGroup in the input, so no node is in a group")
    return StrandingReport(
        shares=tuple(
            _share(
                name,
                driver,
                uses[name, driver],
                snapshot=snapshot,
                new_node=next_nodes.get((name, driver)),
                advise=by != "driver",
            )
            for name, driver in sorted(uses)
        ),
        warnings=warnings,
    )


def _share(
    name: str,
    driver: str,
    uses: list[SlotUse],
    *,
    snapshot: Snapshot,
    new_node: Limit | None,
    advise: bool,
) -> SlotShare:
    full = [snapshot.nodes[use.node] for use in uses if use.free == 0 and use.used + use.held]
    cpu, memory = _free(snapshot, full, "cpu"), _free(snapshot, full, "memory")
    types = Counter(filter(None, map(_type, full)))
    commonest = types.most_common(1)[0][0] if types else ""
    return SlotShare(
        name=name,
        total=slots.total(driver, uses),
        sources=tuple(sorted({_source(snapshot.nodes[use.node], use) for use in uses})),
        new_node=new_node,
        full_nodes=tuple(node.name for node in full),
        stranded_cpu=cpu,
        stranded_memory=memory,
        denser=tuple(denser.than(commonest, driver)) if advise and cpu else (),
    )


def _free(snapshot: Snapshot, nodes: Iterable[NodeRecord], resource: str) -> int:
    number = snapshot.columns.resource(resource)
    allocatable = snapshot.columns.allocatable[number].data
    used = snapshot.columns.used[number].data
    return sum(max(0, int(allocatable[node.row] - used[node.row])) for node in nodes)


def _type(node: NodeRecord) -> str:
    return limits.instance_type(node.node)


def _source(node: NodeRecord, use: SlotUse) -> str:
    """Where a node's limit comes from: what its agent says of it, else the node itself."""
    if use.state == "unknown":
        return UNKNOWN
    entry = provenance.decode(node.node.metadata.annotations).get(use.driver)
    return str(entry.source) if entry is not None and entry.count == use.limit else LIVE


def _limits_of_next(inputs: Inputs, *, wanted: Iterable[str]) -> dict[tuple[str, str], Limit]:
    """The limits of each group's next node."""
    return {
        (name, limit.driver): limit
        for name, template in templates.build(inputs, wanted=wanted).by_group.items()
        for limit in template.limits
        if limit.source != UNKNOWN
    }

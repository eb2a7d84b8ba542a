"""Slot pools in a plan: every node that is there and every template gets those it has."""

from collections.abc import Sequence

from tonnage.groups import slot_pools
from tonnage.groups.model import Group
from tonnage.objects.scenarios import SlotPool
from tonnage.scaleup.candidates import Candidates
from tonnage.scaleup.plan import GroupPool
from tonnage.snapshot.slot_pools import Pool, set_pools
from tonnage.snapshot.snapshot import Snapshot


def open_pools(
    snapshot: Snapshot,
    groups: Sequence[Group],
    candidates: Candidates,
    configured: Sequence[SlotPool],
) -> tuple[GroupPool, ...]:
    """Set the pools until the trial is over; gives those of new nodes, by group."""
    if not configured and not any(group.pools for group in groups):
        return ()
    rows: dict[int, list[Pool]] = {}
    nodes = [record.node for record in snapshot.nodes.values()]
    for name, pools in slot_pools.by_node(nodes, snapshot.csinodes, groups, configured):
        rows[snapshot.nodes[name].row] = pools
    told = []
    for one in candidates:
        template = one.template
        found = slot_pools.of_node(template.node, template.csinode, one.group, configured)
        rows[one.row.row] = [each.pool for each in found]
        told += [
            GroupPool(group=one.name, pool=pool.name, free=pool.free, source=source)
            for pool, source in found
        ]
    set_pools(snapshot, rows)
    return tuple(told)

"""The slot pools of nodes, found once for each node that is as it was."""

from collections.abc import Sequence
from typing import NamedTuple

from tonnage.groups import slot_pools
from tonnage.groups.model import Group
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import SlotPool
from tonnage.objects.storage import CSINode
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.snapshot.slot_pools import Pool, PoolRows, by_pool, set_rows


class _Known(NamedTuple):
    """The pools of a node, and what they were found from."""

    node: Node
    csinode: CSINode | None
    own: Sequence[SlotPool]
    row: int
    pools: list[Pool]


class NodePools:
    """Holds nothing that could not be found again."""

    def __init__(self) -> None:
        self._configured: Sequence[SlotPool] = ()
        self._known: dict[str, _Known] = {}
        self._rows: list[PoolRows] = []

    def open(self, inputs: ScaleDownInputs) -> None:
        """Let nodes have the slot pools that are configured for them, until the trial is over."""
        configured = inputs.options.pools
        if not configured and not any(group.pools for group in inputs.groups):
            return
        if configured != self._configured:
            self._configured, self._known = configured, {}
        snapshot = inputs.cluster.snapshot
        group_of = {name: group for group in inputs.groups for name in group.nodes}
        before, same = self._known, 0
        found: dict[str, _Known] = {}
        for node in inputs.cluster.nodes:
            name = node.metadata.name
            record, group = snapshot.nodes.get(name), group_of.get(name)
            if record is None:
                continue
            row = record.row
            csinode, own = snapshot.csinodes.get(name), () if group is None else group.pools
            known = before.get(name)
            if (
                known is not None
                and known.node is node
                and known.csinode is csinode
                and known.row == row
                and known.own == own
            ):
                same += 1
            else:
                known = _Known(node, csinode, own, row, _pools(node, csinode, group, configured))
            found[name] = known
        if same < len(found) or len(found) != len(before):
            self._known = found
            self._rows = by_pool({one.row: one.pools for one in found.values()})
        set_rows(snapshot, self._rows)


def _pools(
    node: Node, csinode: CSINode | None, group: Group | None, configured: Sequence[SlotPool]
) -> list[Pool]:
    return [one.pool for one in slot_pools.of_node(node, csinode, group, configured)]

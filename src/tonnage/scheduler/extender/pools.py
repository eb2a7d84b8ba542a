"""Slots that drivers share, kept on the standing snapshot as nodes come and change.

A node's heartbeats change nothing about its pools, and there are many: pools are set anew only when
those of some node are others.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tonnage.cluster.watch_events import Change, EventType
from tonnage.groups import slot_pools
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import SlotPool
from tonnage.objects.storage import CSINode
from tonnage.service.live_cluster import LiveCluster
from tonnage.snapshot.slot_pools import Pool, clear_pools, set_pools
from tonnage.snapshot.snapshot import Snapshot


class LivePools:
    """`keep` before each question: it costs nothing while nothing has changed."""

    def __init__(self, standing: LiveCluster, configured: Callable[[], Sequence[SlotPool]]) -> None:
        self._standing = standing
        self._configured = configured
        self._used: tuple[SlotPool, ...] = ()
        self._by_node: dict[str, list[Pool]] = {}
        self._set_on: Snapshot | None = None
        standing.cache(Node).subscribe(self._node_changed)
        standing.cache(CSINode).subscribe(self._csi_node_changed)

    def keep(self) -> None:
        """Have the snapshot know the pools of its nodes."""
        configured = tuple(self._configured())
        if configured != self._used:
            self._used = configured
            self._by_node = {}
            for node in self._standing.cache(Node):
                self._look(node)
            self._set_on = None
        snapshot = self._standing.snapshot
        if self._set_on is snapshot:
            return
        clear_pools(snapshot)
        rows = {
            known.row: pools
            for name, pools in self._by_node.items()
            if (known := snapshot.nodes.get(name)) is not None
        }
        set_pools(snapshot, rows)
        self._set_on = snapshot

    def _node_changed(self, change: Change[Node]) -> None:
        if not self._used:
            return
        if change.type is EventType.DELETED:
            if self._by_node.pop(change.object.metadata.name, None) is not None:
                self._set_on = None
        else:
            self._look(change.object)

    def _csi_node_changed(self, change: Change[Any]) -> None:
        node = self._standing.node(change.object.metadata.name) if self._used else None
        if node is not None:
            self._look(node)

    def _look(self, node: Node) -> None:
        name = node.metadata.name
        csinode = self._standing.cache(CSINode).get(name)
        found = [one.pool for one in slot_pools.of_node(node, csinode, None, self._used)]
        if found != self._by_node.get(name, []):
            self._by_node[name] = found
            self._set_on = None

"""What became of pods, claims, drivers and node groups, in the order in which the server wrote it.

All objects of a server are written by one etcd, and a resource version is the number of the write:
so "before" and "after" are facts, however late the watches tell of them.
"""

import json
import random
from typing import NamedTuple

from tests.e2e import deployed
from tonnage.clock import SystemClock
from tonnage.cluster.client import Client, Selection
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.records import ConfigMap
from tonnage.cluster.watching import Change, EventType
from tonnage.embedded.world import nodepatches
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import SELECTED_NODE_ANNOTATION, CSINode, PersistentVolumeClaim
from tonnage.providers.kwok import LEDGER
from tonnage.providers.kwok_objects import GROUP_LABEL


class Placed(NamedTuple):
    """A pod or claim that was given a node, and the number of the write that did."""

    what: str
    node: str
    version: int


class History:
    """Follows one namespace and all nodes; to be asked in the loop that runs it."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.mirror = Mirror(client, clock=SystemClock(), rng=random.Random(1))
        self._nodes = self.mirror.add(Node, Selection(labels=GROUP_LABEL))
        self._pods = self.mirror.add(Pod, Selection(namespace=namespace))
        csi_nodes = self.mirror.add(CSINode)
        claims = self.mirror.add(PersistentVolumeClaim, Selection(namespace=namespace))
        books = self.mirror.add(
            ConfigMap, Selection(namespace=deployed.NAMESPACE, fields=f"metadata.name={LEDGER}")
        )
        self._pods.subscribe(self._pod_changed)
        claims.subscribe(self._claim_changed)
        csi_nodes.subscribe(self._csi_node_changed)
        books.subscribe(self._book_changed)
        self._caches = (self._nodes, self._pods, csi_nodes, claims, books)
        self._registered: dict[tuple[str, str], int] = {}
        self._placed: dict[str, Placed] = {}
        self._sizes: dict[str, list[int]] = {}

    async def synced(self) -> None:
        for cache in self._caches:
            await cache.wait_synced()

    def nodes(self, group: str, *, ready: bool = False) -> list[str]:
        """The nodes there are, or only those that are ready."""
        return sorted(
            node.metadata.name
            for node in self._nodes
            if node.metadata.labels.get(GROUP_LABEL) == group
            and (nodepatches.is_ready(node) or not ready)
        )

    def running(self) -> dict[str, str]:
        """The pods that run, each with its node."""
        return {
            pod.metadata.name: pod.spec.node_name
            for pod in self._pods
            if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
        }

    def uids(self) -> dict[str, str]:
        return {pod.metadata.name: pod.metadata.uid for pod in self._pods}

    def sizes(self, group: str) -> list[int]:
        """Every size the group was asked to have, in order."""
        return self._sizes.get(group, [])

    def placed(self) -> list[Placed]:
        """Pods that were bound, and claims whose volume was wanted on a node."""
        return list(self._placed.values())

    def too_early(self, driver: str) -> list[Placed]:
        """Those that were given a node on which the driver had not registered yet."""
        return [
            one
            for one in self._placed.values()
            if self._registered.get((one.node, driver), one.version + 1) > one.version
        ]

    def _pod_changed(self, change: Change[Pod]) -> None:
        pod = change.object
        if pod.spec.node_name:
            name = f"pod {pod.metadata.name} {pod.metadata.uid}"
            self._place(name, pod.spec.node_name, pod.metadata.resource_version)

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        meta = change.object.metadata
        node = meta.annotations.get(SELECTED_NODE_ANNOTATION, "")
        if node:
            # The scheduler may choose again, and every choice counts.
            self._place(f"claim {meta.name} for {node}", node, meta.resource_version)

    def _place(self, what: str, node: str, version: str) -> None:
        self._placed.setdefault(what, Placed(what, node, int(version)))

    def _csi_node_changed(self, change: Change[CSINode]) -> None:
        meta = change.object.metadata
        for driver in change.object.spec.drivers:
            self._registered.setdefault((meta.name, driver.name), int(meta.resource_version))

    def _book_changed(self, change: Change[ConfigMap]) -> None:
        if change.type is EventType.DELETED:
            return
        for group, text in change.object.data.items():
            size = len(json.loads(text).get("wanted", ()))
            sizes = self._sizes.setdefault(group, [])
            if not sizes or sizes[-1] != size:
                sizes.append(size)

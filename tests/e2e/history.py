"""What became of pods, claims, drivers and node groups, in the order in which the server wrote it.

All objects of a server are written by one etcd, and a resource version is the number of the write:
so "before" and "after" are facts, however late the watches tell of them.
"""

import asyncio
import json
import random
from typing import Any, NamedTuple

from tests.e2e import deployed
from tonnage.clock import SystemClock
from tonnage.cluster.cache import Cache
from tonnage.cluster.client import EVERYTHING, Client, Selection
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.records import ConfigMap
from tonnage.cluster.watch_events import Change, EventType
from tonnage.objects.conditions import is_ready
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
        self._client = client
        self.mirror = Mirror(client, clock=SystemClock(), rng=random.Random(1))
        here = Selection(namespace=namespace)
        book = Selection(namespace=deployed.NAMESPACE, fields=f"metadata.name={LEDGER}")
        self._selections: dict[type[Any], Selection] = {
            Node: Selection(labels=GROUP_LABEL),
            Pod: here,
            CSINode: EVERYTHING,
            PersistentVolumeClaim: here,
            ConfigMap: book,
        }
        self._caches: dict[type[Any], Cache[Any]] = {
            kind: self.mirror.add(kind, selection) for kind, selection in self._selections.items()
        }
        self._nodes: Cache[Node] = self._caches[Node]
        self._pods: Cache[Pod] = self._caches[Pod]
        self._pods.subscribe(self._pod_changed)
        self._caches[PersistentVolumeClaim].subscribe(self._claim_changed)
        self._caches[CSINode].subscribe(self._csi_node_changed)
        self._caches[ConfigMap].subscribe(self._book_changed)
        self._registered: dict[tuple[str, str], int] = {}
        self._placed: dict[str, Placed] = {}
        self._sizes: dict[str, list[int]] = {}

    async def synced(self) -> None:
        for cache in self._caches.values():
            await cache.wait_synced()

    async def caught_up(self, *kinds: type[Any]) -> None:
        """Until it knows of these kinds what the server has by now: watches lag behind it."""
        for kind in kinds:
            while not await self._knows(kind):
                await asyncio.sleep(0.05)

    async def _knows(self, kind: type[Any]) -> bool:
        listing = await self._client.list(kind, self._selections[kind])
        there = {_key(one): int(one.metadata.resource_version) for one in listing.items}
        known = {_key(one): int(one.metadata.resource_version) for one in self._caches[kind]}
        gone = {key: version for key, version in known.items() if key not in there}
        # What is not in the list and newer than it has been made since.
        return all(known.get(key, 0) >= version for key, version in there.items()) and all(
            version > int(listing.resource_version) for version in gone.values()
        )

    def nodes(self, group: str, *, ready: bool = False) -> list[str]:
        """The nodes there are, or only those that are ready."""
        return sorted(
            node.metadata.name
            for node in self._nodes
            if node.metadata.labels.get(GROUP_LABEL) == group and (is_ready(node) or not ready)
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

    def has_registered(self, node: str, driver: str) -> bool:
        """Whether it ever has."""
        return (node, driver) in self._registered

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


def _key(one: Any) -> tuple[str, str]:
    return one.metadata.namespace, one.metadata.name

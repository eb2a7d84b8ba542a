"""Churn on a live cluster: bursts that need nodes, pods that end, noise; and what came of it.

Whoever runs this plays kubelets and scheduler of the one group that nodes are bought from: a new
node gets ready, a waiting pod is bound to it, lives for a while and ends, and its node is empty
then. Each waiting pod needs a node for itself, so what has to be bought is known at any moment and
every purchase and removal can be judged.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Sequence

import msgspec

from benchmarks.soak_process import FRESH
from benchmarks.workloads import GP3, NAMESPACES
from tonnage.clock import SystemClock
from tonnage.cluster import errors
from tonnage.cluster.client import Client, Selection
from tonnage.cluster.config import Access, Endpoint
from tonnage.cluster.http import HttpTransport
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.reflector import ReflectorPace
from tonnage.cluster.watch_events import Change, EventType
from tonnage.errors import ClusterError
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import PersistentVolumeClaim
from tonnage.providers.kwok_objects import GROUP_LABEL, NEVER_UPDATED
from tonnage.testing import builders

_NAMESPACE = NAMESPACES[0]
_BOOT = 3.0
"""Seconds from a node's object to a node that takes pods."""
_LIFE = (20.0, 60.0)
_BETWEEN_BURSTS = (5.0, 20.0)
_BURST = (1, 8)
_TICK = 0.2
_GRACE = 10.0
"""Seconds within which somebody who has not heard of a change yet is not wrong."""


class ChurnReport(msgspec.Struct, kw_only=True):
    """What was done, how long it took, and what should not have been done."""

    pods: int = 0
    bought: int = 0
    removed: int = 0
    changes: int = 0
    """Of pods that have nothing to do with it."""
    latencies: list[float] = []
    """Seconds from a pod to the node that is bought for it, where no interruption was near."""
    wrong: list[str] = []


class Churn:
    """Plays until it is told to finish; `report` is true at any moment."""

    def __init__(self, url: str, *, seed: int, changes_per_second: float) -> None:
        clock, self._rng = SystemClock(), random.Random(seed)
        self._transport = HttpTransport(
            Access(endpoint=Endpoint(server=url)), clock=clock, environ={}
        )
        self._client = Client(self._transport, clock=clock, rng=self._rng)
        pace = ReflectorPace(longest_wait=2.0)
        self._mirror = Mirror(self._client, clock=clock, rng=self._rng, pace=pace)
        self._nodes = self._mirror.add(Node, Selection(labels=f"{GROUP_LABEL}={FRESH}"))
        self._every = 1.0 / changes_per_second
        self._waiting: dict[str, float] = {}
        """Pods without a node, with the moment since which nothing was there for them."""
        self._running: dict[str, tuple[str, float]] = {}
        """Node and end of each pod that is bound."""
        self._booting: dict[str, float] = {}
        self._ended: dict[str, float] = {}
        """When the last pod of a node ended."""
        self._number = 0
        self._finishing = False
        self.disturbed = -_GRACE
        """When somebody last did not answer, as seen from here or by whoever interrupts."""
        self.report = ChurnReport()

    async def run(self, others: Sequence[tuple[str, str]]) -> None:
        """Until cancelled; `others` are pods whose status changes all the time."""
        self._nodes.subscribe(self._node_changed)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._mirror.run())
                group.create_task(self._bursts())
                group.create_task(self._play())
                group.create_task(self._noise(others))
        finally:
            await self._transport.close()

    def finish(self) -> None:
        """No more pods come."""
        self._finishing = True

    @property
    def settled(self) -> bool:
        """Whether every pod has ended and every node was given back."""
        return not (self._waiting or self._running or self._nodes.objects)

    async def _bursts(self) -> None:
        while not self._finishing:
            for _ in range(self._rng.randint(*_BURST)):
                await self._new_pod()
            await asyncio.sleep(self._rng.uniform(*_BETWEEN_BURSTS))

    async def _new_pod(self) -> None:
        self._number += 1
        name = f"soak-{self._number}"
        claim = builders.pvc(name, namespace=_NAMESPACE, storage_class=GP3, bound=False)
        pod = builders.pod(
            name, namespace=_NAMESPACE, cpu="15", pvcs=[name], node_selector={"pool": FRESH}
        )
        if not await self._tried(self._client.create(PersistentVolumeClaim, claim)):
            return
        if not await self._tried(self._client.create(Pod, pod)):
            return
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        await self._status(Pod, name, {"conditions": [condition]}, namespace=_NAMESPACE)
        self.report.pods += 1
        self._waiting[name] = time.monotonic()

    def _node_changed(self, change: Change[Node]) -> None:
        name, now = change.object.metadata.name, time.monotonic()
        if change.type is EventType.ADDED and name not in self._booting:
            self._bought(name, now)
        elif change.type is EventType.DELETED:
            self._removed(name)

    def _bought(self, name: str, now: float) -> None:
        self.report.bought += 1
        self._booting[name] = now
        free = len(self._nodes.objects) - len(self._running)
        # A pod that ended a moment ago was still waiting for whoever decided.
        if free > len(self._waiting) + self._just_ended(now) and self._calm(now):
            self.report.wrong.append(f"{name} bought: {free} free, {len(self._waiting)} waiting")
        elif self._waiting:
            since = sorted(self._waiting.values())
            # The oldest are served first; those before it have nodes that boot.
            began = since[min(max(free - 1, 0), len(since) - 1)]
            if self._calm(began):
                self.report.latencies.append(now - began)

    def _removed(self, name: str) -> None:
        self.report.removed += 1
        self._booting.pop(name, None)
        for pod, (node, _) in list(self._running.items()):
            if node == name:
                self.report.wrong.append(f"{name} removed while {pod} ran on it")
                del self._running[pod]

    def _just_ended(self, now: float) -> int:
        return sum(now - moment < _GRACE for moment in self._ended.values())

    def _calm(self, moment: float) -> bool:
        """Whether nothing was interrupted shortly before that moment, nor has been since."""
        return moment - self.disturbed > _GRACE

    async def _play(self) -> None:
        """Kubelets, scheduler and the pods themselves, of the nodes that are bought."""
        while True:
            now = time.monotonic()
            for node in list(self._nodes):
                if _not_started(node) and now - self._booting.get(node.metadata.name, 0) > _BOOT:
                    await self._boot(node)
            taken = {node for node, _ in self._running.values()}
            free = [node for node in self._nodes if _takes_pods(node)]
            for node in free:
                if node.metadata.name not in taken and self._waiting:
                    await self._bind(min(self._waiting, key=self._waiting.__getitem__), node)
            for pod, (_, end) in list(self._running.items()):
                if now > end:
                    await self._end(pod)
            await asyncio.sleep(_TICK)

    async def _boot(self, node: Node) -> None:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        if await self._status(Node, node.metadata.name, {"conditions": [ready]}):
            change = {"spec": {"taints": None}}
            await self._tried(self._client.patch(Node, node.metadata.name, change))

    async def _bind(self, name: str, node: Node) -> None:
        pod = Pod(metadata=ObjectMeta(name=name, namespace=_NAMESPACE))
        if await self._tried(self._client.bind(pod, node.metadata.name)):
            del self._waiting[name]
            end = time.monotonic() + self._rng.uniform(*_LIFE)
            self._running[name] = node.metadata.name, end
            await self._status(Pod, name, {"phase": "Running"}, namespace=_NAMESPACE)

    async def _end(self, name: str) -> None:
        for kind in (Pod, PersistentVolumeClaim):
            deleted = self._client.delete(kind, name, namespace=_NAMESPACE, grace_period=0)
            if not await self._tried(deleted):
                return
        if name in self._running:
            node, _ = self._running.pop(name)
            self._ended[node] = time.monotonic()

    async def _noise(self, others: Sequence[tuple[str, str]]) -> None:
        while True:
            namespace, name = self._rng.choice(others)
            message = f"change {self.report.changes}"
            if await self._status(Pod, name, {"message": message}, namespace=namespace):
                self.report.changes += 1
            await asyncio.sleep(self._every)

    async def _status(
        self, kind: type[Node] | type[Pod], name: str, status: object, *, namespace: str = ""
    ) -> bool:
        change = {"status": status}
        return await self._tried(
            self._client.patch(kind, name, change, namespace=namespace, subresource="status")
        )

    async def _tried(self, call: Awaitable[object]) -> bool:
        """Whether it went well; what does not is tried again by the next tick, if at all."""
        try:
            await call
        except (errors.NotFound, errors.Conflict):
            return True  # it was done before, by a call whose answer was lost
        except ClusterError:
            self.disturbed = time.monotonic()
            return False
        return True


def _not_started(node: Node) -> bool:
    return any(one.reason == NEVER_UPDATED for one in node.status.conditions)


def _takes_pods(node: Node) -> bool:
    blocked = any(taint.effect != "PreferNoSchedule" for taint in node.spec.taints)
    return not (blocked or _not_started(node) or node.spec.unschedulable)

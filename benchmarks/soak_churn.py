"""Churn on a live cluster: bursts that need nodes, pods that end, noise.

Whoever runs this plays kubelets and scheduler of the one group that nodes are bought from: a new
node gets ready, a waiting pod is bound to it, lives for a while and ends, and its node is empty
then. Each waiting pod needs a node for itself, so what has to be bought is known at any moment and
every purchase and removal can be judged.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from benchmarks.clusters import Size
from benchmarks.soak_judge import Judge
from benchmarks.soak_process import FRESH
from benchmarks.workloads import GP3, NAMESPACES
from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.client import Client, Selection
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.records import ConfigMap
from tonnage.cluster.reflector import ReflectorPace
from tonnage.cluster.transport import HttpRequest, Transport
from tonnage.cluster.watch_events import Change, EventType
from tonnage.errors import ClusterError
from tonnage.groups.passing_taints import TO_BE_DELETED
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import PersistentVolumeClaim
from tonnage.providers.kwok import LEDGER
from tonnage.providers.kwok_objects import GROUP_LABEL, NEVER_UPDATED
from tonnage.testing import builders

NAMESPACE = NAMESPACES[0]
_TICK = 0.2
_AT_A_TIME = 32


class ChurnPace(msgspec.Struct, frozen=True, kw_only=True):
    """How much happens; ranges are in seconds."""

    burst: tuple[int, int] = (1, 8)
    """Pods that come at once."""
    between: tuple[float, float] = (5.0, 20.0)
    life: tuple[float, float] = (20.0, 60.0)
    boot: float = 3.0
    """Seconds from a node's object to a node that takes pods."""
    changes_per_second: float = 20.0


class Churn:
    """Plays until it is told to finish; what came of it is with the judge."""

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock,
        seed: int,
        others: Sequence[tuple[str, str]],
        pace: ChurnPace,
    ) -> None:
        """`others` are pods whose status changes all the time."""
        self._clock, self._rng, self._pace = clock, random.Random(seed), pace
        self._transport, self._others = transport, others
        self.client = Client(transport, clock=clock, rng=self._rng)
        self.mirror = Mirror(
            self.client, clock=clock, rng=self._rng, pace=ReflectorPace(longest_wait=2.0)
        )
        self._nodes = self.mirror.add(Node, Selection(labels=f"{GROUP_LABEL}={FRESH}"))
        self.judge = Judge(clock)
        self._ends: dict[str, float] = {}
        self._number = 0
        self._finishing = False

    async def run(self) -> None:
        """Until cancelled."""
        self._nodes.subscribe(self._node_changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.mirror.run())
            group.create_task(self._bursts())
            group.create_task(self._play())
            group.create_task(self._noise())

    def finish(self) -> None:
        """No more pods come."""
        self._finishing = True

    @property
    def settled(self) -> bool:
        """Whether every pod has ended and every node was given back."""
        return not any(self.left.values())

    @property
    def left(self) -> dict[str, list[str]]:
        """What is there of pods and nodes."""
        names = [node.metadata.name for node in self._nodes]
        return {
            "waiting": list(self.judge.waiting),
            "running": list(self.judge.running),
            "nodes": names,
        }

    async def storm(self, count: int) -> None:
        """So many changes as fast as the server takes them."""

        async def some() -> None:
            for _ in range(count // _AT_A_TIME):
                await self._change_another()

        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_A_TIME):
                group.create_task(some())

    async def check_the_rest(self, size: Size) -> None:
        """Once all is given back, the cluster is what it was and nothing is on order."""
        labels = Selection(labels=f"{GROUP_LABEL},{GROUP_LABEL}!={FRESH}")
        there = len((await self.client.list(Node, labels)).items)
        if there != size.nodes:
            self.judge.report.wrong.append(f"{there} of {size.nodes} nodes of others are left")
        request = HttpRequest(method="GET", path="/api/v1/pods", query=(("limit", "1"),))
        listed = msgspec.json.decode((await self._transport.send(request)).body)
        pods = len(listed["items"]) + listed["metadata"].get("remainingItemCount", 0)
        if pods != size.pods:
            self.judge.report.wrong.append(f"{pods} of {size.pods} pods of others are left")
        going = [name for name in self._others if await self._is_going(*name)]
        if going:
            self.judge.report.wrong.append(f"{len(going)} pods of others are to go: {going[0]}")
        book = await self.client.get(ConfigMap, LEDGER, namespace="kube-system")
        machines = msgspec.json.decode(book.data.get(FRESH, "{}"))
        if machines.get("wanted"):
            self.judge.report.wrong.append(f"still on order: {machines['wanted']}")

    async def _is_going(self, namespace: str, name: str) -> bool:
        pod = await self.client.get(Pod, name, namespace=namespace)
        return pod.metadata.deletion_timestamp is not None

    # Pods

    async def _bursts(self) -> None:
        while not self._finishing:
            for _ in range(self._rng.randint(*self._pace.burst)):
                await self._new_pod()
            await self._clock.sleep(self._rng.uniform(*self._pace.between))

    async def _new_pod(self) -> None:
        self._number += 1
        name = f"soak-{self._number}"
        claim = builders.pvc(name, namespace=NAMESPACE, storage_class=GP3, bound=False)
        await self._insisted(lambda: self.client.create(PersistentVolumeClaim, claim))
        self.judge.needs(name)
        await self._insisted(lambda: self._create_pod(name))
        await self.refuse(name)

    async def _create_pod(self, name: str) -> None:
        """Sent as it is: servers insist on what we do not read, such as images."""
        claimed = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        main = {"name": "main", "image": "soak", "resources": {"requests": {"cpu": "15"}}}
        spec = {"nodeSelector": {"pool": FRESH}, "containers": [main], "volumes": [claimed]}
        pod = {"kind": "Pod", "metadata": {"name": name, "labels": {"soak": name}}, "spec": spec}
        answer = await self._transport.send(
            HttpRequest(
                method="POST",
                path=f"/api/v1/namespaces/{NAMESPACE}/pods",
                headers=(("Content-Type", "application/json"),),
                body=msgspec.json.encode({"apiVersion": "v1", **pod}),
            )
        )
        match answer.status:
            case 201 | 409:
                return
            case 400 | 403 | 422:
                raise RuntimeError(f"pod {name}: {answer.body[:500]!r}")
            case _:
                raise errors.ConnectionFailed(f"pod {name}: {answer.status}")

    async def refuse(self, name: str) -> None:
        """Tell the pod that there is no node for it, as the scheduler does."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        await self._insisted(lambda: self._patched(name, {"conditions": [condition]}))

    async def _play(self) -> None:
        """Kubelets, scheduler and the pods themselves, of the nodes that are bought."""
        while True:
            for node in list(self._nodes):
                if _not_started(node) and self._age(node) > self._pace.boot:
                    await self._boot(node)
            await self.schedule()
            now = self._clock.monotonic()
            for pod in [pod for pod, end in self._ends.items() if now > end]:
                await self.end(pod)
            await self._clock.sleep(_TICK)

    async def schedule(self) -> None:
        """Bind pods to nodes that take them."""
        taken, waiting = set(self.judge.running.values()), self.judge.waiting
        for node in [node for node in self._nodes if _takes_pods(node)]:
            if node.metadata.name not in taken and waiting:
                await self._bind(min(waiting, key=waiting.__getitem__), node.metadata.name)

    async def _boot(self, node: Node) -> None:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        change = {"status": {"conditions": [ready]}}
        name = node.metadata.name
        if await self.tried(self.client.patch(Node, name, change, subresource="status")):
            await self.tried(self.client.patch(Node, name, {"spec": {"taints": None}}))

    async def _bind(self, name: str, node: str) -> None:
        try:
            # What was heard of a node may be old by now, as nothing is of a scheduler's own cache.
            current = await self.client.get(Node, node)
        except ClusterError:
            return
        pod = Pod(metadata=ObjectMeta(name=name, namespace=NAMESPACE))
        if _takes_pods(current) and await self.tried(self.client.bind(pod, node)):
            # By an earlier call whose answer was lost it may be on another one.
            with suppress(ClusterError):
                bound = await self.client.get(Pod, name, namespace=NAMESPACE)
                await self.runs(name, bound.spec.node_name)

    async def runs(self, name: str, node: str) -> None:
        """A pod has its node."""
        self.judge.bound(name, node)
        self._ends[name] = self._clock.monotonic() + self._rng.uniform(*self._pace.life)
        await self.tried(self._patched(name, {"phase": "Running"}))

    async def end(self, name: str) -> bool:
        """Whether a pod is gone, and its claim."""
        for kind in (Pod, PersistentVolumeClaim):
            deleted = self.client.delete(kind, name, namespace=NAMESPACE, grace_period=0)
            if not await self.tried(deleted):
                return False
        del self._ends[name]
        if name in self.judge.running:
            self.judge.ended(name)
        return True

    # Nodes

    def _node_changed(self, change: Change[Node]) -> None:
        name = change.object.metadata.name
        if change.type is EventType.DELETED:
            self.judge.removed(name)
        elif name not in self.judge.nodes:
            self.judge.bought(name, leaving=sum(_leaves(node) for node in self._nodes))

    def _age(self, node: Node) -> float:
        now = self._clock.monotonic()
        return now - self.judge.nodes.get(node.metadata.name, now)

    # Noise

    async def _noise(self) -> None:
        while True:
            await self._change_another()
            await self._clock.sleep(1.0 / self._pace.changes_per_second)

    async def _change_another(self) -> None:
        namespace, name = self._rng.choice(self._others)
        message = {"message": f"change {self.judge.report.changes}"}
        if await self.tried(self._patched(name, message, namespace=namespace)):
            self.judge.report.changes += 1

    async def _patched(self, name: str, status: object, *, namespace: str = NAMESPACE) -> None:
        change = {"status": status}
        await self.client.patch(Pod, name, change, namespace=namespace, subresource="status")

    async def _insisted(self, call: Callable[[], Awaitable[object]]) -> None:
        """Again and again until it is done."""
        while not await self.tried(call()):
            await self._clock.sleep(_TICK)

    async def tried(self, call: Awaitable[object]) -> bool:
        """Whether it went well; what does not is tried again by the next tick, if at all."""
        try:
            await call
        except (errors.NotFound, errors.Conflict):
            return True  # it was done before, by a call whose answer was lost
        except (errors.Invalid, errors.Forbidden):
            raise  # as it will be for ever
        except ClusterError:
            self.judge.trouble()
            return False
        return True


def _not_started(node: Node) -> bool:
    return any(one.reason == NEVER_UPDATED for one in node.status.conditions)


def _takes_pods(node: Node) -> bool:
    blocked = any(taint.effect != "PreferNoSchedule" for taint in node.spec.taints)
    return not (blocked or _not_started(node) or node.spec.unschedulable)


def _leaves(node: Node) -> bool:
    return any(taint.key == TO_BE_DELETED for taint in node.spec.taints)

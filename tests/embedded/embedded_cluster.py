"""A whole cluster without sockets: API, world, cloud, and somebody who gives pods a node."""

import asyncio
import heapq
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tonnage.cluster.client import Client
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.transport import HttpRequest, Transport
from tonnage.cluster.watch_events import Change, EventType
from tonnage.embedded.apiserver import ApiServer, InProcessTransport
from tonnage.embedded.cloud import CloudBehaviour, SimulatedCloud
from tonnage.embedded.world import Delay, EmbeddedWorld, WorldBehaviour
from tonnage.objects import taints
from tonnage.objects.conditions import is_ready
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.scenarios import GroupTemplate, NodeGroup
from tonnage.providers.kwok_objects import GROUP_LABEL
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock
from tonnage.testing.provider_contract import declared

Json = dict[str, Any]

DRIVER = "disk.example.com"
AT_ONCE = {
    **dict.fromkeys(("pod_start", "pod_stop", "provision", "attach", "detach"), Delay()),
    "heartbeat": None,
}
"""A world in which nothing takes time but the start of nodes."""
PATHS = {
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/namespaces/default/pods",
    "events": "/api/v1/namespaces/default/events",
    "persistentvolumes": "/api/v1/persistentvolumes",
    "persistentvolumeclaims": "/api/v1/namespaces/default/persistentvolumeclaims",
    "deployments": "/apis/apps/v1/namespaces/default/deployments",
    "replicasets": "/apis/apps/v1/namespaces/default/replicasets",
    "statefulsets": "/apis/apps/v1/namespaces/default/statefulsets",
    "daemonsets": "/apis/apps/v1/namespaces/default/daemonsets",
    "jobs": "/apis/batch/v1/namespaces/default/jobs",
    "csinodes": "/apis/storage.k8s.io/v1/csinodes",
    "csidrivers": "/apis/storage.k8s.io/v1/csidrivers",
    "csistoragecapacities": ("/apis/storage.k8s.io/v1/namespaces/kube-system/csistoragecapacities"),
    "storageclasses": "/apis/storage.k8s.io/v1/storageclasses",
    "volumeattachments": "/apis/storage.k8s.io/v1/volumeattachments",
}


class Binder:
    """A scheduler that knows no resources: the node with the fewest pods that tolerates them.

    Pods that name a node stay with it.
    """

    def __init__(self, client: Client, clock: VirtualClock) -> None:
        self._client = client
        self._clock = clock
        self._mirror = Mirror(client, clock=clock, rng=random.Random(1))
        self._nodes = self._mirror.add(Node)
        self._waiting: dict[tuple[str, str], Pod] = {}
        self._loads: Counter[str] = Counter()
        self._on: dict[str, str] = {}
        self._mirror.add(Pod).subscribe(self._changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._mirror.run())
            tasks.create_task(self._bind())

    def _changed(self, change: Change[Pod]) -> None:
        pod, meta = change.object, change.object.metadata
        self._waiting.pop((meta.namespace, meta.name), None)
        if change.type is EventType.DELETED:
            self._loads[self._on.pop(meta.uid, "")] -= 1
        elif pod.spec.node_name and meta.uid not in self._on:
            self._on[meta.uid] = pod.spec.node_name
            self._loads[pod.spec.node_name] += 1
        elif not pod.spec.node_name and meta.deletion_timestamp is None:
            self._waiting[meta.namespace, meta.name] = pod

    async def _bind(self) -> None:
        while True:
            await self._clock.sleep(0.5)
            if not self._waiting:
                continue
            ready = {node.metadata.name: node for node in self._nodes if _is_open(node)}
            loads = [(self._loads[name], name) for name in ready]
            heapq.heapify(loads)
            for key, pod in list(self._waiting.items()):
                name = self._choose(pod, ready, loads)
                if name and self._waiting.pop(key, None) is not None:
                    self._on[pod.metadata.uid] = name
                    self._loads[name] += 1
                    await self._client.bind(pod, name)

    def _choose(self, pod: Pod, ready: dict[str, Node], loads: list[tuple[int, str]]) -> str:
        pinned = _pinned(pod)
        if pinned:
            return pinned if pinned in ready and _tolerates(pod, ready[pinned]) else ""
        passed_over, found = [], ""
        while loads and not found:
            load, name = heapq.heappop(loads)
            if _tolerates(pod, ready[name]):
                found, load = name, load + 1
            passed_over.append((load, name))
        for entry in passed_over:
            heapq.heappush(loads, entry)
        return found


def _is_open(node: Node) -> bool:
    return is_ready(node) and not node.spec.unschedulable


def _tolerates(pod: Pod, node: Node) -> bool:
    return taints.untolerated(node.spec.taints, pod.spec.tolerations) is None


def _pinned(pod: Pod) -> str:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    return next((one.values[0] for term in terms for one in term.match_fields), "")


class Cluster:
    """Words for what a test puts in and sees."""

    def __init__(
        self,
        clock: VirtualClock,
        behaviour: WorldBehaviour,
        *,
        groups: Iterable[NodeGroup] = (),
        cloud: CloudBehaviour | None = None,
        seed: int = 1,
        way: Callable[[Transport], Transport] | None = None,
    ) -> None:
        """`way` is put before the world's way to the API."""
        self.clock = clock
        self.server = ApiServer(clock=clock, rng=random.Random(seed))
        direct = InProcessTransport(self.server)
        self.client = Client(direct, clock=clock, rng=random.Random(seed))
        worldly = Client(way(direct), clock=clock, rng=random.Random(seed)) if way else self.client
        self.world = EmbeddedWorld(worldly, clock, behaviour, random.Random(seed))
        self.cloud = SimulatedCloud(
            self.client, clock, groups, cloud or CloudBehaviour(), random.Random(seed)
        )
        self.binder = Binder(self.client, clock)

    async def after(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    def put(self, plural: str, name: str, **parts: Any) -> Json:
        meta = {"name": name, **parts.pop("metadata", {})}
        return self._ask("POST", PATHS[plural], {"metadata": meta, **parts})

    def patch(self, plural: str, name: str, change: Json, *, subresource: str = "") -> Json:
        path = f"{PATHS[plural]}/{name}" + (f"/{subresource}" if subresource else "")
        return self._ask("PATCH", path, change, content_type="application/merge-patch+json")

    def delete(self, plural: str, name: str) -> None:
        self._ask("DELETE", f"{PATHS[plural]}/{name}")

    def get(self, plural: str, name: str) -> Json:
        return self._ask("GET", f"{PATHS[plural]}/{name}")

    def all(self, plural: str) -> list[Json]:
        found: list[Json] = self._ask("GET", PATHS[plural])["items"]
        return found

    def names(self, plural: str) -> list[str]:
        return [one["metadata"]["name"] for one in self.all(plural)]

    def node(self, name: str, *, labels: Mapping[str, str] | None = None, **more: Any) -> None:
        wire: Json = msgspec.to_builtins(
            builders.node(name, labels={GROUP_LABEL: "a", **(labels or {})}, **more)
        )
        self._ask("POST", PATHS["nodes"], wire)

    def nodes(self, count: int) -> None:
        for number in range(1, count + 1):
            self.node(f"n{number}")

    def phases(self) -> Counter[str]:
        return Counter(pod["status"]["phase"] for pod in self.all("pods"))

    def places(self) -> dict[str, str]:
        return {
            pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in self.all("pods")
        }

    def limits(self, node: str) -> dict[str, int | None]:
        drivers = self.get("csinodes", node).get("spec", {}).get("drivers", [])
        return {one["name"]: one.get("allocatable", {}).get("count") for one in drivers}

    def attached(self) -> dict[str, list[str]]:
        """Claims' volumes that are attached, by node."""
        found: dict[str, list[str]] = {}
        for one in self.all("volumeattachments"):
            if one.get("status", {}).get("attached"):
                found.setdefault(one["spec"]["nodeName"], []).append(one["metadata"]["name"])
        return found

    def disk_class(self, *, mode: str = "Immediate") -> None:
        self.put("storageclasses", "disk", provisioner=DRIVER, volumeBindingMode=mode)

    def history(self) -> list[bytes]:
        """All that is there, as bytes."""
        return [
            obj.data
            for collection in self.server.store.collections.values()
            for obj in collection.within()
        ]

    def _ask(
        self, method: str, path: str, body: Json | None = None, *, content_type: str = ""
    ) -> Json:
        response = self.server.answer(
            HttpRequest(
                method=method,
                path=path,
                headers=(("Content-Type", content_type or "application/json"),),
                body=None if body is None else msgspec.json.encode(body),
            )
        )
        assert response.status < 300, response.body
        found: Json = msgspec.json.decode(response.body)
        return found


@asynccontextmanager
async def living(
    clock: VirtualClock,
    *,
    groups: Sequence[NodeGroup] = (),
    cloud: CloudBehaviour | None = None,
    seed: int = 1,
    binds: bool = True,
    way: Callable[[Transport], Transport] | None = None,
    **behaviour: Any,
) -> AsyncIterator[Cluster]:
    """A cluster with controllers in which little takes time, unless the test says so."""
    chosen = {
        "start": Delay(1.0),
        **AT_ONCE,
        "controllers": True,
        **behaviour,
    }
    cluster = Cluster(
        clock, WorldBehaviour(**chosen), groups=groups, cloud=cloud, seed=seed, way=way
    )
    parts = [cluster.world.run(), cluster.cloud.run()]
    tasks = [asyncio.create_task(part) for part in parts]
    if binds:
        tasks.append(asyncio.create_task(cluster.binder.run()))
    try:
        await cluster.after(0.1)
        yield cluster
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()


def group(name: str = "a", *, zone: str = "", instance_type: str = "", **more: Any) -> NodeGroup:
    labels = {"node.kubernetes.io/instance-type": instance_type} if instance_type else {}
    node = builders.node("any", zone=zone, labels=labels)
    return declared(name, template=GroupTemplate(node=node), **more)


def template(*, labels: Mapping[str, str] | None = None, **spec: Any) -> Json:
    annotations = spec.pop("annotations", {})
    return {
        "metadata": {"labels": {"app": "x", **(labels or {})}, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "x"}], **spec},
    }


def workload(**spec: Any) -> Json:
    return {"selector": {"matchLabels": {"app": "x"}}, "template": template(), **spec}

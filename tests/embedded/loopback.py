"""A played world on a loopback API server, and words for what a test puts in and sees."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tests.cluster.apiserver import ApiServer, Json
from tests.embedded.embedded_cluster import AT_ONCE
from tonnage.embedded.world import Delay, DriverBehaviour, EmbeddedWorld, WorldBehaviour
from tonnage.providers.kwok_objects import GROUP_LABEL
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

CORE, STORAGE = "/api/v1", "/apis/storage.k8s.io/v1"
NODES, CSI_NODES = f"{CORE}/nodes", f"{STORAGE}/csinodes"
PODS, CLAIMS = (
    f"{CORE}/namespaces/default/pods",
    f"{CORE}/namespaces/default/persistentvolumeclaims",
)
VOLUMES, CLASSES = f"{CORE}/persistentvolumes", f"{STORAGE}/storageclasses"
ATTACHMENTS = f"{STORAGE}/volumeattachments"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
TAINT = "node.kubernetes.io/not-ready"
SELECTED = "volume.kubernetes.io/selected-node"


class Stage:
    """A server, a world on it, and words for what a test puts in and sees."""

    def __init__(self, server: ApiServer, clock: VirtualClock, world: EmbeddedWorld) -> None:
        self.server = server
        self.clock = clock
        self.world = world

    def node(self, name: str = "n1", *, group: str = "a", ready: bool = False, **more: Any) -> Json:
        wire: Json = msgspec.to_builtins(builders.node(name, labels={GROUP_LABEL: group}, **more))
        if ready:
            wire["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        return self.server.put(NODES, wire)

    def pod(self, name: str = "p", *, node: str = "n1", **meta: Any) -> Json:
        return self.server.put(
            PODS,
            {
                "metadata": {"name": name, "namespace": "default", **meta},
                "spec": {"nodeName": node, "containers": [{"name": "main"}]},
                "status": {"phase": "Pending"},
            },
        )

    def claim(self, name: str = "c", *, mode: str, selected: str = "") -> Json:
        self.server.put(
            CLASSES,
            {"metadata": {"name": "fast"}, "provisioner": "d", "volumeBindingMode": mode},
        )
        annotations = {SELECTED: selected} if selected else {}
        return self.server.put(
            CLAIMS,
            {
                "metadata": {"name": name, "namespace": "default", "annotations": annotations},
                "spec": {
                    "storageClassName": "fast",
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "5Gi"}},
                },
            },
        )

    def attachment(self) -> Json:
        spec = {"attacher": "d.io", "nodeName": "n1", "source": {"persistentVolumeName": "v"}}
        return self.server.put(ATTACHMENTS, {"metadata": {"name": "va"}, "spec": spec})

    def find(self, collection: str, name: str) -> Json | None:
        return self.server.objects.get(f"{collection}/{name}")

    def get(self, collection: str, name: str) -> Json:
        return self.server.objects[f"{collection}/{name}"]

    def names(self, collection: str) -> list[str]:
        prefix = f"{collection}/"
        return [
            path.removeprefix(prefix) for path in self.server.objects if path.startswith(prefix)
        ]

    def ready(self, name: str = "n1") -> str | None:
        conditions = self.get(NODES, name).get("status", {}).get("conditions", [])
        return next((one["status"] for one in conditions if one["type"] == "Ready"), None)

    def taints(self, name: str = "n1") -> list[str]:
        return [one["key"] for one in self.get(NODES, name)["spec"].get("taints", [])]

    def limits(self, node: str = "n1") -> dict[str, int | None] | None:
        found = self.find(CSI_NODES, node)
        if found is None:
            return None
        drivers = found.get("spec", {}).get("drivers", [])
        return {one["name"]: one.get("allocatable", {}).get("count") for one in drivers}

    async def after(self, seconds: float) -> None:
        await self.clock.sleep(seconds)


@asynccontextmanager
async def played(clock: VirtualClock, *, seed: int = 1, **behaviour: Any) -> AsyncIterator[Stage]:
    """A world with nodes that start after 10 s and nothing else that takes time."""
    chosen = {"start": Delay(10.0), **AT_ONCE, **behaviour}
    async with ApiServer() as server:
        world = EmbeddedWorld(
            server.client(clock), clock, WorldBehaviour(**chosen), rng=random.Random(seed)
        )
        running = asyncio.create_task(world.run())
        await server.watching(7)
        try:
            yield Stage(server, clock, world)
        finally:
            running.cancel()
            await asyncio.wait([running])
            if not running.cancelled():
                running.result()


def driver(name: str = "d", **more: Any) -> DriverBehaviour:
    return DriverBehaviour(name=name, **{"limit": 25, "registers_after": Delay(20.0), **more})

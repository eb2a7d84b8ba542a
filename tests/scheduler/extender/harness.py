"""A cluster on a loopback API server, an extender that watches it, and a scheduler's questions.

Questions go over real connections, as kube-scheduler writes them.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import aiohttp
import msgspec

from tests.cluster.apiserver import ApiServer
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tonnage.objects.workloads import StatefulSet
from tonnage.scheduler.extender.config import ExtenderConfig
from tonnage.scheduler.extender.program import ExtenderProgram, ExtenderSettings
from tonnage.service.certificates import Certificates
from tonnage.service.config_file import ConfigFile
from tonnage.testing import builders as make
from tonnage.testing.clock import VirtualClock

DRIVER = "ebs.csi.aws.com"
_STORAGE = "/apis/storage.k8s.io/v1"
COLLECTIONS: Mapping[type, str] = {
    Node: "/api/v1/nodes",
    Pod: "/api/v1/namespaces/default/pods",
    PersistentVolumeClaim: "/api/v1/namespaces/default/persistentvolumeclaims",
    PersistentVolume: "/api/v1/persistentvolumes",
    StorageClass: f"{_STORAGE}/storageclasses",
    CSINode: f"{_STORAGE}/csinodes",
    CSIDriver: f"{_STORAGE}/csidrivers",
    VolumeAttachment: f"{_STORAGE}/volumeattachments",
    StatefulSet: "/apis/apps/v1/namespaces/default/statefulsets",
}


class Answer(NamedTuple):
    """What came back of filter."""

    nodes: list[str]
    failed: dict[str, str]
    unresolvable: dict[str, str]
    error: str


class Stage:
    """A cluster and the extender that watches it."""

    def __init__(self, server: ApiServer, program: ExtenderProgram, clock: VirtualClock) -> None:
        self.server = server
        self.program = program
        self.clock = clock
        self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))

    def url(self, path: str) -> str:
        debug = path in ("/simulate",)
        port = self.program.debug.port if debug else self.program.server.port
        return f"http://127.0.0.1:{port}{path}"

    async def put(self, *objects: Any) -> None:
        """Create or change objects; they have been heard of when this returns."""
        for one in objects:
            put(self.server, one)
        await self.heard()

    async def delete(self, one: Any) -> None:
        self.server.remove(path_of(one))
        await self.heard()

    async def heard(self) -> None:
        """Until the watches have brought everything."""
        await self.clock.sleep(0.001)

    async def post(self, path: str, body: bytes) -> tuple[int, Any]:
        async with self.session.post(self.url(path), data=body) as answer:
            return answer.status, await answer.json()

    async def get(self, path: str) -> tuple[int, str]:
        async with self.session.get(self.url(path)) as answer:
            return answer.status, await answer.text()

    async def filter(self, pod: Pod, *names: str) -> Answer:
        await self._there(pod)
        status, found = await self.post("/v1/filter", question(pod, names))
        assert status == 200, found
        return Answer(
            found["NodeNames"] or [],
            found["FailedNodes"],
            found["FailedAndUnresolvableNodes"],
            found["Error"],
        )

    async def scores(self, pod: Pod, *names: str) -> dict[str, int]:
        await self._there(pod)
        _, found = await self.post("/v1/prioritize", question(pod, names))
        return {one["Host"]: one["Score"] for one in found}

    async def _there(self, pod: Pod) -> None:
        """A scheduler asks only about pods that there are."""
        if path_of(pod) not in self.server.objects:
            await self.put(pod)


def question(pod: Pod, names: Sequence[str]) -> bytes:
    return msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": list(names)})


def path_of(one: Any) -> str:
    return f"{COLLECTIONS[type(one)]}/{one.metadata.name}"


def put(server: ApiServer, one: Any) -> None:
    server.put(COLLECTIONS[type(one)], msgspec.to_builtins(one))


def a_node(name: str, limit: int | str | None = 2, *, born: datetime | None = None) -> list[Any]:
    """A node and its CSINode; with "unlisted" the driver is not on it, "none" has no CSINode."""
    node = make.node(name)
    if born is not None:
        text = born.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        meta = msgspec.structs.replace(node.metadata, creation_timestamp=text)
        node = msgspec.structs.replace(node, metadata=meta)
    if limit == "none":
        return [node]
    drivers = {} if limit == "unlisted" else {DRIVER: limit}
    return [node, make.csinode(name, drivers)]  # type: ignore[arg-type]


def a_claim(name: str, **more: Any) -> PersistentVolumeClaim:
    return make.pvc(name, storage_class="fast", **more)


def a_pod(name: str, *claims: str, on: str = "", **more: Any) -> list[Any]:
    """A pod with claims that are not bound, one of its own name unless they are named."""
    wanted = claims or (name,)
    return [*(a_claim(claim) for claim in wanted), make.pod(name, pvcs=wanted, on=on, **more)]


def promised(pod: Pod, node: str) -> Pod:
    """The pod with a node that preemption has promised it."""
    status = msgspec.structs.replace(pod.status, nominated_node_name=node)
    return msgspec.structs.replace(pod, status=status)


@asynccontextmanager
async def extending(
    clock: VirtualClock,
    *objects: Any,
    certificates: Certificates | None = None,
    ready: bool = True,
    body: int = 2**20,
    prepare: Callable[[ApiServer], None] = lambda _: None,
    **config: object,
) -> AsyncIterator[Stage]:
    """A cluster with a class of disks and these objects, and an extender that knows it.

    `prepare` is for servers that are in trouble from the start, with `ready=False`.
    """
    async with ApiServer() as server:
        prepare(server)
        for one in (make.storage_class("fast", DRIVER), *objects):
            put(server, one)
        program = ExtenderProgram(
            server.client(clock),
            config=ConfigFile(None, ExtenderConfig, given={"startupGrace": 0, **config}),
            settings=ExtenderSettings(
                address="127.0.0.1:0", debug_address="127.0.0.1:0", largest_body=body
            ),
            certificates=certificates,
            server_version="v1.34.0",
            clock=clock,
            rng=random.Random(1),
        )
        tasks = [
            asyncio.ensure_future(program.run()),
            asyncio.ensure_future(_bookmarks(server, clock)),
        ]
        stage = Stage(server, program, clock)
        try:
            while not program.debug.port or (ready and program.withheld()):
                await clock.sleep(0.01)
            yield stage
        finally:
            await stage.session.close()
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


async def _bookmarks(server: ApiServer, clock: VirtualClock) -> None:
    """A sign of life every minute, as a real server gives it."""
    while True:
        await clock.sleep(60)
        server.bookmark()

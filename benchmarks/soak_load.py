"""A large made-up cluster, created through the API of a server that checks what it is sent.

What a server does not take from whoever creates an object is missing, such as the status of pods:
they have their nodes, and no kubelet speaks for them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Any

import msgspec

from benchmarks.clusters import LargeCluster, Page, items_of
from benchmarks.soak_live import say
from tonnage.cluster.errors import ConnectionFailed
from tonnage.cluster.transport import HttpRequest, Transport
from tonnage.objects.kinds import Kind
from tonnage.providers.kwok_objects import GROUP_LABEL

_AT_A_TIME = 32
_ONLY_SERVERS_SAY = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generateName")
_LEFT_OUT = ("VolumeAttachment",)
"""The attach-detach controller has nothing to do with nodes that no kubelet speaks for."""

Tree = dict[str, Any]


async def load(cluster: LargeCluster, transport: Transport) -> None:
    """Everything but attachments; pages one after the other, the objects of a page at once."""
    began, objects = time.monotonic(), 0
    for space in ("topolvm-system",):
        await _post(transport, "/api/v1/namespaces", {"metadata": {"name": space}})
    groups = {node.name: f"{node.pool.name}-{node.zone}" for node in cluster.nodes}
    for page in cluster.pages():
        if page.kind.kind in _LEFT_OUT:
            continue
        trees = list(_trees(page, groups))
        await _each(trees, partial(_create, transport, page.kind))
        objects += len(trees)
    took = time.monotonic() - began
    say(f"{objects:,} objects were created in {took:.0f} s")


async def _each(trees: Iterable[Tree], work: Callable[[Tree], Awaitable[None]]) -> None:
    rest = iter(trees)

    async def some() -> None:
        for tree in rest:
            await work(tree)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_A_TIME):
            group.create_task(some())


def _trees(page: Page, groups: dict[str, str]) -> Iterator[Tree]:
    for item in items_of(page):
        tree = msgspec.json.decode(bytes(item))
        meta = tree["metadata"]
        for name in _ONLY_SERVERS_SAY:
            meta.pop(name, None)
        match page.kind.kind:
            case "Node":
                meta.setdefault("labels", {})[GROUP_LABEL] = groups[meta["name"]]
            case "PersistentVolume":
                # Whose identity only the server knows; the controller fills it in.
                tree["spec"].get("claimRef", {}).pop("uid", None)
            case "PersistentVolumeClaim":
                meta.pop("annotations", None)
            case "Pod":
                _complete(tree["spec"])
        yield tree


def _complete(spec: Tree) -> None:
    """Devices are not overcommitted, and a server insists that somebody says so."""
    for container in spec["containers"]:
        resources = container["resources"]
        devices = {key: one for key, one in resources["requests"].items() if "/" in key}
        resources["limits"].update(devices)


async def _create(transport: Transport, kind: Kind, tree: Tree) -> None:
    meta = tree["metadata"]
    root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    space = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
    path = f"{root}{space}/{kind.plural}"
    await _post(transport, path, {"apiVersion": kind.api_version, "kind": kind.kind, **tree})


async def _post(transport: Transport, path: str, tree: Tree) -> None:
    headers = (("Content-Type", "application/json"),)
    body = msgspec.json.encode(tree)
    await _send(transport, HttpRequest(method="POST", path=path, headers=headers, body=body))


async def _send(transport: Transport, request: HttpRequest) -> None:
    while True:
        try:
            answer = await transport.send(request)
        except ConnectionFailed:
            continue
        if answer.status == 429:
            await asyncio.sleep(1.0)
        elif answer.status < 300 or answer.status == 409:
            return
        else:
            raise RuntimeError(f"{request.method} {request.path}: {answer.body[:500]!r}")

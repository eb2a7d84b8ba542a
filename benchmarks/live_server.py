"""An API server for benchmarks: a large made-up cluster in lists and watches, over HTTP.

A process of its own, so that what it costs is not counted. It knows no rules: it hands out what it
was given, takes what it is sent, and plays changes on request. Ends when its input does.
"""

import asyncio
import os
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec
from aiohttp import web

from benchmarks.clusters import SEED, LargeCluster, Page, Size, items_of
from benchmarks.workloads import GP3, LONG_AGO, NAMESPACES
from tonnage.objects import kinds
from tonnage.objects.kinds import Kind
from tonnage.objects.nodes import Node

PAGED = "/paged"
"""Under this path lists come in pages; otherwise as the events of a watch, as newer servers do."""

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
CLAIMS = "/api/v1/persistentvolumeclaims"
FRESH = "fresh"
"""The pool that pending pods want; it has no node yet."""

_VERSION = re.compile(rb'"resourceVersion":"[^"]*"')
_LIST_START = b'{"metadata":{"resourceVersion":"1"}'


class LiveServer:
    """Knows which watches there are, and what it was sent."""

    def __init__(self, cluster: LargeCluster) -> None:
        self._pages: dict[str, list[bytes]] = defaultdict(list)
        self._pods: list[bytes] = []
        rng = random.Random(SEED)
        for page in cluster.pages():
            self._pages[_path(page.kind)].append(page.body)
            if page.kind.kind == "Pod":
                self._pods += (bytes(one) for one in items_of(page) if rng.random() < 0.1)
        rng.shuffle(self._pods)
        self._stored: dict[str, bytes] = {}
        self._watches: dict[str, set[web.StreamResponse]] = defaultdict(set)
        self._version = 2**32

    def application(self) -> web.Application:
        application = web.Application(client_max_size=2**30)
        application.router.add_post("/play/changes/{count}", self._play_changes)
        application.router.add_post("/play/pending/{number}", self._play_pending)
        application.router.add_post("/play/node", self._play_node)
        application.router.add_get("/pages", self._count)
        application.router.add_route("*", f"{PAGED}/{{path:.*}}", self._answer)
        application.router.add_route("*", "/{path:.*}", self._answer)
        return application

    async def _count(self, _: web.Request) -> web.Response:
        """The lists there are and the pages of each, for those who read without watching."""
        return web.json_response({path: len(pages) for path, pages in self._pages.items()})

    async def _play_changes(self, request: web.Request) -> web.Response:
        """A third of the changes are of status, a third deletions, a third pods that come."""
        pods = self._pods[: int(request.match_info["count"]) // 3]
        await self._tell(PODS, list(self._changes(pods)))
        return web.json_response({"events": 3 * len(pods)})

    def _changes(self, pods: Iterable[bytes]) -> Iterator[bytes]:
        for pod in pods:
            newer = self._newer(pod)
            yield _event("MODIFIED", newer)
            yield _event("DELETED", newer)
            yield _event("ADDED", self._newer(pod))

    async def _play_pending(self, request: web.Request) -> web.Response:
        """A pod with a claim that the scheduler found no node for."""
        number = int(request.match_info["number"])
        claim, pod = _pending(number)
        await self._tell(CLAIMS, [_event("ADDED", self._newer(claim))])
        await self._tell(PODS, [_event("ADDED", self._newer(pod))])
        return web.Response()

    async def _play_node(self, _: web.Request) -> web.Response:
        """A node changes in a way that matters, though nothing comes of it."""
        node = items_of(Page(kinds.of(Node()), self._pages[NODES][0]))[0]
        changed = msgspec.json.decode(node)
        changed["metadata"]["annotations"]["example.com/changed"] = str(self._version)
        changed["metadata"]["resourceVersion"] = ""
        newer = self._newer(msgspec.json.encode(changed))
        await self._tell(NODES, [_event("MODIFIED", newer)])
        return web.Response()

    def _newer(self, obj: bytes) -> bytes:
        self._version += 1
        return _VERSION.sub(b'"resourceVersion":"%d"' % self._version, obj, count=1)

    async def _tell(self, path: str, lines: list[bytes]) -> None:
        for watch in list(self._watches[path]):
            try:
                for start in range(0, len(lines), 100):
                    await watch.write(b"".join(lines[start : start + 100]))
            except ConnectionError:  # of somebody who is gone
                self._watches[path].discard(watch)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            return await self._change(request)
        path = request.path.removeprefix(PAGED)
        if path == "/version":
            return web.json_response({"gitVersion": "v1.37.0"})
        if "watch" in request.query:
            return await self._watch(request, path)
        if path in self._stored:
            return _json(self._stored[path])
        if path.count("/") > 4:  # an object, not a list
            return _refused(404, "NotFound")
        pages = self._pages[path] or [_LIST_START + b',"items":[]}']
        number = int(request.query.get("continue") or 0)
        page = pages[number]
        if number + 1 < len(pages):
            start = b'{"metadata":{"resourceVersion":"1","continue":"%d"}' % (number + 1)
            page = start + page.removeprefix(_LIST_START)
        return _json(page)

    async def _watch(self, request: web.Request, path: str) -> web.StreamResponse:
        initial = "sendInitialEvents" in request.query
        if initial and path != request.path:
            return _refused(422, "Invalid")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        watches = self._watches[path]
        try:
            if initial:
                await self._stream_list(path, response)
            else:
                watches.add(response)
            while True:
                await asyncio.sleep(30)
                await response.write(_bookmark(self._version))
        except ConnectionError:
            return response
        finally:
            watches.discard(response)

    async def _stream_list(self, path: str, response: web.StreamResponse) -> None:
        for page in self._pages[path]:
            items = msgspec.json.decode(page, type=_Items).items
            await response.write(b"".join(_event("ADDED", bytes(one)) for one in items))
        await response.write(_bookmark(1, complete=True))

    async def _change(self, request: web.Request) -> web.Response:
        body = await request.read()
        path = request.path.removeprefix(PAGED)
        if request.method == "PATCH":
            if path not in self._stored:
                return _refused(404, "NotFound")
            return _json(self._stored[path])
        if request.method == "POST":
            path = f"{path}/{msgspec.json.decode(body)['metadata']['name']}"
        self._stored[path] = body
        return _json(body)


class _Items(msgspec.Struct):
    items: list[msgspec.Raw]


def _path(kind: Kind) -> str:
    return f"/{'apis' if kind.group else 'api'}/{kind.api_version}/{kind.plural}"


def _event(type_: str, obj: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (type_.encode(), obj)


def _bookmark(version: int, *, complete: bool = False) -> bytes:
    notes = {"k8s.io/initial-events-end": "true"} if complete else {}
    meta = {"resourceVersion": str(version), "annotations": notes}
    return _event("BOOKMARK", msgspec.json.encode({"metadata": meta}))


def _pending(number: int) -> tuple[bytes, bytes]:
    """A claim and its pod, which wants a new node almost for itself."""
    namespace, name = NAMESPACES[0], f"waiting-{number}"
    meta = {"namespace": namespace, "resourceVersion": "", "creationTimestamp": LONG_AGO}
    claim = {
        "metadata": {**meta, "name": name, "uid": f"claim-{name}"},
        "spec": {"storageClassName": GP3, "resources": {"requests": {"storage": "20Gi"}}},
    }
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pod = {
        "metadata": {**meta, "name": name, "uid": f"pod-{name}", "labels": {"app": "waiting"}},
        "spec": {
            "nodeSelector": {"pool": FRESH},
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "15"}}}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
        },
        "status": {"phase": "Pending", "conditions": [condition]},
    }
    return msgspec.json.encode(claim), msgspec.json.encode(pod)


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def _refused(code: int, reason: str) -> web.Response:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason}
    return web.json_response(status, status=code)


async def _serve(size: Size) -> None:
    server = LiveServer(LargeCluster(size))
    runner = web.AppRunner(server.application(), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    # Watches never end by themselves, and nothing here needs to be put away.
    os._exit(0)


if __name__ == "__main__":
    _, nodes, pods = sys.argv
    asyncio.run(_serve(Size(int(nodes), int(pods))))

"""A small API server on a loopback socket, with faults on request.

It keeps JSON objects under versions as a real one does (lists in pages, watches from a version,
bookmarks, 410 for forgotten versions, conflicts), notes every request, and can be told to answer
otherwise: `script` for the next answers on a path, `freeze` to accept and say nothing, `instead`
to send bytes that no object here could hold.
"""

import asyncio
import json
import random
import ssl
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from aiohttp import web

from tonnage.clock import Clock
from tonnage.cluster.calls import CallPatience
from tonnage.cluster.client import Client
from tonnage.cluster.config import Access, Endpoint, User
from tonnage.cluster.http import HttpTransport

Json = dict[str, Any]
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ApiServer:
    """`async with ApiServer() as server`; ends every connection on the way out."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.peers: list[int] = []
        """The port each request came from."""
        self.objects: dict[str, Json] = {}
        """By path, such as `/api/v1/namespaces/default/pods/web-1`."""
        self.version = 100
        self.oldest = 0
        """Watches from a version below this get a 410."""
        self.streaming_lists = True
        self.streaming_lists_end = True
        """False for a server that sends everything and never says that it was everything."""
        self.instead: dict[bytes, bytes] = {}
        """What to send in place of a text, wherever it stands in an answer or event."""
        self.port = 0
        self._tls = tls
        self._history: list[tuple[int, str, Json]] = []
        self._scripts: dict[tuple[str, str], deque[Answer]] = defaultdict(deque)
        self._watchers: list[_Watcher] = []
        self._watchers_changed = asyncio.Event()
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._clients: list[HttpTransport] = []

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=2**26)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, shutdown_timeout=0.0, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            await client.close()
        self.thaw()
        self.end_watches()
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def client(
        self, clock: Clock, *, user: User | None = None, patience: CallPatience | None = None
    ) -> Client:
        access = Access(endpoint=Endpoint(server=self.url), user=user or User())
        return self.client_with(access, clock, patience=patience)

    def client_with(
        self, access: Access, clock: Clock, *, patience: CallPatience | None = None
    ) -> Client:
        transport = HttpTransport(access, clock=clock, environ={})
        self._clients.append(transport)
        return Client(transport, clock=clock, rng=random.Random(7), patience=patience)

    # What the world does to the cluster

    def put(self, collection: str, obj: Json, *, kind: str | None = None) -> Json:
        """Create or change an object; watchers are told."""
        path = _object_path(collection, obj)
        type_ = kind or ("MODIFIED" if path in self.objects else "ADDED")
        self.version += 1
        meta = obj["metadata"]
        old = self.objects.get(path)
        uid = meta.get("uid") or (old or {}).get("metadata", {}).get("uid") or f"u{self.version}"
        stored = {**obj, "metadata": {**meta, "uid": uid, "resourceVersion": str(self.version)}}
        self.objects[path] = stored
        self._publish(collection, type_, stored)
        return stored

    def remove(self, path: str) -> None:
        """Delete an object; watchers are told."""
        obj = self.objects.pop(path)
        self.version += 1
        gone = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        self._publish(_collection(path), "DELETED", gone)

    def forget(self) -> None:
        """Compact: no watch can start from an earlier version any more."""
        self._history.clear()
        self.oldest = self.version

    # Faults

    def script(self, method: str, path: str, *answers: Answer) -> None:
        """What to answer to the next requests of this kind, in order."""
        self._scripts[method, path].extend(answers)

    def freeze(self) -> None:
        """Accept requests and answer none."""
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    def bookmark(self) -> None:
        for watcher in self._watchers:
            watcher.send(_bookmark(self.version))

    def raw(self, data: bytes) -> None:
        """Bytes into every open watch, whole lines or not."""
        for watcher in self._watchers:
            watcher.queue.put_nowait(data)

    @contextmanager
    def untold(self) -> Iterator[None]:
        """What happens inside reaches no watch, neither now nor later."""
        watchers, self._watchers = self._watchers, []
        yield
        self._watchers = watchers
        self._history.clear()

    def end_watches(self) -> None:
        """End every watch the polite way."""
        for watcher in self._watchers:
            watcher.queue.put_nowait(None)

    def cut_watches(self) -> None:
        """End every watch by closing the connection under it."""
        for watcher in self._watchers:
            assert watcher.request.transport is not None
            watcher.request.transport.abort()

    async def watching(self, watchers: int = 1) -> None:
        """Wait until so many watches are open, streaming lists not counted."""
        while len([each for each in self._watchers if not each.initial]) != watchers:
            self._watchers_changed.clear()
            await self._watchers_changed.wait()

    def asked(self, method: str, path: str) -> list[web.Request]:
        """The requests so far that match."""
        return [each for each in self.requests if (each.method, each.path) == (method, path)]

    # The API

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        response = await self._answer(request)
        if self.instead and isinstance(response, web.Response) and response.body:
            assert isinstance(response.body, bytes)
            response.body = self._spoilt(response.body)
        return response

    def _spoilt(self, data: bytes) -> bytes:
        for text, other in self.instead.items():
            data = data.replace(text, other)
        return data

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        assert request.transport is not None
        self.peers.append(request.transport.get_extra_info("peername")[1])
        body = await request.read()
        self.bodies.append(body)
        await self._thawed.wait()
        scripted = self._scripts[request.method, request.path]
        if scripted:
            return await scripted.popleft()(request)
        if request.query.get("watch") == "true":
            return await self._watch(request)
        if request.method == "GET" and request.path in self.objects:
            return web.json_response(self.objects[request.path])
        if request.method == "GET" and _is_collection(request.path):
            return self._list(request)
        if request.method == "POST" and _is_collection(request.path):
            return self._create(request, json.loads(body))
        if self._target(request) not in self.objects:
            return status(404, "NotFound", name=request.path.rpartition("/")[2])
        return self._change(request, json.loads(body or b"{}"))

    def _target(self, request: web.Request) -> str:
        """The object a request is about, be it asked for by its subresource."""
        path = request.path
        return path.removesuffix("/status") if path not in self.objects else path

    def _list(self, request: web.Request) -> web.Response:
        found = [obj for _, obj in self._selected(request.path)]
        start = int(request.query.get("continue") or 0)
        limit = int(request.query.get("limit") or 0) or len(found)
        meta: Json = {"resourceVersion": str(self.version)}
        if start + limit < len(found):
            meta["continue"] = str(start + limit)
        items = found[start : start + limit]
        return web.json_response({"kind": "List", "metadata": meta, "items": items})

    def _create(self, request: web.Request, obj: Json) -> web.Response:
        if _object_path(request.path, obj) in self.objects:
            return status(409, "AlreadyExists", name=obj["metadata"]["name"])
        return web.json_response(self.put(request.path, obj), status=201)

    def _change(self, request: web.Request, body: Any) -> web.Response:
        path = self._target(request)
        old = self.objects[path]
        name = old["metadata"]["name"]
        if request.method == "DELETE":
            wanted = body.get("preconditions", {}).get("uid", old["metadata"]["uid"])
            if wanted != old["metadata"]["uid"]:
                return status(409, "Conflict", name=name)
            if old["metadata"].get("finalizers"):
                going = {"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}}
                return web.json_response(self.put(_collection(path), _merged(old, going)))
            self.remove(path)
            return web.json_response({"kind": "Status", "status": "Success"})
        if request.content_type == "application/json-patch+json":
            patched = _json_patched(old, body)
            if patched is None:
                return status(422, "Invalid", message="a test failed", name=name)
            return web.json_response(self.put(_collection(path), patched))
        wanted = body.get("metadata", {}).get("resourceVersion")
        if wanted and wanted != old["metadata"]["resourceVersion"]:
            return status(409, "Conflict", name=name)
        new = _merged(old, body) if request.method == "PATCH" else body
        stored = self.put(_collection(path), new)
        meta = stored["metadata"]
        was_held = bool(old["metadata"].get("finalizers"))
        if was_held and meta.get("deletionTimestamp") and not meta.get("finalizers"):
            self.remove(path)
        return web.json_response(stored)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        since = int(request.query.get("resourceVersion") or 0)
        initial = request.query.get("sendInitialEvents") == "true"
        if initial and not self.streaming_lists:
            return status(422, "Invalid")
        if not initial and since < self.oldest:
            return status(410, "Expired")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        watcher = _Watcher(request)
        if watcher.initial:
            for _, obj in self._selected(request.path):
                watcher.send({"type": "ADDED", "object": obj})
            if self.streaming_lists_end:
                watcher.send(_bookmark(self.version, end=True))
        else:
            for version, collection, event in self._history:
                if version > since and _within(collection, request.path):
                    watcher.send(event)
        self._watchers.append(watcher)
        self._watchers_changed.set()
        try:
            while (data := await watcher.queue.get()) is not None:
                await response.write(self._spoilt(data))
        finally:
            self._watchers.remove(watcher)
            self._watchers_changed.set()
        return response

    def _selected(self, path: str) -> list[tuple[str, Json]]:
        return [
            (key, obj)
            for key, obj in sorted(self.objects.items())
            if _within(_collection(key), path)
        ]

    def _publish(self, collection: str, type_: str, obj: Json) -> None:
        event = {"type": type_, "object": obj}
        self._history.append((self.version, collection, event))
        for watcher in self._watchers:
            if _within(collection, watcher.request.path):
                watcher.send(event)


class _Watcher:
    def __init__(self, request: web.Request) -> None:
        self.request = request
        self.initial = "sendInitialEvents" in request.query
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    def send(self, event: Json) -> None:
        self.queue.put_nowait(json.dumps(event).encode() + b"\n")


def status(
    code: int,
    reason: str,
    *,
    message: str = "",
    name: str = "",
    headers: dict[str, str] | None = None,
) -> web.Response:
    """A refusal as an API server words it."""
    body = {"kind": "Status", "code": code, "reason": reason, "message": message or reason}
    if name:
        body["details"] = {"name": name}
    return web.json_response(body, status=code, headers=headers)


def answer(response: Callable[[], web.Response]) -> Answer:
    """An entry for `script`; the response is made anew for each request."""

    async def respond(_: web.Request) -> web.StreamResponse:
        return response()

    return respond


async def until(condition: Callable[[], bool], *, clock: Clock, within: float = 300.0) -> None:
    """Let time pass until something is so."""
    deadline = clock.monotonic() + within
    step = 0.1
    while not condition():
        assert clock.monotonic() < deadline, "it never came to be so"
        await clock.sleep(step)
        step = min(step * 1.5, 3.0)


def pod(name: str, *, namespace: str = "default", **spec: object) -> Json:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _bookmark(version: int, *, end: bool = False) -> Json:
    meta: Json = {"resourceVersion": str(version)}
    if end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": meta}}


def _merged(old: Json, patch: Json) -> Json:
    new = dict(old)
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        elif isinstance(value, dict):
            new[key] = _merged(old.get(key) or {}, value)
        else:
            new[key] = value
    return new


def _json_patched(old: Json, operations: list[Json]) -> Json | None:
    """The object after `test` and `remove` operations; `None` if one of them does not apply."""
    new: Json = json.loads(json.dumps(old))
    for one in operations:
        *parents, last = one["path"].strip("/").split("/")
        place: Any = new
        try:
            for part in parents:
                place = place[int(part) if isinstance(place, list) else part]
            key = int(last) if isinstance(place, list) else last
            if one["op"] == "test" and place[key] != one["value"]:
                return None
            if one["op"] == "remove":
                del place[key]
        except (KeyError, IndexError):
            return None
    return new


def _is_collection(path: str) -> bool:
    """`/api/v1/pods`, `/apis/g/v/namespaces/ns/things`: odd below the version."""
    parts = path.strip("/").split("/")
    below = parts[2:] if parts[0] == "api" else parts[3:]
    return len(below) % 2 == 1


def _collection(path: str) -> str:
    return path.rpartition("/")[0]


def _within(collection: str, asked: str) -> bool:
    """Whether a collection is part of the asked one, which may be of all namespaces."""
    if collection == asked:
        return True
    if "/namespaces/" not in collection:
        return False
    root, _, rest = collection.partition("/namespaces/")
    return f"{root}/{rest.partition('/')[2]}" == asked


def _object_path(collection: str, obj: Json) -> str:
    return f"{collection}/{obj['metadata']['name']}"

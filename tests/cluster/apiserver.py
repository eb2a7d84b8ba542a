"""The embedded API server on a loopback socket, with faults on request.

Objects, versions, lists, watches, patches and conflicts are the embedded server's own. Here it is
given a socket that notes every request and can be told to answer otherwise: `script` for the next
answers on a path, `freeze` to accept and say nothing, `instead` to send bytes that no object could
hold. `put` and `remove` are the world's doing: they ask nobody, and what they put is not checked.
"""

import asyncio
import random
import ssl
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any, Self

from aiohttp import web

from tonnage.clock import Clock, SystemClock
from tonnage.cluster.calls import CallPatience
from tonnage.cluster.client import Client
from tonnage.cluster.config import Access, Endpoint, User
from tonnage.cluster.http import HttpTransport
from tonnage.cluster.transport import HttpRequest, WatchParts
from tonnage.embedded.apiserver import ApiServer as EmbeddedServer
from tonnage.embedded.apiserver.kinds import ServedKind
from tonnage.embedded.apiserver.refusals import ApiRefusal
from tonnage.embedded.apiserver.request_paths import asked
from tonnage.embedded.apiserver.server import refused
from tonnage.embedded.apiserver.store import Collection, ObjectStore, stored
from tonnage.embedded.apiserver.watches import INITIAL_EVENTS_END, Watch, line

Json = dict[str, Any]
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

FIRST_VERSION = 100


class ApiServer:
    """`async with ApiServer() as server`; ends every connection on the way out."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.peers: list[int] = []
        """The port each request came from."""
        self.streaming_lists = True
        self.streaming_lists_end = True
        """False for a server that sends everything and never says that it was everything."""
        self.instead: dict[bytes, bytes] = {}
        """What to send in place of a text, wherever it stands in an answer or event."""
        self.port = 0
        self._time = _TimeOfClients()
        self._api = EmbeddedServer(clock=self._time, rng=random.Random(7))
        self._store = self._api.store
        self._store.version = FIRST_VERSION
        self.objects = _ObjectsByPath(self._store)
        """By path, such as `/api/v1/namespaces/default/pods/web-1`."""
        self._tls = tls
        self._scripts: dict[tuple[str, str], deque[Answer]] = defaultdict(deque)
        self._watches: list[_OpenWatch] = []
        self._watches_changed = asyncio.Event()
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

    @property
    def version(self) -> int:
        return self._store.version

    @version.setter
    def version(self, value: int) -> None:
        self._store.version = value

    def client(
        self, clock: Clock, *, user: User | None = None, patience: CallPatience | None = None
    ) -> Client:
        access = Access(endpoint=Endpoint(server=self.url), user=user or User())
        return self.client_with(access, clock, patience=patience)

    def client_with(
        self, access: Access, clock: Clock, *, patience: CallPatience | None = None
    ) -> Client:
        self._time.follow(clock)
        transport = HttpTransport(access, clock=clock, environ={})
        self._clients.append(transport)
        return Client(transport, clock=clock, rng=random.Random(7), patience=patience)

    # What the world does to the cluster

    def put(self, collection: str, obj: Json) -> Json:
        """Create or change an object; watchers are told."""
        path = f"{collection}/{obj['metadata']['name']}"
        place = self.objects.place(path)
        before = place.collection.get(place.namespace, place.name)
        meta = {**obj["metadata"]}
        meta["uid"] = (
            meta.get("uid") or (before and before.meta.get("uid")) or f"u{self.version + 1}"
        )
        if place.namespace:
            meta.setdefault("namespace", place.namespace)
        return self._store.put(place.collection, {**obj, "metadata": meta}, before).tree

    def remove(self, path: str) -> None:
        """Delete an object; watchers are told."""
        place = self.objects.place(path)
        obj = place.collection.get(place.namespace, place.name)
        assert obj is not None, f"{path} is not there"
        self._store.remove(place.collection, obj)

    def forget(self) -> None:
        """Compact: no watch can start from an earlier version any more."""
        for collection in self._store.collections.values():
            collection.history.clear()
            collection.forgotten = self._store.version

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
        for watch in self._watches:
            watch.bookmark()

    def raw(self, data: bytes) -> None:
        """Bytes into every open watch, whole lines or not."""
        for watch in self._watches:
            watch.say(data)

    @contextmanager
    def untold(self) -> Iterator[None]:
        """What happens inside reaches no watch, neither now nor later."""
        collections = list(self._store.collections.values())
        watchers = [list(one.watchers) for one in collections]
        for one in collections:
            one.watchers.clear()
        yield
        for one, before in zip(collections, watchers, strict=True):
            one.watchers.extend(before)
            one.history.clear()

    def end_watches(self) -> None:
        """End every watch the polite way."""
        for watch in self._watches:
            watch.end()

    def cut_watches(self) -> None:
        """End every watch by closing the connection under it."""
        for watch in self._watches:
            assert watch.request.transport is not None
            watch.request.transport.abort()

    async def watching(self, watchers: int = 1) -> None:
        """Wait until so many watches are open, streaming lists not counted."""
        while len([each for each in self._watches if not each.initial]) != watchers:
            self._watches_changed.clear()
            await self._watches_changed.wait()

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
        if request.path in self.objects.documents:
            return web.json_response(self.objects.documents[request.path])
        self.objects.make_way_for(request.path)
        passed_on = HttpRequest(
            method=request.method,
            path=request.rel_url.raw_path,
            query=tuple(request.query.items()),
            headers=tuple(request.headers.items()),
            body=body,
        )
        if request.query.get("watch") == "true":
            return await self._watch(request, passed_on)
        answered = self._api.answer(passed_on)
        return web.Response(status=answered.status, headers=answered.headers, body=answered.body)

    async def _watch(self, request: web.Request, passed_on: HttpRequest) -> web.StreamResponse:
        if "sendInitialEvents" in request.query and not self.streaming_lists:
            return status(422, "Invalid")
        try:
            watch = _OpenWatch(self._store, passed_on, request)
        except ApiRefusal as refusal:
            told = refused(refusal)
            return web.Response(status=told.status, headers=told.headers, body=told.body)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        async with watch.events(_STANDING_STILL) as chunks:
            self._watches.append(watch)
            self._watches_changed.set()
            try:
                async for chunk in self._told(chunks):
                    await response.write(self._spoilt(chunk))
            finally:
                self._watches.remove(watch)
                self._watches_changed.set()
        return response

    async def _told(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            if self.streaming_lists_end:
                yield chunk
                continue
            lines = chunk.splitlines(keepends=True)
            yield b"".join(line for line in lines if INITIAL_EVENTS_END.encode() not in line)


class _OpenWatch(Watch):
    """A watch into which anything can be said."""

    def __init__(self, store: ObjectStore, passed_on: HttpRequest, request: web.Request) -> None:
        super().__init__(store, asked(store, passed_on))
        self.request = request
        self.initial = "sendInitialEvents" in request.query

    @asynccontextmanager
    async def events(self, clock: Clock) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self.told(clock) as told:
            yield self._said(told)

    def say(self, data: bytes) -> None:
        self._waiting.append(("", data))
        self._news.set()

    def bookmark(self) -> None:
        self.say(line(*self._bookmark()))

    async def _said(self, told: AsyncIterator[list[WatchParts]]) -> AsyncIterator[bytes]:
        """What has no type of an event was said here, and is sent as it is."""
        async for parts in told:
            yield b"".join(line(type_, data) if type_ else bytes(data) for type_, data in parts)


class _Place:
    """Where an object is kept, or would be."""

    def __init__(self, collection: Collection, namespace: str, name: str) -> None:
        self.collection = collection
        self.namespace = namespace
        self.name = name


class _ObjectsByPath(MutableMapping[str, Json]):
    """What is stored, by path; to be read, and to be changed behind everybody's back.

    `documents` are answers on paths that are none of an object, such as `/version`. Namespaces
    that were made for what is in them are not shown.
    """

    def __init__(self, store: ObjectStore) -> None:
        self.documents: dict[str, Json] = {}
        self._store = store
        self._spaces = store.built_in("namespaces")
        self._made = {one.name for one in self._spaces.within()}

    def place(self, path: str) -> _Place:
        """Where an object is; its kind is served from now on, whatever it is."""
        *root, plural, name = path.strip("/").split("/")
        namespace = ""
        if len(root) > 2 and root[-2] == "namespaces":
            *root, _, namespace = root
        group, version = ("", root[1]) if root[0] == "api" else (root[1], root[2])
        found = self._store.collections.get((group, version, plural))
        if found is None:
            self._store.serve(_kind(group, version, plural, namespaced=bool(namespace)))
            found = self._store.collections[group, version, plural]
        return _Place(found, namespace, name)

    def make_way_for(self, path: str) -> None:
        """Serve what a request asks for, and have the namespace it speaks of."""
        parts = path.strip("/").split("/")
        below = parts[2:] if parts[0] == "api" else parts[3:]
        if not below or parts[0] not in ("api", "apis"):
            return
        namespace = below[1] if below[0] == "namespaces" and len(below) > 2 else ""
        plural = below[2] if namespace else below[0]
        group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
        if (group, version, plural) not in self._store.collections:
            namespaced = bool(namespace)
            self._store.serve(_kind(group, version, plural, namespaced=namespaced))
        if namespace and self._spaces.get("", namespace) is None:
            self._made.add(namespace)
            meta = {"name": namespace, "uid": f"u-{namespace}"}
            self._store.put(self._spaces, {"metadata": meta}, None)

    def __getitem__(self, path: str) -> Json:
        if path in self.documents:
            return self.documents[path]
        place = self.place(path)
        found = place.collection.get(place.namespace, place.name)
        if found is None:
            raise KeyError(path)
        return found.tree

    def __setitem__(self, path: str, obj: Json) -> None:
        if not path.startswith(("/api/", "/apis/")):
            self.documents[path] = obj
            return
        version = int(obj["metadata"].get("resourceVersion") or self._store.version)
        self.place(path).collection.keep(stored(obj, version))

    def __delitem__(self, path: str) -> None:
        place = self.place(path)
        found = place.collection.get(place.namespace, place.name)
        if found is None:
            raise KeyError(path)
        place.collection.drop(found)

    def __iter__(self) -> Iterator[str]:
        yield from self.documents
        for (group, version, plural), collection in list(self._store.collections.items()):
            root = f"/apis/{group}/{version}" if group else f"/api/{version}"
            for obj in list(collection.within()):
                if collection is not self._spaces or obj.name not in self._made:
                    within = f"/namespaces/{obj.namespace}" if obj.namespace else ""
                    yield f"{root}{within}/{plural}/{obj.name}"

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _kind(group: str, version: str, plural: str, *, namespaced: bool) -> ServedKind:
    """A kind that nobody described, from the path alone."""
    singular = plural.removesuffix("s")
    return ServedKind(
        group=group,
        version=version,
        kind=singular.capitalize(),
        plural=plural,
        singular=singular,
        namespaced=namespaced,
        has_status=True,
        custom=True,
    )


class _TimeOfClients:
    """The clock of whoever asked last for a client: one test has one time."""

    def __init__(self) -> None:
        self._clock: Clock = SystemClock()

    def follow(self, clock: Clock) -> None:
        self._clock = clock

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def now(self) -> datetime:
        return self._clock.now()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return self._clock.timeout(seconds)


class _StandingStill(_TimeOfClients):
    """So that watches neither end nor have bookmarks unless a test wants it."""

    async def sleep(self, seconds: float) -> None:  # noqa: ARG002
        await asyncio.Event().wait()


_STANDING_STILL = _StandingStill()


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

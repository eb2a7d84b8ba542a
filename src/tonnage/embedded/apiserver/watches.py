"""Watches: from a version, or from everything there is, on to whatever happens.

A watch ends by itself after the time it was asked for, when its kind is no longer served, and when
nobody takes what it has to tell.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import msgspec

from tonnage.clock import Clock
from tonnage.cluster.transport import WatchParts
from tonnage.embedded.apiserver.refusals import ApiRefusal, Tree, gone, invalid, too_large_version
from tonnage.embedded.apiserver.request_paths import ResourceRequest
from tonnage.embedded.apiserver.request_selectors import selection
from tonnage.embedded.apiserver.store import ADDED, ObjectStore, Occurrence, Stored

BOOKMARK_EVERY = 60.0
LONGEST = 3600.0
"""Seconds, for those who do not say how long."""
MOST_WAITING = 100_000
"""Events that nobody took; more, and the watch is given up."""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

Render: TypeAlias = Callable[[Stored], bytes]
"""How an object is shown in place of its own JSON, in tables."""


class Watch:
    """One open watch: what it has to tell, and the one who waits for it."""

    def __init__(
        self, store: ObjectStore, asked: ResourceRequest, *, render: Render | None = None
    ) -> None:
        """Opened by `events`; raises `ApiRefusal` if it never can be."""
        self._store = store
        self._collection = asked.collection
        self._namespace = asked.namespace
        self._render = render
        self._selects = selection(
            asked.collection.kind,
            labels=asked.query.get("labelSelector", ""),
            fields=asked.query.get("fieldSelector", ""),
        )
        self._bookmarks = asked.flag("allowWatchBookmarks")
        self._seconds = float(asked.number("timeoutSeconds") or LONGEST)
        self._since = asked.number("resourceVersion") or 0
        self._initial = asked.query.get("sendInitialEvents", "")
        self._check(asked)
        self._waiting: list[WatchParts] = []
        self._ended = False
        self._news = asyncio.Event()

    @asynccontextmanager
    async def events(self, clock: Clock) -> AsyncIterator[AsyncIterator[bytes]]:
        """Whole lines, as many at a time as there are."""
        async with self.told(clock) as told:
            yield lines(told)

    @asynccontextmanager
    async def told(self, clock: Clock) -> AsyncIterator[AsyncIterator[list[WatchParts]]]:
        """The same events taken apart."""
        self._begin()
        self._collection.watchers.append(self._tell)
        ticking = asyncio.ensure_future(self._tick(clock))
        try:
            yield self._told()
        finally:
            ticking.cancel()
            self._collection.watchers.remove(self._tell)

    def end(self) -> None:
        """Nothing more comes; what waits is still taken."""
        self._ended = True
        self._news.set()

    def _check(self, asked: ResourceRequest) -> None:
        if self._since > self._store.version:
            raise too_large_version(self._since, self._store.version)
        if self._initial == "true":
            if asked.query.get("resourceVersionMatch") != "NotOlderThan":
                problem = "Forbidden: sendInitialEvents requires NotOlderThan"
                raise invalid("ListOptions", "", [("resourceVersionMatch", problem)])
            if not self._bookmarks:
                problem = "Required value: sendInitialEvents requires allowWatchBookmarks"
                raise invalid("ListOptions", "", [("allowWatchBookmarks", problem)])
        elif asked.query.get("resourceVersionMatch"):
            problem = "Forbidden: a watch takes it only with sendInitialEvents"
            raise invalid("ListOptions", "", [("resourceVersionMatch", problem)])

    def _begin(self) -> None:
        if self._initial == "true" or (not self._since and self._initial != "false"):
            for obj in self._collection.within(self._namespace):
                if self._selects is None or self._selects(obj):
                    self._waiting.append(self._shown(ADDED, obj))
            if self._initial == "true":
                self._waiting.append(self._bookmark(last_of_initial=True))
        elif self._since and self._since < self._collection.forgotten:
            self._fail(gone(f"too old resource version: {self._since}"))
        elif self._since:
            for occurrence in self._collection.after(self._since):
                self._tell(occurrence)
        self._news.set()

    def _fail(self, refusal: ApiRefusal) -> None:
        self._waiting.append(("ERROR", refusal.body))
        self.end()

    def _tell(self, occurrence: Occurrence | None) -> None:
        if occurrence is None:
            self.end()
            return
        if self._namespace and occurrence.subject.namespace != self._namespace:
            return
        type_ = occurrence.type_for(self._selects)
        if not type_ or self._ended:
            return
        self._waiting.append(self._shown(type_, occurrence.object(type_)))
        if len(self._waiting) > MOST_WAITING:
            self._waiting.clear()
            self.end()
        self._news.set()

    def _shown(self, type_: str, obj: Stored) -> WatchParts:
        return type_, obj.data if self._render is None else self._render(obj)

    def _bookmark(self, *, last_of_initial: bool = False) -> WatchParts:
        kind = self._collection.kind
        meta: Tree = {"resourceVersion": str(self._store.version), "creationTimestamp": None}
        if last_of_initial:
            meta["annotations"] = {INITIAL_EVENTS_END: "true"}
        head = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}
        return "BOOKMARK", msgspec.json.encode(head)

    async def _tick(self, clock: Clock) -> None:
        """One sleeper for each watch, so that waiting for an event needs no deadline."""
        left = self._seconds
        while left > 0:
            pause = min(BOOKMARK_EVERY, left)
            await clock.sleep(pause)
            left -= pause
            if self._bookmarks and not self._ended:
                self._waiting.append(self._bookmark())
                self._news.set()
        self.end()

    async def _told(self) -> AsyncIterator[list[WatchParts]]:
        while True:
            await self._news.wait()
            self._news.clear()
            if self._waiting:
                told, self._waiting = self._waiting, []
                yield told
            if self._ended and not self._waiting:
                return


async def lines(told: AsyncIterator[list[WatchParts]]) -> AsyncIterator[bytes]:
    """The events of a watch as they are sent: whole lines, as many at a time as there are."""
    async for events in told:
        yield b"".join(line(type_, data) for type_, data in events)


def line(type_: str, data: bytes | msgspec.Raw) -> bytes:
    """An event as it is sent, around an object's JSON."""
    return b'{"type":"%s","object":%s}\n' % (type_.encode(), bytes(data))

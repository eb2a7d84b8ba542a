import asyncio
import json
from contextlib import aclosing

import pytest
from aiohttp import web

from tests.cluster.apiserver import ApiServer, answer, pod, status
from tonnage.cluster import errors
from tonnage.cluster.client import Client, Selection
from tonnage.cluster.watch_events import Bookmark, Change, EventType, Unreadable, WatchEvent
from tonnage.objects.pods import Pod
from tonnage.testing.clock import VirtualClock

PODS = "/api/v1/namespaces/default/pods"


async def take(client: Client, count: int, *, version: str = "100") -> list[WatchEvent[Pod]]:
    found: list[WatchEvent[Pod]] = []
    async with aclosing(client.watch(Pod, resource_version=version)) as events:
        async for event in events:
            found.append(event)
            if len(found) == count:
                break
    return found


def changes(events: list[WatchEvent[Pod]]) -> list[tuple[EventType, str]]:
    return [(e.type, e.object.metadata.name) for e in events if isinstance(e, Change)]


async def test_a_watch_tells_what_happens_after_a_version(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("old"))
        since = str(server.version)
        server.put(PODS, pod("new"))
        server.put(PODS, pod("old"))
        server.remove(f"{PODS}/new")
        found = await take(server.client(clock), 3, version=since)
        assert changes(found) == [
            (EventType.ADDED, "new"),
            (EventType.MODIFIED, "old"),
            (EventType.DELETED, "new"),
        ]


async def test_a_watch_asks_for_bookmarks_and_a_random_end(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        client = server.client(clock)
        server.put(PODS, pod("web-1"))
        await take(client, 1)
        await take(client, 1)
        queries = [request.query for request in server.requests]
        assert {query["allowWatchBookmarks"] for query in queries} == {"true"}
        ends = [int(query["timeoutSeconds"]) for query in queries]
        assert ends[0] != ends[1]
        assert all(300 <= end < 600 for end in ends)


async def test_a_watch_is_of_what_is_selected(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("elsewhere"))
        server.put(PODS, pod("web-1", nodeName="n1"))
        selection = Selection(namespace="default", fields="spec.nodeName=n1")
        events = server.client(clock).watch(Pod, selection, resource_version="100")
        async with aclosing(events):
            first = await anext(events)
        assert isinstance(first, Change)
        assert first.object.metadata.name == "web-1"
        asked = server.asked("GET", PODS)[0].query
        assert (asked["fieldSelector"], asked["resourceVersion"]) == ("spec.nodeName=n1", "100")


async def test_a_bookmark_carries_its_version(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        waiting = asyncio.ensure_future(take(server.client(clock), 1))
        await server.watching()
        server.bookmark()
        assert await waiting == [Bookmark(resource_version="100")]


async def test_events_may_be_cut_into_chunks_anywhere(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        waiting = asyncio.ensure_future(take(server.client(clock), 2))
        await server.watching()
        lines = b"".join(
            json.dumps({"type": "ADDED", "object": pod(name)}).encode() + b"\n"
            for name in ("a", "b")
        )
        for start in range(0, len(lines), 7):
            server.raw(lines[start : start + 7])
            await clock.sleep(0.001)
        assert changes(await waiting) == [(EventType.ADDED, "a"), (EventType.ADDED, "b")]


async def test_a_line_without_end_is_dropped_when_the_stream_ends(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        waiting = asyncio.ensure_future(take(server.client(clock), 2))
        await server.watching()
        server.put(PODS, pod("whole"))
        server.raw(b'{"type": "ADDED", "object": {"metadata"')
        server.end_watches()
        assert changes(await waiting) == [(EventType.ADDED, "whole")]


async def test_a_connection_cut_in_the_middle_of_a_line_is_a_failed_connection(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        waiting = asyncio.ensure_future(take(server.client(clock), 1))
        await server.watching()
        server.raw(b'{"type": "ADDED", "obj')
        await clock.sleep(0.1)
        server.cut_watches()
        with pytest.raises(errors.ConnectionFailed):
            await waiting


async def test_silence_is_a_failed_connection(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        with pytest.raises(errors.ConnectionFailed, match="watch pods: nothing came for 90 s"):
            await take(server.client(clock), 1)
        assert clock.monotonic() == 90


async def test_every_byte_breaks_the_silence(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        waiting = asyncio.ensure_future(take(server.client(clock), 2))
        await server.watching()
        for _ in range(2):
            await clock.sleep(80)
            server.bookmark()
        assert len(await waiting) == 2


async def test_a_server_that_never_answers_is_a_failed_connection(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.freeze()
        with pytest.raises(errors.ConnectionFailed, match="nothing came for 60 s"):
            await take(server.client(clock), 1)


async def test_a_forgotten_version_is_gone(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("web-1"))
        server.forget()
        with pytest.raises(errors.Gone):
            await take(server.client(clock), 1, version="100")


async def test_a_version_forgotten_while_watching_is_gone_too(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        waiting = asyncio.ensure_future(take(server.client(clock), 1))
        await server.watching()
        server.raw(b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n')
        with pytest.raises(errors.Gone):
            await waiting


async def test_a_missing_right_to_watch_is_named(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.script("GET", "/api/v1/pods", answer(lambda: status(403, "Forbidden")))
        with pytest.raises(errors.Forbidden) as caught:
            await take(server.client(clock), 1)
        assert (caught.value.verb, caught.value.kind) == ("watch", "Pod")


async def test_a_bad_object_is_an_event_that_names_it(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("bad", containers="none"))
        server.put(PODS, pod("good"))
        bad, good = await take(server.client(clock), 2)
        assert isinstance(bad, Unreadable)
        assert (bad.namespace, bad.name, bad.resource_version) == ("default", "bad", "101")
        assert isinstance(good, Change)


async def test_a_line_that_is_no_event_is_the_servers_error(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        body = b"<html>no</html>\n"
        server.script("GET", "/api/v1/pods", answer(lambda: web.Response(body=body)))
        with pytest.raises(errors.ServerError, match="not an event"):
            await take(server.client(clock), 1)


async def test_initial_events_end_with_a_bookmark_that_says_so(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("web-1"))
        events = server.client(clock).watch(Pod, resource_version="", initial_events=True)
        async with aclosing(events):
            first, mark = await anext(events), await anext(events)
        assert isinstance(first, Change)
        assert mark == Bookmark(resource_version="101", initial_events_end=True)
        query = server.requests[0].query
        assert (query["sendInitialEvents"], query["resourceVersionMatch"]) == (
            "true",
            "NotOlderThan",
        )


async def test_leaving_a_watch_ends_it_at_the_server(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("web-1"))
        await take(server.client(clock), 1)
        await server.watching(0)

"""Caches whose server is silent, refuses, or lacks a kind."""

import asyncio

from aiohttp import web

from tests.cluster.apiserver import ApiServer, answer, pod, status, until
from tests.cluster.mirrors import ALL_PODS, ATTACHMENTS, PODS, a_mirror, names, pods_of, running
from tonnage.objects.nodes import Node
from tonnage.objects.storage import VolumeAttachment
from tonnage.testing.clock import VirtualClock

# Staleness


async def test_age_counts_from_the_last_word_of_the_server(clock: VirtualClock) -> None:
    async with ApiServer() as server, pods_of(server, clock) as cache:
        await clock.sleep(50)
        assert cache.age == 50
        server.bookmark()
        await until(lambda: cache.age < 1, clock=clock)


async def test_a_cache_whose_server_is_frozen_becomes_stale(clock: VirtualClock) -> None:
    async with ApiServer() as server, pods_of(server, clock) as cache:
        server.freeze()
        await clock.sleep(179)
        assert not cache.stale
        await clock.sleep(2)
        assert cache.stale


async def test_a_watch_that_is_accepted_but_silent_does_not_make_a_cache_fresh(
    clock: VirtualClock,
) -> None:
    accepted: list[web.Request] = []

    async def watches_only(request: web.Request) -> web.StreamResponse:
        if request.query.get("watch") != "true" or "sendInitialEvents" in request.query:
            return status(500, "InternalError")
        accepted.append(request)
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()
        return response

    async with ApiServer() as server, pods_of(server, clock) as cache:
        server.bookmark()
        server.script("GET", ALL_PODS, *[watches_only] * 100)
        await clock.sleep(260)
        assert accepted
        assert cache.stale


async def test_a_quiet_kind_of_a_server_without_bookmarks_stays_fresh(clock: VirtualClock) -> None:
    async with ApiServer() as server, pods_of(server, clock) as cache:
        for _ in range(60):
            await clock.sleep(20)
            assert not cache.stale
        assert server.requests


async def test_a_stale_cache_recovers_with_the_server(clock: VirtualClock) -> None:
    async with ApiServer() as server, pods_of(server, clock) as cache:
        server.freeze()
        await clock.sleep(600)
        server.thaw()
        await server.watching()
        server.put(PODS, pod("web-1"))
        await until(lambda: names(cache) == ["web-1"], clock=clock)
        assert not cache.stale
        assert (cache.status.failures, cache.status.last_error) == (0, "")


# Missing rights and kinds


def forbidden() -> web.Response:
    return status(403, "Forbidden")


async def test_a_missing_right_is_recorded_and_leaves_the_other_kinds_alone(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        server.script("GET", ATTACHMENTS, *[answer(forbidden)] * 100)
        server.put("/api/v1/nodes", {"metadata": {"name": "n1"}})
        mirror = a_mirror(server, clock)
        attachments, nodes = mirror.add(VolumeAttachment), mirror.add(Node)
        async with running(mirror):
            await nodes.wait_synced()
            await until(lambda: attachments.obstacle is not None, clock=clock)
            obstacle = attachments.obstacle
            assert obstacle is not None
            assert (obstacle.verb, obstacle.kind, obstacle.group, obstacle.forbidden) == (
                "watch",
                "VolumeAttachment",
                "storage.k8s.io",
                True,
            )
            assert attachments.stale
            assert not nodes.stale


async def test_a_missing_right_is_soon_asked_for_only_once_a_minute(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.script("GET", ATTACHMENTS, *[answer(forbidden)] * 100)
        mirror = a_mirror(server, clock)
        mirror.add(VolumeAttachment)
        async with running(mirror):
            await clock.sleep(600)
            assert 12 <= len(server.requests) <= 17


async def test_a_right_given_back_is_noticed(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.script("GET", ATTACHMENTS, *[answer(forbidden)] * 3)
        mirror = a_mirror(server, clock)
        cache = mirror.add(VolumeAttachment)
        async with running(mirror):
            await cache.wait_synced()
            assert cache.obstacle is None


async def test_a_right_taken_away_keeps_what_is_known_and_resumes_later(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("web-1"))
        async with pods_of(server, clock) as cache:
            server.script("GET", ALL_PODS, answer(forbidden), answer(forbidden))
            server.end_watches()
            await until(lambda: cache.obstacle is not None, clock=clock)
            assert names(cache) == ["web-1"]
            server.put(PODS, pod("web-2"))
            await until(lambda: names(cache) == ["web-1", "web-2"], clock=clock)
            assert (cache.obstacle, cache.status.relists) == (None, 0)


async def test_a_server_that_refuses_everything_while_it_starts_is_believed_only_for_seconds(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("web-1"))
        async with pods_of(server, clock) as cache:
            server.script("GET", ALL_PODS, *[answer(forbidden)] * 3)
            server.end_watches()
            await until(lambda: cache.obstacle is not None, clock=clock)
            # Nothing happens to pods meanwhile, so that only the open watch can tell.
            await until(lambda: cache.obstacle is None, clock=clock, within=10)


async def test_a_kind_the_server_lacks_is_an_obstacle(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        missing = answer(lambda: web.Response(status=404, text="404 page not found"))
        server.script("GET", ATTACHMENTS, *[missing] * 10)
        mirror = a_mirror(server, clock)
        cache = mirror.add(VolumeAttachment)
        async with running(mirror):
            await until(lambda: cache.obstacle is not None, clock=clock)
            assert cache.obstacle is not None
            assert not cache.obstacle.forbidden

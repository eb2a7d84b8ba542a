"""An API server that asks for too much patience, or tells events late, twice or not at all."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.autoscaler.harness import PODS, Cloud, autoscaling, metric, put_node, put_pod, started
from tests.cluster.apiserver import ApiServer, answer, until
from tests.cluster.apiserver import status as refusal
from tonnage.cluster.cache import Cache
from tonnage.cluster.mirror import Mirror
from tonnage.objects.pods import Pod
from tonnage.service import lifecycle
from tonnage.testing.clock import VirtualClock

ALL_PODS = "/api/v1/pods"
HOUR = 3600.0


@asynccontextmanager
async def pods_of(
    server: ApiServer, clock: VirtualClock, *, check: float = 0.0
) -> AsyncIterator[Cache[Pod]]:
    mirror = Mirror(server.client(clock), clock=clock, rng=random.Random(1))
    mirror.check_interval = lambda: check
    cache = mirror.add(Pod)
    async with lifecycle.beside(mirror.run(), bookmarks(server, clock)):
        await cache.wait_synced()
        await server.watching()
        yield cache


async def bookmarks(server: ApiServer, clock: VirtualClock) -> None:
    while True:
        await clock.sleep(60)
        server.bookmark()


def names(cache: Cache[Pod]) -> set[str]:
    return {name for _, name in cache.objects}


def lists(server: ApiServer) -> int:
    return len([one for one in server.requests if "sendInitialEvents" in one.query])


def late(server: ApiServer, kind: str, name: str, version: int) -> None:
    """An event that should have come long ago."""
    meta = f'{{"name":"{name}","namespace":"default","uid":"u","resourceVersion":"{version}"}}'
    server.raw(f'{{"type":"{kind}","object":{{"metadata":{meta}}}}}\n'.encode())


@pytest.mark.parametrize("code", [429, 503])
async def test_a_watch_is_asked_for_again_within_minutes_whatever_the_server_advises(
    clock: VirtualClock, code: int
) -> None:
    async with ApiServer() as server, pods_of(server, clock) as cache:
        refused = answer(lambda: refusal(code, "Later", headers={"Retry-After": "86400"}))
        server.script("GET", ALL_PODS, refused, refused)
        server.end_watches()
        put_pod(server, "later")
        before = clock.monotonic()
        await until(lambda: "later" in names(cache), clock=clock, within=HOUR)
        assert 60.0 <= clock.monotonic() - before <= 130.0


async def test_an_event_older_than_what_is_held_changes_nothing(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        put_pod(server, "web", cpu="1")
        old = server.version
        async with pods_of(server, clock) as cache:
            put_pod(server, "web", cpu="2")
            await until(lambda: cache.resource_version == str(server.version), clock=clock)
            late(server, "MODIFIED", "web", old)
            late(server, "DELETED", "web", old)
            late(server, "ADDED", "never-was", old)
            server.bookmark()
            await until(lambda: cache.doubtful, clock=clock)
            assert names(cache) == {"web"}
            [web] = cache
            assert web.spec.containers[0].resources.requests["cpu"] == "2"


async def test_events_in_the_wrong_order_are_mended_by_a_list_and_not_by_many(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server, pods_of(server, clock) as cache:
        for name in ("one", "two", "three"):
            put_pod(server, name)
        await until(lambda: len(cache) == 3, clock=clock)
        with server.untold():
            server.remove(f"{PODS}/one")
            put_pod(server, "four")
        assert lists(server) == 1
        for _ in range(100):
            late(server, "MODIFIED", "two", 101)
        await until(lambda: names(cache) == {"two", "three", "four"}, clock=clock)
        assert (lists(server), cache.corrections) == (2, 1)
        await server.watching()
        for _ in range(100):
            late(server, "MODIFIED", "two", 101)
        await clock.sleep(30)
        assert lists(server) == 2
        await clock.sleep(90)
        assert (lists(server), cache.corrections) == (3, 2)


async def test_what_was_never_told_is_found_by_a_check(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        put_pod(server, "stays")
        put_pod(server, "goes")
        put_pod(server, "changes", cpu="1")
        async with pods_of(server, clock, check=HOUR) as cache:
            with server.untold():
                server.remove(f"{PODS}/goes")
                put_pod(server, "changes", cpu="2")
                put_pod(server, "comes")
            await clock.sleep(HOUR - 60)
            assert names(cache) == {"stays", "goes", "changes"}
            await clock.sleep(300)
            assert names(cache) == {"stays", "changes", "comes"}
            changed = cache.get("changes", namespace="default")
            assert changed is not None
            assert changed.spec.containers[0].resources.requests["cpu"] == "2"
            assert (lists(server), cache.corrections) == (2, 1)


async def test_a_check_asks_for_metadata_once_and_lists_nothing_that_is_right(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        for number in range(1200):
            put_pod(server, f"web-{number}")
        async with pods_of(server, clock, check=HOUR) as cache:
            put_pod(server, "web-7", cpu="3")
            server.remove(f"{PODS}/web-8")
            await clock.sleep(10 * HOUR + 600)
            asked = [one for one in server.requests if "limit" in one.query]
            assert len(asked) == 10 * 3
            assert all("PartialObjectMetadataList" in one.headers["Accept"] for one in asked)
            assert (lists(server), cache.corrections) == (1, 0)


async def test_what_changes_while_it_is_checked_is_not_taken_for_wrong(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        for number in range(200):
            put_pod(server, f"web-{number}")

        async def churn() -> None:
            for number in range(100_000):
                put_pod(server, f"web-{number % 150}", cpu=f"{number % 7}")
                if number % 3 == 0:
                    server.remove(f"{PODS}/web-{number % 150}")
                await clock.sleep(2.0)

        async with pods_of(server, clock, check=60.0) as cache, lifecycle.beside(churn()):
            await clock.sleep(1200.0)
            assert (lists(server), cache.corrections) == (1, 0)


async def test_health_and_status_say_how_old_each_kind_is_and_why(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "n1", age=3600.0)
        async with autoscaling(server, Cloud(server), clock) as program:
            await clock.sleep(30)
            assert {one["stale"] for one in program.status()["caches"]} == {False}
            assert program.unhealthy() == ""
            down = answer(lambda: refusal(503, "Later", headers={"Retry-After": "86400"}))
            server.script("GET", ALL_PODS, *[down] * 1000)
            server.end_watches()
            await clock.sleep(300)
            [pods] = [one for one in program.status()["caches"] if one["kind"] == "Pod"]
            assert pods["stale"]
            assert 240 <= pods["ageSeconds"] <= 400
            assert "503" in pods["lastError"]
            problems = program.autoscaler.document["tonnage"]["problems"]
            assert [one for one in problems if one.startswith("Pod objects: watch pods: 503")]
            age = metric(program, "tonnage_cache_age_seconds", kind="Pod", group="")
            assert age is not None
            assert age >= 240
            await clock.sleep(900)
            assert program.unhealthy().startswith("Error: nothing was heard of Pod (")

import pytest
from aiohttp import web

from tests.cluster.apiserver import ApiServer, answer, pod, until
from tests.cluster.mirrors import (
    ALL_PODS,
    PODS,
    Seen,
    a_mirror,
    names,
    pods_of,
    running,
    subscribed,
)
from tonnage.cluster.watch_events import EventType
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.testing.clock import VirtualClock

# Syncing


async def test_a_cache_starts_with_what_is_there(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("web-1"))
        async with pods_of(server, clock) as cache:
            assert names(cache) == ["web-1"]


async def test_a_streaming_list_is_asked_for_first(clock: VirtualClock) -> None:
    async with ApiServer() as server, pods_of(server, clock):
        assert [r.query.get("sendInitialEvents") for r in server.requests] == ["true", None]


async def test_pages_are_used_where_streaming_lists_are_refused(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.streaming_lists = False
        server.put(PODS, pod("web-1"))
        async with pods_of(server, clock) as cache:
            assert names(cache) == ["web-1"]
            assert [r.query.get("limit") for r in server.requests] == [None, "500", None]
            assert clock.monotonic() == 0


async def test_pages_are_used_where_a_streaming_list_never_ends(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.streaming_lists_end = False
        server.put(PODS, pod("web-1"))
        async with pods_of(server, clock) as cache:
            assert names(cache) == ["web-1"]


async def test_a_cache_that_was_never_complete_is_stale(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.freeze()
        mirror = a_mirror(server, clock)
        cache = mirror.add(Pod)
        async with running(mirror):
            await clock.sleep(10)
            assert (cache.synced, cache.stale) == (False, True)


# Following


async def test_a_cache_follows_the_watch(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("old"))
        async with pods_of(server, clock) as cache:
            server.put(PODS, pod("new"))
            server.remove(f"{PODS}/old")
            await until(lambda: names(cache) == ["new"], clock=clock)


async def test_subscribers_hear_every_change_in_order(clock: VirtualClock) -> None:
    async with ApiServer() as server, pods_of(server, clock) as cache:
        seen = subscribed(cache)
        server.put(PODS, pod("a"))
        server.put(PODS, pod("a", nodeName="n1"))
        server.remove(f"{PODS}/a")
        await until(lambda: len(seen) == 3, clock=clock)
        assert seen == [
            (EventType.ADDED, "a"),
            (EventType.MODIFIED, "a"),
            (EventType.DELETED, "a"),
        ]


async def test_a_change_has_what_was_known_before_it(clock: VirtualClock) -> None:
    async with ApiServer() as server, pods_of(server, clock) as cache:
        seen: list[Pod | None] = []
        cache.subscribe(lambda change: seen.append(change.before))
        server.put(PODS, pod("a"))
        server.put(PODS, pod("a", nodeName="n1"))
        server.remove(f"{PODS}/a")
        await until(lambda: len(seen) == 3, clock=clock)
        assert [one and one.spec.node_name for one in seen] == [None, "", "n1"]


async def test_a_subscriber_first_hears_what_is_there(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("web-1"))
        async with pods_of(server, clock) as cache:
            seen: Seen = []
            cache.subscribe(lambda change: seen.append((change.type, change.object.metadata.name)))
            assert seen == [(EventType.ADDED, "web-1")]


async def test_who_left_hears_nothing_more(clock: VirtualClock) -> None:
    async with ApiServer() as server, pods_of(server, clock) as cache:
        seen: Seen = []
        leave = cache.subscribe(lambda change: seen.append((change.type, "")))
        leave()
        server.put(PODS, pod("web-1"))
        await until(lambda: len(cache) == 1, clock=clock)
        assert seen == []


@pytest.mark.parametrize("end", ["end_watches", "cut_watches"])
async def test_a_watch_that_ends_is_resumed_at_the_last_version(
    end: str, clock: VirtualClock
) -> None:
    async with ApiServer() as server, pods_of(server, clock) as cache:
        server.put(PODS, pod("before"))
        await until(lambda: len(cache) == 1, clock=clock)
        resumed_at = server.version
        getattr(server, end)()
        await server.watching(0)
        server.put(PODS, pod("meanwhile"))
        await until(lambda: len(cache) == 2, clock=clock)
        assert server.requests[-1].query["resourceVersion"] == str(resumed_at)


async def test_a_bookmark_moves_the_version_to_resume_at(clock: VirtualClock) -> None:
    async with ApiServer() as server, pods_of(server, clock) as cache:
        server.version = 5000
        server.bookmark()
        await until(lambda: cache.resource_version == "5000", clock=clock)
        server.end_watches()
        await server.watching(0)
        await server.watching(1)
        assert server.requests[-1].query["resourceVersion"] == "5000"


async def test_a_server_that_falls_silent_is_left_and_asked_to_go_on(clock: VirtualClock) -> None:
    async with ApiServer() as server, pods_of(server, clock) as cache:
        server.bookmark()
        await clock.sleep(95)
        *_, last = server.requests
        assert (len(server.requests), last.query["resourceVersion"]) == (3, "100")
        assert cache.status.failures == 1


async def test_a_server_silent_from_the_beginning_of_a_watch_is_asked_for_a_list(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server, pods_of(server, clock):
        await clock.sleep(95)
        assert [one.query.get("sendInitialEvents") for one in server.requests[2:]] == ["true", None]


async def test_a_server_that_ends_every_watch_at_once_is_asked_less_and_less(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server, pods_of(server, clock):
        server.end_watches()
        ended = answer(lambda: web.Response(body=b""))
        server.script("GET", ALL_PODS, *[ended] * 1000)
        before = len(server.requests)
        await clock.sleep(300)
        assert 10 <= len(server.requests) - before <= 30


async def test_nonsense_from_the_server_ends_in_a_new_list(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("web-1"))
        async with pods_of(server, clock) as cache:
            nonsense = answer(lambda: web.Response(body=b"<html>\n"))
            server.script("GET", ALL_PODS, *[nonsense] * 5)
            server.end_watches()
            await until(lambda: cache.status.relists == 1, clock=clock)


# 410


async def test_a_forgotten_version_lists_anew_and_tells_the_difference(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("gone"))
        server.put(PODS, pod("changed"))
        server.put(PODS, pod("kept"))
        async with pods_of(server, clock) as cache:
            seen = subscribed(cache)
            server.cut_watches()
            await server.watching(0)
            server.remove(f"{PODS}/gone")
            server.put(PODS, pod("changed", nodeName="n1"))
            server.put(PODS, pod("new"))
            server.forget()
            await until(lambda: cache.status.relists == 1, clock=clock)
            assert seen == [
                (EventType.DELETED, "gone"),
                (EventType.MODIFIED, "changed"),
                (EventType.ADDED, "new"),
            ]


async def test_an_object_made_anew_during_the_gap_is_told_as_gone_and_come(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("db-0"))
        async with pods_of(server, clock) as cache:
            seen = subscribed(cache)
            server.cut_watches()
            await server.watching(0)
            server.remove(f"{PODS}/db-0")
            server.put(PODS, pod("db-0"))
            server.forget()
            await until(lambda: cache.status.relists == 1, clock=clock)
            assert seen == [(EventType.DELETED, "db-0"), (EventType.ADDED, "db-0")]


async def test_deletions_are_found_by_a_paged_list_too(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.streaming_lists = False
        server.put(PODS, pod("gone"))
        async with pods_of(server, clock) as cache:
            seen = subscribed(cache)
            server.cut_watches()
            await server.watching(0)
            server.remove(f"{PODS}/gone")
            server.forget()
            await until(lambda: cache.status.relists == 1, clock=clock)
            assert seen == [(EventType.DELETED, "gone")]


# Bad objects


async def test_a_bad_object_is_a_problem_and_the_watch_goes_on(clock: VirtualClock) -> None:
    async with ApiServer() as server, pods_of(server, clock) as cache:
        server.put(PODS, pod("bad", containers="none"))
        server.put(PODS, pod("good"))
        await until(lambda: names(cache) == ["good"], clock=clock)
        assert "spec.containers" in cache.problems["default", "bad"]


async def test_an_object_gone_bad_stays_as_it_was_last_readable(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("web-1", nodeName="n1"))
        async with pods_of(server, clock) as cache:
            server.put(PODS, pod("web-1", containers="none"))
            await until(lambda: len(cache.problems) == 1, clock=clock)
            kept = cache.get("web-1", namespace="default")
            assert kept is not None
            assert kept.spec.node_name == "n1"


async def test_an_object_gone_bad_while_we_were_not_told_stays_too(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("web-1"))
        async with pods_of(server, clock) as cache:
            server.cut_watches()
            await server.watching(0)
            server.put(PODS, pod("web-1", containers="none"))
            server.forget()
            await until(lambda: cache.status.relists == 1, clock=clock)
            assert (names(cache), len(cache.problems)) == (["web-1"], 1)


async def test_a_problem_ends_with_the_object(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("web-1"))
        async with pods_of(server, clock) as cache:
            seen = subscribed(cache)
            server.put(PODS, pod("web-1", containers="none"))
            await until(lambda: len(cache.problems) == 1, clock=clock)
            server.remove(f"{PODS}/web-1")
            await until(lambda: not cache.problems, clock=clock)
            assert seen == [(EventType.DELETED, "web-1")]


async def test_a_problem_ends_when_the_object_is_good_again(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("web-1", containers="none"))
        async with pods_of(server, clock) as cache:
            assert len(cache.problems) == 1
            server.put(PODS, pod("web-1"))
            await until(lambda: names(cache) == ["web-1"], clock=clock)
            assert not cache.problems


# Ending


async def test_cancelling_a_mirror_ends_its_watches(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        mirror = a_mirror(server, clock)
        mirror.add(Pod)
        mirror.add(Node)
        async with running(mirror):
            await server.watching(2)
        await server.watching(0)


async def test_the_status_counts_what_is_there(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("good"))
        server.put(PODS, pod("bad", containers="none"))
        async with pods_of(server, clock) as cache:
            found = cache.status
            assert (found.kind, found.objects, found.problems, found.synced, found.stale) == (
                "Pod",
                1,
                1,
                True,
                False,
            )

"""The way without sockets: determinism, watches in virtual time, and what they cost."""

import asyncio
import random
import time
from contextlib import aclosing

import pytest

from tests.embedded.apiserver.requests import CONFIG_MAPS, MERGE, Api
from tonnage.clock.virtual import VirtualClock, run
from tonnage.cluster.client import Client
from tonnage.cluster.records import ConfigMap
from tonnage.cluster.transport import HttpRequest, Pairs
from tonnage.cluster.watch_events import Change
from tonnage.embedded.apiserver import ApiServer, InProcessTransport
from tonnage.embedded.apiserver import watches as watches
from tonnage.embedded.apiserver.store import LARGEST_HISTORY


def watch(**query: str) -> HttpRequest:
    pairs: Pairs = (("watch", "true"), *query.items())
    return HttpRequest(method="GET", path=CONFIG_MAPS, query=pairs)


def a_history(seed: int) -> bytes:
    api = Api(seed=seed)
    for _ in range(5):
        api.good("POST", CONFIG_MAPS, {"metadata": {"generateName": "some-"}})
    name = api.names(CONFIG_MAPS)[2]
    api.good("PATCH", f"{CONFIG_MAPS}/{name}", {"data": {"a": "1"}}, content_type=MERGE)
    return api.ask("GET", CONFIG_MAPS).body


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert a_history(7) == a_history(7)
    assert a_history(7) != a_history(8)


async def test_a_watch_ends_after_the_time_it_asked_for(clock: VirtualClock) -> None:
    transport = InProcessTransport(ApiServer(clock=clock, rng=random.Random(1)))
    async with transport.stream(watch(timeoutSeconds="100")) as stream:
        assert [chunk async for chunk in stream.chunks] == []
    assert clock.monotonic() == 100.0


async def test_bookmarks_come_every_minute_and_at_the_end(clock: VirtualClock) -> None:
    transport = InProcessTransport(ApiServer(clock=clock, rng=random.Random(1)))
    request = watch(timeoutSeconds="130", allowWatchBookmarks="true")
    async with transport.stream(request) as stream:
        chunks = [chunk async for chunk in stream.chunks]
    assert [b'"BOOKMARK"' in chunk for chunk in chunks] == [True, True, True]


async def test_changes_of_large_objects_are_forgotten_sooner(clock: VirtualClock) -> None:
    api = Api(clock)
    api.create(CONFIG_MAPS, "large")
    versions = [
        api.good(
            "PATCH",
            f"{CONFIG_MAPS}/large",
            {"data": {"text": f"{number:03}" + "x" * 2**20}},
            content_type=MERGE,
        )["metadata"]["resourceVersion"]
        for number in range(40)
    ]
    config_maps = api.server.store.built_in("configmaps")
    held = sum(len(one.subject.data) for one in config_maps.history)
    assert LARGEST_HISTORY - 2**21 < held <= LARGEST_HISTORY
    assert int(versions[0]) < config_maps.forgotten < int(versions[-1])
    async with InProcessTransport(api.server).stream(watch(resourceVersion=versions[0])) as stream:
        told = b"".join([chunk async for chunk in stream.chunks])
    assert b'"code":410' in told


async def test_nobody_watches_any_more_after_the_block(clock: VirtualClock) -> None:
    server = ApiServer(clock=clock, rng=random.Random(1))
    config_maps = server.store.built_in("configmaps")
    async with InProcessTransport(server).stream(watch()):
        assert len(config_maps.watchers) == 1
    assert config_maps.watchers == []


async def test_a_watch_of_a_kind_that_is_withdrawn_ends(clock: VirtualClock) -> None:
    api = Api(clock)
    spec = {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True}],
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api.create(definitions, "widgets.example.com", spec=spec)
    api.create("/apis/example.com/v1/widgets", "one")
    request = HttpRequest(
        method="GET", path="/apis/example.com/v1/widgets", query=(("watch", "true"),)
    )
    async with InProcessTransport(api.server).stream(request) as stream:
        api.good("DELETE", f"{definitions}/widgets.example.com")
        told = b"".join([chunk async for chunk in stream.chunks])
    assert [line[:16] for line in told.splitlines()] == [b'{"type":"ADDED",', b'{"type":"DELETED']


async def test_a_watch_whose_events_nobody_takes_is_given_up(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "MOST_WAITING", 3)
    api = Api(clock)
    async with InProcessTransport(api.server).stream(watch()) as stream:
        for number in range(5):
            api.create(CONFIG_MAPS, f"cm-{number}")
        assert [chunk async for chunk in stream.chunks] == []


async def test_requests_of_different_tasks_take_turns(clock: VirtualClock) -> None:
    server = ApiServer(clock=clock, rng=random.Random(1))
    client = Client(InProcessTransport(server), clock=clock, rng=random.Random(1))
    order: list[str] = []

    async def ask(who: str) -> None:
        for _ in range(3):
            await client.version()
            order.append(who)

    await asyncio.gather(ask("a"), ask("b"))
    assert order == ["a", "b"] * 3


def test_ten_thousand_changes_with_five_watchers_take_no_time_to_speak_of() -> None:
    """A bound against mistakes of another order; the benchmarks measure."""
    clock = VirtualClock()

    async def main() -> None:
        api = Api(clock)
        client = Client(InProcessTransport(api.server), clock=clock, rng=random.Random(1))
        for number in range(100):
            api.create(CONFIG_MAPS, f"cm-{number}")
        seen = 0

        async def follow() -> None:
            nonlocal seen
            version = str(api.server.store.version)
            async with aclosing(client.watch(ConfigMap, resource_version=version)) as events:
                async for event in events:
                    seen += isinstance(event, Change)

        following = [asyncio.ensure_future(follow()) for _ in range(5)]
        await clock.sleep(1.0)
        started = time.process_time()
        for number in range(10_000):
            change = {"data": {"n": str(number)}}
            path = f"{CONFIG_MAPS}/cm-{number % 100}"
            api.good("PATCH", path, change, content_type=MERGE)
        assert time.process_time() - started < 10.0
        await clock.sleep(1.0)
        assert seen == 50_000
        for task in following:
            task.cancel()

    run(main, clock=clock)

"""Objects that a tenant or a broken server may send: named, counted, and nothing ends with them.

Each is met in every way an object comes to us: in a page, in a streaming list, in an event.
"""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.autoscaler.harness import (
    PODS,
    Cloud,
    autoscaling,
    metric,
    put_node,
    put_pod,
    started,
    status,
)
from tests.cluster.apiserver import ApiServer, Json, until
from tonnage.cluster.cache import Cache
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.watch_events import TOO_DEEP
from tonnage.objects.pods import Pod
from tonnage.service import lifecycle
from tonnage.testing.clock import VirtualClock

WAYS = ("page", "stream", "event")
HERE = b'"HERE"'
"""Stands in the object for what a test puts there on the wire."""


def mappings(levels: int) -> bytes:
    return b'{"f:a":' * levels + b"{}" + b"}" * levels


def lists(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


BEYOND_ALL = mappings(150_000)
"""Deeper than any Python follows."""

NESTED = {
    "1,500 mappings": mappings(1_500),
    "9,993 mappings": mappings(9_993),
    "150,000 mappings": BEYOND_ALL,
    "700,000 lists": lists(700_000),
    "lists beside lists, deep down": b"[" * 150_000 + b"[],[[]]," * 99_999 + b"1" + b"]" * 150_000,
    "brackets in strings": b'["[{\\"[{\\\\",' * 3_000 + b"1" + b"]" * 3_000,
}

DEEP_FIELD = (
    "Pod default/bad: spec.containers[0].resources.requests: expected a mapping, found a list"
)

NOT_TO_BE_READ: dict[str, tuple[Json, bytes, str]] = {
    "a field that is read, nested 1,500 deep": (
        {"containers": [{"name": "a", "resources": {"requests": "HERE"}}]},
        lists(1_500),
        DEEP_FIELD,
    ),
    "bytes that are not UTF-8": (
        {"containers": [{"name": "a"}], "nodeSelector": {"zone": "HERE"}},
        b'"a\xff\xfe"',
        "Pod default/bad: expected UTF-8, found other bytes",
    ),
    "half a surrogate pair": (
        {"containers": [{"name": "a"}], "nodeSelector": {"zone": "HERE"}},
        b'"\\ud800"',
        "Pod default/bad: expected JSON, found something else",
    ),
    "a number that is not JSON": (
        {"containers": [{"name": "a"}], "priority": "HERE"},
        b"NaN",
        "Pod default/bad: expected JSON, found something else",
    ),
    "a number that is not JSON, in a field that is not read": (
        {"containers": [{"name": "a"}], "unheardOf": "HERE"},
        b"-Infinity",
        "Pod default/bad: expected JSON, found something else",
    ),
    "a request of 2^64": (
        {"containers": [{"name": "a", "resources": {"requests": {"cpu": "HERE"}}}]},
        b"18446744073709551616",
        "Pod default/bad: spec.containers[0].resources.requests.cpu: expected a number of at most",
    ),
    "a request of ten thousand digits": (
        {"containers": [{"name": "a", "resources": {"requests": {"cpu": "HERE"}}}]},
        b"9" * 10_000,
        "Pod default/bad: spec.containers[0].resources.requests.cpu: expected a quantity",
    ),
    "an absurd exponent": (
        {"containers": [{"name": "a", "resources": {"requests": {"cpu": "HERE"}}}]},
        b"1e999999999",
        "Pod default/bad: spec.containers[0].resources.requests.cpu: expected a quantity",
    ),
    "a priority of 2^64": (
        {"containers": [{"name": "a"}], "priority": "HERE"},
        b"18446744073709551616",
        "Pod default/bad: spec.priority: expected a whole number",
    ),
}

BEYOND_EVERYTHING: dict[str, bytes] = {
    "an absurd exponent in quotes": b'"1e999999999"',
    "2^64 in quotes": b'"18446744073709551616"',
    "the largest number that fits": b"18446744073709551615",
    "thirty digits in quotes": b'"' + b"9" * 30 + b'"',
}


def bad_pod(**spec: object) -> Json:
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {
        "metadata": {"name": "bad", "namespace": "default"},
        "spec": spec,
        "status": {"conditions": [waits]},
    }


def nested_pod() -> Json:
    pod = bad_pod(containers=[{"name": "a"}], nodeName="n1")
    pod["metadata"]["managedFields"] = [{"manager": "x", "fieldsV1": "HERE"}]
    return pod


@asynccontextmanager
async def met(way: str, pod: Json, wire: bytes, clock: VirtualClock) -> AsyncIterator[Cache[Pod]]:
    """A cache of pods that has met the pod, and one before and after it."""
    async with ApiServer() as server:
        server.instead[HERE] = wire
        server.streaming_lists = way != "page"
        mirror = Mirror(server.client(clock), clock=clock, rng=random.Random(1))
        cache = mirror.add(Pod)
        put_pod(server, "a-first")
        if way != "event":
            server.put(PODS, pod)
            put_pod(server, "last")
        async with lifecycle.beside(mirror.run()):
            await cache.wait_synced()
            if way == "event":
                await server.watching()
                server.put(PODS, pod)
                put_pod(server, "last")
                await until(lambda: cache.get("last", namespace="default") is not None, clock=clock)
            yield cache


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("nested", NESTED)
async def test_what_nobody_reads_may_be_nested_as_deep_as_it_likes(
    clock: VirtualClock, way: str, nested: str
) -> None:
    async with met(way, nested_pod(), NESTED[nested], clock) as cache:
        assert {name for _, name in cache.objects} == {"a-first", "bad", "last"}
        bad = cache.get("bad", namespace="default")
        assert bad is not None
        assert bad.spec.node_name == "n1"
        # How deep a decoder follows depends on the Python, what is read of the object does not.
        assert set(cache.problems.values()) <= {TOO_DEEP}
        assert cache.problems or len(NESTED[nested]) < len(BEYOND_ALL)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", NOT_TO_BE_READ)
async def test_an_object_that_cannot_be_read_is_named_and_the_others_are_read(
    clock: VirtualClock, way: str, what: str
) -> None:
    spec, wire, problem = NOT_TO_BE_READ[what]
    async with met(way, bad_pod(**spec), wire, clock) as cache:
        assert {name for _, name in cache.objects} == {"a-first", "last"}
        assert list(cache.problems) == [("default", "bad")]
        assert cache.problems["default", "bad"].startswith(problem)


@pytest.mark.parametrize("way", WAYS)
async def test_an_object_whose_very_name_cannot_be_read_ends_nothing(
    clock: VirtualClock, way: str
) -> None:
    pod = bad_pod(containers=[{"name": "a"}])
    pod["metadata"]["labels"] = {"a": "HERE"}
    spoilt = b'1},"name":"\xff\xff","x":{"a":NaN'
    async with met(way, pod, spoilt, clock) as cache:
        assert {name for _, name in cache.objects} == {"a-first", "last"}
        assert len(cache.problems) == 1


async def test_a_nested_object_that_is_mended_or_gone_is_named_no_more(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.instead[HERE] = BEYOND_ALL
        cluster = Mirror(server.client(clock), clock=clock, rng=random.Random(1))
        cache = cluster.add(Pod)
        server.put(PODS, nested_pod())
        async with lifecycle.beside(cluster.run()):
            await cache.wait_synced()
            await server.watching()
            assert cache.problems
            server.put(PODS, bad_pod(containers=[{"name": "a"}]))
            await until(lambda: not cache.problems, clock=clock)
            server.put(PODS, nested_pod())
            await until(lambda: bool(cache.problems), clock=clock)
            server.remove(f"{PODS}/bad")
            await until(lambda: not cache.problems, clock=clock)
            assert len(cache) == 0


@pytest.mark.parametrize("way", ["page", "stream"])
@pytest.mark.parametrize(
    ("pod", "wire"),
    [
        pytest.param(nested_pod(), BEYOND_ALL, id="nested"),
        *(
            pytest.param(bad_pod(**spec), wire, id=what)
            for what, (spec, wire, _) in NOT_TO_BE_READ.items()
        ),
    ],
)
async def test_the_autoscaler_names_it_counts_it_and_buys_for_the_others(
    clock: VirtualClock, way: str, pod: Json, wire: bytes
) -> None:
    async with ApiServer() as server:
        server.instead[HERE] = wire
        server.streaming_lists = way != "page"
        started(server)
        put_node(server, clock, "n1", age=3600.0)
        server.put(PODS, pod)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock) as program:
            put_pod(server, "good-1", cpu="3")
            put_pod(server, "good-2", cpu="3")
            await clock.sleep(15)
            assert cloud.asked == [("increase", "g", 1)]
            assert program.autoscaler.failure is None
            problems = status(server)["tonnage"]["problems"]
            assert [one for one in problems if one.startswith("Pod default/bad: ")]
            labels = {"kind": "Pod", "group": ""}
            assert metric(program, "tonnage_cache_unreadable_objects", **labels) == 1


@pytest.mark.parametrize("amount", BEYOND_EVERYTHING)
async def test_pods_that_take_more_than_everything_leave_room_on_their_node_and_end_nothing(
    clock: VirtualClock, amount: str
) -> None:
    requests = {"cpu": "HERE", "memory": "HERE", "example.com/widget": "HERE"}
    containers = [{"name": "a", "resources": {"requests": requests}}]
    async with ApiServer() as server:
        server.instead[HERE] = BEYOND_EVERYTHING[amount]
        started(server)
        put_node(server, clock, "n1", age=3600.0)
        server.put(PODS, bad_pod(containers=containers))
        for name in ("worse", "worst"):
            pod = bad_pod(containers=containers, nodeName="n1")
            server.put(PODS, {**pod, "metadata": {"name": name, "namespace": "default"}})
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock) as program:
            put_pod(server, "good-1", cpu="3")
            put_pod(server, "good-2", cpu="3")
            await clock.sleep(15)
            assert cloud.asked == [("increase", "g", 1)]
            assert program.autoscaler.failure is None

"""Answers of an API server that cannot be understood: nothing ends, and somebody is told."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tests.autoscaler.harness import (
    CONFIG_MAPS,
    STATE,
    Cloud,
    autoscaling,
    put_node,
    put_pod,
    started,
    status,
)
from tests.cluster.apiserver import ApiServer, answer, until
from tonnage.cluster import errors
from tonnage.cluster.cache import Cache
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.watch_events import LARGEST_EVENT
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.service import lifecycle
from tonnage.testing.clock import VirtualClock

ALL_PODS = "/api/v1/pods"

DEEP = b'{"a":' * 20_000 + b"1" + b"}" * 20_000

LINES = {
    "a bookmark that is not UTF-8": (
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"\xff\xfe"}}}'
    ),
    "a bookmark nested without end": (
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":' + DEEP + b"}}}"
    ),
    "an annotation of a bookmark that is not UTF-8": (
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":{"\xff":1}}}}'
    ),
    "an error that is not UTF-8": b'{"type":"ERROR","object":{"code":500,"message":"\xff\xfe"}}',
    "an error nested without end": b'{"type":"ERROR","object":{"details":' + DEEP + b"}}",
    "an error with a number that is not JSON": b'{"type":"ERROR","object":{"code":NaN}}',
    "a type that is not UTF-8": b'{"type":"\xff\xfe","object":{}}',
    "a type nested without end": b'{"type":' + DEEP + b',"object":{}}',
    "nesting without end": b"[" * 100_000,
    "bytes": bytes(range(11, 256)),
}

BODIES = {
    "not UTF-8": b'{"kind":"Status","message":"\xff\xfe","reason":"\xff"}',
    "nested without end": b'{"kind":"Status","details":' + DEEP + b"}",
    "not JSON": b'{"code":NaN}',
}

PAGES = {
    "a version that is not UTF-8": b'{"metadata":{"resourceVersion":"\xff"},"items":[]}',
    "a token nested without end": b'{"metadata":{"continue":' + DEEP + b'},"items":[]}',
    "items that are nesting without end": b'{"metadata":{},"items":' + b"[" * 100_000,
    "brackets that do not match": b'{"metadata":{},"items":[}]',
}


@asynccontextmanager
async def pods_of(server: ApiServer, clock: VirtualClock) -> AsyncIterator[Cache[Pod]]:
    mirror = Mirror(server.client(clock), clock=clock, rng=random.Random(1))
    cache = mirror.add(Pod)
    async with lifecycle.beside(mirror.run()):
        await cache.wait_synced()
        await server.watching()
        yield cache


@pytest.mark.parametrize("line", LINES)
async def test_a_line_that_makes_no_sense_costs_a_new_watch_and_nothing_else(
    clock: VirtualClock, line: str
) -> None:
    async with ApiServer() as server, pods_of(server, clock) as cache:
        server.raw(LINES[line] + b"\n")
        await until(lambda: bool(cache.last_error), clock=clock)
        put_pod(server, "later")
        await until(lambda: cache.get("later", namespace="default") is not None, clock=clock)
        assert cache.last_error == ""


async def test_a_line_without_an_end_is_given_up(clock: VirtualClock) -> None:
    async with ApiServer() as server, pods_of(server, clock) as cache:
        for _ in range(LARGEST_EVENT // 2**20 + 1):
            server.raw(b"x" * 2**20)
        await until(lambda: "more than 16,777,216 bytes" in cache.last_error, clock=clock)
        put_pod(server, "later")
        await until(lambda: cache.get("later", namespace="default") is not None, clock=clock)


@pytest.mark.parametrize("body", BODIES)
async def test_a_refusal_that_makes_no_sense_is_a_refusal(clock: VirtualClock, body: str) -> None:
    async with ApiServer() as server:
        refused = answer(lambda: web.Response(status=403, body=BODIES[body]))
        server.script("GET", "/api/v1/nodes", refused)
        with pytest.raises(errors.Forbidden):
            await server.client(clock).list(Node)


@pytest.mark.parametrize("page", PAGES)
async def test_a_page_that_makes_no_sense_is_the_servers_error(
    clock: VirtualClock, page: str
) -> None:
    async with ApiServer() as server:
        server.script("GET", ALL_PODS, answer(lambda: web.Response(body=PAGES[page])))
        with pytest.raises(errors.ServerError, match="not understood"):
            await server.client(clock).list(Pod)


def put_state(server: ApiServer, clock: VirtualClock, *, state: str, label: str = "") -> None:
    """The ConfigMap of an earlier leader, and pods that two nodes are needed for."""
    metadata = {
        "name": "tonnage-state",
        "namespace": "kube-system",
        "labels": {"a": label},
        "managedFields": [{"fieldsV1": "DEEP"}],
    }
    started(server)
    server.put(CONFIG_MAPS, {"metadata": metadata, "data": {"state": state}})
    put_node(server, clock, "n1", age=3600.0)
    put_pod(server, "good-1", cpu="3")
    put_pod(server, "good-2", cpu="3")


@pytest.mark.parametrize("state", ["{}", DEEP.decode()], ids=["beside", "inside"])
async def test_a_nested_state_stops_no_start_and_is_written_over(
    clock: VirtualClock, state: str
) -> None:
    async with ApiServer() as server:
        server.instead[b'"DEEP"'] = DEEP
        put_state(server, clock, state=state)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock) as program:
            said = program.autoscaler.report
            assert said is not None
            unread = [one for one in said.problems if "data.state: not understood" in one]
            assert len(unread) == (state != "{}")
            await clock.sleep(30)
            assert cloud.asked == [("increase", "g", 1)]
            assert '"g"' in server.objects[STATE]["data"]["state"]
            assert status(server)["tonnage"]["problems"] == []


@pytest.mark.parametrize("wire", [b'"\xff\xfe"', b"NaN"], ids=["not UTF-8", "not JSON"])
async def test_a_state_that_cannot_be_read_at_all_stops_no_start(
    clock: VirtualClock, wire: bytes
) -> None:
    async with ApiServer() as server:
        server.instead[b'"SPOILT"'] = wire
        put_state(server, clock, state="{}", label="SPOILT")
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock):
            await clock.sleep(30)
            assert cloud.asked == [("increase", "g", 1)]
            problems = status(server)["tonnage"]["problems"]
            assert [one for one in problems if one.startswith("state not stored")]
            del server.instead[b'"SPOILT"']
            await clock.sleep(30)
            assert '"g"' in server.objects[STATE]["data"]["state"]
            assert status(server)["tonnage"]["problems"] == []

"""An API server that refuses whatever it is asked, again and again, on every path there is."""

import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from tests.autoscaler.harness import metric
from tests.embedded.embedded_cluster import Cluster, group, living
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.program import AutoscalerProgram, AutoscalerSettings
from tonnage.cluster.client import Client
from tonnage.cluster.transport import HttpRequest, Response, Stream, Transport
from tonnage.embedded.apiserver import InProcessTransport
from tonnage.providers.kwok import KwokProvider
from tonnage.service import lifecycle
from tonnage.service.config_file import ConfigFile
from tonnage.testing.clock import VirtualClock

ONE_IN = 3
"""Of so many requests one is refused."""

MINUTES_OF_TROUBLE = 5

SETTINGS = {
    "providerTimeout": 20,
    "initialNodeGroupBackoffDuration": 20,
    "maxNodeGroupBackoffDuration": 60,
}

TARGET = "cluster_autoscaler_node_group_target_count"

REASONS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError"}


class Refusing:
    """Refuses one request in three while `angry`; a 500 may come after the request was met."""

    def __init__(self, transport: Transport, code: int) -> None:
        self._transport = transport
        self._dice = random.Random(code)
        self._answer = Response(status=code, body=_status(code))
        self.angry = True
        self.refused: set[tuple[str, str]] = set()

    async def send(self, request: HttpRequest) -> Response:
        refuses = self._refuses(request)
        met_all_the_same = self._answer.status == 500 and self._dice.random() < 0.5
        if refuses and not met_all_the_same:
            return self._answer
        response = await self._transport.send(request)
        return self._answer if refuses else response

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[Stream]:
        if self._refuses(request):
            yield Stream(status=self._answer.status, chunks=_pieces(self._answer.body))
            return
        async with self._transport.stream(request) as stream:
            yield stream

    async def close(self) -> None:
        await self._transport.close()

    def _refuses(self, request: HttpRequest) -> bool:
        refuses = self.angry and self._dice.randrange(ONE_IN) == 0
        if refuses:
            self.refused.add((request.method, request.path))
        return refuses


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _status(code: int) -> bytes:
    told = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    return msgspec.json.encode({**told, "reason": REASONS[code], "message": "not now"})


def a_program(way: Transport, clock: VirtualClock) -> AutoscalerProgram:
    rng = random.Random(1)
    client = Client(way, clock=clock, rng=rng)
    groups = [group(min_size=0, max_size=20)]
    numbers = iter(range(10**9))
    return AutoscalerProgram(
        client,
        lambda _: KwokProvider(client, clock, groups, namespace="kube-system", rng=rng),
        config=ConfigFile(None, AutoscalerConfig, given=SETTINGS),
        settings=AutoscalerSettings(identity="a", address="127.0.0.1:0"),
        server_version="v1.37.0",
        clock=clock,
        rng=rng,
        new_id=lambda: f"id{next(numbers)}",
    )


def put_pods(cluster: Cluster, names: Iterable[str]) -> None:
    """Pods of which a node takes one, and which the scheduler has found no node for."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    container = {"name": "a", "image": "a", "resources": {"requests": {"cpu": "3"}}}
    for name in names:
        cluster.put("pods", name, spec={"containers": [container]})
        cluster.patch("pods", name, {"status": {"conditions": [condition]}}, subresource="status")


def up(cluster: Cluster) -> dict[str, str]:
    """The nodes that are Ready, and which ones: a node that was made anew is another."""
    return {
        one["metadata"]["name"]: one["metadata"]["uid"]
        for one in cluster.all("nodes")
        if any(each["status"] == "True" for each in one["status"].get("conditions", ()))
    }


@pytest.mark.parametrize("code", list(REASONS))
async def test_however_often_the_server_refuses_sizes_come_out_right_and_what_is_up_stays(
    clock: VirtualClock, code: int
) -> None:
    async with living(clock, binds=False) as cluster:
        way = Refusing(InProcessTransport(cluster.server), code)
        cluster.node("old")
        put_pods(cluster, ["a-1", "a-2", "a-3"])
        program = a_program(way, clock)
        async with lifecycle.beside(program.run()):
            seen: dict[str, str] = {}
            for _ in range(MINUTES_OF_TROUBLE * 6):
                await clock.sleep(10)
                seen |= up(cluster)
                assert len(seen) <= 3
            assert {method for method, _ in way.refused} >= {"GET", "POST", "PUT", "PATCH"}
            way.angry = False
            await clock.sleep(180)
            assert len(up(cluster)) == 3
            assert up(cluster) == seen | up(cluster)
            assert healthy(program) == ("", "", "")

            put_pods(cluster, ["b-1"])
            await clock.sleep(60)
            assert len(up(cluster)) == 4
            assert metric(program, TARGET, node_group="a") == 4


def healthy(program: AutoscalerProgram) -> tuple[str, str, Any]:
    """Three times nothing to complain about."""
    return program.unhealthy(), program.unready(), program.autoscaler.document["tonnage"]["held"]

"""An expander of somebody else's takes its time: meanwhile everything but the decision goes on."""

import asyncio
import threading
from typing import Any

import grpc
import pytest

from tests.autoscaler.harness import PODS, Cloud, a_program, group, put_pod, started
from tests.cluster.apiserver import ApiServer, until
from tests.cluster.programs import running
from tests.providers.test_grpc_expander import Answer, keeping, serving
from tonnage.providers.protos.expander_pb2 import BestOptionsRequest, BestOptionsResponse
from tonnage.testing.clock import VirtualClock


def when(told: threading.Event, then: Answer, *, in_time: list[bool]) -> Answer:
    """An answer that is given only once the event loop has gone on; or late, if it does not."""

    def answer(request: BestOptionsRequest, context: grpc.ServicerContext) -> BestOptionsResponse:
        in_time.append(told.wait(10))
        return then(request, context)

    return answer


async def test_nobody_gets_the_snapshot_back_before_the_one_who_decides_has_ended(
    clock: VirtualClock,
) -> None:
    may_answer = threading.Event()
    in_time: list[bool] = []
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group("a"), group("b"))
        put_pod(server, "web")
        with serving() as expander:
            expander.answer = when(may_answer, keeping("b"), in_time=in_time)
            program = a_program(
                server, cloud, clock, expander="grpc", grpcExpanderUrl=expander.address
            )
            working = asyncio.ensure_future(program.run())
            await until(lambda: bool(expander.asked), clock=clock)
            working.cancel()
            await asyncio.wait((working,), timeout=0.1)
            ended_before = working.done()
            may_answer.set()
            await asyncio.wait((working,))
    assert (ended_before, working.cancelled(), cloud.asked) == (False, True, [])


async def test_the_loop_goes_on_while_an_expander_is_asked(clock: VirtualClock) -> None:
    went_on = threading.Event()
    in_time: list[bool] = []
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group("a"), group("b"))
        put_pod(server, "web")
        with serving() as expander:
            expander.answer = when(went_on, keeping("b"), in_time=in_time)
            settings: dict[str, Any] = {
                "expander": "grpc",
                "grpcExpanderUrl": expander.address,
                "timeBudget": 0,
                "providerTimeout": 1e6,
            }
            program = a_program(server, cloud, clock, **settings)
            async with running(program, server, clock):
                await until(lambda: bool(expander.asked), clock=clock)
                put_pod(server, "late")
                await until(lambda: program.world.pod("default/late") is not None, clock=clock)
                in_snapshot = "default/late" in program.world.snapshot.pods
                went_on.set()
                await until(lambda: bool(cloud.asked), clock=clock)
                await until(lambda: "default/late" in program.world.snapshot.pods, clock=clock)
    assert in_time[0] is True
    assert in_snapshot is False, "the snapshot stands still while a plan is made from it"
    assert {name for _, name, _ in cloud.asked} == {"b"}


async def test_a_pod_that_goes_while_an_expander_is_asked_fails_no_decision(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """One node is not enough for both, so it asks again, about the one that is gone."""
    gone = threading.Event()
    in_time: list[bool] = []
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, *(group(name, most=1) for name in "abc"))
        put_pod(server, "web", cpu="3")
        put_pod(server, "zoo", cpu="3")
        with serving() as expander:
            expander.answer = when(gone, keeping("a", "b", "c"), in_time=in_time)
            settings: dict[str, Any] = {
                "expander": "grpc",
                "grpcExpanderUrl": expander.address,
                "timeBudget": 0,
                "providerTimeout": 1e6,
            }
            program = a_program(server, cloud, clock, **settings)
            async with running(program, server, clock):
                await until(lambda: bool(expander.asked), clock=clock)
                server.remove(f"{PODS}/zoo")
                await until(lambda: program.world.pod("default/zoo") is None, clock=clock)
                gone.set()
                await until(lambda: bool(cloud.asked), clock=clock)
    assert len(expander.asked) > 1
    assert "decision failed" not in caplog.text

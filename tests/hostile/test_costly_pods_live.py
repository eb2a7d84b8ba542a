"""A tenant's pods may be as much work as they like: the autoscaler's loop and lease go on."""

import asyncio
import threading
from typing import Any

import pytest

from tests.autoscaler.harness import (
    Cloud,
    a_program,
    autoscaling,
    events,
    group,
    metric,
    put_pod,
    started,
    status,
)
from tests.cluster.apiserver import ApiServer, until
from tests.cluster.programs import running
from tonnage.objects.pods import Toleration
from tonnage.scaleup import decision
from tonnage.scaleup.decision import Decision
from tonnage.service import workers
from tonnage.testing.clock import VirtualClock

MANY = [Toleration(key=f"example.com/{n}", operator="Exists") for n in range(50)]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


async def test_a_pod_that_is_set_apart_is_told_counted_and_helped(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group())
        put_pod(server, "costly", tolerations=MANY, cpu="3")
        put_pod(server, "web", cpu="3")
        async with autoscaling(server, cloud, clock, maxPodComplexity=40) as program:
            await until(lambda: bool(cloud.asked), clock=clock)
            await program.recorder.flush()
            counted = metric(program, "tonnage_set_apart_pods", decided="true")
            (told,) = events(server, "SetApart")
            problems = status(server)["tonnage"]["problems"]
    assert cloud.asked == [("increase", "g", 2)]
    assert counted == 1
    assert told["involvedObject"]["name"] == "costly"
    assert told["message"].startswith("pod is decided on last and alone: it has 52 rules")
    assert any(one.startswith("default/costly: decided on last and alone") for one in problems)


async def test_leases_watches_and_health_do_not_wait_for_a_decision(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    went_on, deciding_now = threading.Event(), threading.Event()
    in_time: list[bool] = []
    decide = decision.decide_on

    def slowly(*arguments: Any, **named: Any) -> Decision:
        deciding_now.set()
        in_time.append(went_on.wait(30))
        return decide(*arguments, **named)

    monkeypatch.setattr(decision, "decide_on", slowly)
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group())
        put_pod(server, "web")
        program = a_program(server, cloud, clock, elect=True, worker=workers.in_thread)
        async with running(program, server, clock):
            await until(deciding_now.is_set, clock=clock)
            held_until = clock.monotonic() + 60
            put_pod(server, "late")
            await until(lambda: program.world.pod("default/late") is not None, clock=clock)
            await until(lambda: clock.monotonic() > held_until, clock=clock)
            leads, healthy = program.leadership.leading(), program.unhealthy() == ""
            seen = program.snapshot()
            in_snapshot = "default/late" in program.world.snapshot.pods
            went_on.set()
            await until(lambda: bool(cloud.asked), clock=clock)
            await until(lambda: "default/late" in program.world.snapshot.pods, clock=clock)
    assert in_time[0] is True
    assert (leads, healthy) == (True, True)
    assert in_snapshot is False, "the snapshot stands still while a plan is made from it"
    assert seen == {"deciding": True}


async def test_a_worker_that_is_cancelled_waits_for_its_thread() -> None:
    may_end, ended = threading.Event(), threading.Event()

    def work() -> None:
        may_end.wait(30)
        ended.set()

    working = asyncio.ensure_future(workers.in_thread(work))
    await asyncio.sleep(0)
    working.cancel()
    await asyncio.wait((working,), timeout=0.05)
    before = working.done()
    may_end.set()
    await asyncio.wait((working,))
    assert (before, ended.is_set(), working.cancelled()) == (False, True, True)

"""What goes wrong with the provider, and that it comes out right."""

import asyncio

from tests.autoscaler.harness import (
    Cloud,
    LosesAnswers,
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
from tonnage.errors import ProviderError
from tonnage.testing.clock import VirtualClock


async def hangs() -> None:
    await asyncio.Event().wait()


async def test_a_provider_that_cannot_be_refreshed_is_tried_again(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        cloud.refresh_fails = ProviderError("no credentials")
        put_pod(server, "web")
        async with running(a_program(server, cloud, clock), server, clock) as program:
            await clock.sleep(30)
            assert cloud.asked == []
            assert program.autoscaler.document["message"] == "cloudProviderError: no credentials"
            errors = metric(program, "cluster_autoscaler_errors_total", type="cloudProviderError")
            assert errors is not None
            assert errors >= 2
            cloud.refresh_fails = None
            await until(lambda: bool(cloud.asked), clock=clock)


async def test_calls_of_the_provider_and_their_failures_are_counted(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock) as program:
            cloud.refresh_fails = ProviderError("no credentials")
            await clock.sleep(30)
            calls = metric(program, "tonnage_provider_call_duration_seconds_count", call="refresh")
            assert calls == cloud.refreshed
            errors = {"call": "refresh", "error": "refused"}
            assert metric(program, "tonnage_provider_call_errors_total", **errors) == 3


async def test_a_group_that_refuses_is_backed_off_and_another_one_helps(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group("a"), group("b", cpu="8"))

        async def refuse_once() -> None:
            cloud.before_increase = None
            raise ProviderError("quota exceeded")

        cloud.before_increase = refuse_once
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock):
            await until(lambda: bool(cloud.asked), clock=clock)
            await clock.sleep(20)
            assert len(cloud.asked) == 1
            (event,) = events(server, "FailedToScaleUpGroup")
            assert "quota exceeded" in event["message"]
            backed_off = [
                each["name"]
                for each in status(server)["nodeGroups"]
                if each["scaleUp"]["status"] == "Backoff"
            ]
            assert backed_off == [name for name in ("a", "b") if name != cloud.asked[0][1]]


async def test_a_refusal_that_passes_is_asked_again_at_the_next_scan_without_back_off(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        refused_at: list[float] = []

        async def refuse_once() -> None:
            cloud.before_increase = None
            refused_at.append(clock.monotonic())
            raise ProviderError("throttled", cause="transient")

        cloud.before_increase = refuse_once
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock, scanInterval=10) as program:
            put_pod(server, "api")  # which wakes the loop before the scan
            await clock.sleep(5)
            assert cloud.asked == []
            await until(lambda: bool(cloud.asked), clock=clock)
            assert 10 <= clock.monotonic() - refused_at[0] < 21
            assert status(server)["nodeGroups"][0]["scaleUp"]["status"] != "Backoff"
            failed = metric(
                program, "cluster_autoscaler_failed_scale_ups_total", reason="transientError"
            )
            assert failed == 1


async def test_a_refresh_that_fails_in_passing_is_told_and_is_no_reason_to_be_restarted(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        cloud.refresh_fails = ProviderError("throttled", cause="transient")
        async with running(a_program(server, cloud, clock), server, clock) as program:
            await clock.sleep(1800)
            assert program.autoscaler.document["message"] == "transientError: throttled"
            assert program.unhealthy() == ""


async def test_a_refresh_that_fails_for_good_is_a_reason_to_be_restarted(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        cloud.refresh_fails = ProviderError("no credentials")
        async with running(a_program(server, cloud, clock), server, clock) as program:
            await clock.sleep(1800)
            assert "last success" in program.unhealthy()


async def test_a_provider_that_does_not_answer_is_given_up_in_time(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        cloud.before_increase = hangs
        put_pod(server, "web")
        async with running(a_program(server, cloud, clock, providerTimeout=5), server, clock):
            await until(lambda: bool(events(server, "FailedToScaleUpGroup")), clock=clock)
            assert clock.monotonic() < 20
            (event,) = events(server, "FailedToScaleUpGroup")
            assert "no answer within 5 s" in event["message"]


async def test_a_provider_that_answers_again_is_asked_once_more_after_the_back_off(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        cloud.before_increase = hangs
        put_pod(server, "web")
        program = a_program(server, cloud, clock, providerTimeout=5)
        async with running(program, server, clock):
            await until(lambda: bool(events(server, "FailedToScaleUpGroup")), clock=clock)
            cloud.before_increase = None
            await clock.sleep(290)
            assert (cloud.asked, program.unhealthy()) == ([], "")
            await clock.sleep(60)
            assert (cloud.asked, cloud.target()) == ([("increase", "g", 1)], 1)
            assert (program.unhealthy(), program.autoscaler.document["tonnage"]["held"]) == ("", "")


async def test_an_increase_whose_answer_was_lost_is_not_asked_for_again(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = LosesAnswers(server, group("a"), group("b"))
        put_pod(server, "web")
        async with running(a_program(server, cloud, clock, providerTimeout=5), server, clock):
            await clock.sleep(120)
            assert cloud.target("a") + cloud.target("b") == 1

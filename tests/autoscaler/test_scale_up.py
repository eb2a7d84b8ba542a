import logging

import pytest

from tests.autoscaler.harness import (
    CLAIMS,
    DRIVER,
    PODS,
    STATUS,
    Cloud,
    autoscaling,
    events,
    group,
    metric,
    put,
    put_node,
    put_pod,
    started,
    status,
)
from tests.cluster.apiserver import ApiServer, until
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock


def put_databases(server: ApiServer, number: int) -> None:
    for index in range(number):
        put_pod(server, f"db-{index}", claims=[f"data-{index}"], cpu="10m")


async def test_a_hundred_pods_with_a_claim_each_get_ten_nodes_in_one_request(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock):
            put_databases(server, 100)
            await until(lambda: bool(cloud.asked), clock=clock)
            await clock.sleep(60)
            assert cloud.asked == [("increase", "g", 10)]


async def test_a_purchase_is_one_line_of_the_log_and_its_pods_are_for_debugging(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tonnage.autoscaler")
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock):
            put_databases(server, 30)
            await until(lambda: bool(cloud.asked), clock=clock)
            await clock.sleep(60)
    told = [vars(one) for one in caplog.records if {"deed", "scale_ups"} & vars(one).keys()]
    usual = [fields for fields in told if fields["levelno"] >= logging.INFO]
    assert [(fields["message"], fields["nodes"]) for fields in usual] == [
        ("asking the provider", 3)
    ]
    assert "db-1" not in str(usual)
    (closer,) = [fields for fields in told if fields["levelno"] == logging.DEBUG]
    assert len(closer["pods"]) == 30


async def test_a_pod_that_finds_no_node_is_decided_on_within_a_second(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock):
            await clock.sleep(3)
            before = clock.monotonic()
            put_pod(server, "web")
            while not cloud.asked:
                await clock.sleep(0.05)
            assert clock.monotonic() - before < 1.0


async def test_pods_that_come_within_the_batch_window_are_bought_for_together(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock, batchWindow=2.0):
            put_pod(server, "web-1", cpu="3")
            await clock.sleep(1)
            put_pod(server, "web-2", cpu="3")
            await until(lambda: bool(cloud.asked), clock=clock)
            assert cloud.asked == [("increase", "g", 2)]


async def test_pods_that_keep_coming_are_bought_for_together_within_a_second(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock):
            await clock.sleep(3)
            for number in range(8):
                put_pod(server, f"web-{number}", cpu="3")
                await clock.sleep(0.1)
            await clock.sleep(0.25)
            assert cloud.asked == [("increase", "g", 8)]


async def test_slots_of_pods_that_are_being_bound_are_not_counted_on(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group(limit=5))
        put_node(server, clock, "g-1", drivers={DRIVER: 5})
        for number in range(5):
            put_pod(server, f"db-{number}", claims=[f"data-{number}"], unschedulable=False)
            selected = builders.pvc(f"data-{number}", storage_class="fast", selected_node="g-1")
            put(server, CLAIMS, selected)
        async with autoscaling(server, cloud, clock):
            for number in range(5, 14):
                put_pod(server, f"db-{number}", claims=[f"data-{number}"])
            await clock.sleep(60)
            assert cloud.asked == [("increase", "g", 2)]


async def test_a_pod_the_scheduler_has_not_tried_is_left_to_it(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web", unschedulable=False)
        async with autoscaling(server, cloud, clock):
            await clock.sleep(60)
            assert cloud.asked == []


async def test_a_pod_of_another_scheduler_is_left_alone_when_ours_are_named(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock, allowedSchedulerNames=["mine"]):
            await clock.sleep(60)
            assert cloud.asked == []


async def test_a_node_that_registers_ends_the_request(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock):
            await until(lambda: bool(cloud.asked), clock=clock)
            await clock.sleep(11)
            scaling = status(server)["nodeGroups"][0]["scaleUp"]["status"]
            put_node(server, clock, "g-1")
            put_pod(server, "web", on="g-1")
            await clock.sleep(30)
            after = status(server)["nodeGroups"][0]["scaleUp"]["status"]
            assert (scaling, after) == ("InProgress", "NoActivity")
            assert cloud.asked == [("increase", "g", 1)]


async def test_steps_per_loop_bounds_what_is_asked_at_once(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group("a", cpu="2"), group("b", cpu="8"))
        put_pod(server, "small", cpu="1", node_selector={"group": "a"})
        put_pod(server, "large", cpu="6", node_selector={"group": "b"})
        async with autoscaling(server, cloud, clock, stepsPerLoop=1):
            await until(lambda: bool(cloud.asked), clock=clock)
            assert len(cloud.asked) == 1
            await clock.sleep(30)
            assert sorted(cloud.asked) == [("increase", "a", 1), ("increase", "b", 1)]


async def test_a_group_below_its_minimum_is_grown_when_asked_to(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group(least=2))
        async with autoscaling(server, cloud, clock, enforceNodeGroupMinSize=True):
            await clock.sleep(30)
            assert cloud.asked == [("increase", "g", 2)]


async def test_a_group_below_its_minimum_is_left_alone_by_default(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group(least=2))
        async with autoscaling(server, cloud, clock):
            await clock.sleep(30)
            assert cloud.asked == []


async def test_a_pod_that_is_helped_is_told_so(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock):
            await until(lambda: bool(events(server, "TriggeredScaleUp")), clock=clock)
            (event,) = events(server, "TriggeredScaleUp")
            assert event["message"] == "pod triggered scale-up: [{g 0->1 (max: 40)}]"
            assert event["involvedObject"]["name"] == "web"


async def test_a_pod_that_is_not_helped_is_told_why(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group(limit=2))
        put_pod(server, "db", claims=["a", "b", "c"])
        async with autoscaling(server, cloud, clock):
            await until(lambda: bool(events(server, "NotTriggerScaleUp")), clock=clock)
            await clock.sleep(100)
            (event,) = events(server, "NotTriggerScaleUp")
            assert "1 node(s) exceed max volume count" in event["message"]
            assert event.get("count", 1) == 1


async def test_a_group_is_told_its_new_size(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock):
            await until(lambda: len(events(server, "ScaledUpGroup")) == 2, clock=clock)
            messages = [event["message"] for event in events(server, "ScaledUpGroup")]
            assert messages == [
                "Scale-up: setting group g size to 1 instead of 0 (max: 40)",
                "Scale-up: group g size set to 1 instead of 0 (max: 40)",
            ]
            assert events(server, "ScaledUpGroup")[0]["involvedObject"]["name"] in STATUS


async def test_a_dry_run_decides_and_writes_nothing(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock, dry_run=True, elect=True) as program:
            await clock.sleep(30)
            assert program.autoscaler.document["tonnage"]["lastDecision"]["scaleUps"] == [
                {"group": "g", "delta": 1}
            ]
            assert cloud.asked == []
            assert {request.method for request in server.requests} == {"GET"}


async def test_the_plan_is_dropped_when_its_pods_have_gone_meanwhile(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock) as program:
            put_pod(server, "web")
            await until(lambda: "default/web" in program.world.waiting, clock=clock)
            groups = cloud.groups
            answered = 0

            async def after_the_pod_went() -> object:
                nonlocal answered
                answered += 1
                if answered == 2:  # asked a second time just before acting
                    server.remove(f"{PODS}/web")
                    while "default/web" in program.world.waiting:
                        await clock.sleep(0.01)
                return await groups()

            cloud.groups = after_the_pod_went  # type: ignore[assignment,method-assign]
            await clock.sleep(30)
            assert answered >= 2
            assert cloud.asked == []


@pytest.mark.parametrize("measured", [True, False])
async def test_what_is_only_measured_may_be_left_out_and_the_decision_is_the_same(
    clock: VirtualClock, *, measured: bool
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_node(server, clock, "n1")
        async with autoscaling(server, cloud, clock, measured=measured) as program:
            put_databases(server, 30)
            await until(lambda: bool(cloud.asked), clock=clock)
            await clock.sleep(30)
            limit = metric(program, "tonnage_slots_limit", node_group="g", driver=DRIVER)
            report = program.autoscaler.report
            assert cloud.asked == [("increase", "g", 2)]
            assert status(server)["clusterWide"]["health"]["status"] == "Healthy"
            assert (limit is not None, report is not None and report.slots is not None) == (
                measured,
                measured,
            )


async def test_the_latency_from_pod_to_request_is_measured(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock) as program:
            put_pod(server, "web")
            await until(lambda: bool(cloud.asked), clock=clock)
            await clock.sleep(1)
            assert metric(program, "tonnage_decision_latency_seconds_count") == 1
            assert metric(program, "tonnage_decision_latency_seconds_bucket", le="1.0") == 1

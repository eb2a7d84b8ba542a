"""Nodes that were asked for and do not come."""

import msgspec

from tests.autoscaler.harness import (
    STATE,
    Cloud,
    autoscaling,
    events,
    group,
    metric,
    put_node,
    put_pod,
    started,
    status,
)
from tests.cluster.apiserver import ApiServer, until
from tonnage.providers.protocol import Instance, InstanceError
from tonnage.testing.clock import VirtualClock


async def test_nodes_that_do_not_come_in_time_are_given_back_and_the_group_backed_off(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock):
            await clock.sleep(890)
            assert cloud.asked == [("increase", "g", 1)]
            await clock.sleep(30)
            assert cloud.asked == [("increase", "g", 1), ("decrease", "g", 1)]
            (event,) = events(server, "ScaleUpTimedOut")
            assert event["message"] == (
                "Nodes added to group g failed to register, or to become ready, within 900s"
            )
            scale_up = status(server)["nodeGroups"][0]["scaleUp"]
            assert (scale_up["status"], scale_up["backoffInfo"]["errorCode"]) == (
                "Backoff",
                "timeout",
            )


async def test_nodes_that_register_and_never_become_ready_back_their_group_off_for_another(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group("a"), group("b"))
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock):
            await until(lambda: bool(cloud.asked), clock=clock)
            ((_, first, _),) = cloud.asked
            await clock.sleep(30)
            put_node(server, clock, "dead-1", of=first, ready=False)
            await clock.sleep(800)
            assert len(cloud.asked) == 1
            await clock.sleep(120)
            (event,) = events(server, "ScaleUpTimedOut")
            assert f"group {first} " in event["message"]
            assert [(deed, name != first) for deed, name, _ in cloud.asked[1:]] == [
                ("increase", True)
            ]


async def test_after_the_back_off_the_group_is_tried_again(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock):
            await clock.sleep(920)
            await clock.sleep(270)
            assert len(cloud.asked) == 2
            await clock.sleep(40)
            assert cloud.asked[2:] == [("increase", "g", 1)]


async def test_a_machine_no_node_registers_for_is_deleted(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_node(server, clock, "g-1", age=7200)
        put_pod(server, "old", cpu="3", on="g-1")
        put_pod(server, "web", cpu="3")
        async with autoscaling(server, cloud, clock) as program:
            await until(lambda: bool(cloud.asked), clock=clock)
            cloud.machines["g"] = [
                Instance(id="g-1", state="running", node="g-1"),
                Instance(id="lost", state="running"),
            ]
            await clock.sleep(950)
            assert cloud.deleted == ["lost"]
            removed = metric(program, "cluster_autoscaler_old_unregistered_nodes_removed_count")
            assert removed == 1
            assert len(events(server, "DeleteUnregistered")) == 1


async def test_a_machine_that_could_not_be_created_is_deleted_at_once(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock):
            await until(lambda: bool(cloud.asked), clock=clock)
            error = InstanceError(error_class="outOfResources", code="NoStock", message="none left")
            cloud.machines["g"] = [Instance(id="m", state="creating", error=error)]
            await clock.sleep(30)
            assert cloud.deleted == ["m"]
            (event,) = events(server, "ScaleUpFailed")
            assert event["message"] == (
                "Failed adding 1 nodes to group g due to OutOfResource.NoStock; "
                "source errors: none left"
            )
            assert status(server)["nodeGroups"][0]["scaleUp"]["status"] == "Backoff"


async def test_machines_that_failed_leave_the_request_for_the_others_as_it_was(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        for index in range(4):
            put_pod(server, f"web-{index}", cpu="3")
        async with autoscaling(server, cloud, clock):
            await until(lambda: cloud.asked == [("increase", "g", 4)], clock=clock)
            (before,) = requests(server).values()
            assert before["pods"] == [f"default/web-{index}" for index in range(4)]
            failed = [
                Instance(id=f"m{index}", state="creating", error=InstanceError(code="NoStock"))
                for index in range(3)
            ]
            cloud.machines["g"] = [*failed, Instance(id="good", state="creating")]
            await clock.sleep(30)
            assert cloud.deleted == ["m0", "m1", "m2"]
            assert requests(server)["g"] == {**before, "increase": 1, "target": 1}


def requests(server: ApiServer) -> dict[str, dict[str, object]]:
    """Those that a restart would find."""
    state = msgspec.json.decode(server.objects[STATE]["data"]["state"])
    found: dict[str, dict[str, object]] = state["registry"]["requests"]
    return found


async def test_machines_are_not_deleted_below_the_minimum(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group(least=1))
        put_node(server, clock, "other", of="elsewhere")
        async with autoscaling(server, cloud, clock, enforceNodeGroupMinSize=True):
            await until(lambda: bool(cloud.asked), clock=clock)
            cloud.machines["g"] = [Instance(id="lost", state="running")]
            await clock.sleep(1800)
            assert cloud.deleted == []


async def test_nodes_somebody_else_asked_for_are_counted_on(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        await cloud.refresh()
        await cloud.increase("g", 1)
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock):
            await clock.sleep(120)
            assert cloud.asked == [("increase", "g", 1)]


async def test_a_back_off_survives_a_restart(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock, identity="a"):
            await clock.sleep(920)
        async with autoscaling(server, cloud, clock, identity="b"):
            await clock.sleep(200)
            assert status(server)["nodeGroups"][0]["scaleUp"]["status"] == "Backoff"
            assert len(cloud.asked) == 2


async def test_what_nodes_looked_like_survives_a_restart(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group(limit=None))
        put_node(server, clock, "g-1", drivers={"ebs.csi.aws.com": 3}, age=7200)
        async with autoscaling(server, cloud, clock, identity="a"):
            await clock.sleep(30)
        server.remove("/api/v1/nodes/g-1")
        server.remove("/apis/storage.k8s.io/v1/csinodes/g-1")
        async with autoscaling(server, cloud, clock, identity="b"):
            put_pod(server, "db", claims=["a"])
            await clock.sleep(30)
            (limit,) = status(server)["tonnage"]["limits"]
            assert (limit["count"], limit["source"]) == (3, "remembered")


async def test_a_quiet_cluster_writes_its_state_once_in_five_minutes(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_node(server, clock, "g-1", age=7200)
        async with autoscaling(server, cloud, clock):
            await clock.sleep(1500)
            assert 3 <= len(server.asked("PUT", STATE)) <= 6


async def test_a_state_of_nonsense_is_passed_over(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        meta = {"name": "tonnage-state", "namespace": "kube-system"}
        server.put(STATE.rpartition("/")[0], {"metadata": meta, "data": {"state": "no"}})
        cloud = Cloud(server)
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock):
            await until(lambda: bool(cloud.asked), clock=clock)
            await clock.sleep(15)
            state = msgspec.json.decode(server.objects[STATE]["data"]["state"])
            assert state["registry"]["requests"]["g"]["increase"] == 1

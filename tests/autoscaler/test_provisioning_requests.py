"""ProvisioningRequests of a live cluster: bought for, booked, expired, and told what is wrong."""

from typing import Any

import pytest

from tests.autoscaler.harness import (
    Cloud,
    autoscaling,
    events,
    group,
    put_node,
    put_pod,
    started,
    status,
)
from tests.cluster.apiserver import ApiServer
from tonnage.autoscaler.program import AutoscalerProgram
from tonnage.objects.provisioning_requests import (
    ATOMIC_SCALE_UP,
    CHECK_CAPACITY,
    CONSUME_ANNOTATION,
    OLD_CONSUME_ANNOTATION,
)
from tonnage.objects.timestamps import rfc3339
from tonnage.testing.clock import VirtualClock

REQUESTS = "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests"
TEMPLATES = "/api/v1/namespaces/default/podtemplates"


def template(server: ApiServer) -> None:
    pod = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "4"}}}]}
    meta = {"name": "worker", "namespace": "default"}
    server.put(TEMPLATES, {"metadata": meta, "template": {"spec": pod}})


def ask(
    server: ApiServer,
    clock: VirtualClock,
    name: str,
    count: int,
    *,
    kind: str = ATOMIC_SCALE_UP,
    of: str = "worker",
) -> None:
    server.put(
        REQUESTS,
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "creationTimestamp": rfc3339(clock.now().timestamp()),
            },
            "spec": {
                "provisioningClassName": kind,
                "podSets": [{"podTemplateRef": {"name": of}, "count": count}],
            },
        },
    )


def conditions(server: ApiServer, name: str) -> dict[str, str]:
    found: dict[str, Any] = server.objects[f"{REQUESTS}/{name}"]
    told = found.get("status", {}).get("conditions", [])
    return {one["type"]: one["status"] for one in told}


def message(server: ApiServer, name: str) -> str:
    """What is said of its room."""
    told = server.objects[f"{REQUESTS}/{name}"]["status"]["conditions"]
    found: str = next(one["message"] for one in told if one["type"] == "Provisioned")
    return found


async def test_nodes_are_bought_at_once_and_only_once(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        template(server)
        cloud = Cloud(server, group(cpu="4"))
        async with autoscaling(server, cloud, clock, provisioningRequests=True):
            ask(server, clock, "job", 3)
            await clock.sleep(60)

            assert [count for *_, count in cloud.asked] == [3]
            assert conditions(server, "job") == {"Accepted": "True", "Provisioned": "True"}


async def test_a_request_without_room_buys_nothing_and_says_so(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        template(server)
        cloud = Cloud(server, group(cpu="4", most=2))
        async with autoscaling(server, cloud, clock, provisioningRequests=True):
            ask(server, clock, "job", 3)
            await clock.sleep(60)

            assert cloud.asked == []
            assert conditions(server, "job") == {"Accepted": "True", "Provisioned": "False"}


async def test_a_request_without_room_is_tried_again_ever_later(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        template(server)
        cloud = Cloud(server, group(cpu="4"))
        async with autoscaling(server, cloud, clock, provisioningRequests=True):
            ask(server, clock, "job", 1, kind=CHECK_CAPACITY)
            begin = clock.monotonic()
            told: dict[str, float] = {}
            while "tried again in 600 s" not in told:
                await clock.sleep(20)
                told.setdefault(message(server, "job").rpartition("; ")[2], clock.monotonic())
            assert list(told) == [f"tried again in {n} s" for n in (60, 120, 240, 480, 600)]
            assert clock.monotonic() - begin >= 60 + 120 + 240 + 480

            put_node(server, clock, "g-1", age=1800)
            await clock.sleep(660)
            assert conditions(server, "job")["Provisioned"] == "True"


async def test_booked_room_is_kept_until_its_time_is_over(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        template(server)
        put_node(server, clock, "g-1", age=1800)
        cloud = Cloud(server, group(cpu="4"))
        async with autoscaling(server, cloud, clock, provisioningRequests=True):
            ask(server, clock, "job", 1, kind=CHECK_CAPACITY)
            await clock.sleep(30)
            assert conditions(server, "job") == {"Accepted": "True", "Provisioned": "True"}
            put_pod(server, "web", cpu="4")
            await clock.sleep(30)
            assert [count for *_, count in cloud.asked] == [1]
            server.remove("/api/v1/namespaces/default/pods/web")

            await clock.sleep(600)
            assert conditions(server, "job")["BookingExpired"] == "True"


IDLE = {
    "provisioningRequests": True,
    "scaleDownEnabled": True,
    "scaleDownUnneededTime": 3600,
    # With no pods at all that is believed after so long.
    "maxNodeProvisionTime": 10,
}


def unneeded(program: AutoscalerProgram) -> list[str]:
    report = program.autoscaler.report
    assert report is not None
    assert not report.scale_down.held
    return sorted(report.scale_down.unneeded)


async def test_booked_room_holds_its_node_and_no_other_until_it_expires(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        template(server)
        put_node(server, clock, "g-1", age=1800)
        put_node(server, clock, "g-2", age=1800)
        cloud = Cloud(server, group(cpu="4"))
        async with autoscaling(server, cloud, clock, **IDLE) as program:
            await clock.sleep(60)
            assert unneeded(program) == ["g-1", "g-2"]
            ask(server, clock, "job", 1)
            await clock.sleep(30)
            assert conditions(server, "job") == {"Accepted": "True", "Provisioned": "True"}
            assert len(unneeded(program)) == 1
            assert cloud.asked == []

            await clock.sleep(620)
            assert unneeded(program) == ["g-1", "g-2"]


async def test_a_request_that_never_fits_holds_no_node(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        template(server)
        put_node(server, clock, "g-1", age=1800)
        cloud = Cloud(server, group(cpu="4", most=1))
        async with autoscaling(server, cloud, clock, **IDLE) as program:
            ask(server, clock, "job", 3)
            await clock.sleep(60)

            assert conditions(server, "job") == {"Accepted": "True", "Provisioned": "False"}
            assert unneeded(program) == ["g-1"]


@pytest.mark.parametrize("annotation", [CONSUME_ANNOTATION, OLD_CONSUME_ANNOTATION])
async def test_no_node_is_bought_for_a_pod_that_takes_booked_room(
    clock: VirtualClock, annotation: str
) -> None:
    async with ApiServer() as server:
        started(server)
        template(server)
        put_node(server, clock, "g-1", age=1800)
        cloud = Cloud(server, group(cpu="4"))
        async with autoscaling(server, cloud, clock, provisioningRequests=True):
            ask(server, clock, "job", 1, kind=CHECK_CAPACITY)
            await clock.sleep(30)
            # One more than was asked for: there is no room, and it is not bought.
            for name in ("one", "two"):
                put_pod(server, name, cpu="4", annotations={annotation: "job"})
            await clock.sleep(60)

            assert cloud.asked == []
            assert {one["message"] for one in events(server, "NotTriggerScaleUp")} == {
                "pod didn't trigger scale-up: 1 it takes room of ProvisioningRequest default/job"
            }
            # While they have no node, the booking keeps their room from others.
            put_pod(server, "web", cpu="4")
            await clock.sleep(30)
            assert [count for *_, count in cloud.asked] == [1]


async def test_who_asks_is_told_where_the_room_is_and_until_when(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        template(server)
        put_node(server, clock, "g-1", age=1800)
        cloud = Cloud(server, group(cpu="4"))
        async with autoscaling(server, cloud, clock, provisioningRequests=True) as program:
            ask(server, clock, "job", 1, kind=CHECK_CAPACITY)
            ask(server, clock, "large", 9, kind=CHECK_CAPACITY)
            await clock.sleep(30)
            job, large = program.room().requests
            assert (job.state, job.left, [one.node for one in job.nodes]) == (
                "Provisioned", 1, ["g-1"],
            )  # fmt: skip
            assert job.until is not None
            assert (large.state, large.nodes) == ("Accepted", ())


async def test_a_bad_request_fails_and_others_are_served(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        template(server)
        cloud = Cloud(server, group(cpu="4"))
        async with autoscaling(server, cloud, clock, provisioningRequests=True):
            ask(server, clock, "bad", 1, of="gone")
            ask(server, clock, "good", 1)
            await clock.sleep(30)

            assert conditions(server, "bad") == {"Failed": "True"}
            assert conditions(server, "good")["Provisioned"] == "True"


async def test_who_does_not_want_requests_asks_for_none(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        template(server)
        cloud = Cloud(server, group(cpu="4"))
        async with autoscaling(server, cloud, clock):
            ask(server, clock, "job", 3)
            await clock.sleep(30)

            assert cloud.asked == []
            assert not server.asked("GET", "/apis/autoscaling.x-k8s.io/v1/provisioningrequests")
            assert status(server)["tonnage"]["problems"] == []

"""The scheduler leaves room that ProvisioningRequests have booked to the pods that take it."""

from typing import Any

import msgspec
import pytest

from tests.scheduler.bookings import booked, taking, template
from tests.scheduler.harness import (
    DRIVER,
    Cluster,
    a_pod,
    a_program,
    claims,
    running,
    scheduling,
)
from tonnage.groups.provisioning_requests import BOOKED_FOR
from tonnage.objects.provisioning_requests import ProvisioningRequest
from tonnage.objects.storage import SELECTED_NODE_ANNOTATION, PersistentVolumeClaim
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

BOOKED = "1 node(s) have only room that ProvisioningRequests have booked"
RESPECTING: dict[str, Any] = {"provisioningRequests": True}


@pytest.mark.parametrize("asks", [{"cpu": "1"}, {"memory": "1Gi"}, {}], ids=str)
async def test_a_pod_that_does_not_take_it_waits(clock: VirtualClock, asks: dict[str, Any]) -> None:
    async with scheduling(clock, **RESPECTING) as cluster:
        await cluster.node("n1", cpu="2", memory="2Gi", pods=2)
        await cluster.add(template(**asks), booked(clock, 2))
        await cluster.pod("web", **asks)
        assert BOOKED in await cluster.refused("web")


async def test_pods_that_take_it_get_their_nodes(clock: VirtualClock) -> None:
    async with scheduling(clock, **RESPECTING) as cluster:
        await cluster.node("n1", cpu="4")
        await cluster.add(template("2"), booked(clock, 2))
        await cluster.pod("web", cpu="1")
        await cluster.refused("web")
        for name in ("job-0", "job-1"):
            await cluster.add(taking(a_pod(name, cpu="2")))
        assert await cluster.bound("job-0", "job-1") == {"job-0": "n1", "job-1": "n1"}
        assert "Insufficient cpu" in await _refused_anew(cluster, "web")


async def _refused_anew(cluster: Cluster, name: str) -> str:
    await cluster.clock.sleep(330)  # Everybody is tried again after five minutes.
    return await cluster.refused(name)


async def test_room_beside_the_booking_is_anybodys(clock: VirtualClock) -> None:
    async with scheduling(clock, **RESPECTING) as cluster:
        await cluster.node("n1", cpu="4")
        await cluster.add(template("2"), booked(clock, 1))
        for number in range(3):
            await cluster.pod(f"web-{number}", cpu="1")
        await clock.sleep(5)
        placed = [await cluster.where(f"web-{number}") for number in range(3)]
        assert sorted(placed) == ["", "n1", "n1"]


async def test_a_pod_of_another_request_has_no_part_in_it(clock: VirtualClock) -> None:
    async with scheduling(clock, **RESPECTING) as cluster:
        await cluster.node("n1", cpu="2")
        await cluster.add(template("2"), booked(clock, 1))
        await cluster.add(taking(a_pod("other", cpu="2"), "another-job"))
        assert BOOKED in await cluster.refused("other")


async def test_it_is_everybodys_once_the_time_is_over(clock: VirtualClock) -> None:
    async with scheduling(clock, **RESPECTING) as cluster:
        await cluster.node("n1", cpu="2")
        await cluster.add(template("2"), booked(clock, 1, ago=BOOKED_FOR - 60))
        await cluster.pod("web", cpu="2")
        await clock.sleep(50)
        assert BOOKED in await cluster.refused("web")
        await clock.sleep(30)
        assert await cluster.where("web") == "n1"


async def test_it_is_everybodys_once_the_request_is_gone(clock: VirtualClock) -> None:
    async with scheduling(clock, **RESPECTING) as cluster:
        await cluster.node("n1", cpu="2")
        await cluster.add(template("2"), booked(clock, 1))
        await cluster.pod("web", cpu="2")
        await cluster.refused("web")
        await cluster.client.delete(ProvisioningRequest, "job", namespace="default")
        assert await cluster.bound("web", within=20) == {"web": "n1"}


async def test_a_request_without_room_books_nothing(clock: VirtualClock) -> None:
    async with scheduling(clock, **RESPECTING) as cluster:
        await cluster.node("n1", cpu="2")
        await cluster.add(template("2"), booked(clock, 1, status="False"))
        await cluster.pod("web", cpu="2")
        assert await cluster.bound("web") == {"web": "n1"}


async def test_slots_are_booked_too(clock: VirtualClock) -> None:
    async with scheduling(clock, **RESPECTING) as cluster:
        await cluster.node("n1", cpu="8", drivers={DRIVER: 3})
        await cluster.add(builders.storage_class("fast", DRIVER))
        await claims(cluster, ["pattern", "web", "job"])
        await cluster.add(template("1", claims=["pattern"]), booked(clock, 3))
        await cluster.pod("web", cpu="1", pvcs=["web"])
        assert BOOKED in await cluster.refused("web")
        await cluster.add(taking(a_pod("job", cpu="1", pvcs=["job"])))
        await clock.sleep(5)
        found = await cluster.get(PersistentVolumeClaim, "job")
        assert SELECTED_NODE_ANNOTATION in found.metadata.annotations
        await cluster.pod("plain", cpu="1")
        assert await cluster.bound("plain") == {"plain": "n1"}


async def test_a_new_node_is_booked_before_others_get_it(clock: VirtualClock) -> None:
    async with scheduling(clock, **RESPECTING) as cluster:
        await cluster.add(template("2"), booked(clock, 2))
        await cluster.pod("web", cpu="2")
        await cluster.refused("web")
        await cluster.node("n1", cpu="2")
        await cluster.node("n2", cpu="2")
        await clock.sleep(15)
        assert await cluster.where("web") == ""
        await cluster.node("n3", cpu="2")
        assert await cluster.bound("web") == {"web": "n3"}


async def test_what_a_decision_that_is_taken_back_frees_is_booked_first(
    clock: VirtualClock,
) -> None:
    async with scheduling(clock, bindTimeout=30, provision=3600, **RESPECTING) as cluster:
        await cluster.node("n1", cpu="8", drivers={DRIVER: 1})
        await cluster.add(builders.storage_class("fast", DRIVER))
        await claims(cluster, ["pattern", "first", "second"])
        await cluster.pod("first", cpu="1", pvcs=["first"])
        await clock.sleep(5)
        await cluster.add(template("1", claims=["pattern"]), booked(clock, 1))
        await cluster.pod("second", cpu="1", pvcs=["second"])
        assert "exceed max volume count" in await cluster.refused("second")
        await clock.sleep(60)  # The volume of the first was not made within its time.
        assert not cluster.program.world.assumed
        assert BOOKED in await cluster.refused("first")
        assert BOOKED in await cluster.refused("second")


async def test_another_scheduler_after_a_restart_knows_the_same(clock: VirtualClock) -> None:
    cluster = Cluster(clock)
    await cluster.node("n1", cpu="2")
    await cluster.add(template("2"), booked(clock, 1))
    await cluster.pod("web", cpu="2")
    async with running(a_program(cluster, **RESPECTING)):
        assert BOOKED in await cluster.refused("web")
    async with running(a_program(cluster, identity="b", **RESPECTING)):
        await clock.sleep(30)
        assert await cluster.where("web") == ""
        await cluster.add(taking(a_pod("job", cpu="2")))
        assert await cluster.bound("job") == {"job": "n1"}


async def test_pods_of_daemon_sets_belong_on_their_node(clock: VirtualClock) -> None:
    async with scheduling(clock, **RESPECTING) as cluster:
        await cluster.node("n1", cpu="2")
        await cluster.add(template("2"), booked(clock, 1))
        pod = a_pod("csi", cpu="1")
        as_daemon = {"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"}
        meta = msgspec.structs.replace(pod.metadata, annotations=as_daemon)
        await cluster.add(msgspec.structs.replace(pod, metadata=meta))
        assert await cluster.bound("csi") == {"csi": "n1"}


async def test_nobody_is_preempted_for_booked_room(clock: VirtualClock) -> None:
    async with scheduling(clock, **RESPECTING) as cluster:
        await cluster.node("n1", cpu="4")
        await cluster.pod("low", cpu="2", on="n1")
        await cluster.add(template("2"), booked(clock, 1))
        await cluster.pod("high", cpu="2", priority=10)
        await cluster.refused("high")
        await clock.sleep(10)
        assert await cluster.where("low") == "n1"


async def test_who_does_not_want_it_reads_no_requests(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1", cpu="2")
        await cluster.add(template("2"), booked(clock, 1))
        await cluster.pod("web", cpu="2")
        assert await cluster.bound("web") == {"web": "n1"}
        assert not [one for one in cluster.transport.sent if "provisioningrequests" in one.path]

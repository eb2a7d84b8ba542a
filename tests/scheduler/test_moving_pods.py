"""The scheduler leaves pods that scale-down moves their places, and puts them there."""

from typing import Any

from tests.scheduler.bookings import booked, template
from tests.scheduler.harness import Cluster, a_pod, a_program, running, scheduling
from tests.scheduler.moving import LASTS, REPLICAS, drained, note_of
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.service.moving_pods import COMES_WITHIN, NOTE
from tonnage.testing.clock import VirtualClock

FULL = "Insufficient cpu"


async def moving(cluster: Cluster, *, to: str = "a", **note: Any) -> None:
    """A pod is on a node that is drained, and is to move to another that has room for it alone."""
    for name in ("a", "b"):
        await cluster.node(name, cpu="4")
    old = a_pod("web-1", on="from", cpu="4", owner=REPLICAS)
    node = drained("from", "", cpu="4")
    await cluster.add(node, old)
    made = await cluster.get(Pod, "web-1")
    text = note_of(cluster.clock, {to: made}, **note)
    change = {"metadata": {"annotations": {NOTE: text}}, "spec": {"unschedulable": True}}
    await cluster.patch(Node, "from", change)


async def fill(cluster: Cluster, *names: str) -> None:
    for name in names:
        await cluster.pod(name, cpu="4")


async def test_others_are_kept_off_from_before_the_eviction_until_the_next_pod_is_there(
    clock: VirtualClock,
) -> None:
    async with scheduling(clock) as cluster:
        await moving(cluster)
        await clock.sleep(1)
        await fill(cluster, "one")
        assert await cluster.bound("one") == {"one": "b"}
        await fill(cluster, "two")
        assert FULL in await cluster.refused("two")
        await cluster.client.delete(Pod, "web-1", namespace="default")
        await clock.sleep(60)
        assert await cluster.where("two") == ""
        await cluster.pod("web-2", cpu="4", owner=REPLICAS)
        assert await cluster.bound("web-2") == {"web-2": "a"}


async def test_the_next_pod_gets_its_place_also_where_others_look_as_good(
    clock: VirtualClock,
) -> None:
    for place in ("a", "b"):
        async with scheduling(clock) as cluster:
            await moving(cluster, to=place)
            await clock.sleep(1)
            await cluster.client.delete(Pod, "web-1", namespace="default")
            await cluster.pod("web-2", cpu="1", owner=REPLICAS)
            assert await cluster.bound("web-2") == {"web-2": place}


async def test_a_scheduler_that_starts_in_between_holds_the_place_too(clock: VirtualClock) -> None:
    cluster = Cluster(clock)
    await moving(cluster)
    await cluster.client.delete(Pod, "web-1", namespace="default", grace_period=0)
    async with running(a_program(cluster)):
        await fill(cluster, "one", "two")
        await clock.sleep(5)
        assert sorted([await cluster.where("one"), await cluster.where("two")]) == ["", "b"]
        await cluster.pod("web-2", cpu="4", owner=REPLICAS)
        assert await cluster.bound("web-2") == {"web-2": "a"}


async def test_a_place_that_nobody_comes_for_is_given_to_who_waits(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await moving(cluster)
        await clock.sleep(1)
        await cluster.client.delete(Pod, "web-1", namespace="default")
        await fill(cluster, "one", "two")
        await clock.sleep(90)
        assert sorted([await cluster.where("one"), await cluster.where("two")]) == ["", "b"]
        assert set((await cluster.bound("one", "two", within=90)).values()) == {"a", "b"}


async def test_a_place_that_nobody_comes_for_is_booked_before_others_get_it(
    clock: VirtualClock,
) -> None:
    async with scheduling(clock, provisioningRequests=True) as cluster:
        await moving(cluster)
        await clock.sleep(1)
        await cluster.client.delete(Pod, "web-1", namespace="default")
        await fill(cluster, "one")
        await cluster.bound("one")
        await cluster.add(template("4"), booked(clock, 1))
        await fill(cluster, "two")
        assert FULL in await cluster.refused("two")
        await clock.sleep(COMES_WITHIN + 30)
        assert "ProvisioningRequests have booked" in await cluster.refused("two")
        assert await cluster.where("two") == ""


async def test_a_note_that_nobody_renews_ends(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await moving(cluster)
        await clock.sleep(LASTS - 10)
        await fill(cluster, "one", "two")
        await clock.sleep(5)
        assert sorted([await cluster.where("one"), await cluster.where("two")]) == ["", "b"]
        assert set((await cluster.bound("one", "two", within=30)).values()) == {"a", "b"}


async def test_a_more_important_pod_takes_the_place(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await moving(cluster)
        await clock.sleep(1)
        await fill(cluster, "one")
        await cluster.bound("one")
        await cluster.pod("urgent", cpu="4", priority=1000)
        assert await cluster.bound("urgent") == {"urgent": "a"}


async def test_a_drain_that_is_called_off_wakes_who_waits(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await moving(cluster)
        await clock.sleep(1)
        await fill(cluster, "one", "two")
        await clock.sleep(5)
        await cluster.patch(Node, "from", {"metadata": {"annotations": {NOTE: None}}})
        assert set((await cluster.bound("one", "two", within=20)).values()) == {"a", "b"}

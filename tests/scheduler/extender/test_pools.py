"""Slots that several drivers share are counted together."""

from typing import Any

from tests.scheduler.extender.harness import DRIVER, a_node, a_pod, extending
from tonnage.testing import builders as make
from tonnage.testing.clock import VirtualClock

OTHER = "other.csi.example.com"
POOLS = [{"name": "bus", "size": 3, "members": {DRIVER: 1, OTHER: 2}}]


def other_pod(name: str, *, on: str = "") -> list[Any]:
    claim = make.pvc(name, storage_class="other")
    return [claim, make.pod(name, pvcs=[name], on=on)]


def shared(name: str) -> list[Any]:
    return [make.node(name), make.csinode(name, {DRIVER: 10, OTHER: 10})]


async def test_a_pool_that_is_full_refuses_though_each_driver_has_room(
    clock: VirtualClock,
) -> None:
    *claims, pod = a_pod("db", "a", "b")
    other = [make.storage_class("other", OTHER), *other_pod("there", on="n1")]
    objects = [*shared("n1"), *shared("n2"), *claims, *other]
    async with extending(clock, *objects, pools=POOLS) as stage:
        answer = await stage.filter(pod, "n1", "n2")
    assert answer.nodes == ["n2"]
    assert "SlotPoolExhausted" in answer.failed["n1"]


async def test_without_pools_each_driver_counts_for_itself(clock: VirtualClock) -> None:
    *claims, pod = a_pod("db", "a", "b")
    other = [make.storage_class("other", OTHER), *other_pod("there", on="n1")]
    async with extending(clock, *shared("n1"), *claims, *other) as stage:
        assert (await stage.filter(pod, "n1")).nodes == ["n1"]


async def test_slots_of_a_pod_on_its_way_are_taken_from_the_pool(clock: VirtualClock) -> None:
    *first, one = a_pod("one", "a", "b")
    *second, two = other_pod("two")
    objects = [*shared("n1"), make.storage_class("other", OTHER), *first, *second]
    async with extending(clock, *objects, pools=POOLS, settleWait=0) as stage:
        assert (await stage.filter(one, "n1")).nodes == ["n1"]
        assert (await stage.filter(two, "n1")).nodes == []


async def test_a_node_that_comes_later_has_its_pool(clock: VirtualClock) -> None:
    *claims, pod = a_pod("db", "a", "b", "c", "d")
    async with extending(clock, *a_node("n1", 10), *claims, pools=POOLS) as stage:
        await stage.put(*shared("n2"))
        assert (await stage.filter(pod, "n2")).nodes == []

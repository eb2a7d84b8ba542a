"""Drivers that nodes had and lose: one that restarts, one that is gone from most nodes."""

from collections.abc import Sequence

import pytest

from tests.autoscaler.harness import (
    CSINODES,
    DRIVER,
    STATE,
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
from tests.cluster.apiserver import ApiServer
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

OLD = 1800.0
THREE = ("g-1", "g-2", "g-3")


def old_nodes(server: ApiServer, clock: VirtualClock, names: Sequence[str] = THREE) -> None:
    started(server)
    for name in names:
        put_node(server, clock, name, age=OLD)


def lose(server: ApiServer, *names: str) -> None:
    for name in names:
        put(server, CSINODES, builders.csinode(name, {}))


def come_back(server: ApiServer, *names: str) -> None:
    for name in names:
        put(server, CSINODES, builders.csinode(name, {DRIVER: 10}))


LISTED = pytest.mark.parametrize("limit", [10, None], ids=["listed", "not listed"])
"""Whether the provider's template lists the driver."""


@LISTED
async def test_a_driver_that_restarts_costs_no_node(clock: VirtualClock, limit: int | None) -> None:
    async with ApiServer() as server:
        old_nodes(server, clock)
        cloud = Cloud(server, group(limit=limit))
        async with autoscaling(server, cloud, clock, replaceUnreadyDrivers=True):
            lose(server, *THREE)
            put_pod(server, "db", claims=["data"])
            await clock.sleep(30)
            assert {one["node"] for one in status(server)["tonnage"]["comingUp"]} == set(THREE)
            come_back(server, *THREE)
            await clock.sleep(1800)
            assert status(server)["tonnage"]["comingUp"] == []
            assert cloud.asked == []


async def test_the_deadline_of_an_old_node_runs_from_the_loss(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        old_nodes(server, clock)
        async with autoscaling(server, Cloud(server), clock):
            lose(server, "g-1")
            await clock.sleep(890)
            assert status(server)["tonnage"]["unready"] == []
            await clock.sleep(60)
            assert [one["node"] for one in status(server)["tonnage"]["unready"]] == ["g-1"]


async def test_the_deadline_survives_a_restart(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        old_nodes(server, clock)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock):
            lose(server, "g-1")
            await clock.sleep(600)
        async with autoscaling(server, cloud, clock, identity="b"):
            assert [one["node"] for one in status(server)["tonnage"]["comingUp"]] == ["g-1"]
            await clock.sleep(400)
            assert [one["node"] for one in status(server)["tonnage"]["unready"]] == ["g-1"]


async def test_who_has_lost_the_state_gives_nodes_their_time_anew(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        old_nodes(server, clock)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock):
            lose(server, "g-1")
            await clock.sleep(890)
        server.remove(STATE)
        async with autoscaling(server, cloud, clock, identity="b"):
            await clock.sleep(600)
            assert status(server)["tonnage"]["unready"] == []


async def test_a_driver_that_comes_back_and_goes_again_is_waited_for_anew(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        old_nodes(server, clock)
        async with autoscaling(server, Cloud(server), clock):
            lose(server, "g-1")
            await clock.sleep(600)
            come_back(server, "g-1")
            await clock.sleep(30)
            lose(server, "g-1")
            await clock.sleep(600)
            assert status(server)["tonnage"]["unready"] == []


async def test_nodes_are_replaced_one_at_a_time_with_a_pause(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        old_nodes(server, clock, [f"g-{number}" for number in range(6)])
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock, replaceUnreadyDrivers=True):
            lose(server, "g-1", "g-2")
            await clock.sleep(930)
            assert cloud.deleted == ["g-1"]
            server.remove("/api/v1/nodes/g-1")
            await clock.sleep(550)
            assert cloud.deleted == ["g-1"]
            await clock.sleep(70)
            assert cloud.deleted == ["g-1", "g-2"]


async def test_the_pause_between_replacements_survives_a_restart(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        old_nodes(server, clock, [f"g-{number}" for number in range(6)])
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock, replaceUnreadyDrivers=True):
            lose(server, "g-1", "g-2")
            await clock.sleep(930)
        server.remove("/api/v1/nodes/g-1")
        async with autoscaling(server, cloud, clock, replaceUnreadyDrivers=True, identity="b"):
            await clock.sleep(500)
            assert cloud.deleted == ["g-1"]


async def test_the_next_node_is_not_replaced_before_the_last_one_has_gone(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        old_nodes(server, clock, [f"g-{number}" for number in range(6)])
        cloud = Cloud(server)
        settings = {"replaceUnreadyDrivers": True, "replaceUnreadyDriversPause": 0}
        async with autoscaling(server, cloud, clock, **settings):
            lose(server, "g-1", "g-2")
            await clock.sleep(1200)
            assert cloud.deleted == ["g-1"]
            server.remove("/api/v1/nodes/g-1")
            await clock.sleep(30)
            assert cloud.deleted == ["g-1", "g-2"]


async def test_no_node_is_replaced_while_most_lack_the_driver_and_that_is_told(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        old_nodes(server, clock)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock, replaceUnreadyDrivers=True) as program:
            lose(server, "g-1", "g-2")
            await clock.sleep(1800)
            assert cloud.deleted == []
            (event,) = events(server, "CSIDriverOutage")
            assert f"driver {DRIVER} is missing on 2 of 3 nodes" in event["message"]
            (outage,) = status(server)["tonnage"]["driverOutages"]
            assert outage == {"driver": DRIVER, "groups": ["g"], "lacking": 2, "registered": 1}
            assert metric(program, "tonnage_driver_outage_nodes", driver=DRIVER) == 2
            come_back(server, "g-1")
            await clock.sleep(30)
            assert len(events(server, "CSIDriverBack")) == 1
            assert status(server)["tonnage"]["driverOutages"] == []
            assert cloud.deleted == ["g-2"]


async def test_the_driver_of_a_single_old_node_is_at_fault_not_the_node(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        old_nodes(server, clock, ["g-1"])
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock, replaceUnreadyDrivers=True):
            lose(server, "g-1")
            await clock.sleep(1800)
            assert cloud.deleted == []


async def test_a_driver_that_only_the_template_lists_stops_neither_cluster_nor_group(
    clock: VirtualClock,
) -> None:
    names = [f"g-{number}" for number in range(5)]
    async with ApiServer() as server:
        started(server)
        for name in names:
            put_node(server, clock, name, age=OLD, drivers={"other.example.com": 1})
            put_pod(server, f"full-{name}", on=name, cpu="4")
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock) as program:
            await clock.sleep(960)
            assert len(status(server)["tonnage"]["unready"]) == 5
            assert status(server)["tonnage"]["driverOutages"] == [
                {"driver": DRIVER, "groups": ["g"], "lacking": 5, "registered": 0}
            ]
            told = f"group g: driver {DRIVER} is registered on no node"
            assert any(told in one for one in status(server)["tonnage"]["problems"])
            put_pod(server, "web", cpu="1")
            await clock.sleep(20)
            assert cloud.asked == [("increase", "g", 1)]
            put_node(server, clock, "g-5", drivers={"other.example.com": 1})
            put_pod(server, "web", cpu="1", on="g-5")
            await clock.sleep(1000)
            assert events(server, "ScaleUpTimedOut") == []
            assert program.autoscaler.document["nodeGroups"][0]["health"]["status"] == "Healthy"


async def test_a_purchase_does_not_wait_for_drivers_that_other_nodes_have_lost(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        old_nodes(server, clock)
        cloud = Cloud(server)
        for name in THREE:
            put_pod(server, f"full-{name}", on=name, cpu="4")
        put_pod(server, "web", cpu="4")
        async with autoscaling(server, cloud, clock):
            await clock.sleep(20)
            assert cloud.asked == [("increase", "g", 1)]
            await clock.sleep(100)
            lose(server, "g-1")
            put_node(server, clock, "g-4")
            await clock.sleep(870)
            assert events(server, "ScaleUpTimedOut") == []

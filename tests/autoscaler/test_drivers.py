"""Nodes that are Ready and lack a CSI driver."""

import pytest

from tests.autoscaler.harness import (
    CSINODES,
    DRIVER,
    NODES,
    Cloud,
    a_program,
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
from tests.cluster.programs import running
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock


async def test_a_node_without_its_driver_is_coming_up_and_nothing_is_bought_twice(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "db", claims=["data"])
        async with autoscaling(server, cloud, clock) as program:
            await until(lambda: bool(cloud.asked), clock=clock)
            put_node(server, clock, "g-1", drivers={})
            await clock.sleep(300)
            assert cloud.asked == [("increase", "g", 1)]
            assert status(server)["tonnage"]["comingUp"][0]["reason"] == f"not registered: {DRIVER}"
            assert metric(program, "tonnage_coming_up_nodes", node_group="g") == 1


async def test_a_node_that_gets_its_driver_is_ready(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock) as program:
            put_node(server, clock, "g-1", drivers={})
            await clock.sleep(20)
            put(server, CSINODES, builders.csinode("g-1", {DRIVER: 10}))
            await clock.sleep(20)
            assert status(server)["tonnage"]["comingUp"] == []
            assert metric(program, "cluster_autoscaler_nodes_count", state="ready") == 1


async def test_the_wait_for_a_driver_is_measured_once(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "g-1", drivers={})
        async with autoscaling(server, Cloud(server), clock) as program:
            await clock.sleep(100)
            assert metric(program, "tonnage_readiness_wait_seconds_count", node_group="g") is None
            longest = metric(program, "tonnage_readiness_longest_wait_seconds")
            assert longest == pytest.approx(100, abs=11)
            put(server, CSINODES, builders.csinode("g-1", {DRIVER: 10}))
            await clock.sleep(60)
            assert metric(program, "tonnage_readiness_wait_seconds_count", node_group="g") == 1
            waited = metric(program, "tonnage_readiness_wait_seconds_sum", node_group="g")
            assert waited == pytest.approx(105, abs=11)
            assert metric(program, "tonnage_readiness_longest_wait_seconds") == 0


async def test_a_node_that_leaves_without_its_driver_has_no_wait(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "g-0")
        put_node(server, clock, "g-1", drivers={})
        async with autoscaling(server, Cloud(server), clock) as program:
            await clock.sleep(60)
            server.remove(f"{NODES}/g-1")
            await clock.sleep(30)
            assert metric(program, "tonnage_readiness_longest_wait_seconds") == 0
            assert metric(program, "tonnage_readiness_wait_seconds_count", node_group="g") is None


async def test_past_the_deadline_the_node_is_unready_and_told_so_once(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock) as program:
            put_node(server, clock, "g-1", drivers={})
            await clock.sleep(880)
            assert events(server, "CSIDriverNotRegistered") == []
            await clock.sleep(200)
            (event,) = events(server, "CSIDriverNotRegistered")
            assert event["involvedObject"]["name"] == "g-1"
            assert event["count"] == 1
            assert status(server)["tonnage"]["unready"][0]["node"] == "g-1"
            assert metric(program, "tonnage_driver_unready_nodes", driver=DRIVER) == 1
            assert cloud.asked == []


async def test_nodes_without_their_driver_are_told_so_also_where_they_are_too_many_to_act(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_node(server, clock, "g-5", age=7200)
        for index in range(5):
            put_node(server, clock, f"g-{index}", drivers={}, age=7200)
        program = a_program(server, cloud, clock, replaceUnreadyDrivers=True)
        async with running(program, server, clock):
            await clock.sleep(960)
            assert len(events(server, "CSIDriverNotRegistered")) == 5
            assert "5 of 6 nodes are unready" in program.autoscaler.document["tonnage"]["held"]
            assert cloud.asked == []


async def test_an_unready_node_is_replaced_where_that_is_wanted(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "db", claims=["data"])
        async with autoscaling(server, cloud, clock, replaceUnreadyDrivers=True):
            await until(lambda: bool(cloud.asked), clock=clock)
            put_node(server, clock, "g-1", drivers={})
            await clock.sleep(930)
            assert cloud.deleted == ["g-1"]
            server.remove("/api/v1/nodes/g-1")
            await clock.sleep(30)
            assert cloud.asked == [("increase", "g", 1), ("delete", "g", 1), ("increase", "g", 1)]


async def test_an_unready_node_with_pods_on_it_is_not_replaced(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_node(server, clock, "g-1", drivers={})
        put_pod(server, "web", on="g-1")
        async with autoscaling(server, cloud, clock, replaceUnreadyDrivers=True):
            await clock.sleep(1800)
            assert cloud.asked == []


async def test_at_the_minimum_the_new_node_is_asked_for_first(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group(least=1))
        put_node(server, clock, "g-1", drivers={})
        async with autoscaling(server, cloud, clock, replaceUnreadyDrivers=True):
            await until(lambda: bool(cloud.deleted), clock=clock, within=1200)
            assert cloud.asked == [("increase", "g", 1), ("delete", "g", 1)]


async def test_a_label_adds_to_what_is_expected_of_a_node(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group(limit=None))
        label = {"tonnage.dev/expected-csi-drivers": "nfs.csi.k8s.io"}
        async with autoscaling(server, cloud, clock):
            put_node(server, clock, "g-1", drivers={}, labels=label)
            await clock.sleep(20)
            (one,) = status(server)["tonnage"]["comingUp"]
            assert one["reason"] == "not registered: nfs.csi.k8s.io"


async def test_without_csi_awareness_the_node_is_ready(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock, csiAware=False):
            put_node(server, clock, "g-1", drivers={})
            await clock.sleep(20)
            assert status(server)["tonnage"]["comingUp"] == []

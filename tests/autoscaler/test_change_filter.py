"""Which changes of the watch count, which of them wake, and what stays as it was found."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from tests.autoscaler.harness import (
    CSINODES,
    DRIVER,
    Cloud,
    autoscaling,
    put,
    put_node,
    put_pod,
    started,
)
from tests.cluster.apiserver import ApiServer, until
from tonnage.autoscaler.change_filter import ChangeFilter
from tonnage.cluster.watch_events import Change, EventType
from tonnage.objects.meta import Condition
from tonnage.objects.nodes import Node
from tonnage.objects.storage import PersistentVolume
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

CAPACITIES = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities"
VOLUMES = "/api/v1/persistentvolumes"


def node(**conditions: str) -> Node:
    found = tuple(
        Condition(type=type_, status=status, last_transition_time="2026-01-01T00:00:00Z")
        for type_, status in conditions.items()
    )
    made = builders.node("n")
    return msgspec.structs.replace(
        made, status=msgspec.structs.replace(made.status, conditions=found)
    )


def beating(one: Node, time: str) -> Node:
    """The node after another sign of life."""
    conditions = tuple(
        msgspec.structs.replace(each, last_heartbeat_time=time) for each in one.status.conditions
    )
    return msgspec.structs.replace(
        one,
        metadata=msgspec.structs.replace(one.metadata, resource_version=time),
        status=msgspec.structs.replace(one.status, conditions=conditions),
    )


def relabelled(one: Node) -> Node:
    metadata = msgspec.structs.replace(one.metadata, labels={"a": "b"})
    return msgspec.structs.replace(one, metadata=metadata)


def told(*nodes: Node) -> tuple[int, int]:
    """How often a node that comes to be these, one after the other, counts and wakes."""
    woken = 0

    def wake() -> None:
        nonlocal woken
        woken += 1

    noticing = ChangeFilter(wake)
    for before, one in pairwise([None, *nodes]):
        assert one is not None
        noticing.node(Change(EventType.MODIFIED, one, before=before))
    return noticing.revision, woken


@pytest.mark.parametrize(
    ("what", "nodes", "counted"),
    [
        ("a node that comes", [node(Ready="False")], (1, 1)),
        ("a sign of life", [node(Ready="True"), beating(node(Ready="True"), "2")], (1, 1)),
        ("a node that turns Ready", [node(Ready="False"), node(Ready="True")], (2, 2)),
        ("a node that turns unready", [node(Ready="True"), node(Ready="False")], (2, 1)),
        ("another label", [node(Ready="True"), relabelled(node(Ready="True"))], (2, 1)),
    ],
)
def test_what_counts_and_what_wakes(what: str, nodes: list[Node], counted: tuple[int, int]) -> None:
    assert told(*nodes) == counted, what


def test_a_driver_that_registers_wakes_and_one_that_goes_only_counts() -> None:
    woken: list[None] = []
    noticing = ChangeFilter(lambda: woken.append(None))
    before = None
    for drivers in ({}, {DRIVER: 10}, {}):
        csinode = builders.csinode("n", drivers)
        noticing.csinode(Change(EventType.MODIFIED, csinode, before=before))
        before = csinode
    assert (noticing.revision, len(woken)) == (3, 1)


def test_pods_count_only_if_they_come_with_their_node() -> None:
    noticing = ChangeFilter(lambda: None)
    made = builders.pod("d", on="n")
    marked = {"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"}
    daemon = msgspec.structs.replace(
        made, metadata=msgspec.structs.replace(made.metadata, annotations=marked)
    )
    noticing.pod(Change(EventType.ADDED, builders.pod("web", on="n")))
    assert noticing.revision == 0
    noticing.pod(Change(EventType.ADDED, daemon))
    noticing.pod(Change(EventType.MODIFIED, daemon, before=daemon))
    assert (noticing.revision, noticing.daemon_revision) == (1, 1)
    noticing.pod(Change(EventType.DELETED, daemon, before=daemon))
    assert noticing.revision == 2


async def rounds_in(clock: VirtualClock, seconds: float, cloud: Cloud) -> int:
    before = cloud.refreshed
    await clock.sleep(seconds)
    return cloud.refreshed - before


@pytest.mark.parametrize(
    "change",
    [
        lambda server, _: put(server, CSINODES, builders.csinode("g-1", {DRIVER: 10})),
        lambda server, clock: put_node(server, clock, "g-1", drivers={}, age=60),
    ],
    ids=["its driver registers", "it turns Ready"],
)
async def test_a_node_that_comes_to_more_is_looked_at_before_the_next_scan(
    clock: VirtualClock, change: Callable[..., Any]
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_node(server, clock, "g-1", drivers={}, ready=False, age=60)
        async with autoscaling(server, cloud, clock, scanInterval=300) as program:
            await clock.sleep(30)
            seen = cloud.refreshed
            change(server, clock)
            await until(lambda: cloud.refreshed > seen, clock=clock)
            assert await rounds_in(clock, 5, cloud) <= 1
            assert program.autoscaler.report is not None


async def test_what_was_found_stays_until_something_changes(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_node(server, clock, "g-1", age=3600)
        async with autoscaling(server, cloud, clock, scanInterval=10) as program:
            await clock.sleep(15)
            first = program.autoscaler.report
            await clock.sleep(20)
            second = program.autoscaler.report
            put_node(server, clock, "g-2", age=3600)
            await clock.sleep(15)
            third = program.autoscaler.report
    assert first is not None
    assert second is not None
    assert third is not None
    assert second is not first
    assert second.readiness is first.readiness
    assert set(third.readiness.nodes if third.readiness else ()) == {"g-1", "g-2"}


async def test_what_was_found_stays_for_minutes_and_counts_as_seen_again(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "g-1", age=3600)
        async with autoscaling(server, Cloud(server), clock, scanInterval=10) as program:
            await clock.sleep(15)
            first, seen = program.autoscaler.report, program.autoscaler.memory.groups["g"].seen
            await clock.sleep(200)
            second, again = program.autoscaler.report, program.autoscaler.memory.groups["g"].seen
    assert first is not None
    assert second is not None
    assert second.readiness is first.readiness
    assert 120 <= again - seen <= 200


async def test_nodes_are_looked_at_again_when_one_has_come_of_age(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "g-1", age=0)
        async with autoscaling(server, Cloud(server), clock, scanInterval=10) as program:
            await clock.sleep(15)
            young = "g" in program.autoscaler.memory.groups
            await clock.sleep(120)
            old = "g" in program.autoscaler.memory.groups
    assert (young, old) == (False, True)


@pytest.mark.parametrize("published", [False, True])
async def test_a_volume_counts_only_where_the_capacity_of_its_class_is_published(
    clock: VirtualClock, published: bool
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        if published:
            put(
                server,
                CAPACITIES,
                builders.capacity("c", "fast", free="10Gi", topology={"zone": "a"}),
            )
        async with autoscaling(server, cloud, clock, scanInterval=10) as program:
            await clock.sleep(15)
            before = program.world.revision
            put(server, VOLUMES, builders.pv("v", storage_class="fast"))
            known = program.world.cache(PersistentVolume)
            await until(lambda: len(known) == 1, clock=clock)
            assert (program.world.revision > before) is published


async def test_a_node_turns_unready_by_the_passing_of_time_alone(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_node(server, clock, "g-1", drivers={})
        async with autoscaling(
            server, cloud, clock, driverRegistrationTimeout=40, scanInterval=10
        ) as program:
            await clock.sleep(25)
            assert program.autoscaler.document["tonnage"]["comingUp"]
            await clock.sleep(30)
            assert program.autoscaler.document["tonnage"]["unready"]


async def test_a_pod_that_waits_is_decided_on_though_nothing_else_changed(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock, scanInterval=10):
            await clock.sleep(30)
            put_pod(server, "db", claims=["data"])
            await until(lambda: bool(cloud.asked), clock=clock)
            assert cloud.asked == [("increase", "g", 1)]

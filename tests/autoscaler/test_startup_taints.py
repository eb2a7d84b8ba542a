"""Startup taints of drivers are taken off, and nothing else is touched."""

import asyncio
import random
from typing import Any

import msgspec
import pytest

from tests.autoscaler.harness import (
    CSINODES,
    DRIVER,
    NODES,
    Cloud,
    autoscaling,
    events,
    group,
    put,
    put_node,
    put_pod,
    started,
    status,
)
from tests.cluster.apiserver import ApiServer, Json, answer
from tests.cluster.apiserver import status as refusal
from tonnage.cluster import errors
from tonnage.cluster.client import PatchStyle
from tonnage.objects.nodes import Node
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

OTHER_DRIVER = "efs.csi.aws.com"
TAINT = f"{DRIVER}/agent-not-ready"
OTHER_TAINT = f"{OTHER_DRIVER}/agent-not-ready"
ON: dict[str, Any] = {"removeStartupTaints": True}


def set_taints(server: ApiServer, name: str, *keys: str) -> None:
    node = server.objects[f"{NODES}/{name}"]
    taints = [{"key": key, "effect": "NoSchedule"} for key in keys]
    server.put(NODES, {**node, "spec": {**node.get("spec", {}), "taints": taints}})


def tainted(
    server: ApiServer, clock: VirtualClock, name: str, *keys: str, drivers: tuple[str, ...]
) -> None:
    put_node(server, clock, name, drivers=dict.fromkeys(drivers, 10))
    set_taints(server, name, *keys)


def keys_on(server: ApiServer, name: str) -> list[str]:
    taints: list[Json] = server.objects[f"{NODES}/{name}"]["spec"].get("taints", [])
    return [taint["key"] for taint in taints]


def patches(server: ApiServer, name: str) -> list[Any]:
    return [
        msgspec.json.decode(body)
        for request, body in zip(server.requests, server.bodies, strict=True)
        if (request.method, request.path) == ("PATCH", f"{NODES}/{name}")
    ]


async def test_a_taint_stays_until_its_driver_has_registered(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        tainted(server, clock, "g-1", TAINT, drivers=())
        async with autoscaling(server, Cloud(server), clock, **ON):
            await clock.sleep(60)
            assert keys_on(server, "g-1") == [TAINT]
            put(server, CSINODES, builders.csinode("g-1", {DRIVER: 10}))
            await clock.sleep(11)
            assert keys_on(server, "g-1") == []
            await clock.sleep(60)
            assert len(patches(server, "g-1")) == 1
            (event,) = events(server, "StartupTaintRemoved")
            assert event["involvedObject"]["name"] == "g-1"


async def test_nothing_is_removed_unless_it_is_asked_for(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        tainted(server, clock, "g-1", TAINT, drivers=(DRIVER,))
        async with autoscaling(server, Cloud(server), clock):
            await clock.sleep(60)
            assert patches(server, "g-1") == []


async def test_a_dry_run_removes_nothing(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        tainted(server, clock, "g-1", TAINT, drivers=(DRIVER,))
        async with autoscaling(server, Cloud(server), clock, dry_run=True, **ON):
            await clock.sleep(60)
            assert patches(server, "g-1") == []


async def test_other_taints_stay(clock: VirtualClock) -> None:
    others = ["dedicated", "node.cilium.io/agent-not-ready", OTHER_TAINT]
    async with ApiServer() as server:
        started(server)
        tainted(server, clock, "g-1", "dedicated", TAINT, *others[1:], drivers=(DRIVER,))
        async with autoscaling(server, Cloud(server), clock, **ON):
            await clock.sleep(20)
            assert keys_on(server, "g-1") == others


@pytest.mark.parametrize(
    ("key", "settings"),
    [
        (f"startup-taint.cluster-autoscaler.kubernetes.io/{DRIVER}", {}),
        (f"example.com/wait-for.{DRIVER}", {"startupTaintPrefixes": ["example.com/wait-for."]}),
        (f"{DRIVER}/starting", {"startupTaints": [f"{DRIVER}/starting"]}),
    ],
)
async def test_a_configured_taint_that_names_a_driver_goes_too(
    clock: VirtualClock, key: str, settings: dict[str, Any]
) -> None:
    async with ApiServer() as server:
        started(server)
        tainted(server, clock, "g-1", key, drivers=(DRIVER,))
        async with autoscaling(server, Cloud(server), clock, **ON, **settings):
            await clock.sleep(20)
            assert keys_on(server, "g-1") == []


async def test_taints_of_two_drivers_go_together(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        tainted(
            server, clock, "g-1", TAINT, "dedicated", OTHER_TAINT, drivers=(DRIVER, OTHER_DRIVER)
        )
        async with autoscaling(server, Cloud(server), clock, **ON):
            await clock.sleep(20)
            assert keys_on(server, "g-1") == ["dedicated"]
            assert len(patches(server, "g-1")) == 1


async def test_two_drivers_that_untaint_fifty_nodes_at_once_leave_nothing_behind(
    clock: VirtualClock,
) -> None:
    """Each writes the list back as it read it some time ago, without its own taint."""
    rng = random.Random(7)
    names = [f"g-{number}" for number in range(50)]

    async def driver(server: ApiServer, name: str, own: str) -> None:
        await clock.sleep(rng.uniform(0, 15))
        seen = keys_on(server, name)
        await clock.sleep(rng.uniform(0, 5))
        set_taints(server, name, *(key for key in seen if key != own))

    async with ApiServer() as server:
        started(server)
        for name in names:
            tainted(server, clock, name, TAINT, OTHER_TAINT, drivers=(DRIVER, OTHER_DRIVER))
        async with autoscaling(server, Cloud(server, group(most=60)), clock, **ON):
            await asyncio.gather(
                *(driver(server, name, own) for name in names for own in (TAINT, OTHER_TAINT))
            )
            await clock.sleep(30)
            assert {name: keys for name in names if (keys := keys_on(server, name))} == {}


async def test_the_change_does_nothing_to_a_node_whose_taints_are_others_by_now(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        tainted(server, clock, "g-1", TAINT, drivers=(DRIVER,))
        async with autoscaling(server, Cloud(server), clock, **ON):
            await clock.sleep(20)
        (change,) = patches(server, "g-1")
        set_taints(server, "g-1", "dedicated", TAINT)
        with pytest.raises(errors.Invalid):
            await server.client(clock).patch(Node, "g-1", change, style=PatchStyle.JSON)
        assert keys_on(server, "g-1") == ["dedicated", TAINT]


async def test_a_change_that_came_too_late_is_made_anew(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        server.script("PATCH", f"{NODES}/g-1", answer(lambda: refusal(422, "Invalid", name="g-1")))
        tainted(server, clock, "g-1", TAINT, drivers=(DRIVER,))
        async with autoscaling(server, Cloud(server), clock, **ON):
            await clock.sleep(20)
            assert keys_on(server, "g-1") == []


async def test_a_taint_that_somebody_wants_back_stays(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        tainted(server, clock, "g-1", TAINT, drivers=(DRIVER,))
        async with autoscaling(server, Cloud(server), clock, **ON):
            await clock.sleep(120)
            set_taints(server, "g-1", TAINT)
            await clock.sleep(60)
            assert keys_on(server, "g-1") == [TAINT]


async def test_a_missing_right_is_named_and_pods_are_helped_all_the_same(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        no = [answer(lambda: refusal(403, "Forbidden")) for _ in range(50)]
        server.script("PATCH", f"{NODES}/g-1", *no)
        tainted(server, clock, "g-1", TAINT, drivers=(DRIVER,))
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock, **ON):
            put_pod(server, "web", cpu="3900m")
            put_pod(server, "web-2", cpu="3900m")
            await clock.sleep(20)
            assert "verb patch, kind Node" in str(status(server)["tonnage"]["problems"])
            assert [deed for deed, _, _ in cloud.asked] == ["increase"]

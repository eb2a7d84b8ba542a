"""The autoscaler learns from refused attaches, keeps it over a restart, and forgets on request."""

import json
from typing import Any

import msgspec

from tests.autoscaler.harness import (
    ATTACHMENTS,
    DRIVER,
    STATE,
    Cloud,
    autoscaling,
    put,
    put_node,
    put_pod,
    started,
)
from tests.cluster.apiserver import ApiServer, until
from tonnage.autoscaler.state import StateStore
from tonnage.groups import limit_lessons
from tonnage.objects.storage import AttachError
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

TYPE = {"node.kubernetes.io/instance-type": "x1"}
REFUSED = f"{ATTACHMENTS}/more-on-g-1"


def put_refusing_node(server: ApiServer, clock: VirtualClock, *, attached: int = 3) -> None:
    """A node that says 10, has no CPU left, and refused one volume more than are attached."""
    put_node(server, clock, "g-1", labels=TYPE, age=3600)
    put_pod(server, "filling", on="g-1", cpu="4")
    for number in range(attached):
        put(server, ATTACHMENTS, builders.attachment(f"v{number}", "g-1", attacher=DRIVER))
    refuse(server, clock)


def refuse(server: ApiServer, clock: VirtualClock) -> None:
    one = builders.attachment("more", "g-1", attacher=DRIVER, attached=False)
    time = f"{clock.now():%Y-%m-%dT%H:%M:%SZ}"
    error = AttachError(time=time, message="no room", error_code=8)
    status = msgspec.structs.replace(one.status, attach_error=error)
    put(server, ATTACHMENTS, msgspec.structs.replace(one, status=status))


def lessons(server: ApiServer) -> list[Any]:
    if STATE not in server.objects:
        return []
    state = json.loads(server.objects[STATE]["data"]["state"])
    found: list[Any] = state.get("memory", {}).get("lessons", [])
    return found


def ceilings(server: ApiServer) -> list[int]:
    return [one["count"] for one in lessons(server) if one["kind"] == "ceiling"]


async def test_new_nodes_are_counted_with_the_ceiling_where_one_of_their_type_refused(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_refusing_node(server, clock)
        for number in range(6):
            put_pod(server, f"db-{number}", claims=[f"data-{number}"])
        async with autoscaling(server, cloud, clock):
            await until(lambda: bool(cloud.asked), clock=clock)
            assert cloud.asked == [("increase", "g", 2)]


async def test_limits_and_ceilings_of_a_type_are_kept_in_the_state(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_refusing_node(server, clock)
        async with autoscaling(server, Cloud(server), clock):
            await until(lambda: bool(lessons(server)), clock=clock)
            found = [(one["instanceType"], one["kind"], one["count"]) for one in lessons(server)]
            assert found == [("x1", "ceiling", 3), ("x1", "limit", 10)]


async def test_a_refusal_while_it_runs_is_learned_at_the_next_scan(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_refusing_node(server, clock)
        server.remove(REFUSED)
        async with autoscaling(server, Cloud(server), clock):
            await clock.sleep(15)
            refuse(server, clock)
            await clock.sleep(15)
            assert ceilings(server) == [3]


async def test_a_ceiling_outlives_its_refusal_and_a_restart(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_refusing_node(server, clock)
        async with autoscaling(server, cloud, clock):
            await until(lambda: bool(ceilings(server)), clock=clock)
        server.remove(REFUSED)
        for number in range(6):
            put_pod(server, f"db-{number}", claims=[f"data-{number}"])
        async with autoscaling(server, cloud, clock):
            await until(lambda: bool(cloud.asked), clock=clock)
            assert cloud.asked == [("increase", "g", 2)]


async def test_lessons_expire_after_the_time_that_is_configured(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_refusing_node(server, clock)
        async with autoscaling(server, Cloud(server), clock, learnedLimitsMaxAge=600):
            await until(lambda: bool(ceilings(server)), clock=clock)
            server.remove(REFUSED)
            await clock.sleep(1200)
            assert [one["kind"] for one in lessons(server)] == ["limit"]


async def test_what_an_operator_had_forgotten_is_not_written_again(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_refusing_node(server, clock)
        async with autoscaling(server, Cloud(server), clock):
            await until(lambda: bool(ceilings(server)), clock=clock)
            server.remove(REFUSED)
            store = StateStore(server.client(clock), namespace="kube-system")
            state = await store.load()
            kept = limit_lessons.forgotten(state.memory.lessons, instance_type="x1")
            memory = msgspec.structs.replace(state.memory, lessons=kept)
            await store.save(msgspec.structs.replace(state, memory=memory))
            await clock.sleep(900)
            # The node still shows its limit, and nothing refuses any more.
            assert [one["kind"] for one in lessons(server)] == ["limit"]

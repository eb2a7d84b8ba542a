"""A live cluster in which pods end: what is waited for, how long that took, and what is told."""

import msgspec

from tests.autoscaler.harness import (
    ATTACHMENTS,
    CLAIMS,
    DRIVER,
    PODS,
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
from tonnage.groups.memory import TemplateMemory
from tonnage.objects import timestamps
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

VOLUMES = "/api/v1/persistentvolumes"


def attached(server: ApiServer, name: str, node: str) -> None:
    """A pod with a volume that is attached to its node."""
    claim = builders.pvc(f"data-{name}", storage_class="fast", volume=f"pv-{name}")
    put(server, CLAIMS, claim)
    put(
        server,
        VOLUMES,
        builders.pv(f"pv-{name}", driver=DRIVER, storage_class="fast", claim=claim),
    )
    put(server, ATTACHMENTS, builders.attachment(f"pv-{name}", node, attacher=DRIVER))
    put(server, PODS, builders.pod(name, on=node, pvcs=[f"data-{name}"]))


def end(server: ApiServer, clock: VirtualClock, name: str, seconds: float) -> None:
    """The pod is being deleted, and will be gone by then."""
    pod = builders.pod(name, on="g-1", pvcs=[f"data-{name}"])
    moment = timestamps.rfc3339(clock.now().timestamp() + seconds)
    meta = msgspec.structs.replace(pod.metadata, deletion_timestamp=moment)
    put(server, PODS, msgspec.structs.replace(pod, metadata=meta))


def memory(server: ApiServer) -> TemplateMemory:
    text = server.objects[STATE]["data"]["state"]
    return msgspec.convert(msgspec.json.decode(text)["memory"], TemplateMemory)


async def test_a_pod_waits_for_a_slot_and_is_told(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "g-1", drivers={DRIVER: 1}, age=1800)
        attached(server, "old", "g-1")
        end(server, clock, "old", 8)
        cloud = Cloud(server, group(limit=1))
        async with autoscaling(server, cloud, clock) as program:
            put_pod(server, "db", claims=["data"])
            await clock.sleep(1)

            assert cloud.asked == []
            (told,) = status(server)["tonnage"]["lastDecision"]["waitingForFreedRoom"]
            assert (told["pod"], told["node"]) == ("default/db", "g-1")
            assert metric(program, "tonnage_waiting_for_freed_room") == 1
            (event,) = events(server, "WaitsForFreedRoom")
            assert "room on g-1 is free in about" in event["message"]


async def test_how_long_a_volume_took_to_detach_is_remembered(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "g-1", age=1800)
        attached(server, "old", "g-1")
        cloud = Cloud(server, group(limit=10))
        async with autoscaling(server, cloud, clock):
            server.remove(f"{PODS}/old")
            await clock.sleep(12)
            (path,) = (path for path in server.objects if path.startswith(ATTACHMENTS))
            server.remove(path)
            await clock.sleep(30)

            (seconds,) = memory(server).times.detach[DRIVER]
            assert 11 <= seconds <= 14


async def test_a_slot_that_does_not_come_free_is_bought_in_the_end(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "g-1", drivers={DRIVER: 1}, age=1800)
        attached(server, "old", "g-1")
        end(server, clock, "old", 8)
        cloud = Cloud(server, group(limit=1))
        async with autoscaling(server, cloud, clock):
            put_pod(server, "db", claims=["data"])
            await clock.sleep(90)

            assert [(name, nodes) for _, name, nodes in cloud.asked] == [("g", 1)]

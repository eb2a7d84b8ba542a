"""The controller on a loopback API server, in virtual time."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from tests.capacity.capacity_objects import NAMESPACE, driver
from tests.cluster.apiserver import ApiServer, Json
from tests.cluster.programs import running
from tonnage.capacity.program import CapacityProgram, CapacitySettings
from tonnage.capacity.sources import FileGroups
from tonnage.testing.clock import VirtualClock

NODES = "/api/v1/nodes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
OBJECTS = f"/apis/storage.k8s.io/v1/namespaces/{NAMESPACE}/csistoragecapacities"
THEIRS = "/apis/storage.k8s.io/v1/namespaces/driver/csistoragecapacities"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


def put(server: ApiServer, collection: str, *objects: object) -> None:
    for one in objects:
        server.put(collection, msgspec.to_builtins(one))


def started(server: ApiServer) -> None:
    put(server, DRIVERS, driver())


def published(server: ApiServer) -> dict[str, Json]:
    return {
        path.rpartition("/")[2]: obj
        for path, obj in server.objects.items()
        if path.startswith(f"{OBJECTS}/")
    }


def only(server: ApiServer) -> Json:
    (found,) = published(server).values()
    return found


def writes(server: ApiServer) -> list[tuple[str, str]]:
    """Requests that change capacity objects, in order."""
    return [
        (one.method, one.path.removeprefix(OBJECTS).strip("/"))
        for one in server.requests
        if one.method != "GET" and one.path.startswith(OBJECTS)
    ]


def events(server: ApiServer, reason: str) -> list[Json]:
    return [
        obj
        for path, obj in server.objects.items()
        if "/events/" in path and obj["reason"] == reason
    ]


def a_program(
    server: ApiServer,
    clock: VirtualClock,
    *,
    identity: str = "a",
    files: FileGroups | None = None,
    **settings: object,
) -> CapacityProgram:
    given = {"leader_elect": False, "address": "127.0.0.1:0", "namespace": NAMESPACE, **settings}
    numbers = iter(range(10**9))
    return CapacityProgram(
        server.client(clock),
        settings=CapacitySettings(identity=identity, **given),  # type: ignore[arg-type]
        files=files,
        clock=clock,
        rng=random.Random(identity),
        new_id=lambda: f"{identity}{next(numbers)}",
    )


@asynccontextmanager
async def controlling(
    server: ApiServer, clock: VirtualClock, **settings: object
) -> AsyncIterator[CapacityProgram]:
    """A controller that has looked once."""
    program = a_program(server, clock, **settings)  # type: ignore[arg-type]
    async with running(program, server, clock):
        await until(lambda: program.syncer.report is not None, clock)
        yield program


async def until(condition: Callable[[], bool], clock: VirtualClock, within: float = 60.0) -> None:
    deadline = clock.monotonic() + within
    while not condition():
        assert clock.monotonic() < deadline, "it never came to be so"
        await clock.sleep(0.2)

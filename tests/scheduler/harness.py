"""A cluster in one process and in virtual time: a scheduler, and whoever makes volumes, on it."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import msgspec

from tonnage.cluster.client import Client, PatchStyle
from tonnage.cluster.records import Event
from tonnage.cluster.transport import HttpRequest, Response, Stream, Transport
from tonnage.embedded.apiserver import ApiServer, InProcessTransport
from tonnage.embedded.world import Delay, DriverBehaviour, EmbeddedWorld, WorldBehaviour
from tonnage.objects.meta import Condition, OwnerReference
from tonnage.objects.pods import Pod
from tonnage.scheduler.config import SchedulerConfig
from tonnage.scheduler.pod_status import scheduled_condition
from tonnage.scheduler.program import SchedulerProgram, SchedulerSettings
from tonnage.service.config_file import ConfigFile
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

NAME = "tonnage"
DRIVER = "ebs.csi.aws.com"
REPLICA = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="db", controller=True)

T = TypeVar("T")
Fault = Callable[[HttpRequest], Response | None]


class FaultyTransport:
    """Answers as `fault` says, if it says anything; notes what is sent."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.fault: Fault = lambda _: None
        self.sent: list[HttpRequest] = []

    async def send(self, request: HttpRequest) -> Response:
        self.sent.append(request)
        told = self.fault(request)
        return told if told is not None else await self._transport.send(request)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[Stream]:
        self.sent.append(request)
        told = self.fault(request)
        if told is not None:
            yield Stream(status=told.status, chunks=_nothing())
            return
        async with self._transport.stream(request) as stream:
            yield stream

    async def close(self) -> None:
        await self._transport.close()


async def _nothing() -> AsyncIterator[bytes]:
    yield b""


class Cluster:
    """Words for what a test puts in and sees."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.server = ApiServer(clock=clock, rng=random.Random(1))
        self.transport = FaultyTransport(InProcessTransport(self.server))
        self.client = self.client_for("test")
        self.program: SchedulerProgram

    def client_for(self, seed: str, *, faulty: bool = False) -> Client:
        transport = self.transport if faulty else InProcessTransport(self.server)
        return Client(transport, clock=self.clock, rng=random.Random(seed))

    async def add(self, *objects: Any) -> None:
        """Create objects; what they say of their status holds too."""
        for obj in objects:
            made = await self.client.create(type(obj), obj)
            status = getattr(obj, "status", None)
            if status is not None and status != type(status)():
                await self.client.patch(
                    type(obj),
                    made.metadata.name,
                    {"status": msgspec.to_builtins(status)},
                    namespace=made.metadata.namespace,
                    subresource="status",
                )

    async def node(
        self, name: str, *, drivers: dict[str, int | None] | None = None, **more: Any
    ) -> None:
        made = builders.node(name, **more)
        ready = (Condition(type="Ready", status="True"),)
        await self.add(
            msgspec.structs.replace(
                made, status=msgspec.structs.replace(made.status, conditions=ready)
            )
        )
        if drivers is not None:
            await self.add(builders.csinode(name, drivers))

    async def pod(self, name: str, *, preempts: bool = True, **more: Any) -> None:
        await self.add(a_pod(name, preempts=preempts, **more))

    async def get(self, kind: type[T], name: str, *, namespace: str = "default") -> T:
        return await self.client.get(kind, name, namespace=namespace)  # type: ignore[type-var]

    async def where(self, name: str) -> str:
        return (await self.get(Pod, name)).spec.node_name

    async def condition(self, name: str) -> Condition | None:
        return scheduled_condition(await self.get(Pod, name))

    async def patch(self, kind: type[Any], name: str, change: object, **more: Any) -> None:
        await self.client.patch(kind, name, change, style=PatchStyle.MERGE, **more)

    async def bound(self, *names: str, within: float = 60.0) -> dict[str, str]:
        """Wait until pods have nodes; gives them."""
        deadline = self.clock.monotonic() + within
        while True:
            found = {name: await self.where(name) for name in names}
            if all(found.values()):
                return found
            assert self.clock.monotonic() < deadline, f"still without a node: {found}"
            await self.clock.sleep(0.1)

    async def refused(self, name: str, *, within: float = 60.0) -> str:
        """Wait until a pod is told that there is no node for it; gives the words."""
        deadline = self.clock.monotonic() + within
        while True:
            found = await self.condition(name)
            if found is not None and found.status == "False" and found.reason != "SchedulingGated":
                return found.message
            assert self.clock.monotonic() < deadline, "it was never told anything"
            await self.clock.sleep(0.1)

    async def events(self, reason: str) -> list[Event]:
        listing = await self.client.list(Event)
        return [one for one in listing.items if one.reason == reason]

    def metric(self, name: str, **labels: str) -> float | None:
        return self.program.metrics.registry.get_sample_value(name, labels)


def a_pod(name: str, *, preempts: bool = True, on: str = "", **more: Any) -> Pod:
    """A pod for our scheduler, unless it is on a node already."""
    made = builders.pod(name, on=on, **more)
    spec = msgspec.structs.replace(
        made.spec,
        scheduler_name="default-scheduler" if on else NAME,
        preemption_policy="" if preempts else "Never",
        containers=tuple(
            msgspec.structs.replace(one, name=one.name or "main") for one in made.spec.containers
        ),
    )
    return msgspec.structs.replace(made, spec=spec)


def a_program(
    cluster: Cluster, *, identity: str = "a", elect: bool = False, **given: Any
) -> SchedulerProgram:
    numbers = iter(range(10**9))
    return SchedulerProgram(
        cluster.client_for(identity, faulty=True),
        config=ConfigFile(None, SchedulerConfig, given=given),
        settings=SchedulerSettings(
            identity=identity, address="", leader_elect=elect, scheduler_name=NAME
        ),
        server_version="v1.37.0",
        clock=cluster.clock,
        rng=random.Random(identity),
        new_id=lambda: f"{identity}{next(numbers)}",
    )


@asynccontextmanager
async def running(*programs: SchedulerProgram) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(one.run()) for one in programs]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@asynccontextmanager
async def scheduling(clock: VirtualClock, **given: Any) -> AsyncIterator[Cluster]:
    """An empty cluster whose scheduler runs."""
    async with scheduling_on(Cluster(clock), **given) as cluster:
        yield cluster


@asynccontextmanager
async def scheduling_on(
    cluster: Cluster,
    *,
    drivers: Sequence[DriverBehaviour] = (),
    provision: float = 0.5,
    **given: Any,
) -> AsyncIterator[Cluster]:
    """The scheduler runs; volumes are made and bound, pods run and end."""
    behaviour = WorldBehaviour(
        node_label="",
        csi_node_at_start=False,
        heartbeat=None,
        controllers=True,
        drivers=tuple(drivers),
        provision=Delay(provision),
    )
    played = EmbeddedWorld(cluster.client_for("world"), cluster.clock, behaviour, random.Random(2))
    playing = asyncio.ensure_future(played.run())
    cluster.program = a_program(cluster, **given)
    try:
        async with running(cluster.program):
            yield cluster
    finally:
        playing.cancel()
        with suppress(asyncio.CancelledError):
            await playing


async def claims(cluster: Cluster, names: Iterable[str], **more: Any) -> None:
    for name in names:
        await cluster.add(builders.pvc(name, storage_class="fast", **more))

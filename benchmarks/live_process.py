"""The autoscaler in a fresh process, against an API server that plays: what it takes and how fast.

What is measured is the process operators deploy, put together as `tonnage run` does it: watches
over HTTP, rounds that write their status, requests to a provider. The provider alone is made up: it
knows its machines and grants everything at once.
"""

import asyncio
import itertools
import random
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

import aiohttp
import msgspec

from benchmarks.live_server import FRESH
from benchmarks.measurement import Memory, memory
from benchmarks.workloads import EBS, ZONE
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.program import AutoscalerProgram, AutoscalerSettings, features_of
from tonnage.autoscaler.world import KINDS, ClusterView
from tonnage.clock import SystemClock
from tonnage.cluster.client import Client
from tonnage.cluster.config import Access, Endpoint
from tonnage.cluster.http import HttpTransport
from tonnage.groups.model import Group
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.scenarios import GroupTemplate
from tonnage.providers.protocol import GroupOptions, Instance
from tonnage.service.config_file import ConfigFile
from tonnage.testing import builders

_IDLE = 3600.0
"""A scan interval that never comes, so that only what is measured runs."""

_APART = 1.2
"""Seconds after which a pod is not taken for one of a burst, the rest of which is waited for."""

_PATIENCE = 120.0
"""Seconds for anything to happen; past it something is broken, not slow."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """How often to do what."""

    rounds: int
    events: int
    decisions: int


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds: on the clock, or of the processor where it says so."""

    nodes: int
    pods: int
    synced: float
    synced_cpu: float
    first_round: float
    resident: Memory
    quiet: list[float] = []
    """Processor time of rounds in which nothing had changed."""
    looked: list[float] = []
    """The same of rounds that had to look at every node again."""
    events: int = 0
    events_time: float = 0.0
    events_cpu: float = 0.0
    latencies: list[float] = []
    """From the moment a pod's event was taken in to the request to the provider."""
    rebuild: float = 0.0
    """To build the snapshot anew, as others do for every decision."""


class MadeUpProvider:
    """A group for each pool and zone of the nodes there are; requests only move targets."""

    def __init__(self, world: ClusterView) -> None:
        self._world = world
        self._groups: dict[str, Group] = {}
        self._machines: dict[str, list[Instance]] = {}
        self.asked_at: list[float] = []

    async def refresh(self) -> None:
        if self._groups:
            return
        members: defaultdict[str, list[Node]] = defaultdict(list)
        for node in self._world.cache(Node):
            labels = node.metadata.labels
            members[f"{labels['pool']}-{labels[ZONE]}"].append(node)
        for name, nodes in sorted(members.items()):
            names = tuple(node.metadata.name for node in nodes)
            self._groups[name] = Group(
                id=name, max_size=10 * len(nodes), target=len(nodes), nodes=names
            )
            self._machines[name] = [
                Instance(id=node.spec.provider_id, state="running", node=node.metadata.name)
                for node in nodes
            ]
        # Whatever room there is elsewhere, what wants these nodes has to wait for a new one.
        self._groups[FRESH] = Group(
            id=FRESH,
            max_size=10_000,
            target=0,
            provider_template=GroupTemplate(
                node=builders.node("template", cpu="16", labels={"pool": FRESH, ZONE: "eu-1a"}),
                csi_node=builders.csinode("template", {EBS: 24}),
            ),
        )
        self._machines[FRESH] = []

    async def groups(self) -> Sequence[Group]:
        return list(self._groups.values())

    async def problems(self) -> list[str]:
        return []

    async def instances(self, group: str) -> Sequence[Instance]:
        return list(self._machines[group])

    async def template(self, _: str) -> GroupTemplate | None:
        return None

    async def price(self, _: str) -> float | None:
        return None

    async def options(self, _: str) -> GroupOptions:
        return GroupOptions()

    async def increase(self, group: str, delta: int) -> None:
        self.asked_at.append(time.monotonic())
        known = self._groups[group]
        self._groups[group] = msgspec.structs.replace(known, target=known.target + delta)

    async def delete(self, group: str, nodes: Sequence[str]) -> None:
        raise NotImplementedError

    async def decrease_target(self, group: str, delta: int) -> None:
        raise NotImplementedError


async def measure(url: str, work: Work, *, path: str) -> Measured:
    """Start, sync, and do the work. `path` is where the server has the API."""
    started, started_cpu = time.monotonic(), time.process_time()
    clock = SystemClock()
    rng = random.Random(1)
    transport = HttpTransport(Access(endpoint=Endpoint(server=url + path)), clock=clock, environ={})
    provider: list[MadeUpProvider] = []

    def make(world: ClusterView) -> MadeUpProvider:
        provider.append(MadeUpProvider(world))
        return provider[0]

    numbers = itertools.count()
    program = AutoscalerProgram(
        Client(transport, clock=clock, rng=rng),
        make,
        config=ConfigFile(None, AutoscalerConfig, given={"scanInterval": _IDLE}),
        settings=AutoscalerSettings(identity="bench", address="127.0.0.1:0", leader_elect=False),
        server_version="v1.37.0",
        clock=clock,
        rng=rng,
        new_id=lambda: str(next(numbers)),
    )
    running = asyncio.ensure_future(program.run())
    world = program.world
    for kind in KINDS:
        await world.cache(kind).wait_synced()
    synced, synced_cpu = time.monotonic() - started, time.process_time() - started_cpu
    autoscaler = program.autoscaler
    await autoscaler.guarded_round()
    assert autoscaler.report is not None
    assert autoscaler.report.plan is not None, autoscaler.report.held
    found = Measured(
        nodes=len(world.cache(Node)),
        pods=len(world.cache(Pod)),
        synced=synced,
        synced_cpu=synced_cpu,
        first_round=time.monotonic() - started - synced,
        resident=memory(),
    )
    async with aiohttp.ClientSession(url) as session:
        quiet = [await _cpu(autoscaler.guarded_round) for _ in range(work.rounds)]
        looked = [await _looking_again(session, program) for _ in range(work.rounds // 10)]
        events = await _events(session, world, work.events)
        latencies = [
            await _latency(session, program, provider[0], number)
            for number in range(work.decisions)
        ]
    before = time.process_time()
    world.settle(features_of(AutoscalerConfig(), "v1.37.0"), recount=True)
    rebuild = time.process_time() - before
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await transport.close()
    return msgspec.structs.replace(
        found,
        quiet=quiet,
        looked=looked,
        events=events[0],
        events_time=events[1],
        events_cpu=events[2],
        latencies=latencies,
        rebuild=rebuild,
    )


async def _cpu(action: Callable[[], Awaitable[object]]) -> float:
    started = time.process_time()
    await action()
    return time.process_time() - started


async def _looking_again(session: aiohttp.ClientSession, program: AutoscalerProgram) -> float:
    """A round after a node has changed, for which all of them are looked at again."""
    revision = program.world.revision
    async with session.post("/play/node") as response:
        response.raise_for_status()
    async with asyncio.timeout(_PATIENCE):
        while program.world.revision == revision:
            await asyncio.sleep(0.01)
    return await _cpu(program.autoscaler.guarded_round)


async def _events(
    session: aiohttp.ClientSession, world: ClusterView, count: int
) -> tuple[int, float, float]:
    """How many changes were played, and what it took to take them in."""
    seen = 0
    first: tuple[float, float] = (0.0, 0.0)
    last: tuple[float, float] = (0.0, 0.0)

    def note(_: object) -> None:
        nonlocal seen, first, last
        last = time.monotonic(), time.process_time()
        if not seen:
            first = last
        seen += 1

    leave = world.cache(Pod).subscribe(note)
    # Whoever subscribes is told of what is there first.
    seen = 0
    async with session.post(f"/play/changes/{count}") as response:
        response.raise_for_status()
        played = (await response.json())["events"]
    async with asyncio.timeout(_PATIENCE):
        while seen < played:
            await asyncio.sleep(0.05)
    leave()
    return played, last[0] - first[0], last[1] - first[1]


async def _latency(
    session: aiohttp.ClientSession,
    program: AutoscalerProgram,
    provider: MadeUpProvider,
    number: int,
) -> float:
    """One pod comes that needs a node; until the round that buys it is over."""
    await asyncio.sleep(_APART)
    autoscaler = program.autoscaler
    before, asked = autoscaler.report, len(provider.asked_at)
    key = f"team-000/waiting-{number}"
    async with session.post(f"/play/pending/{number}") as response:
        response.raise_for_status()
    async with asyncio.timeout(_PATIENCE):
        while autoscaler.report is before or len(provider.asked_at) == asked:
            await asyncio.sleep(0.01)
    return provider.asked_at[-1] - program.world.waiting[key]


if __name__ == "__main__":
    _, url, path, work = sys.argv
    report = asyncio.run(measure(url, msgspec.json.decode(work, type=Work), path=path))
    sys.stdout.buffer.write(msgspec.json.encode(report))

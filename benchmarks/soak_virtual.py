"""Hours of churn in virtual time: the autoscaler and the API in one process, and what has grown.

The provider, the loop and every rule are those of `tonnage run`; only the leader's lease and the
HTTP ports are left out. The way to the API is cut, a storm of changes makes watches begin anew, the
wall clock jumps, and the provider is slow, in turn. In the first quarter of the time the autoscaler
is started again before each of these; then it lives on to the end, and what has grown is its own.
"""

import asyncio
import gc
import itertools
import logging
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from benchmarks import soak_live, soak_process
from benchmarks.clusters import QUICK, SEED, LargeCluster, Size
from benchmarks.context import Context
from benchmarks.measurement import Row, memory
from benchmarks.soak import PODS_PER_NODE
from benchmarks.soak_churn import Churn, ChurnPace
from benchmarks.soak_judge import ChurnReport
from benchmarks.soak_live import SETTINGS, say
from tests.growth import grown, sizes
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.program import AutoscalerProgram, AutoscalerSettings
from tonnage.cluster.client import Client
from tonnage.embedded.apiserver import ApiServer, InProcessTransport
from tonnage.objects.scenarios import NodeGroup
from tonnage.providers.kwok import KwokProvider
from tonnage.service import lifecycle
from tonnage.service.config_file import ConfigFile
from tonnage.simulation.faults import CuttableTransport
from tonnage.testing.clock import VirtualClock
from tonnage.testing.clock import run as run_virtually

NAME = "soak-virtual"
_NODES = 1_000
_HOURS = 8.0
_PACE = ChurnPace(between=(30.0, 90.0), life=(60.0, 600.0), boot=30.0, changes_per_second=2.0)
_BOUNDED = ("RowTable._log", "VirtualClock._timers", "_Recent._entries", "DecisionLog.last")
"""Tables with a limit of their own."""
_OUTAGE = 60.0
_STORM = 6_000
_HOUR = 3600.0
_SLOW = 20.0
_SETTLED = 7_200.0
"""Seconds after which nothing of what is gone is waited for, learned from or reported any more."""


class Figures(msgspec.Struct, kw_only=True):
    size: Size
    hours: float
    processor: float
    interruptions: int
    before: int
    after: int
    """Resident bytes after a third of the time and at the end, API server included."""
    grown: dict[str, tuple[int, int]]
    churn: ChurnReport


def run(context: Context) -> Iterator[Row]:
    nodes = context.nodes or (QUICK.nodes if context.quick else _NODES)
    size = Size(nodes, nodes * PODS_PER_NODE)
    hours = context.minutes / 60 if context.minutes else 1 if context.quick else _HOURS
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "cluster.jsonl"
        cluster = LargeCluster(size)
        soak_process.write_data(cluster, path)
        clock = VirtualClock(horizon=hours * _HOUR + 2 * _SETTLED + 86_400)
        found = run_virtually(lambda: _Soak(cluster, path, clock).play(hours), clock=clock)
    yield from _rows(found)


def _rows(found: Figures) -> Iterator[Row]:
    everything = f"{found.size.nodes:,} nodes, {found.size.pods:,} pods"
    churn = found.churn
    yield Row(
        benchmark=NAME,
        case=f"{found.hours:g} hours, processor",
        work=f"{everything}, {churn.pods:,} new pods, {churn.changes:,} other changes",
        value=found.processor,
        plain=found.hours * _HOUR,
    )
    yield Row(
        benchmark=NAME,
        case="resident, with the API",
        work=f"after a third {found.before / 1e6:,.0f} MB; tables that grew: {len(found.grown)}",
        value=found.after,
        unit="B",
    )
    yield Row(
        benchmark=NAME,
        case=f"wrong actions: {len(churn.wrong)}",
        work=f"{churn.bought:,} nodes bought, {churn.removed:,} given back,"
        f" {found.interruptions} interruptions",
        value=found.hours * _HOUR,
    )
    for way, counts in found.grown.items():
        say(f"grown: {way} from {counts[0]:,} to {counts[1]:,}")
    for wrong in churn.wrong:
        say(f"wrong: {wrong}")


class SlowProvider(KwokProvider):
    """Thinks before it does something, and again before it says so."""

    delay = 0.0

    async def refresh(self) -> None:
        await self._clock.sleep(self.delay)
        await super().refresh()

    async def increase(self, group: str, delta: int) -> None:
        await self._clock.sleep(self.delay)
        await super().increase(group, delta)
        await self._clock.sleep(self.delay)

    async def delete(self, group: str, nodes: Sequence[str]) -> None:
        await self._clock.sleep(self.delay)
        await super().delete(group, nodes)
        await self._clock.sleep(self.delay)


class _Soak:
    def __init__(self, cluster: LargeCluster, path: Path, clock: VirtualClock) -> None:
        self._cluster, self._clock = cluster, clock
        # Not the numbers that the cluster is made from: no two objects may have one UID.
        self._server = ApiServer(clock=clock, rng=random.Random(f"API {SEED}"), data=path)
        self._way = CuttableTransport(InProcessTransport(self._server))
        groups = (msgspec.convert(one, NodeGroup) for one in soak_process.node_groups(cluster))
        self._groups = tuple(groups)
        self._starts = itertools.count(1)
        self._provider: SlowProvider
        self._program: AutoscalerProgram
        self._running: asyncio.Future[None]
        self._churn = Churn(
            InProcessTransport(self._server),
            clock=clock,
            seed=SEED,
            others=soak_live.others_of(cluster),
            pace=_PACE,
        )

    async def play(self, hours: float) -> Figures:
        # Watches fail, and are meant to.
        logging.getLogger("tonnage").setLevel(logging.ERROR)
        self._start()
        playing = asyncio.ensure_future(self._churn.run())
        acts = itertools.cycle((self._outage, self._storm, self._ahead, self._behind, self._slow))
        early = (one for act in acts for one in (self._restart, act))
        done, began = 0, time.process_time()
        tables, before = Counter[str](), 0
        while self._clock.monotonic() < hours * _HOUR:
            await self._clock.sleep(_HOUR / 6)
            for task in (playing, self._running):
                if task.done():
                    task.result()
            is_early = self._clock.monotonic() < hours * _HOUR / 4
            await next(early if is_early else acts)()
            done += 1
            say(
                f"{self._clock.monotonic() / _HOUR:.1f} h: {self._churn.judge.report.bought} nodes"
                f" bought, {memory().held / 1e6:,.0f} MB, {time.process_time() - began:.0f} s"
            )
            if not before and self._clock.monotonic() > hours * _HOUR / 3:
                tables, before = await self._sizes()
        self._churn.finish()
        until = self._clock.monotonic() + _SETTLED
        while not self._churn.settled and self._clock.monotonic() < until:
            await self._clock.sleep(10)
        if not self._churn.settled:
            self._churn.judge.report.wrong.append(f"not all was given back: {self._churn.left}")
        after, held = await self._sizes()
        await self._churn.check_the_rest(self._cluster.size)
        more = grown(tables, after, by=max(3, self._churn.judge.report.pods // 100))
        playing.cancel()
        self._running.cancel()
        await asyncio.gather(playing, self._running, return_exceptions=True)
        return Figures(
            size=self._cluster.size,
            hours=hours,
            processor=time.process_time() - began,
            interruptions=done,
            before=before,
            after=held,
            grown={way: each for way, each in more.items() if not way.endswith(_BOUNDED)},
            churn=self._churn.judge.report,
        )

    async def _sizes(self) -> tuple[Counter[str], int]:
        self._program.world.snapshot.tidy()
        gc.collect()
        return sizes([self._program]), memory().held

    def _start(self) -> None:
        number = next(self._starts)
        rng, clock = random.Random(number), self._clock
        client = Client(self._way, clock=clock, rng=rng)
        self._provider = SlowProvider(client, clock, self._groups, namespace="kube-system", rng=rng)
        ids = itertools.count()
        self._program = AutoscalerProgram(
            client,
            lambda _: self._provider,
            config=ConfigFile(None, AutoscalerConfig, given=SETTINGS),
            settings=AutoscalerSettings(identity=f"soak-{number}", leader_elect=False),
            server_version="v1.37.0",
            clock=clock,
            rng=rng,
            new_id=lambda: f"{number}-{next(ids)}",
        )
        self._running = asyncio.ensure_future(_lived(self._program))

    # What happens to it

    async def _outage(self) -> None:
        with self._churn.judge.troubled():
            self._way.cut(["*"], "none")
            await self._clock.sleep(_OUTAGE)
            self._way.mend(["*"])
            await self._clock.sleep(_OUTAGE)

    async def _storm(self) -> None:
        with self._churn.judge.troubled():
            await self._churn.storm(_STORM)

    async def _ahead(self) -> None:
        await self._jump(_HOUR)

    async def _behind(self) -> None:
        await self._jump(-_HOUR)

    async def _jump(self, seconds: float) -> None:
        # Judged like any other time: nobody notices a clock that jumps.
        self._clock.step(seconds)
        await self._clock.sleep(_OUTAGE)
        self._clock.step(-seconds)
        await self._clock.sleep(_OUTAGE)

    async def _slow(self) -> None:
        with self._churn.judge.troubled():
            self._provider.delay = _SLOW
            await self._clock.sleep(5 * _OUTAGE)
            self._provider.delay = 0.0
            await self._clock.sleep(2 * _SLOW)

    async def _restart(self) -> None:
        with self._churn.judge.troubled():
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running
            await self._clock.sleep(_OUTAGE)
            self._start()
            await self._clock.sleep(_OUTAGE)


async def _lived(program: AutoscalerProgram) -> None:
    async with lifecycle.beside(program.world.mirror.run(), program.recorder.run()):
        await program.autoscaler.run()

"""One replica of the controller: caches, lease, HTTP, until somebody says stop."""

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack

from tonnage.capacity import sources
from tonnage.capacity.changes import removals
from tonnage.capacity.conventions import OURS, Convention
from tonnage.capacity.desired import Rules
from tonnage.capacity.node_kinds import Grouping
from tonnage.capacity.report import CapacityMetrics
from tonnage.capacity.sources import FileGroups, GroupSource
from tonnage.capacity.step_writer import Rate, StepOutcome, StepWriter
from tonnage.capacity.sync import Caches, Syncer, SyncPace
from tonnage.clock import Clock
from tonnage.cluster.client import Client, Selection
from tonnage.cluster.events import Recorder
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.records import ConfigMap
from tonnage.errors import ClusterError, InputError
from tonnage.objects.labels import INSTANCE_TYPE
from tonnage.objects.storage import CSIStorageCapacity
from tonnage.service import lifecycle
from tonnage.service.cache_metrics import CacheCollector
from tonnage.service.leader_election import LeaderCandidate, Leadership
from tonnage.service.status_server import StatusServer

COMPONENT = "tonnage-capacity-templates"
LEASE_NAME = "tonnage-capacity-templates"

_ONCE_WITHIN = 120.0
"""Seconds for the caches to fill when there is to be only one look."""


class CapacitySettings(LeaderCandidate, frozen=True, kw_only=True):
    """What is settled when the process starts. Objects are published where the lease is kept."""

    groupings: tuple[Grouping, ...] = ((INSTANCE_TYPE,),)
    convention: Convention = OURS
    address: str = ":8085"
    lease_name: str = LEASE_NAME
    rate: Rate = Rate()
    pace: SyncPace = SyncPace()
    node_groups_configmap: str = ""
    once: bool = False

    @property
    def rules(self) -> Rules:
        return Rules(namespace=self.namespace, groupings=self.groupings, convention=self.convention)


class CapacityController:
    """Publishes from caches and for node groups that others keep.

    It has a lease of its own, so that whoever leads there need not lead here.
    """

    def __init__(
        self,
        client: Client,
        caches: Caches,
        groups: GroupSource,
        *,
        settings: CapacitySettings,
        clock: Clock,
        rng: random.Random,
        new_id: Callable[[], str],
    ) -> None:
        self.metrics = CapacityMetrics()
        self.recorder = Recorder(
            client, component=COMPONENT, instance=settings.identity, clock=clock, new_id=new_id
        )
        self.leadership = Leadership(
            client, settings, clock=clock, rng=rng, told=self.metrics.leading
        )
        self.syncer = Syncer(
            client,
            caches,
            groups,
            rules=settings.rules,
            clock=clock,
            rng=rng,
            metrics=self.metrics,
            recorder=self.recorder,
            leading=self.leadership.leading,
            rate=settings.rate,
            pace=settings.pace,
            dry_run=settings.dry_run,
        )

    async def run(self) -> None:
        """Until cancelled."""
        async with lifecycle.beside(self.recorder.run()):
            await self.leadership.act(self.syncer.run)


class CapacityProgram(CapacityController):
    """The controller as a process of its own."""

    def __init__(
        self,
        client: Client,
        *,
        settings: CapacitySettings,
        files: FileGroups | None,
        clock: Clock,
        rng: random.Random,
        new_id: Callable[[], str],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self.mirror = Mirror(client, clock=clock, rng=rng)
        caches = Caches.of(self.mirror.add)
        groups = self._source(caches, files)
        super().__init__(
            client, caches, groups, settings=settings, clock=clock, rng=rng, new_id=new_id
        )
        if self._config_maps is not None:
            self._config_maps.subscribe(lambda _: self.syncer.wake())
        self.metrics.registry.register(CacheCollector(self.mirror))
        self.server = StatusServer(
            settings.address,
            alive=str,
            ready=self.unready,
            registry=self.metrics.registry,
            documents={"/status": self.status},
        )

    async def run(self) -> None:
        """Until cancelled; one look and no HTTP if that is all that is wanted."""
        async with AsyncExitStack() as stack:
            if not self._settings.once:
                await stack.enter_async_context(self.server.listening())
            helpers = lifecycle.beside(self.mirror.run(), self.recorder.run())
            await stack.enter_async_context(helpers)
            work = self._one_look if self._settings.once else self.syncer.run
            await self.leadership.act(work)

    def unready(self) -> str:
        """Whether too little is known to publish."""
        lacking = self.syncer.unsynced()
        if lacking:
            obstacles = [one.obstacle.message for one in self.mirror.status if one.obstacle]
            return "; ".join((f"not synced: {', '.join(lacking)}", *obstacles))
        return ""

    def status(self) -> dict[str, object]:
        """Everything the last look found."""
        return {
            "leader": self.leadership.lease.leader,
            "unready": self.unready(),
            "nodeGroups": self.syncer.groups_problem or "ok",
            "report": self.syncer.report,
        }

    async def _one_look(self) -> None:
        deadline = self._clock.monotonic() + _ONCE_WITHIN
        while await self.syncer.once() is None:
            if self._clock.monotonic() > deadline:
                raise ClusterError(self.unready() or self.syncer.groups_problem)
            await self._clock.sleep(0.2)
        await self.recorder.flush()
        report = self.syncer.report
        if report is not None and report.failing:
            name, error = next(iter(report.failing.items()))
            raise ClusterError(
                f"{len(report.failing)} objects not written, such as {name}: {error}"
            )

    def _source(self, caches: Caches, files: FileGroups | None) -> GroupSource:
        name = self._settings.node_groups_configmap
        self._config_maps = None
        if name:
            here = Selection(namespace=self._settings.namespace, fields=f"metadata.name={name}")
            self._config_maps = self.mirror.add(ConfigMap, here)
            return sources.from_config_map(self._config_maps, name, caches.nodes)
        return sources.from_files(files, caches.nodes) if files is not None else sources.none()


async def uninstall(
    client: Client, settings: CapacitySettings, *, clock: Clock, rng: random.Random
) -> int:
    """Delete every object of ours, and say how many; not while a controller leads."""
    lease = Leadership(client, settings, clock=clock, rng=rng).lease
    started = asyncio.Event()
    outcomes: list[StepOutcome] = []

    async def work() -> None:
        started.set()
        here = Selection(namespace=settings.namespace)
        listing = await client.list(CSIStorageCapacity, here)
        writer = StepWriter(client, clock=clock, rng=rng, rate=settings.rate)
        outcomes.extend(await writer.carry_out(removals(listing.items, settings.rules)))

    if settings.leader_elect:
        leading = asyncio.ensure_future(lease.lead(work))
        try:
            async with clock.timeout(2 * settings.timing.lease_duration):
                await started.wait()
            await leading
        except TimeoutError:
            raise InputError(
                f"Lease {settings.namespace}/{settings.lease_name} is held by"
                f" {lease.leader or 'nobody we know'}: stop the controller first, or it publishes"
                " everything again"
            ) from None
        finally:
            leading.cancel()
            await asyncio.gather(leading, return_exceptions=True)
    else:
        await work()
    failed = [outcome.error for outcome in outcomes if outcome.error]
    if failed:
        raise ClusterError(f"{len(failed)} objects not deleted, such as: {failed[0]}")
    return len(outcomes)

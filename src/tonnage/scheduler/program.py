"""All of it put together: caches, lease, scheduler and HTTP, until somebody says stop."""

import logging
import random
from collections.abc import Callable
from contextlib import AsyncExitStack

import msgspec

from tonnage.clock import Clock
from tonnage.cluster.client import Client
from tonnage.cluster.events import Limits, Recorder
from tonnage.cluster.lease import Hooks, LeaderLease, Timing
from tonnage.cluster.reflector import Pace
from tonnage.errors import ClusterError
from tonnage.filters.features import NEWEST, Features
from tonnage.scheduler.config import SchedulerConfig
from tonnage.scheduler.loop import Scheduler
from tonnage.scheduler.metrics import Metrics
from tonnage.scheduler.queue import SchedulingQueue
from tonnage.scheduler.world import SchedulerWorld
from tonnage.service import running
from tonnage.service.cachemetrics import CacheCollector
from tonnage.service.configfile import ConfigFile
from tonnage.service.serving import Server

_log = logging.getLogger(__name__)

_EVENTS = Limits(queue=10_000)
"""A burst of pods is a burst of events."""

_SILENT = 120.0
"""Seconds without a round after which a leader had better be started again."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What is settled when the process starts, unlike `SchedulerConfig`.

    Without an address nothing is served.
    """

    scheduler_name: str = "tonnage"
    namespace: str = "kube-system"
    identity: str
    address: str = ":10269"
    lease_name: str = "tonnage-scheduler"
    leader_elect: bool = True
    timing: Timing = Timing()
    together: bool = True
    """Pods of a kind are decided together; one after the other only to measure against."""


class SchedulerProgram:
    """One replica. Its parts are there to be asked; `run` brings them to life."""

    def __init__(
        self,
        client: Client,
        *,
        config: ConfigFile[SchedulerConfig],
        settings: Settings,
        server_version: str,
        clock: Clock,
        rng: random.Random,
        new_id: Callable[[], str],
        pace: Pace | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._version = server_version
        self.world = SchedulerWorld(
            client, clock=clock, rng=rng, features=self._features(config.current), pace=pace
        )
        self.recorder = Recorder(
            client,
            component=settings.scheduler_name,
            instance=settings.identity,
            clock=clock,
            new_id=new_id,
            limits=_EVENTS,
        )
        self.lease = LeaderLease(
            client,
            name=settings.lease_name,
            namespace=settings.namespace,
            identity=settings.identity,
            clock=clock,
            rng=rng,
            timing=settings.timing,
            hooks=Hooks(leading=self._leads),
        )
        queue = SchedulingQueue()
        self.metrics = Metrics(queue, profile=settings.scheduler_name)
        self.scheduler = Scheduler(
            self.world,
            client,
            name=settings.scheduler_name,
            config=config,
            features=self._features,
            clock=clock,
            rng=rng,
            recorder=self.recorder,
            queue=queue,
            metrics=self.metrics,
            leading=self.lease.leading if settings.leader_elect else lambda: True,
            together=settings.together,
        )
        self.metrics.registry.register(CacheCollector(self.world.mirror))
        self.server: Server | None = None
        if settings.address:
            self.server = Server(
                settings.address,
                alive=self.unhealthy,
                ready=self.unready,
                registry=self.metrics.registry,
                documents={"/status": self.status},
            )

    async def run(self) -> None:
        """Until cancelled."""
        async with AsyncExitStack() as stack:
            if self.server is not None:
                await self.server.start()
                stack.push_async_callback(self.server.close)
                _log.info("listening", extra={"port": self.server.port})
            helpers = running.beside(
                self.world.mirror.run(), self.recorder.run(), self.scheduler.statuses.run()
            )
            await stack.enter_async_context(helpers)
            if self._settings.leader_elect:
                await running.lead_again_and_again(
                    self.lease, self.scheduler.run, clock=self._clock
                )
            else:
                await self.scheduler.run()

    def unhealthy(self) -> str:
        """Whether the process had better be started again."""
        if self._settings.leader_elect and not self.lease.leading():
            return ""
        if self.scheduler.hold:
            return ""
        idle = self._clock.monotonic() - self.scheduler.active_at
        return f"Error: last activity {idle:.0f} s ago" if idle > _SILENT else ""

    def unready(self) -> str:
        """Whether the caches are not full yet."""
        missing = [
            one.kind for one in self.world.mirror.status if not one.synced and one.obstacle is None
        ]
        return f"not synced: {', '.join(missing)}" if missing else ""

    def status(self) -> dict[str, object]:
        """Who waits where and for what, and what keeps us from scheduling, if anything."""
        return {
            "leading": self.lease.leading() or not self._settings.leader_elect,
            "hold": self.scheduler.hold,
            "problems": list(self.world.trust().problems),
            "queues": {
                place.value: count for place, count in self.scheduler.queue.counts().items()
            },
            "refusedBy": self.scheduler.queue.refusals(),
            "beingBound": sorted(self.world.assumed),
        }

    def _leads(self, leads: bool) -> None:
        self.metrics.leading(leads, lease=self._settings.lease_name)
        extra = {"identity": self._settings.identity}
        _log.info("leading" if leads else "not leading", extra=extra)

    def _features(self, config: SchedulerConfig) -> Features:
        return features_of(config, self._version)


async def start(
    client: Client,
    *,
    config: ConfigFile[SchedulerConfig],
    settings: Settings,
    clock: Clock,
    rng: random.Random,
    new_id: Callable[[], str],
) -> None:
    """Find out whom we talk to, then run until cancelled."""
    while True:
        try:
            version = await client.version()
            break
        except ClusterError as error:
            _log.warning("API server not reached", extra={"error": str(error)})
            await clock.sleep(5.0)
    extra = {"kubernetes": version, "scheduler_name": settings.scheduler_name}
    _log.info("starting", extra=extra)
    program = SchedulerProgram(
        client,
        config=config,
        settings=settings,
        server_version=version,
        clock=clock,
        rng=rng,
        new_id=new_id,
    )
    await program.run()


def features_of(config: SchedulerConfig, server_version: str) -> Features:
    """The newest rules, whatever the server: the opt-in holds on every version.

    Only what nodes of the server's age cannot declare is not asked of them.
    """
    parts = server_version.removeprefix("v").split(".")
    try:
        minor = int("".join(one for one in parts[1] if one.isdigit()))
    except (IndexError, ValueError):
        minor = NEWEST[1]
    return Features(
        node_declared_features=minor >= 36,
        returning_volume_once=True,
        legacy_attach_limits=config.legacy_attach_limits,
    )

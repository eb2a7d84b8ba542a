"""All of it put together: caches, lease, scheduler and HTTP, until somebody says stop."""

import logging
import random
from collections.abc import Callable
from contextlib import AsyncExitStack

from tonnage.clock import Clock
from tonnage.cluster.client import Client
from tonnage.cluster.events import Limits, Recorder
from tonnage.rules import features as gates
from tonnage.rules.features import Features
from tonnage.rules.opt_in import SCHEDULER_NAME
from tonnage.scheduler.config import SchedulerConfig
from tonnage.scheduler.loop import Scheduler
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.queue import SchedulingQueue
from tonnage.scheduler.scheduler_cache import SchedulerCache
from tonnage.service import cache_metrics, connections, lifecycle
from tonnage.service.cache_metrics import CacheCollector
from tonnage.service.config_file import ConfigFile
from tonnage.service.leader_election import LeaderCandidate, Leadership
from tonnage.service.status_server import StatusServer

_log = logging.getLogger(__name__)

_EVENTS = Limits(queue=10_000)
"""A burst of pods is a burst of events."""

_SILENT = 120.0
"""Seconds without a round after which a leader had better be started again."""


class SchedulerSettings(LeaderCandidate, frozen=True, kw_only=True):
    """What is settled when the process starts, unlike `SchedulerConfig`.

    Without an address nothing is served.
    """

    scheduler_name: str = SCHEDULER_NAME
    address: str = ":10269"
    lease_name: str = "tonnage-scheduler"
    together: bool = True
    """Pods of a kind are decided together; one after the other only to measure against."""


class SchedulerProgram:
    """One replica. Its parts are there to be asked; `run` brings them to life."""

    def __init__(
        self,
        client: Client,
        *,
        config: ConfigFile[SchedulerConfig],
        settings: SchedulerSettings,
        server_version: str,
        clock: Clock,
        rng: random.Random,
        new_id: Callable[[], str],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._version = server_version
        self.world = SchedulerCache(
            client, clock=clock, rng=rng, features=self._features(config.current)
        )
        self.world.mirror.check_interval = lambda: config.current.cache_check_interval
        self.recorder = Recorder(
            client,
            component=settings.scheduler_name,
            instance=settings.identity,
            clock=clock,
            new_id=new_id,
            limits=_EVENTS,
        )
        self.leadership = Leadership(client, settings, clock=clock, rng=rng, told=self._leads)
        queue = SchedulingQueue()
        self.metrics = SchedulerMetrics(queue, profile=settings.scheduler_name)
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
            leading=self.leadership.leading,
            together=settings.together,
        )
        self.metrics.registry.register(CacheCollector(self.world.mirror))
        self.server: StatusServer | None = None
        if settings.address:
            self.server = StatusServer(
                settings.address,
                alive=self.unhealthy,
                ready=self.unready,
                registry=self.metrics.registry,
                documents={"/status": self.status},
                details=lambda: cache_metrics.ages(self.world.mirror),
            )

    async def run(self) -> None:
        """Until cancelled."""
        async with AsyncExitStack() as stack:
            if self.server is not None:
                await stack.enter_async_context(self.server.listening())
            helpers = lifecycle.beside(
                self.world.mirror.run(), self.recorder.run(), self.scheduler.statuses.run()
            )
            await stack.enter_async_context(helpers)
            await self.leadership.act(self.scheduler.run)

    def unhealthy(self) -> str:
        """Whether the process had better be started again."""
        if not self.leadership.leading() or self.scheduler.hold:
            return ""
        idle = self._clock.monotonic() - self.scheduler.active_at
        return f"Error: last activity {idle:.0f} s ago" if idle > _SILENT else ""

    def unready(self) -> str:
        """Whether the caches are not full yet."""
        return self.world.unsynced()

    def status(self) -> dict[str, object]:
        """Who waits where and for what, and what keeps us from scheduling, if anything."""
        return {
            "leading": self.leadership.leading(),
            "hold": self.scheduler.hold,
            "problems": [*self.world.trust().problems, *self.scheduler.booked.problems()],
            "queues": {
                place.value: count for place, count in self.scheduler.queue.counts().items()
            },
            "refusedBy": self.scheduler.queue.refusals(),
            "beingBound": sorted(self.world.assumed),
            "caches": cache_metrics.documents(self.world.mirror),
        }

    def _leads(self, leads: bool) -> None:
        self.metrics.leading(leads, lease=self._settings.lease_name)

    def _features(self, config: SchedulerConfig) -> Features:
        return features_of(config, self._version)


async def start(
    client: Client,
    *,
    config: ConfigFile[SchedulerConfig],
    settings: SchedulerSettings,
    clock: Clock,
    rng: random.Random,
    new_id: Callable[[], str],
) -> None:
    """Find out whom we talk to, then run until cancelled."""
    version = await connections.server_version(client, clock=clock)
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
    server = gates.of_version(gates.nearest_version(server_version))
    return Features(
        enforce_opt_in=True,
        node_declared_features=server.node_declared_features,
        returning_volume_once=True,
        legacy_attach_limits=config.legacy_attach_limits,
        max_pd_vols=config.kube_max_pd_vols,
    )

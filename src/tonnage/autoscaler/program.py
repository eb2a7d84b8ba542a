"""All of it put together: caches, lease, loop and HTTP, until somebody says stop."""

import gc
import logging
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from typing import Any

from tonnage.autoscaler import room_report
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.consolidation.recordings import RecordedConsolidation
from tonnage.autoscaler.consolidation.report import ConsolidationDocument
from tonnage.autoscaler.loop import NO_GROUPS, Autoscaler
from tonnage.autoscaler.metrics import AutoscalerMetrics
from tonnage.autoscaler.room_report import RoomDocument
from tonnage.autoscaler.scaledown.report import ScaleDownDocument, document
from tonnage.autoscaler.world import KINDS, ClusterView
from tonnage.clock import Clock
from tonnage.cluster.cache import Cache
from tonnage.cluster.client import Client
from tonnage.cluster.events import Limits, Recorder
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.timestamps import rfc3339
from tonnage.providers.measured import MeasuredProvider
from tonnage.providers.protocol import Provider
from tonnage.rules import features as gates
from tonnage.rules import opt_in
from tonnage.rules.features import Features
from tonnage.service import cache_metrics, connections, lifecycle, workers
from tonnage.service.cache_metrics import CacheCollector, EventCollector
from tonnage.service.config_file import ConfigFile
from tonnage.service.debug import DebugServer
from tonnage.service.leader_election import LeaderCandidate, Leadership
from tonnage.service.status_server import StatusServer
from tonnage.service.workers import Worker
from tonnage.snapshot.slots import UNLIMITED

_log = logging.getLogger(__name__)

_ONCE_WITHIN = 120.0
"""Seconds for the caches to fill when there is to be only one round."""


_EVENTS = Limits(queue=10_000)
"""A single purchase may help thousands of pods, and each is told."""

_MANY_PODS = 5_000
"""From so many pods on, the garbage collector is spared what is known of them."""


class AutoscalerSettings(LeaderCandidate, frozen=True, kw_only=True):
    """What is settled when the process starts, unlike `Config`."""

    address: str = ":8085"
    debug_address: str = ""
    lease_name: str = "cluster-autoscaler"
    once: bool = False
    measured: bool = True
    """Whether anybody can read the metrics; to count pods by what they wait for takes a while."""


class AutoscalerProgram:
    """One replica. Its parts are there to be asked; `run` brings them to life."""

    def __init__(
        self,
        client: Client,
        provider: Callable[[ClusterView], Provider],
        *,
        config: ConfigFile[AutoscalerConfig],
        settings: AutoscalerSettings,
        server_version: str,
        clock: Clock,
        rng: random.Random,
        new_id: Callable[[], str],
        worker: Worker = workers.here,
    ) -> None:
        self._settings = settings
        self._config = config
        self._clock = clock
        self._version = server_version
        self.metrics = AutoscalerMetrics(clock=clock)
        features = features_of(config.current, server_version)
        self.world = ClusterView(
            client, clock=clock, rng=rng, options=config.current, features=features
        )
        self.world.mirror.check_interval = lambda: config.current.cache_check_interval
        self.recorder = Recorder(
            client,
            component="cluster-autoscaler",
            instance=settings.identity,
            clock=clock,
            new_id=new_id,
            limits=_EVENTS,
        )
        self.leadership = Leadership(
            client, settings, clock=clock, rng=rng, told=self.metrics.leading
        )
        self.autoscaler = Autoscaler(
            self.world,
            MeasuredProvider(
                provider(self.world), clock=clock, called=self.metrics.provider_called
            ),
            client=client,
            config=config,
            features=self._features,
            clock=clock,
            metrics=self.metrics,
            leading=self.leadership.leading,
            recorder=self.recorder,
            namespace=settings.namespace,
            identity=settings.identity,
            dry_run=settings.dry_run,
            worker=worker,
            measured=settings.measured,
        )
        self.metrics.registry.register(CacheCollector(self.world.mirror))
        self.metrics.registry.register(EventCollector(self.recorder))
        self.server = StatusServer(
            settings.address,
            alive=self.unhealthy,
            ready=self.unready,
            registry=self.metrics.registry,
            documents={"/status": self.status},
            details=lambda: cache_metrics.ages(self.world.mirror),
        )
        self.debug_documents: dict[str, Callable[[], object]] = {
            "/debug/decisions": self.autoscaler.decisions.without_recordings,
            "/debug/recorded-decisions": lambda: list(self.autoscaler.decisions.last),
            "/debug/scale-down": self.scale_down,
            "/debug/consolidation": self.consolidation,
            "/debug/room": self.room,
            "/debug/recorded-consolidations": self.recorded_consolidations,
            "/debug/snapshot": self.snapshot,
            "/debug/leader": lambda: self.leadership.document,
        }
        self.debug = DebugServer(settings.debug_address, documents=self.debug_documents)

    async def run(self) -> None:
        """Until cancelled; one round and no HTTP if that is all that is wanted."""
        async with AsyncExitStack() as stack:
            if not self._settings.once:
                await stack.enter_async_context(self.server.listening())
                await stack.enter_async_context(self.debug.listening())
            helpers = lifecycle.beside(
                self.world.mirror.run(), self.recorder.run(), self._spare_the_collector()
            )
            await stack.enter_async_context(helpers)
            work = self._one_round if self._settings.once else self.autoscaler.run
            await self.leadership.act(work)

    async def _spare_the_collector(self) -> None:
        """Once everything is known, keep the garbage collector from going through it for ever.

        With 150,000 pods each of its rounds would take a fifth of a second, in the midst of ours.
        """
        for kind in KINDS:
            cache: Cache[Any] = self.world.cache(kind)
            await cache.wait_synced()
        if len(self.world.cache(Pod)) >= _MANY_PODS:
            gc.collect()
            gc.freeze()

    async def _one_round(self) -> None:
        deadline = self._clock.monotonic() + _ONCE_WITHIN
        while not self.world.synced and self._clock.monotonic() < deadline:
            await self._clock.sleep(0.1)
        await self.autoscaler.once()
        await self.recorder.flush()
        self._say_if_idle()

    def _say_if_idle(self) -> None:
        """Whoever looks in once learns that there was a look, though nothing came of it."""
        report = self.autoscaler.report
        if report is None or report.plan is None or report.provided is None or report.done:
            # It was said already what was done, or why nothing was decided.
            return
        left_out = len(report.plan.not_helped)
        _log.info(
            "nothing that could be bought helps" if left_out else "nothing is needed",
            extra={
                "pods": len(self.world.cache(Pod)),
                "waiting": report.waiting,
                "left_out": left_out,
                "nodes": len(self.world.cache(Node)),
                "groups": len(report.provided.groups),
            },
        )

    @property
    def config(self) -> AutoscalerConfig:
        """The settings in force."""
        return self._config.current

    @property
    def features(self) -> Features:
        """How the cluster's scheduler behaves by the settings in force."""
        return self._features(self._config.current)

    def consolidation(self) -> ConsolidationDocument:
        """The last decision about replacing nodes."""
        last = self.autoscaler.report
        return last.scale_down.consolidation if last is not None else ConsolidationDocument()

    def recorded_consolidations(self) -> list[RecordedConsolidation]:
        """The newest decisions about replacing nodes, with what they came from."""
        last = self.autoscaler.report
        return list(last.scale_down.recorded) if last is not None else []

    def scale_down(self) -> ScaleDownDocument:
        """What was last decided about each node, for `tonnage why`."""
        last = self.autoscaler.report
        if last is None:
            return ScaleDownDocument()
        return document(last.scale_down, time=rfc3339(last.now))

    def room(self) -> RoomDocument:
        """What was last decided about buffers, requests and gangs, for `tonnage why`."""
        loop = self.autoscaler
        readings = loop.buffers.readings, loop.requests.readings
        return room_report.document(loop.report, *readings, config=self._config.current)

    def unhealthy(self) -> str:
        """Whether the process had better be started again."""
        if not self.leadership.leading():
            return ""
        now, config = self._clock.monotonic(), self._config.current
        idle, failing = now - self.autoscaler.active_at, now - self.autoscaler.succeeded_at
        if idle > config.max_inactivity or failing > config.max_failing_time:
            return f"Error: last activity {idle:.0f} s ago, last success {failing:.0f} s ago"
        # Who can renew a lease could hear of these, too.
        silent = [
            f"{one.kind} ({one.age:.0f} s)"
            for one in self.world.mirror.status
            if one.synced and one.obstacle is None and one.age > config.max_failing_time
        ]
        return f"Error: nothing was heard of {', '.join(silent)}" if silent else ""

    def unready(self) -> str:
        """Whether the caches are not full yet, we may not lead, or there is nothing to scale."""
        amiss = self.world.unsynced() or self.leadership.refused
        if amiss:
            return amiss
        report = self.autoscaler.report
        provided = report.provided if report is not None else None
        return NO_GROUPS if provided is not None and not provided.groups else ""

    def status(self) -> dict[str, Any]:
        """What the status ConfigMap has, how this replica stands to the one that leads, and how old
        what it knows of each kind is.
        """
        return {
            **self.autoscaler.document,
            "replica": self.leadership.document,
            "caches": cache_metrics.documents(self.world.mirror),
        }

    def snapshot(self) -> dict[str, Any]:
        """The standing snapshot: every node with its pods and slots, and who waits.

        While a decision has it there is nothing to be seen that is sure to be so.
        """
        if self.world.still:
            return {"deciding": True}
        held = self.world.snapshot
        nodes = []
        for record in held.ordered_nodes():
            drivers = {
                driver.name: {
                    "used": int(held.slots.taken(driver)[record.row]),
                    "limit": _number(int(driver.limit.data[record.row])),
                }
                for driver in held.slots.drivers()
                if driver.listed.data[record.row]
            }
            pods = sorted(pod.key for pod in held.pods_on(record.name))
            nodes.append({"name": record.name, "pods": pods, "drivers": drivers})
        return {
            "nodes": nodes,
            "waiting": sorted(self.world.waiting),
            "rejected": [
                {"kind": kind, "name": name, "problem": problem}
                for (kind, name), problem in self.world.rejected.items()
            ],
        }

    def _features(self, config: AutoscalerConfig) -> Features:
        features = features_of(config, self._version)
        return opt_in.settled(features, config.enforcement, seen=self.world.enforces_opt_in)


async def start(
    client: Client,
    provider: Callable[[ClusterView], Provider],
    *,
    config: ConfigFile[AutoscalerConfig],
    settings: AutoscalerSettings,
    clock: Clock,
    rng: random.Random,
    new_id: Callable[[], str],
    beside: Callable[[AutoscalerProgram], AbstractAsyncContextManager[object]] | None = None,
) -> None:
    """Find out whom we talk to, then run until cancelled.

    `beside` is given the program before it begins, and lasts as long.
    """
    version = config.current.kubernetes_version or await connections.server_version(
        client, clock=clock, patient=not settings.once
    )
    _log.info("starting", extra={"kubernetes": version, "dry_run": settings.dry_run})
    program = AutoscalerProgram(
        client,
        provider,
        config=config,
        settings=settings,
        server_version=version,
        clock=clock,
        rng=rng,
        new_id=new_id,
        worker=workers.in_thread,
    )
    async with beside(program) if beside is not None else nullcontext():
        await program.run()


def features_of(config: AutoscalerConfig, server_version: str) -> Features:
    """How the cluster's scheduler behaves; of versions we do not know the nearest we do."""
    return gates.of_version(
        gates.nearest_version(config.kubernetes_version or server_version),
        config.feature_gates,
        legacy_attach_limits=config.legacy_attach_limits,
        max_pd_vols=config.kube_max_pd_vols,
    )


def _number(limit: int) -> int | None:
    return None if limit == UNLIMITED else limit

"""All of the extender put together: caches, reservations, HTTPS, until somebody says stop."""

import asyncio
import gc
import logging
import random
from typing import Any

import msgspec

from tonnage.clock import Clock
from tonnage.cluster.cache import Cache
from tonnage.cluster.client import Client
from tonnage.objects.nodes import Node
from tonnage.objects.pods import FINISHED, Pod
from tonnage.objects.storage import CSIDriver, VolumeAttachment
from tonnage.rules import features as gates
from tonnage.rules.features import Features
from tonnage.scheduler.extender.config import ExtenderConfig
from tonnage.scheduler.extender.dry_run import simulate
from tonnage.scheduler.extender.inflight import InFlight
from tonnage.scheduler.extender.metrics import ExtenderMetrics
from tonnage.scheduler.extender.newcomers import Newcomers
from tonnage.scheduler.extender.pools import LivePools
from tonnage.scheduler.extender.verbs import Verbs
from tonnage.service import cache_metrics, connections, lifecycle
from tonnage.service.booked_room import BookedRoom
from tonnage.service.cache_metrics import CacheCollector
from tonnage.service.certificates import Certificates
from tonnage.service.config_file import ConfigFile
from tonnage.service.debug import DebugServer
from tonnage.service.http_questions import LARGEST_BODY, Reply, error_reply
from tonnage.service.live_cluster import ESSENTIAL, OF_SCHEDULING, OF_VOLUMES, LiveCluster
from tonnage.service.moving_pods import MovingPods
from tonnage.service.status_server import StatusServer
from tonnage.service.steady_time import SteadyTime
from tonnage.service.wanted_kinds import WantedKinds
from tonnage.snapshot.reservations import Reservations

_log = logging.getLogger(__name__)

NEEDED: tuple[type, ...] = (*ESSENTIAL, *OF_VOLUMES, CSIDriver, VolumeAttachment)
"""Without the right to read one of these, an answer would break the promise it is asked for."""

_LOOK_EVERY = 1.0
_REBUILD_AT_MOST_EVERY = 60.0


class ExtenderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is settled when the process starts, unlike `ExtenderConfig`."""

    address: str = ":9443"
    debug_address: str = ""
    largest_body: int = LARGEST_BODY


class ExtenderProgram:
    """Its parts are there to be asked; `run` brings them to life.

    Reservations are in memory, so schedulers that work at the same time have to ask the same one.
    """

    def __init__(
        self,
        client: Client,
        *,
        config: ConfigFile[ExtenderConfig],
        settings: ExtenderSettings,
        certificates: Certificates | None,
        server_version: str,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._config = config
        self._certificates = certificates
        self._clock = clock
        self._version = server_version
        self._trusted_since: float | None = None
        self._problems: tuple[str, ...] = ()
        self._rebuilt_at = clock.monotonic()
        self.standing = LiveCluster(
            client,
            clock=clock,
            rng=rng,
            features=self.features(),
            counted=lambda pod: None if _finished(pod) else self.moving.counted(pod),
        )
        self.standing.mirror.check_interval = lambda: config.current.cache_check_interval
        self.reservations = Reservations()
        self.moving = MovingPods(
            self.standing,
            self.reservations,
            clock=clock,
            freed=lambda _: self.booked.changed(),
        )
        self._kinds = WantedKinds(client, clock=clock, changed=self._kinds_changed)
        self.booked = BookedRoom(
            self.standing,
            self.reservations,
            self._kinds,
            clock=clock,
            wanted=lambda: config.current.provisioning_requests,
        )
        self.metrics = ExtenderMetrics(self.reservations)
        time = SteadyTime(clock)
        newcomers = Newcomers(time.now, window=lambda: config.current.registration_window)
        self.verbs = Verbs(
            self.standing,
            self.reservations,
            newcomers,
            config=lambda: config.current,
            features=self.features,
            withheld=self.withheld,
            clock=clock,
            metrics=self.metrics,
            booked=self.booked,
            moving=self.moving,
            refresh=LivePools(self.standing, lambda: config.current.pools).keep,
        )
        self._inflight = InFlight(
            self.standing,
            self.reservations,
            clock=clock,
            seconds=lambda: config.current.reservation_time,
        )
        self.standing.cache(Node).subscribe(newcomers.take)
        for kind in OF_SCHEDULING:
            cache: Cache[Any] = self.standing.cache(kind)
            cache.subscribe(lambda _: self.verbs.something_happened())
        self.metrics.registry.register(CacheCollector(self.standing.mirror))
        self.server = StatusServer(
            settings.address,
            alive=str,
            ready=self.withheld,
            registry=self.metrics.registry,
            documents={},
            questions={
                "/v1/filter": self.verbs.filter,
                "/v1/prioritize": self.verbs.prioritize,
            },
            certificates=certificates,
            largest_body=settings.largest_body,
            clock=clock,
            details=lambda: cache_metrics.ages(self.standing.mirror),
        )
        self.debug = DebugServer(
            settings.debug_address, questions={"/simulate": self._simulate}, clock=clock
        )

    async def run(self) -> None:
        """Until cancelled."""
        async with (
            self.server.listening(),
            self.debug.listening(),
            self._kinds,
            lifecycle.beside(
                self.standing.mirror.run(), self._look_around(), self._spare_the_collector()
            ),
        ):
            await asyncio.Event().wait()

    def features(self) -> Features:
        """The rules of the cluster's version, and the opt-in whatever the version and its gates."""
        config = self._config.current
        version = gates.nearest_version(config.kubernetes_version or self._version)
        found = gates.of_version(
            version,
            config.feature_gates,
            legacy_attach_limits=config.legacy_attach_limits,
            max_pd_vols=config.kube_max_pd_vols,
            returning_volume_once=config.returning_volume_once,
        )
        return msgspec.structs.replace(found, enforce_opt_in=True)

    def withheld(self) -> str:
        """Why nothing is answered from the caches now; empty when it is."""
        why = self._distrust()
        if why:
            self._trusted_since = None
            return f"the cluster is not known well enough: {why}"
        now = self._clock.monotonic()
        if self._trusted_since is None:
            self._trusted_since = now
            self._inflight.again()
            self.moving.expire()
        left = self._trusted_since + self._config.current.startup_grace - now
        if left > 0:
            return f"pods let through before may be on their way: ready in {left:.1f} s"
        return ""

    def _distrust(self) -> str:
        trust = self.standing.trust()
        if trust.hold:
            return trust.hold
        needed = {kind.__name__ for kind in NEEDED}
        blocked = [obstacle for obstacle in trust.obstacles if obstacle.kind in needed]
        if not blocked:
            return self.booked.unknown()
        return "; ".join(f"{one.kind} objects cannot be read: {one.message}" for one in blocked)

    async def _simulate(self, body: bytes) -> Reply:
        why = self._distrust()
        if why:
            return error_reply(f"the cluster is not known well enough: {why}", status=503)
        return simulate(body, self.verbs, self.standing.snapshot)

    async def _look_around(self) -> None:
        """Files that changed, objects that spoilt the snapshot, and whether we are trusted yet."""
        while True:
            self._config.check()
            if self._certificates is not None:
                self._certificates.check()
            self._settle()
            self.moving.expire()
            self._tell_problems()
            self.withheld()
            if not self._distrust():
                self.booked.refresh(self.features())
            await self._clock.sleep(_LOOK_EVERY)

    async def _spare_the_collector(self) -> None:
        """Once everything is known, keep the garbage collector from going through it for ever.

        Its rounds would be the slowest answers.
        """
        while self._trusted_since is None:
            await self._clock.sleep(_LOOK_EVERY)
        gc.collect()
        gc.freeze()

    def _kinds_changed(self) -> None:
        self.booked.changed()
        self.verbs.something_happened()

    def _tell_problems(self) -> None:
        problems = tuple(self.booked.problems())
        for problem in problems:
            if problem not in self._problems:
                _log.warning(problem)
        self._problems = problems

    def _settle(self) -> None:
        before = self.standing.snapshot
        now = self._clock.monotonic()
        if now - self._rebuilt_at < _REBUILD_AT_MOST_EVERY:
            return
        self.standing.settle(self.features())
        if self.standing.snapshot is not before:
            self._rebuilt_at = now
            # Rows have other numbers now: forget who was on the way, and wait until they are there.
            self.reservations.clear()
            self.moving.start_over()
            self.booked.changed()
            self._trusted_since = None


async def start(
    client: Client,
    *,
    config: ConfigFile[ExtenderConfig],
    settings: ExtenderSettings,
    certificates: Certificates | None,
    clock: Clock,
    rng: random.Random,
) -> None:
    """Find out whom we talk to, then run until cancelled."""
    version = config.current.kubernetes_version or await connections.server_version(
        client, clock=clock
    )
    _log.info(
        "starting",
        extra={
            "kubernetes": version,
            "tls": certificates is not None,
            "client_certificates": certificates is not None and certificates.clients_are_checked,
        },
    )
    program = ExtenderProgram(
        client,
        config=config,
        settings=settings,
        certificates=certificates,
        server_version=version,
        clock=clock,
        rng=rng,
    )
    await program.run()


def _finished(pod: Pod) -> bool:
    return pod.status.phase in FINISHED

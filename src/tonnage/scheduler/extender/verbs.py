"""filter and prioritize: judging, waiting for what is about to be known, reserving."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from tonnage.clock import Clock
from tonnage.objects import validation, volumes
from tonnage.objects.pods import Pod
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask
from tonnage.scheduler.extender import booked_nodes, moving_places, node_verdicts, wire
from tonnage.scheduler.extender.config import ExtenderConfig
from tonnage.scheduler.extender.lag import Lag
from tonnage.scheduler.extender.metrics import ExtenderMetrics
from tonnage.scheduler.extender.newcomers import Newcomers
from tonnage.scheduler.extender.node_verdicts import Judgement
from tonnage.scheduler.extender.wire import FilterRequest, FilterResult, HostPriority
from tonnage.service.booked_room import BookedRoom
from tonnage.service.http_questions import Reply, error_reply
from tonnage.service.live_cluster import LiveCluster
from tonnage.service.moving_pods import MovingPods
from tonnage.snapshot.records import PodRecord
from tonnage.snapshot.reservations import Reservation, Reservations, Source

_log = logging.getLogger(__name__)

_WARN_EVERY = 60.0
"""Seconds between two lines in the log about the same driver."""

_UNKNOWN = "the API server has shown no such pod that waits for a node: name, namespace and uid"


class Verbs:
    """Every pod that was told of nodes has its slots reserved on them before the next is judged.

    Only a pod that the watch has shown, by its uid, is told of nodes or reserved for: who asks may
    say what it likes.
    """

    def __init__(
        self,
        standing: LiveCluster,
        reservations: Reservations,
        newcomers: Newcomers,
        *,
        config: Callable[[], ExtenderConfig],
        features: Callable[[], Features],
        withheld: Callable[[], str],
        clock: Clock,
        metrics: ExtenderMetrics,
        booked: BookedRoom,
        moving: MovingPods,
        refresh: Callable[[], None] = lambda: None,
    ) -> None:
        """`withheld` says why nothing can be answered from the caches now, if so.

        `refresh` is called before the snapshot is asked anything.
        """
        self._standing = standing
        self._reservations = reservations
        self._newcomers = newcomers
        self._config = config
        self._features = features
        self._withheld = withheld
        self._clock = clock
        self._metrics = metrics
        self._booked = booked
        self._moving = moving
        self._lag = Lag(clock)
        self._refresh = refresh
        self._news = asyncio.Event()
        self._warned: dict[str, float] = {}

    def something_happened(self) -> None:
        """What answers wait for may be known now."""
        if not self._news.is_set():
            self._news.set()
            self._news = asyncio.Event()

    def refresh(self) -> None:
        """Bring up to date what the snapshot is asked beside."""
        self._refresh()
        self._booked.refresh(self._features())

    async def filter(self, body: bytes) -> Reply:
        started = self._clock.monotonic()
        result = await self._filter(wire.read(body))
        kind = "error" if result.error else "fits" if result.node_names else "nowhere"
        self._metrics.answered("filter", kind, self._clock.monotonic() - started)
        return Reply(wire.encode(result))

    async def prioritize(self, body: bytes) -> Reply:
        """10 for a node that is as good as empty with the pod on it, 0 for one that is full."""
        started = self._clock.monotonic()
        question = wire.read(body)
        withheld = self._withheld()
        if withheld:
            self._metrics.answered("prioritize", "error", self._clock.monotonic() - started)
            return error_reply(withheld, status=503)
        known = self._waiting(question.pod)
        ask = self._ask(known) if known is not None else None
        if ask is not None and node_verdicts.wants_slots(ask):
            shares = node_verdicts.free_share(ask, question.names, self._reservations)
            scores = (shares * wire.MOST).round().astype(int).tolist()
        else:
            scores = [0] * len(question.names)
        answer = [HostPriority(*one) for one in zip(question.names, scores, strict=True)]
        self._metrics.answered("prioritize", "fits", self._clock.monotonic() - started)
        return Reply(wire.encode(answer))

    def forget(self) -> None:
        """Let go what is left of questions about pods that the watch does not know."""
        self._standing.tidy()

    def ask(self, pod: Pod) -> Ask:
        """The question for the model; of a pod that the watch knows, what is known of it."""
        known = self._waiting(pod)
        return self._ask(self._standing.snapshot.record_of(pod) if known is None else known)

    def judge(self, ask: Ask, names: list[str]) -> Judgement:
        """As filter judges, without reserving."""
        config = self._config()
        registering = {}
        if config.unknown_limits == "hold" and ask.slots.problem is None:
            drivers = {use.driver for use in (*ask.slots.uses, *ask.slots.migrated)}
            registering = self._newcomers.registering(ask.snapshot, sorted(drivers))
        question = partial(
            node_verdicts.judge,
            ask,
            reservations=self._reservations,
            registering=registering,
            fresh_since=self._clock.monotonic() - config.settle_wait,
        )
        kept = moving_places.kept(ask, names)
        found = question([name for name in names if name not in kept] if kept else names)
        found = moving_places.beside(found, kept)
        if found.passing and self._booked.concerns(ask.pod):
            found = booked_nodes.left_alone(ask, found, self._booked, self._reservations, question)
        place = self._moving.place_of(ask.pod.key, ask.pod.meta.uid)
        return moving_places.only(found, place, question) if place in found.passing else found

    async def _filter(self, question: FilterRequest) -> FilterResult:
        pod, names = question
        if not (volumes.of_pod(pod) or self._may_be_booked() or self._may_be_kept()):
            # Nothing of the cluster has to be known for these, so they never have to wait for it.
            return FilterResult(node_names=names)
        started, lag = self._clock.monotonic(), self._lag.allowed()
        while True:
            withheld = self._withheld()
            if withheld:
                return FilterResult(error=withheld)
            self._moving.expire()
            expired = self._reservations.expire(self._clock.monotonic())
            self._metrics.expired(len(expired))
            if expired:
                self._booked.changed()
            known = self._waiting(pod)
            found = self._judge_again(known, names) if known is not None else None
            patience = lag if found and not found.unsettled else self._config().settle_wait
            left = started + patience - self._clock.monotonic()
            if (found and found.passing) or left <= 0:
                break
            await self._news_within(left)
        if known is None or found is None:
            return FilterResult(error=_UNKNOWN)
        if not found.passing and not found.unsettled:
            self._lag.spend(self._clock.monotonic() - started)
        if found.shares:
            self._hold(known, found)
            self._booked.taken_by(known)
        self._tell(known.key, found)
        return FilterResult(
            node_names=found.passing,
            failed_nodes=found.failed,
            failed_and_unresolvable_nodes=found.unresolvable,
        )

    def _may_be_kept(self) -> bool:
        """Whether a pod without volumes may have a place of its own, or has to leave others one."""
        self._moving.expire()
        entries = self._reservations.of(Source.MOVING)
        return next(entries, None) is not None and not self._withheld()

    def _may_be_booked(self) -> bool:
        """Whether a pod without volumes has to leave room to others."""
        if not self._config().provisioning_requests:
            return False
        if not self._withheld():
            self._booked.refresh(self._features())
            return len(self._booked) > 0
        return True

    def _hold(self, known: PodRecord, found: Judgement) -> None:
        now = self._clock.monotonic()
        until = now + self._config().reservation_time
        self._reservations.hold(
            Reservation(known.key, Source.LET_THROUGH, now, until, shares=found.shares)
        )

    def _judge_again(self, known: PodRecord, names: list[str]) -> Judgement:
        # The scheduler asks again, so whatever it did with the answer before is over.
        if self._reservations.release(known.key, Source.LET_THROUGH, Source.SELECTED_NODE):
            self._booked.taken_by(known)
        return self.judge(self._ask(known), names)

    def _ask(self, record: PodRecord) -> Ask:
        self.refresh()
        return Ask(self._standing.snapshot, record, self._features())

    def _waiting(self, pod: Pod) -> PodRecord | None:
        """What the watch knows of the pod, if it is this very one and has no node yet."""
        name = pod.metadata.key
        known = self._standing.snapshot.pods.get(name)
        if known is None or known.meta.uid != pod.metadata.uid or known.node_name:
            return None
        return known

    async def _news_within(self, seconds: float) -> None:
        news = self._news
        try:
            async with self._clock.timeout(seconds):
                await news.wait()
        except TimeoutError:
            self._metrics.waited(news=False)
        else:
            self._metrics.waited(news=True)

    def _tell(self, key: str, found: Judgement) -> None:
        self._metrics.refused(found.causes)
        if not found.passing and _log.isEnabledFor(logging.INFO):
            shown = {str(cause): count for cause, count in found.causes.items()}
            _log.info("no node fits", extra={"pod": validation.one_line(key), "causes": shown})
        if self._config().unknown_limits == "allow":
            return
        for driver in found.unlisted:
            if driver not in self._warned:
                self._forget_drivers()
            self._metrics.limit_unknown(driver)
            now = self._clock.monotonic()
            if now - self._warned.get(driver, -_WARN_EVERY) >= _WARN_EVERY:
                self._warned[driver] = now
                _log.warning(
                    "limit unknown, pods are let through",
                    extra={"driver": validation.one_line(driver)},
                )

    def _forget_drivers(self) -> None:
        """Those that nothing in the cluster knows any more."""
        snapshot = self._standing.snapshot
        for driver in [one for one in self._warned if not node_verdicts.is_driver(snapshot, one)]:
            del self._warned[driver]
            self._metrics.driver_gone(driver)

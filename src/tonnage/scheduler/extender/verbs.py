"""filter and prioritize: judging, waiting for what is about to be known, reserving."""

import asyncio
import logging
from collections.abc import Callable

from tonnage.clock import Clock
from tonnage.filters.features import Features
from tonnage.filters.framework import Ask
from tonnage.objects import checking, volumes
from tonnage.objects.pods import Pod
from tonnage.scheduler.extender import judging, wire
from tonnage.scheduler.extender.config import ExtenderConfig
from tonnage.scheduler.extender.judging import Judgement
from tonnage.scheduler.extender.lag import Lag
from tonnage.scheduler.extender.metrics import Metrics
from tonnage.scheduler.extender.newcomers import Newcomers
from tonnage.scheduler.extender.reservations import Reservations
from tonnage.scheduler.extender.wire import FilterResult, HostPriority, Question
from tonnage.service.questions import Reply, error_reply
from tonnage.service.standing import StandingCluster

_log = logging.getLogger(__name__)

_WARN_EVERY = 60.0
"""Seconds between two lines in the log about the same driver."""


class Verbs:
    """Every pod that was told of nodes has its slots reserved on them before the next is judged."""

    def __init__(
        self,
        standing: StandingCluster,
        reservations: Reservations,
        newcomers: Newcomers,
        *,
        config: Callable[[], ExtenderConfig],
        features: Callable[[], Features],
        withheld: Callable[[], str],
        clock: Clock,
        metrics: Metrics,
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
        self._lag = Lag(clock)
        self.refresh = refresh
        self._news = asyncio.Event()
        self._warned: dict[str, float] = {}

    def something_happened(self) -> None:
        """What answers wait for may be known now."""
        if not self._news.is_set():
            self._news.set()
            self._news = asyncio.Event()

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
        ask = self.ask(question.pod)
        if judging.wants_slots(ask):
            shares = judging.free_share(ask, question.names, self._reservations)
            scores = (shares * wire.MOST).round().astype(int).tolist()
        else:
            scores = [0] * len(question.names)
        answer = [HostPriority(*one) for one in zip(question.names, scores, strict=True)]
        self._metrics.answered("prioritize", "fits", self._clock.monotonic() - started)
        return Reply(wire.encode(answer))

    def ask(self, pod: Pod) -> Ask:
        """The question for the model; of a pod that the watch knows, what is known of it."""
        self.refresh()
        snapshot = self._standing.snapshot
        known = snapshot.pods.get(f"{pod.metadata.namespace}/{pod.metadata.name}")
        if known is not None and known.meta.uid == pod.metadata.uid and not known.node_name:
            return Ask(snapshot, known, self._features())
        return Ask(snapshot, snapshot.record_of(pod), self._features())

    def judge(self, ask: Ask, names: list[str]) -> Judgement:
        """As filter judges, without reserving."""
        config = self._config()
        registering = {}
        if config.unknown_limits == "hold" and ask.slots.problem is None:
            drivers = {use.driver for use in (*ask.slots.uses, *ask.slots.migrated)}
            registering = self._newcomers.registering(ask.snapshot, sorted(drivers))
        return judging.judge(
            ask,
            names,
            reservations=self._reservations,
            registering=registering,
            fresh=config.settle_wait,
        )

    async def _filter(self, question: Question) -> FilterResult:
        pod, names = question
        if not volumes.of_pod(pod):
            # Nothing of the cluster has to be known for these, so they never have to wait for it.
            return FilterResult(node_names=names)
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        # The scheduler asks again, so whatever it did with the answer before is over.
        self._reservations.release(key)
        started, lag = self._clock.monotonic(), self._lag.allowed()
        while True:
            withheld = self._withheld()
            if withheld:
                return FilterResult(error=withheld)
            self._metrics.expired(self._reservations.expire())
            found = self.judge(self.ask(pod), names)
            allowed = self._config().settle_wait if found.unsettled else lag
            left = started + allowed - self._clock.monotonic()
            if found.passing or left <= 0:
                break
            await self._news_within(left)
        if not found.passing and not found.unsettled:
            self._lag.spend(self._clock.monotonic() - started)
        if found.shares:
            self._reservations.hold(key, found.shares, seconds=self._config().reservation_time)
        self._tell(key, found)
        return FilterResult(
            node_names=found.passing,
            failed_nodes=found.failed,
            failed_and_unresolvable_nodes=found.unresolvable,
        )

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
            _log.info("no node fits", extra={"pod": checking.one_line(key), "causes": shown})
        if self._config().unknown_limits == "allow":
            return
        for driver in found.unlisted:
            self._metrics.limit_unknown(driver)
            now = self._clock.monotonic()
            if now - self._warned.get(driver, -_WARN_EVERY) >= _WARN_EVERY:
                self._warned[driver] = now
                _log.warning(
                    "limit unknown, pods are let through",
                    extra={"driver": checking.one_line(driver)},
                )

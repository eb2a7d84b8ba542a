"""What the extender counts."""

from collections.abc import Mapping

from tonnage.service.metric_factory import MetricFactory
from tonnage.snapshot.reservations import Reservations, Source

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class ExtenderMetrics:
    """One registry; names begin with `tonnage_extender`."""

    def __init__(self, reservations: Reservations) -> None:
        make = MetricFactory("tonnage_extender")
        self.registry = make.registry
        self._answers = make.counter(
            "answers_total", "Answers by verb and result: fits, nowhere, error.", "verb", "result"
        )
        self._duration = make.histogram(
            "duration_seconds",
            "Seconds from question to answer, waiting for the watch included.",
            "verb",
            buckets=_SECONDS,
        )
        self._waits = make.counter(
            "waits_total",
            "Times an answer waited for the watch, by whether there was news.",
            "news",
        )
        self._refused = make.counter("refused_nodes_total", "Nodes refused, by cause.", "cause")
        self._unknown = make.counter(
            "unknown_limits_total",
            "Answers with a node that does not list a driver of the pod.",
            "driver",
        )
        self._expired = make.counter(
            "expired_reservations_total",
            "Reservations of pods that were let through and seen nowhere.",
        )
        make.gauge("reservations", "Pods on their way that hold slots.").set_function(
            lambda: sum(one.source is not Source.BOOKED for one in reservations)
        )
        make.gauge(
            "booked_pods",
            "Pods that ProvisioningRequests have booked room for, on nodes that are there.",
        ).set_function(lambda: sum(one.pods for one in reservations.of(Source.BOOKED)))

    def answered(self, verb: str, result: str, seconds: float) -> None:
        self._answers.labels(verb, result).inc()
        self._duration.labels(verb).observe(seconds)

    def waited(self, *, news: bool) -> None:
        self._waits.labels(str(news).lower()).inc()

    def refused(self, causes: Mapping[str, int]) -> None:
        for cause, count in causes.items():
            self._refused.labels(cause).inc(count)

    def limit_unknown(self, driver: str) -> None:
        self._unknown.labels(driver).inc()

    def driver_gone(self, driver: str) -> None:
        self._unknown.remove(driver)

    def expired(self, count: int) -> None:
        self._expired.inc(count)

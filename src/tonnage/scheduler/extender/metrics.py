"""What the extender counts."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tonnage.snapshot.reservations import Reservations, Source

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class ExtenderMetrics:
    """One registry; names begin with `tonnage_extender`."""

    def __init__(self, reservations: Reservations) -> None:
        self.registry = CollectorRegistry()
        self._answers = Counter(
            "tonnage_extender_answers_total",
            "Answers by verb and result: fits, nowhere, error.",
            ("verb", "result"),
            registry=self.registry,
        )
        self._duration = Histogram(
            "tonnage_extender_duration_seconds",
            "Seconds from question to answer, waiting for the watch included.",
            ("verb",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._waits = Counter(
            "tonnage_extender_waits_total",
            "Times an answer waited for the watch, by whether there was news.",
            ("news",),
            registry=self.registry,
        )
        self._refused = Counter(
            "tonnage_extender_refused_nodes_total",
            "Nodes refused, by cause.",
            ("cause",),
            registry=self.registry,
        )
        self._unknown = Counter(
            "tonnage_extender_unknown_limits_total",
            "Answers with a node that does not list a driver of the pod.",
            ("driver",),
            registry=self.registry,
        )
        self._expired = Counter(
            "tonnage_extender_expired_reservations_total",
            "Reservations of pods that were let through and seen nowhere.",
            registry=self.registry,
        )
        Gauge(
            "tonnage_extender_reservations",
            "Pods on their way that hold slots.",
            registry=self.registry,
        ).set_function(lambda: sum(one.source is not Source.BOOKED for one in reservations))
        Gauge(
            "tonnage_extender_booked_pods",
            "Pods that ProvisioningRequests have booked room for, on nodes that are there.",
            registry=self.registry,
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

"""What the controller counts."""

from collections import Counter as Tally

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tonnage.capacity.desired import ProblemReason
from tonnage.capacity.report import SyncReport

_PREFIX = "tonnage_capacity_template"
_SECONDS = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 300.0)


class CapacityMetrics:
    """Figures of one replica, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._leader = Gauge(
            f"{_PREFIX}_leader", "Whether this replica publishes.", registry=registry
        )
        self._objects = Gauge(
            f"{_PREFIX}_objects", "Objects that should be there.", ("storage_class",),
            registry=registry,
        )  # fmt: skip
        self._failing = Gauge(
            f"{_PREFIX}_failing_objects", "Objects that could not be written.", registry=registry
        )
        self._problems = Gauge(
            f"{_PREFIX}_problems", "What stands in the way, by reason.", ("reason",),
            registry=registry,
        )  # fmt: skip
        self._writes = Counter(
            f"{_PREFIX}_writes", "Objects written, by step and result.", ("step", "result"),
            registry=registry,
        )  # fmt: skip
        self._syncs = Histogram(
            f"{_PREFIX}_sync_seconds", "Time a look and its writes took.", buckets=_SECONDS,
            registry=registry,
        )  # fmt: skip
        self._last = Gauge(
            f"{_PREFIX}_last_sync_timestamp_seconds", "When everything was last looked at.",
            registry=registry,
        )  # fmt: skip

    def leading(self, leads: bool) -> None:
        self._leader.set(leads)

    def wrote(self, step: str, ok: bool) -> None:
        self._writes.labels(step, "success" if ok else "failure").inc()

    def synced(self, report: SyncReport, *, seconds: float) -> None:
        self._objects.clear()
        for name, count in Tally(obj.storage_class for obj in report.objects).items():
            self._objects.labels(name).set(count)
        self._failing.set(len(report.failing))
        tally = Tally(problem.reason for problem in report.problems)
        for reason in ProblemReason:
            self._problems.labels(reason.value).set(tally[reason.value])
        self._syncs.observe(seconds)
        self._last.set(report.at)

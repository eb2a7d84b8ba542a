"""What one look found and did, for the status page, the log and the tests; and as figures."""

from collections import Counter as Tally

from tonnage.capacity.desired import CapacityProblem, Desired, ProblemReason
from tonnage.objects.meta import Record
from tonnage.service.metric_factory import MetricFactory


class PublishedObject(Record, frozen=True, kw_only=True):
    name: str
    storage_class: str
    group: dict[str, str]
    capacity: str
    maximum_volume_size: str = ""
    source: str


class ReportedProblem(Record, frozen=True, kw_only=True):
    reason: str
    message: str
    about: str = ""
    """Kind and name, if it is about one object."""


class SyncReport(Record, frozen=True, kw_only=True):
    """`at` is in seconds since 1970; `failing` has what could not be written, by object."""

    at: float
    objects: tuple[PublishedObject, ...] = ()
    steps: dict[str, int] = {}
    failing: dict[str, str] = {}
    problems: tuple[ReportedProblem, ...] = ()


def published(wanted: Desired) -> tuple[PublishedObject, ...]:
    return tuple(
        PublishedObject(
            name=name,
            storage_class=entry.pair[0],
            group=dict(entry.pair[1]),
            capacity=str(entry.object.capacity),
            maximum_volume_size=str(entry.object.maximum_volume_size or ""),
            source=entry.source.value,
        )
        for name, entry in wanted.entries.items()
    )


def told(problem: CapacityProblem) -> ReportedProblem:
    about = problem.about
    name = f"{type(about).__name__} {about.metadata.name}" if about is not None else ""
    return ReportedProblem(reason=problem.reason.value, message=problem.message, about=name)


_PREFIX = "tonnage_capacity_template"
_SECONDS = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 300.0)


class CapacityMetrics:
    """Figures of one replica, in a registry of its own."""

    def __init__(self) -> None:
        make = MetricFactory(_PREFIX)
        self.registry = make.registry
        self._leader = make.gauge("leader", "Whether this replica publishes.")
        self._objects = make.gauge("objects", "Objects that should be there.", "storage_class")
        self._failing = make.gauge("failing_objects", "Objects that could not be written.")
        self._problems = make.gauge("problems", "What stands in the way, by reason.", "reason")
        self._writes = make.counter(
            "writes", "Objects written, by step and result.", "step", "result"
        )
        self._syncs = make.histogram(
            "sync_seconds", "Time a look and its writes took.", buckets=_SECONDS
        )
        self._last = make.gauge(
            "last_sync_timestamp_seconds", "When everything was last looked at."
        )

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

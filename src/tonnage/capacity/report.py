"""What one look found and did, for the status page, the log and the tests."""

from tonnage.capacity.desired import CapacityProblem, Desired
from tonnage.objects.meta import Record


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

"""What is remembered of a group's past nodes while it has none to look at; how long things took."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from tonnage.groups.limit_lessons import Lesson
from tonnage.groups.model import Template
from tonnage.objects.meta import Record
from tonnage.objects.storage import NodeDriver

Absences: TypeAlias = Mapping[str, Mapping[str, float]]
"""By driver and node, when the node was first seen without the driver that is expected of it."""


KEPT = 10
"""Times kept of each driver and group: the latest."""

USUAL_DETACH = 20.0
USUAL_START = 60.0
"""Seconds that are taken for usual where nothing was seen yet: slow to detach, fast to start, so
that who knows nothing waits for little."""


class ObservedTimes(Record, frozen=True, kw_only=True):
    """Seconds, the latest last. `detach` is by driver, from the end of the last pod that used the
    volume until it was gone from the node; `start` by node group, from the request until Ready."""

    detach: dict[str, tuple[float, ...]] = {}
    start: dict[str, tuple[float, ...]] = {}

    @property
    def extremes(self) -> tuple[dict[str, float], dict[str, float]]:
        """The slowest detach and the fastest start of each: what the careful go by."""
        return (
            {name: max(seen) for name, seen in self.detach.items()},
            {name: min(seen) for name, seen in self.start.items()},
        )

    def with_detach(self, driver: str, seconds: float) -> "ObservedTimes":
        return msgspec.structs.replace(self, detach=_noted(self.detach, driver, seconds))

    def with_start(self, group: str, seconds: float) -> "ObservedTimes":
        return msgspec.structs.replace(self, start=_noted(self.start, group, seconds))

    def detach_time(self, driver: str, *, careful: bool) -> float:
        """What to expect of the driver; who is careful expects the slowest seen."""
        seen = self.detach.get(driver, ())
        if not seen:
            return USUAL_DETACH
        return max(seen) if careful else _median(seen)

    def start_time(self, group: str, *, careful: bool) -> float:
        """What to expect of a new node of the group; who is careful expects the fastest seen."""
        seen = self.start.get(group, ())
        if not seen:
            return USUAL_START
        return min(seen) if careful else _median(seen)


def _median(seen: tuple[float, ...]) -> float:
    # `statistics` has it too, and takes longer to load than a small plan takes.
    ordered, middle = sorted(seen), len(seen) // 2
    return ordered[middle] if len(seen) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _noted(
    known: dict[str, tuple[float, ...]], name: str, seconds: float
) -> dict[str, tuple[float, ...]]:
    kept = (*known.get(name, ()), round(max(seconds, 0.0), 1))[-KEPT:]
    return {**known, name: kept}


class RememberedDriver(Record, frozen=True, kw_only=True):
    """A driver that nodes of the group had, with the last number they gave and when."""

    count: int | None = None
    topology_keys: tuple[str, ...] = ()
    seen: float


class RememberedGroup(Record, frozen=True, kw_only=True):
    """The last good node of a group, as a template, and the drivers of all of its nodes."""

    template: Template
    seen: float
    drivers: dict[str, RememberedDriver] = {}


class TemplateMemory(Record, frozen=True, kw_only=True):
    """A value that goes into one round of templates and comes out of it renewed.

    Lessons about instance types come out as they went in: whoever runs for long renews them, with
    `learned.renewed`. `absences` are renewed by whoever assesses the nodes of a live cluster, and
    `times` and `births` by whoever watches it. `births` are of nodes whose creation time cannot be
    true (`births.noted`). It encodes to JSON as it is, so that it can be kept over a restart.
    """

    groups: dict[str, RememberedGroup] = {}
    lessons: tuple[Lesson, ...] = ()
    absences: dict[str, dict[str, float]] = {}
    times: ObservedTimes = ObservedTimes()
    births: dict[str, float] = {}


def renewed(
    old: RememberedGroup | None,
    template: Template | None,
    drivers: Iterable[NodeDriver],
    *,
    now: float,
) -> RememberedGroup | None:
    """A group's memory after a look at its nodes; without a good one only the drivers are renewed.

    A driver that gives no number now keeps the last one it gave.
    """
    if template is None and old is None:
        return None
    known = dict(old.drivers) if old is not None else {}
    for driver in drivers:
        before = known.get(driver.name)
        count = driver.limit
        if count is None and before is not None:
            count = before.count
        known[driver.name] = RememberedDriver(
            count=count, topology_keys=driver.topology_keys, seen=now
        )
    if template is not None:
        return RememberedGroup(template=template, seen=now, drivers=known)
    return msgspec.structs.replace(old, drivers=known) if old is not None else None


def seen_again(old: TemplateMemory, *, then: float, now: float) -> TemplateMemory:
    """The memory after a look that found everything as the last one did, which was `then`."""

    def later(group: RememberedGroup) -> RememberedGroup:
        return msgspec.structs.replace(
            group,
            seen=now if group.seen == then else group.seen,
            drivers={
                name: msgspec.structs.replace(driver, seen=now) if driver.seen == then else driver
                for name, driver in group.drivers.items()
            },
        )

    return msgspec.structs.replace(
        old, groups={name: later(group) for name, group in old.groups.items()}
    )

"""The record of a run: samples over time, what was decided, and the sums. Times are seconds."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from tonnage.objects.meta import Record, WholeRecord
from tonnage.objects.scenarios import API_VERSION

NodeState: TypeAlias = Literal["requested", "starting", "comingUp", "ready", "notReady"]

NODE_STATES: tuple[NodeState, ...] = ("ready", "comingUp", "starting", "requested", "notReady")
"""From good to bad, as charts stack them.

requested  asked for, and no Node yet
starting   a Node that was never Ready
comingUp   Ready, and a driver that its group's template expects is missing
notReady   was Ready and is not now
"""


class PodCounts(WholeRecord, frozen=True, kw_only=True):
    """Pods that have not ended. `stuck` are among those that are `starting`."""

    pending: int = 0
    starting: int = 0
    stuck: int = 0
    running: int = 0


class SlotSample(WholeRecord, frozen=True, kw_only=True):
    """A driver's slots over all nodes; `limit` and `free` count nodes that give a number."""

    driver: str
    used: int
    free: int
    limit: int

    @property
    def over(self) -> int:
        """Volumes beyond what single nodes can attach; none where no node gives a number."""
        return max(self.used - (self.limit - self.free), 0) if self.limit else 0


class StorageUse(WholeRecord, frozen=True, kw_only=True):
    """A driver's local storage over all nodes where it is registered; a shared disk counts once."""

    driver: str
    used_bytes: int
    total_bytes: int


class Sample(Record, frozen=True, kw_only=True):
    """The cluster at one moment; output names local storage only where there is any."""

    at: float
    pods: PodCounts
    nodes: dict[NodeState, int]
    slots: tuple[SlotSample, ...]
    cost: float
    cost_per_hour: float
    local_storage: tuple[StorageUse, ...] = ()

    @property
    def nodes_there(self) -> int:
        """All but those that are only asked for."""
        return sum(self.nodes.values()) - self.nodes.get("requested", 0)

    def slots_of(self, driver: str) -> SlotSample:
        """The slots of one driver; none where it is not on any node."""
        nothing = SlotSample(driver=driver, used=0, free=0, limit=0)
        return next((one for one in self.slots if one.driver == driver), nothing)

    def storage_of(self, driver: str) -> StorageUse:
        """The local storage of one driver; none where it is not on any node."""
        nothing = StorageUse(driver=driver, used_bytes=0, total_bytes=0)
        return next((one for one in self.local_storage if one.driver == driver), nothing)


class Decided(WholeRecord, frozen=True, kw_only=True):
    """One thing that the autoscaler asked for, and why; `error` if it was refused."""

    at: float
    deed: str
    group: str
    nodes: int
    pods: int = 0
    reason: str = ""
    error: str = ""


class Mark(WholeRecord, frozen=True, kw_only=True):
    """Something that was done to the cluster from outside."""

    at: float
    text: str


class Spread(WholeRecord, frozen=True, kw_only=True):
    """Seconds that many waits took: half of them at most `p50`.

    Those that are still `waiting` count as longer than any; a part that falls on one of them is
    `None`. `longest` is of those that are over.
    """

    count: int = 0
    waiting: int = 0
    p50: float | None = None
    p99: float | None = None
    longest: float | None = None


class Summary(WholeRecord, frozen=True, kw_only=True):
    """The run in a few numbers.

    `time_to_running` is counted from a pod's creation, also for those that do not run yet.
    `pod_hours_*` are summed over pods. `evictions` are pods that somebody asked the API to evict.
    `changes` are changes of objects in the API.
    """

    pods_created: int = 0
    pods_ran: int = 0
    pending_at_end: int = 0
    pending_peak: int = 0
    stuck_at_end: int = 0
    stuck_peak: int = 0
    pod_hours_pending: float = 0.0
    pod_hours_stuck: float = 0.0
    time_to_running: Spread = Spread()
    nodes_bought: int = 0
    nodes_deleted: int = 0
    nodes_at_end: int = 0
    nodes_peak: int = 0
    cost: float = 0.0
    evictions: int = 0
    changes: int = 0


class Timeline(WholeRecord, frozen=True, kw_only=True):
    """A run from beginning to end; `label` tells runs of the same scenario apart."""

    api_version: str = API_VERSION
    kind: str = "Timeline"
    name: str
    label: str = ""
    description: str = ""
    seed: int = 0
    duration: float
    options: dict[str, object] = {}
    stuck_after: float = 120.0
    samples: tuple[Sample, ...] = ()
    decisions: tuple[Decided, ...] = ()
    marks: tuple[Mark, ...] = ()
    summary: Summary = Summary()
    problems: tuple[str, ...] = ()
    """What somebody who reads the numbers should know."""


def drivers(runs: Sequence[Timeline]) -> list[str]:
    """Every driver that has slots at any moment of any run."""
    return sorted({use.driver for run in runs for sample in run.samples for use in sample.slots})


def storage_drivers(runs: Sequence[Timeline]) -> list[str]:
    """Every driver that has local storage at any moment of any run."""
    return sorted(
        {use.driver for run in runs for sample in run.samples for use in sample.local_storage}
    )


class Difference(WholeRecord, frozen=True, kw_only=True):
    """One number of two runs; `None` where there is none."""

    figure: str
    first: float | None
    second: float | None


class TimelineComparison(WholeRecord, frozen=True, kw_only=True):
    """The same scenario run twice, with something changed."""

    api_version: str = API_VERSION
    kind: str = "TimelineComparison"
    differences: tuple[Difference, ...] = ()
    runs: tuple[Timeline, ...] = ()


def encoded(document: Timeline | TimelineComparison) -> str:
    """JSON for programs; the same run gives the same text."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()

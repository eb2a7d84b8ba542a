"""The numbers people compare: what each is called, how it is written, and which way is better."""

from collections.abc import Callable, Sequence
from math import inf
from typing import Literal, NamedTuple, TypeAlias

from tonnage.report.timeline import (
    Decided,
    Difference,
    NodeState,
    Summary,
    Timeline,
    TimelineComparison,
)

Unit: TypeAlias = Literal["count", "seconds", "hours", "cost"]

GIB = 2**30


class Figure(NamedTuple):
    """A number of a summary. `less_is_better` is `None` where neither way is."""

    key: str
    title: str
    unit: Unit
    of: Callable[[Summary], float | None]
    less_is_better: bool | None = True


FIGURES: tuple[Figure, ...] = (
    Figure("podsCreated", "pods created", "count", lambda of: of.pods_created, None),
    Figure("podsRan", "pods that came to run", "count", lambda of: of.pods_ran, False),
    Figure("pendingAtEnd", "pods pending at the end", "count", lambda of: of.pending_at_end),
    Figure("stuckAtEnd", "pods stuck at the end", "count", lambda of: of.stuck_at_end),
    Figure("pendingPeak", "most pods pending", "count", lambda of: of.pending_peak),
    Figure("stuckPeak", "most pods stuck", "count", lambda of: of.stuck_peak),
    Figure("podHoursPending", "pod-hours pending", "hours", lambda of: of.pod_hours_pending),
    Figure("podHoursStuck", "pod-hours stuck", "hours", lambda of: of.pod_hours_stuck),
    Figure(
        "timeToRunningP50",
        "time to running, p50",
        "seconds",
        lambda of: _time(of, of.time_to_running.p50),
    ),
    Figure(
        "timeToRunningP99",
        "time to running, p99",
        "seconds",
        lambda of: _time(of, of.time_to_running.p99),
    ),
    Figure("nodesBought", "nodes bought", "count", lambda of: of.nodes_bought, None),
    Figure("nodesDeleted", "nodes deleted", "count", lambda of: of.nodes_deleted, None),
    Figure("nodesAtEnd", "nodes at the end", "count", lambda of: of.nodes_at_end, None),
    Figure("nodesPeak", "most nodes", "count", lambda of: of.nodes_peak, None),
    Figure("evictions", "pods evicted", "count", lambda of: of.evictions),
    Figure("cost", "cost", "cost", lambda of: of.cost, None),
)
"""More nodes and a higher cost are no failure when fewer would have left pods stuck."""


def _time(of: Summary, seconds: float | None) -> float | None:
    """Never is longer than any time."""
    return inf if seconds is None and of.time_to_running.waiting else seconds


def compared(runs: Sequence[Timeline]) -> TimelineComparison:
    """Two runs with their differences."""
    first, second = runs
    return TimelineComparison(
        differences=tuple(
            Difference(
                figure=figure.key,
                first=_finite(figure.of(first.summary)),
                second=_finite(figure.of(second.summary)),
            )
            for figure in FIGURES
        ),
        runs=(first, second),
    )


def _finite(value: float | None) -> float | None:
    return None if value == inf else value


def better(figure: Figure, runs: Sequence[Timeline]) -> int | None:
    """Which of two runs did better, by position; `None` if neither, or if that is no question.

    A difference too small to be shown is none.
    """
    if figure.less_is_better is None or len(runs) != 2:
        return None
    first, second = (figure.of(run.summary) for run in runs)
    if first is None or second is None or change(first, second, figure.unit) == "=":
        return None
    return int((second < first) == figure.less_is_better)


def shown(value: float | None, unit: Unit) -> str:
    """A number as people read it; a dash where there is none."""
    if value is None:
        return "-"
    if value == inf:
        return "never"
    if unit == "seconds":
        return duration(value)
    if unit == "count":
        return f"{value:,.0f}"
    return f"{value:,.2f}"


def change(first: float | None, second: float | None, unit: Unit) -> str:
    """What the second has more or less than the first, as far as it can be seen."""
    if shown(first, unit) == shown(second, unit):
        return "="
    if first is None or second is None or inf in (first, second):
        return "-"
    if unit in ("hours", "cost"):
        # Or the three numbers of a row would not add up.
        first, second = round(first, 2), round(second, 2)
    sign = "+" if second > first else "-"
    return sign + shown(abs(second - first), unit)


def duration(seconds: float) -> str:
    """`850ms`, `12.3s`, `4m05s`, `1h02m`, `2d03h`: two parts are enough."""
    if seconds < 0.9995:
        return "0s" if seconds < 0.0005 else f"{seconds * 1000:.0f}ms"
    if seconds < 59.95:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    for size, unit, below, lower in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m")):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // below:02d}{lower}"
    return f"{whole // 60}m{whole % 60:02d}s"


def gibibytes(count: int) -> str:
    """Bytes as a number of GiB: `80`, `1,234.5`."""
    return f"{count / GIB:,.1f}".removesuffix(".0")


def moment(seconds: float) -> str:
    """A point in the run: `00:04:05`, with days before if there are any."""
    whole = int(seconds)
    days, rest = divmod(whole, 86_400)
    text = f"{rest // 3_600:02d}:{rest % 3_600 // 60:02d}:{rest % 60:02d}"
    return f"{days}d {text}" if days else text


def run_name(run: Timeline) -> str:
    """How a run is called beside others."""
    return run.label or run.name


STATES: dict[NodeState, str] = {
    "ready": "ready",
    "comingUp": "Ready, driver missing",
    "starting": "starting",
    "requested": "requested",
    "notReady": "not ready",
}


def decision(one: Decided) -> str:
    """What was asked for, as a sentence that a reason can follow."""
    nodes = f"{one.nodes:,} node{'s' if one.nodes != 1 else ''}"
    sentences = {
        "increase": f"add {nodes} to {one.group}",
        "delete": f"remove {nodes} from {one.group}",
    }
    return sentences.get(one.deed, f"ask for {nodes} fewer in {one.group}")

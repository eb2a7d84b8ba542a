"""The charts of a page: what they show of a run, and of two runs side by side."""

from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import count
from typing import NamedTuple

from tonnage.report import charts, figures, interactive
from tonnage.report.charts import Chart, ChartSeries, Marker
from tonnage.report.figures import GIB, run_name
from tonnage.report.timeline import (
    NODE_STATES,
    NodeState,
    Sample,
    Timeline,
    drivers,
    storage_drivers,
)

_RUNS = ("c-first", "c-second")
_MARKERS = 40
"""Beyond that many, markers would only be a curtain."""


class _Topic(NamedTuple):
    """Something to see over time: a chart for each run, or one (`shared`) with a line for each."""

    title: str
    unit: str
    series: Sequence[Sequence[ChartSeries]]
    shared: bool = False
    whole: bool = True
    decided: bool = False
    """Whether it shows what decisions are about."""


def panels(runs: Sequence[Timeline]) -> Iterator[str]:
    """All charts. Those of one run stand beside each other, those of two each beside its like."""
    of_drivers = [*_slots(runs), *_storage(runs)]
    topics = [_waiting(runs), _nodes(runs), *of_drivers, _running(runs), *_cost(runs)]
    numbers = count(1)

    def panel(topic: _Topic, position: int, head: str) -> str:
        return _panel(topic, runs, position, head=head, identity=f"chart-{next(numbers)}")

    if len(runs) == 1:
        yield "<h2>Over time</h2>"
        yield _row(panel(topic, 0, topic.title) for topic in topics)
        return
    for topic in topics:
        if not topic.shared:
            yield f"<h2>{escape(topic.title)}</h2>"
            yield _row(panel(topic, nth, run_name(run)) for nth, run in enumerate(runs))
    yield "<h2>Both runs in one chart</h2>"
    yield _row(panel(topic, 0, topic.title) for topic in topics if topic.shared)


def _row(found: Iterator[str]) -> str:
    return "\n".join(['<div class="panels">', *found, "</div>"])


def _panel(
    topic: _Topic, runs: Sequence[Timeline], position: int, *, head: str, identity: str
) -> str:
    run, series = runs[position], topic.series[position]
    whose = "" if topic.shared or len(runs) == 1 else f": {run_name(run)}"
    chart = Chart(
        title=f"{topic.title}{whose}",
        description=_described(series),
        series=series,
        end=run.duration,
        unit=topic.unit,
        whole=topic.whole,
        # Charts side by side have the same scale.
        top=max(map(charts.highest, topic.series)),
        markers=_markers(run, decided=topic.decided),
    )
    return "\n".join(
        [
            f'<figure class="panel"><h3>{escape(head)}</h3>',
            charts.legend(chart),
            charts.svg(chart, identity=identity),
            interactive.box(chart, identity=identity),
            "</figure>",
        ]
    )


def _described(series: Sequence[ChartSeries]) -> str:
    """What somebody who cannot see the chart should know."""
    parts = []
    for one in series:
        values = [value for _, value in one.points]
        if values:
            parts.append(f"{one.name}: at most {max(values):,.6g}, at the end {values[-1]:,.6g}")
    return "; ".join(parts)


def _markers(run: Timeline, *, decided: bool) -> list[Marker]:
    done = [Marker(mark.at, mark.text) for mark in run.marks]
    chosen = [
        Marker(decision.at, figures.decision(decision), "decided") for decision in run.decisions
    ]
    groups = (done, chosen if decided else [])
    return [marker for group in groups if len(group) <= _MARKERS for marker in group]


def _waiting(runs: Sequence[Timeline]) -> _Topic:
    """The worst at the bottom, where its course is not bent by the others."""
    found = [
        [
            ChartSeries("stuck on a node", "c-stuck", _over(run, lambda s: s.pods.stuck), "area"),
            ChartSeries(
                "pending, no node", "c-pending", _over(run, lambda s: s.pods.pending), "area"
            ),
            ChartSeries(
                "starting on a node",
                "c-starting",
                _over(run, lambda s: s.pods.starting - s.pods.stuck),
                "area",
            ),
        ]
        for run in runs
    ]
    return _Topic("Pods that do not run", "pods", found)


def _nodes(runs: Sequence[Timeline]) -> _Topic:
    shown: list[NodeState] = [
        state
        for state in NODE_STATES
        if any(sample.nodes.get(state) for run in runs for sample in run.samples)
    ]
    found = [[_state(run, state) for state in shown or NODE_STATES[:1]] for run in runs]
    return _Topic("Nodes by state", "nodes", found, decided=True)


def _state(run: Timeline, state: NodeState) -> ChartSeries:
    values = _over(run, lambda s: s.nodes.get(state, 0))
    return ChartSeries(figures.STATES[state], f"c-{state.lower()}", values, "area")


def _slots(runs: Sequence[Timeline]) -> Iterator[_Topic]:
    for driver in drivers(runs):
        found = [_slots_of(run, driver) for run in runs]
        if not any(value for series in found for _, value in series[1].points):
            found = [series[:1] for series in found]  # no node gives a number, which is not 0
        if any(sample.slots_of(driver).over for run in runs for sample in run.samples):
            for run, series in zip(runs, found, strict=True):
                over = _over(run, lambda s, driver=driver: s.slots_of(driver).over)  # type: ignore[misc]
                series.append(ChartSeries("over the limit of a node", "c-stuck", over, "line"))
        yield _Topic(f"Volume slots of {driver}", "slots", found)


def _slots_of(run: Timeline, driver: str) -> list[ChartSeries]:
    used = _over(run, lambda s: s.slots_of(driver).used)
    limit = _over(run, lambda s: s.slots_of(driver).limit)
    return [
        ChartSeries("used", "c-used", used, "area"),
        ChartSeries("limit of all nodes", "c-limit", limit, "limit"),
    ]


def _storage(runs: Sequence[Timeline]) -> Iterator[_Topic]:
    for driver in storage_drivers(runs):
        found = [_storage_of(run, driver) for run in runs]
        yield _Topic(f"Local storage of {driver}", "GiB", found, whole=False)


def _storage_of(run: Timeline, driver: str) -> list[ChartSeries]:
    used = _over(run, lambda s: s.storage_of(driver).used_bytes / GIB)
    total = _over(run, lambda s: s.storage_of(driver).total_bytes / GIB)
    return [
        ChartSeries("used", "c-used", used, "area"),
        ChartSeries("total of all nodes", "c-limit", total, "limit"),
    ]


def _running(runs: Sequence[Timeline]) -> _Topic:
    series = _together(runs, "running", lambda s: s.pods.running)
    return _Topic("Pods that run", "pods", [series], shared=True)


def _cost(runs: Sequence[Timeline]) -> Iterator[_Topic]:
    if any(run.summary.cost for run in runs):
        series = [one._replace(shape="slope") for one in _together(runs, "cost", lambda s: s.cost)]
        yield _Topic(
            "Cost so far, in units of pricePerHour", "cost", [series], shared=True, whole=False
        )


def _together(
    runs: Sequence[Timeline], name: str, value: Callable[[Sample], float]
) -> list[ChartSeries]:
    """A line for each run."""
    if len(runs) == 1:
        return [ChartSeries(name, "c-running", _over(runs[0], value))]
    return [
        ChartSeries(run_name(run), colour, _over(run, value))
        for run, colour in zip(runs, _RUNS, strict=True)
    ]


def _over(run: Timeline, value: Callable[[Sample], float]) -> list[tuple[float, float]]:
    return [(sample.at, value(sample)) for sample in run.samples]

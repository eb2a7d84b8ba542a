"""One HTML file about a run, or two side by side; it needs no network, no scripts and no fonts."""

from collections.abc import Callable, Iterator, Sequence
from html import escape

from tonnage.report import charts, figures, style
from tonnage.report.charts import Chart, Marker, Series
from tonnage.report.figures import FIGURES, Figure, run_name
from tonnage.report.text import thinned
from tonnage.report.timeline import NODE_STATES, NodeState, Sample, Timeline

_CARDS = (
    "pendingAtEnd", "stuckAtEnd", "timeToRunningP50", "timeToRunningP99", "nodesBought", "cost",
)  # fmt: skip
_STATES: dict[NodeState, tuple[str, str]] = {
    "ready": ("ready", "c-ready"),
    "comingUp": ("Ready, driver missing", "c-coming"),
    "starting": ("starting", "c-starting"),
    "requested": ("requested", "c-requested"),
    "notReady": ("not ready", "c-notready"),
}
_RUNS = ("c-first", "c-second")
_MARKERS = 40
"""Beyond that many, markers would only be a curtain."""
_SAMPLES = 60
"""Rows of the table that stands for the charts."""


def page(runs: Sequence[Timeline]) -> str:
    """The whole page, for one run or two of the same scenario."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(runs[0].name)} - Tonnage simulation</title>",
            f"<style>{style.sheet()}</style>",
            "</head>",
            "<body>",
            "<main>",
            *_head(runs),
            *_cards(runs),
            *_waiting(runs),
            *_nodes(runs),
            *_slots(runs),
            *_cost(runs),
            *_figures(runs),
            *(line for run in runs for line in _decisions(run, several=len(runs) > 1)),
            *(line for run in runs for line in _samples(run, several=len(runs) > 1)),
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _head(runs: Sequence[Timeline]) -> Iterator[str]:
    first = runs[0]
    yield f"<header><h1>{escape(first.name)}</h1>"
    if first.description:
        yield f'<p class="lead">{escape(first.description)}</p>'
    facts = [
        f"{figures.duration(first.duration)} of cluster time",
        f"seed {first.seed}",
        *(f"{run_name(run)}: {run.summary.changes:,} changes of objects" for run in runs),
    ]
    yield f'<p class="facts">{escape(" · ".join(facts))}</p>'
    for problem in dict.fromkeys(problem for run in runs for problem in run.problems):
        yield f'<p class="facts">Note: {escape(problem)}</p>'
    yield "</header>"


def _cards(runs: Sequence[Timeline]) -> Iterator[str]:
    yield '<section class="cards" aria-label="Summary">'
    by_key = {figure.key: figure for figure in FIGURES}
    for key in _CARDS:
        figure = by_key[key]
        yield f'<div class="card"><h3>{escape(figure.title)}</h3><div class="values">'
        for position, run in enumerate(runs):
            value = figures.shown(figure.of(run.summary), figure.unit)
            small = f"<small>{escape(run_name(run))}</small>" if len(runs) > 1 else ""
            yield f'<div class="value{_judged(figure, runs, position)}">{value}{small}</div>'
        yield "</div></div>"
    yield "</section>"


def _judged(figure: Figure, runs: Sequence[Timeline], position: int) -> str:
    best = figures.better(figure, runs)
    if best is None:
        return ""
    return " better" if best == position else " worse"


def _waiting(runs: Sequence[Timeline]) -> Iterator[str]:
    yield "<h2>Pods that do not run</h2>"
    found = [
        [
            Series("pending: no node", "c-pending", _over(run, lambda s: s.pods.pending), "area"),
            Series("stuck on a node", "c-stuck", _over(run, lambda s: s.pods.stuck), "area"),
        ]
        for run in runs
    ]
    yield from _side_by_side(runs, found, what="Pods pending and stuck over time")
    yield "<h2>Pods that run</h2>"
    together = [
        Series(
            run_name(run) if len(runs) > 1 else "running",
            _RUNS[position] if len(runs) > 1 else "c-running",
            _over(run, lambda s: s.pods.running),
        )
        for position, run in enumerate(runs)
    ]
    yield from _one(runs, together, what="Pods running over time", identity="running")


def _nodes(runs: Sequence[Timeline]) -> Iterator[str]:
    yield "<h2>Nodes by state</h2>"
    shown: list[NodeState] = [
        state
        for state in NODE_STATES
        if any(sample.nodes.get(state) for run in runs for sample in run.samples)
    ]
    found = [[_state(run, state) for state in shown] for run in runs]
    yield from _side_by_side(runs, found, what="Nodes by state over time")


def _state(run: Timeline, state: NodeState) -> Series:
    name, colour = _STATES[state]
    return Series(name, colour, _over(run, lambda s: s.nodes.get(state, 0)), "area")


def _slots(runs: Sequence[Timeline]) -> Iterator[str]:
    drivers = sorted({use.driver for run in runs for one in run.samples for use in one.slots})
    for driver in drivers:
        yield f"<h2>Volume slots of {escape(driver)}</h2>"
        found = [
            [
                Series("used", "c-used", _slot(run, driver, "used"), "area"),
                Series("limit of all nodes", "c-limit", _slot(run, driver, "limit"), "limit"),
            ]
            for run in runs
        ]
        yield from _side_by_side(runs, found, what=f"Slots of {driver} over time")


def _slot(run: Timeline, driver: str, field: str) -> list[tuple[float, float]]:
    def value(sample: Sample) -> float:
        return next((getattr(one, field) for one in sample.slots if one.driver == driver), 0)

    return [(sample.at, value(sample)) for sample in run.samples]


def _cost(runs: Sequence[Timeline]) -> Iterator[str]:
    if not any(run.summary.cost for run in runs):
        return
    yield "<h2>Cost so far</h2>"
    together = [
        Series(
            run_name(run) if len(runs) > 1 else "cost",
            _RUNS[position] if len(runs) > 1 else "c-running",
            _over(run, lambda s: s.cost),
            "slope",
        )
        for position, run in enumerate(runs)
    ]
    yield from _one(runs, together, what="Cost over time", identity="cost")


def _side_by_side(
    runs: Sequence[Timeline], found: Sequence[Sequence[Series]], *, what: str
) -> Iterator[str]:
    """A chart for each run, on the same scale."""
    top = max((charts.highest(series) for series in found), default=0.0)
    yield '<div class="panels">'
    for position, (run, series) in enumerate(zip(runs, found, strict=True)):
        name = f"{what}: {run_name(run)}"
        chart = Chart(
            title=name,
            description=_described(series),
            series=series,
            end=run.duration,
            top=top,
            markers=_markers(run),
        )
        identity = "".join(c if c.isalnum() else "-" for c in f"{what}-{position}").lower()
        yield f'<figure class="panel" style="margin:0"><h3>{escape(run_name(run))}</h3>'
        yield charts.legend(series)
        yield charts.svg(chart, identity=identity)
        yield "</figure>"
    yield "</div>"


def _one(
    runs: Sequence[Timeline], series: Sequence[Series], *, what: str, identity: str
) -> Iterator[str]:
    chart = Chart(
        title=what,
        description=_described(series),
        series=series,
        end=runs[0].duration,
        markers=_markers(runs[0]),
    )
    yield '<figure class="panel" style="margin:0">'
    yield charts.legend(series)
    yield charts.svg(chart, identity=identity)
    yield "</figure>"


def _described(series: Sequence[Series]) -> str:
    """What somebody who cannot see the chart should know."""
    parts = []
    for one in series:
        values = [value for _, value in one.points]
        if values:
            parts.append(f"{one.name}: at most {max(values):,.10g}, at the end {values[-1]:,.10g}")
    return "; ".join(parts)


def _markers(run: Timeline) -> list[Marker]:
    marks = [Marker(mark.at, mark.text) for mark in run.marks]
    return marks if len(marks) <= _MARKERS else []


def _figures(runs: Sequence[Timeline]) -> Iterator[str]:
    yield '<h2>All figures</h2><div class="panel scroll"><table>'
    heads = [run_name(run) for run in runs] if len(runs) > 1 else ["value"]
    heads += ["change"] if len(runs) == 2 else []
    cells = "".join(f'<th scope="col" class="number">{escape(head)}</th>' for head in heads)
    yield f'<thead><tr><th scope="col">figure</th>{cells}</tr></thead><tbody>'
    for figure in FIGURES:
        values = [figure.of(run.summary) for run in runs]
        row = "".join(
            f'<td class="number{_judged(figure, runs, position)}">'
            f"{figures.shown(value, figure.unit)}</td>"
            for position, value in enumerate(values)
        )
        if len(runs) == 2:
            row += f'<td class="number">{figures.change(values[0], values[1], figure.unit)}</td>'
        yield f'<tr><th scope="row">{escape(figure.title)}</th>{row}</tr>'
    yield "</tbody></table></div>"


def _decisions(run: Timeline, *, several: bool) -> Iterator[str]:
    of = f": {escape(run_name(run))}" if several else ""
    yield f"<h2>What happened, and why{of}</h2>"
    yield '<div class="panel scroll"><table><thead><tr><th scope="col">time</th>'
    yield '<th scope="col">what</th><th scope="col" class="number">nodes</th>'
    yield '<th scope="col" class="number">for pods</th><th scope="col">why</th></tr></thead><tbody>'
    rows: list[tuple[float, int, str]] = [
        (mark.at, 0, f'<td colspan="4">{escape(mark.text)}</td>') for mark in run.marks
    ]
    for one in run.decisions:
        sign = "+" if one.deed == "increase" else "-"
        refused = f' <span class="worse">refused: {escape(one.error)}</span>' if one.error else ""
        cells = (
            f'<td>{escape(one.group)}{refused}</td><td class="number">{sign}{one.nodes}</td>'
            f'<td class="number">{one.pods or ""}</td><td>{escape(one.reason)}</td>'
        )
        rows.append((one.at, 1, cells))
    rows.sort(key=lambda row: row[:2])
    for at, kind, cells in rows:
        mark = "" if kind else ' class="mark"'
        yield f'<tr{mark}><td class="number">{figures.moment(at)}</td>{cells}</tr>'
    if not rows:
        yield '<tr><td colspan="5">Nothing was decided.</td></tr>'
    yield "</tbody></table></div>"


def _samples(run: Timeline, *, several: bool) -> Iterator[str]:
    """The charts as a table, for those who read rather than see."""
    of = f": {escape(run_name(run))}" if several else ""
    yield f"<details><summary>The charts as a table{of}</summary>"
    yield '<div class="panel scroll"><table><thead><tr>'
    heads = ("time", "pending", "starting", "stuck", "running")
    for head in (*heads, *(_STATES[state][0] for state in NODE_STATES), "cost"):
        yield f'<th scope="col" class="number">{escape(head)}</th>'
    yield "</tr></thead><tbody>"
    for sample in thinned(run.samples, _SAMPLES):
        pods = sample.pods
        numbers = [pods.pending, pods.starting, pods.stuck, pods.running]
        numbers += [sample.nodes.get(state, 0) for state in NODE_STATES]
        cells = [figures.moment(sample.at), *(f"{n:,}" for n in numbers), f"{sample.cost:,.2f}"]
        yield "<tr>" + "".join(f'<td class="number">{cell}</td>' for cell in cells) + "</tr>"
    yield "</tbody></table></div></details>"


def _over(run: Timeline, value: Callable[[Sample], float]) -> list[tuple[float, float]]:
    return [(sample.at, value(sample)) for sample in run.samples]

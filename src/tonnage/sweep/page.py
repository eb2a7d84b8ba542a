"""The summary of a sweep as one HTML file: charts and tables, no scripts, no network."""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from html import escape
from itertools import count

from tonnage.report import charts, style
from tonnage.report.charts import Chart, ChartSeries
from tonnage.report.page import Origin, document
from tonnage.sweep.summary import SHOWN, AxisSummary, SweepSummary

_MOST_VALUES = 400
"""A chart with more points than it has pixels shows nothing more."""


def page(summary: SweepSummary, *, origin: Origin | None = None) -> str:
    """The whole page."""
    sheet = style.sheet()
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    parts = (
        *_head(summary),
        *_cards(summary),
        *_charts(summary),
        *_best(summary),
        *_axes(summary),
        *_failed(summary),
    )
    return document(summary.sweep, parts, origin, policy=policy, sheet=sheet)


def _head(summary: SweepSummary) -> Iterator[str]:
    yield f"<header><h1>{escape(summary.sweep)}</h1>"
    facts = [f"{summary.variants:,} variants", f"asked: {summary.ask}"]
    facts += [f"{summary.failed:,} failed"] if summary.failed else []
    facts += [f"{summary.missing:,} missing"] if summary.missing else []
    yield f'<p class="facts">{escape(" · ".join(facts))}</p></header>'


def _cards(summary: SweepSummary) -> Iterator[str]:
    yield '<section class="cards" aria-label="Summary">'
    for name in SHOWN.get(summary.ask, ()):
        spread = summary.figures.get(name)
        if spread is not None:
            yield f'<div class="card"><h3>{escape(name)}</h3><div class="values">'
            yield f'<span class="value">{number(spread.median)}</span>'
            yield f"<small>median; {number(spread.least)} to {number(spread.most)}</small>"
            yield "</div></div>"
    yield "</section>"


def _charts(summary: SweepSummary) -> Iterator[str]:
    numbers = count(1)
    for axis in summary.axes:
        if not 2 <= len(axis.values) <= _MOST_VALUES:
            continue
        drawn = [
            _panel(axis, name, identity=f"chart-{next(numbers)}")
            for name in SHOWN.get(summary.ask, ())
            if sum(name in one.figures for one in axis.values) > 1
        ]
        if drawn:
            yield f"<h2>By {escape(axis.axis)}</h2>"
            yield "\n".join(['<div class="panels">', *drawn, "</div>"])


def _panel(axis: AxisSummary, name: str, *, identity: str) -> str:
    chart = chart_of(axis, name)
    return "\n".join(
        [
            f'<figure class="panel"><h3>{escape(name)}</h3>',
            charts.legend(chart),
            charts.svg(chart, identity=identity),
            "</figure>",
        ]
    )


def chart_of(axis: AxisSummary, name: str) -> Chart:
    """A figure over the values of an axis: the median, between the least and the most."""
    spreads = [(at, one.figures.get(name)) for at, one in enumerate(axis.values)]
    lines: list[tuple[str, str, list[tuple[float, float]]]] = [
        ("most", "c-used", [(at, one.most) for at, one in spreads if one is not None]),
        ("median", "c-running", [(at, one.median) for at, one in spreads if one is not None]),
        ("least", "c-ready", [(at, one.least) for at, one in spreads if one is not None]),
    ]
    median = [value for _, value in lines[1][2]]
    return Chart(
        title=f"{name} by {axis.axis}",
        description=f"median from {min(median):,.6g} to {max(median):,.6g}",
        series=[ChartSeries(title, colour, points, "slope") for title, colour, points in lines],
        end=float(len(axis.values) - 1),
        unit=name,
        whole=all(float(value).is_integer() for line in lines for _, value in line[2]),
        ticks=[shown(one.value) for one in axis.values],
    )


def _best(summary: SweepSummary) -> Iterator[str]:
    if summary.best:
        names = list(summary.best[0].figures)
        title = "Worth a look" if summary.ask == "explore" else "The best"
        rows = [
            (one.cluster, one.variant, *(number(one.figures.get(name)) for name in names))
            for one in summary.best
        ]
        yield from _table(title, ("cluster", "variant", *names), rows)


def _axes(summary: SweepSummary) -> Iterator[str]:
    names = [name for name in SHOWN.get(summary.ask, ()) if name in summary.figures]
    for axis in summary.axes:
        rows = [
            (
                shown(one.value),
                f"{one.variants:,}",
                f"{one.failed:,}",
                *(
                    number(one.figures[name].median) if name in one.figures else "-"
                    for name in names
                ),
            )
            for one in axis.values[:_MOST_VALUES]
        ]
        heads = (axis.axis, "variants", "failed", *(f"{name}, median" for name in names))
        yield from _table(f"By {axis.axis}, in numbers", heads, rows)


def _failed(summary: SweepSummary) -> Iterator[str]:
    if summary.errors:
        rows = [(one.cluster, one.variant, one.error) for one in summary.errors]
        yield from _table("Failed", ("cluster", "variant", "why"), rows)


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f'<h2>{escape(title)}</h2><div class="panel">'
    yield f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(title)}"><table>'
    cells = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    yield f"<thead><tr>{cells}</tr></thead><tbody>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
    yield "</tbody></table></div></div>"


def shown(value: str | float) -> str:
    """A value of an axis as it was written."""
    return value if isinstance(value, str) else f"{value:g}"


def number(value: float | None) -> str:
    """A figure as people read it."""
    if value is None:
        return "-"
    return f"{value:,.3f}".rstrip("0").rstrip(".")

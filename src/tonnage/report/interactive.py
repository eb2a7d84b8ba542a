"""Charts of a report as the board draws them: their data, the scripts, and the rules for both."""

import base64
import hashlib
import json
from functools import cache
from html import escape
from importlib import resources
from typing import Any

from tonnage.report import charts, style
from tonnage.report.charts import Chart, ChartSeries

_DECIMALS = 6


def box(chart: Chart, *, identity: str) -> str:
    """Where a chart is drawn, with all it shows; title and words are those of its picture."""
    labels = f"{identity}-title {identity}-about"
    data = escape(json.dumps(_data(chart), ensure_ascii=False, separators=(",", ":")))
    return f'<div class="plotted" role="img" aria-labelledby="{labels}" data-chart="{data}"></div>'


@cache
def script() -> str:
    """Everything that runs in the page; the licence goes where the vendored part goes."""
    names = ("vendor/uPlot.iife.min.js", "chart.js", "report.js")
    licence = f"/*!\n{_read('vendor/LICENSE.uplot')}*/"
    return "\n".join([licence, *(_read(name) for name in names)])


@cache
def sheet() -> str:
    """The whole style sheet of the page."""
    return f"{_read('vendor/uPlot.min.css')}{style.sheet()}"


@cache
def policy() -> str:
    """What a browser may do for the page: run and apply what stands in it, fetch nothing."""
    return (
        f"default-src 'none'; script-src {_digest(script())}; style-src {_digest(sheet())}; "
        "base-uri 'none'; form-action 'none'"
    )


def _data(chart: Chart) -> dict[str, Any]:
    """What `chart.js` draws. Every series has a value at every time, and counts hold to the end."""
    times = sorted({at for one in chart.series for at, _ in one.points} | {chart.end})
    return {
        "times": times,
        "series": [
            {
                "name": one.name,
                "colour": one.colour.removeprefix("c-"),
                "shape": one.shape,
                "values": _values(one, times),
            }
            for one in chart.series
        ],
        "marks": [
            {"at": marker.at, "text": marker.text, "kind": marker.kind} for marker in chart.markers
        ],
        "unit": chart.unit,
        "stacked": True,
        "relative": True,
        "end": max(chart.end, 1.0),
        "top": charts.highest(chart.series) if chart.top is None else chart.top,
    }


def _values(series: ChartSeries, times: list[float]) -> list[float | None]:
    told = {at: round(value, _DECIMALS) for at, value in series.points}
    found: list[float | None] = []
    for at in times:
        # What adds up goes straight on to its next sample; a count is what it was.
        held = found[-1] if found and series.shape != "slope" else None
        found.append(told.get(at, held))
    return found


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    return resources.files("tonnage.report").joinpath("static").joinpath(name).read_text("utf-8")

"""Charts as SVG: lines and stacked areas over time, readable without colours and scripts.

Counts hold from one sample to the next, so their lines go in steps. Colours are classes: the page
says what they are, in light and in dark.
"""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import count
from math import ceil, floor, log10
from typing import Literal, NamedTuple

from tonnage.report.figures import duration

WIDTH, HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 12, 28
_BOX = f"0 0 {WIDTH} {HEIGHT}"

Shape = Literal["line", "slope", "area", "limit"]
"""`slope` goes straight from sample to sample, for what adds up; `area` is filled down to what is
stacked below it, `limit` is a dashed line."""


class Series(NamedTuple):
    """Values over time; `colour` is a class of the page's style sheet."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    shape: Shape = "line"


class Marker(NamedTuple):
    """A moment worth a look: a dashed line through the chart, with words on hover."""

    at: float
    text: str


class Chart(NamedTuple):
    """What a chart shows. Areas are stacked in the order of the series."""

    title: str
    description: str
    series: Sequence[Series]
    end: float
    top: float | None = None
    """The highest value of the axis, so that charts side by side can be compared."""
    markers: Sequence[Marker] = ()
    unit: str = ""


def highest(series: Sequence[Series]) -> float:
    """The highest value that these series reach, areas on top of each other."""
    lines = [value for one in series if one.shape != "area" for _, value in one.points]
    stacked = _stacked([one for one in series if one.shape == "area"])
    areas = [value for one in stacked for _, _, value in one[1]]
    return max([*lines, *areas], default=0.0)


def svg(chart: Chart, *, identity: str) -> str:
    """The chart as an element of a page; `identity` is unique on it."""
    scale = _Scale(chart)
    title, about = f"{identity}-title", f"{identity}-about"
    return "\n".join(
        [
            f'<svg class="chart" viewBox="{_BOX}" role="img" aria-labelledby="{title} {about}">',
            f'<title id="{title}">{escape(chart.title)}</title>',
            f'<desc id="{about}">{escape(chart.description)}</desc>',
            *_axes(chart, scale),
            *_shapes(chart, scale),
            *_markers(chart, scale),
            "</svg>",
        ]
    )


def legend(series: Sequence[Series]) -> str:
    """Names beside their colours."""
    entries = (
        f'<span class="entry"><span class="swatch {one.colour} {one.shape}"></span>'
        f"{escape(one.name)}</span>"
        for one in series
    )
    return f'<p class="legend">{"".join(entries)}</p>'


class _Scale:
    """From seconds and values to points of the drawing."""

    def __init__(self, chart: Chart) -> None:
        top = chart.top if chart.top is not None else highest(chart.series)
        self.step = _round_step(max(top, 1.0) / 4)
        self.top = max(ceil(max(top, 1.0) / self.step - 1e-9), 1) * self.step
        self.end = max(chart.end, 1.0)

    def x(self, seconds: float) -> float:
        inside = min(max(seconds / self.end, 0.0), 1.0)
        return round(_LEFT + inside * (WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        return round(HEIGHT - _BOTTOM - value / self.top * (HEIGHT - _TOP - _BOTTOM), 1)


def _axes(chart: Chart, scale: _Scale) -> Iterator[str]:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    for turn in range(round(scale.top / scale.step) + 1):
        value = turn * scale.step
        y = scale.y(value)
        yield f'<line class="grid" x1="{_LEFT}" y1="{y:g}" x2="{right}" y2="{y:g}"/>'
        shown = f"{value:,.10g}{chart.unit}"
        yield f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:g}" text-anchor="end">{shown}</text>'
    every = _time_step(scale.end)
    for turn in count():
        at = turn * every
        if at > scale.end * 1.0001:
            break
        anchor = "start" if turn == 0 else "end" if at > scale.end * 0.97 else "middle"
        x = scale.x(at)
        yield f'<line class="grid" x1="{x:g}" y1="{bottom}" x2="{x:g}" y2="{bottom + 4}"/>'
        yield (
            f'<text class="tick" x="{x:g}" y="{HEIGHT - 9}" text-anchor="{anchor}">'
            f"{_tick(at)}</text>"
        )


def _shapes(chart: Chart, scale: _Scale) -> Iterator[str]:
    for one, bands in _stacked([one for one in chart.series if one.shape == "area"]):
        upper = _path([(at, high) for at, _, high in bands], chart.end, scale)
        lower = _path([(at, low) for at, low, _ in bands], chart.end, scale)
        if upper:
            name = escape(one.name)
            yield f'<path class="{one.colour} area" d="M{_joined(upper)}L{_joined(lower[::-1])}Z">'
            yield f"<title>{name}</title></path>"
    for one in chart.series:
        points: list[tuple[float, float]] = []
        if one.shape == "slope":
            points = [(scale.x(at), scale.y(value)) for at, value in one.points]
        elif one.shape != "area":
            points = _path(one.points, chart.end, scale)
        if points:
            name = escape(one.name)
            yield f'<path class="{one.colour} {one.shape}" d="M{_joined(points)}">'
            yield f"<title>{name}</title></path>"


def _markers(chart: Chart, scale: _Scale) -> Iterator[str]:
    for marker in chart.markers:
        x = scale.x(marker.at)
        yield f'<g class="marker"><title>{escape(marker.text)}</title>'
        yield f'<line x1="{x:g}" y1="{_TOP}" x2="{x:g}" y2="{HEIGHT - _BOTTOM}"/>'
        yield f'<path d="M{x - 4:g} {_TOP - 6}h8l-4 7z"/></g>'


def _stacked(
    series: Sequence[Series],
) -> list[tuple[Series, list[tuple[float, float, float]]]]:
    """Each area with time, lower and upper edge; all of them have the same times."""
    found = []
    below = [0.0] * (len(series[0].points) if series else 0)
    for one in series:
        upper = [low + value for low, (_, value) in zip(below, one.points, strict=True)]
        times = (at for at, _ in one.points)
        found.append((one, list(zip(times, below, upper, strict=True))))
        below = upper
    return found


def _path(
    points: Sequence[tuple[float, float]], end: float, scale: _Scale
) -> list[tuple[float, float]]:
    """Corners of a line in steps; what falls on the same point of the drawing is left out."""
    corners: list[tuple[float, float]] = []
    for at, value in points:
        x, y = scale.x(at), scale.y(value)
        if corners and corners[-1][1] == y:
            continue
        if corners:
            corners.append((x, corners[-1][1]))
        corners.append((x, y))
    if corners:
        corners.append((scale.x(end), corners[-1][1]))
    return corners


def _joined(corners: list[tuple[float, float]]) -> str:
    return "L".join(f"{x:g} {y:g}" for x, y in corners)


def _round_step(rough: float) -> float:
    """The next of 1, 2, 5, 10, 20 ... that is not smaller."""
    power = 10.0 ** floor(log10(rough))
    step = next(one for one in (1.0, 2.0, 5.0, 10.0) if one * power >= rough - 1e-9) * power
    return max(step, 1.0) if rough >= 0.5 else step


def _time_step(end: float) -> float:
    """Seconds between ticks: at most eight of them, at round times."""
    steps = (
        5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
    )  # fmt: skip
    return float(next((one for one in steps if end / one <= 8), ceil(end / 8 / 86_400) * 86_400))


def _tick(at: float) -> str:
    if at == 0:
        return "0"
    text = duration(at)
    for empty in ("00s", "00m", "00h"):
        text = text.removesuffix(empty)
    return text

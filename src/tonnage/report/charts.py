"""Charts as SVG: lines and stacked areas over time, readable without colours and scripts.

The drawing stretches to the width it is given and words keep their size: what is drawn lies in an
inner SVG of `SIZE` by `SIZE` without a fixed aspect, all else is placed by per cent. Counts hold
from one sample to the next, so their lines go in steps. Colours are classes: the page says what
they are, in light and in dark.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from html import escape
from itertools import count
from math import ceil, floor, log10
from typing import Literal, NamedTuple

from tonnage.report.figures import moment

SIZE = 1000
_SLICES = 60
"""Columns of a chart that tell their values on hover: wide enough to be hit with a pointer."""

_NAMES = 8
"""Names that fit under a chart."""

Shape = Literal["line", "slope", "area", "limit"]
"""`slope` goes straight from sample to sample, for what adds up; `area` is filled down to what is
stacked below it, `limit` is a dashed line."""


class ChartSeries(NamedTuple):
    """Values over time; `colour` is a class of the page's style sheet."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    shape: Shape = "line"


class Marker(NamedTuple):
    """A moment worth a look, with words on hover: done to the cluster, or decided in it."""

    at: float
    text: str
    kind: Literal["done", "decided"] = "done"


_KINDS = {"done": "event", "decided": "decision"}


class Chart(NamedTuple):
    """What a chart shows. Areas are stacked in the order of the series."""

    title: str
    description: str
    series: Sequence[ChartSeries]
    end: float
    unit: str = ""
    whole: bool = True
    """Values are counts, so half of one is no tick of the axis."""
    top: float | None = None
    """The highest value of the axis, so that charts side by side can be compared."""
    markers: Sequence[Marker] = ()
    ticks: Sequence[str] = ()
    """Names of the points 0, 1, 2, ... where these are not seconds but choices."""


def highest(series: Sequence[ChartSeries]) -> float:
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
            f'<svg class="chart" role="img" aria-labelledby="{title} {about}">',
            f'<title id="{title}">{escape(chart.title)}</title>',
            f'<desc id="{about}">{escape(chart.description)}</desc>',
            *_axes(chart, scale),
            f'<svg class="plot" viewBox="0 0 {SIZE} {SIZE}" preserveAspectRatio="none">',
            *_shapes(chart, scale),
            *_slices(chart, scale),
            "</svg>",
            *_markers(chart, scale),
            "</svg>",
        ]
    )


def legend(chart: Chart) -> str:
    """Names beside their colours and signs."""
    swatches = [(f"{one.colour} {one.shape}", one.name) for one in chart.series]
    kinds = {marker.kind for marker in chart.markers}
    swatches += [(kind, name) for kind, name in _KINDS.items() if kind in kinds]
    entries = (
        f'<span class="entry"><span class="swatch {sign}"></span>{escape(name)}</span>'
        for sign, name in swatches
    )
    return f'<p class="legend">{"".join(entries)}</p>'


class _Scale:
    """From seconds and values to points of the drawing."""

    def __init__(self, chart: Chart) -> None:
        top = chart.top if chart.top is not None else highest(chart.series)
        self.step = _round_step((top or 1.0) / 5)
        if chart.whole:
            self.step = max(self.step, 1.0)
        self.top = ceil((top or 1.0) / self.step - 1e-9) * self.step
        self.end = max(chart.end, 1.0)
        self._decimals = max(0, -floor(log10(self.step) + 1e-9))

    def x(self, seconds: float) -> float:
        return round(min(max(seconds / self.end, 0.0), 1.0) * SIZE, 1)

    def y(self, value: float) -> float:
        return round((1 - value / self.top) * SIZE, 1)

    def tick(self, value: float) -> str:
        if self.top >= 1_000_000:
            return f"{value / 1_000_000:g}M"
        return f"{value:,.{self._decimals}f}"

    def amount(self, value: float) -> str:
        """Closer than a tick says it, where that is not a count."""
        return f"{value:,.0f}" if value == floor(value) else f"{value:,.{self._decimals + 1}f}"


def _axes(chart: Chart, scale: _Scale) -> Iterator[str]:
    yield f'<text class="tick unit" x="-8" y="-14">{escape(chart.unit)}</text>'
    for turn in range(round(scale.top / scale.step) + 1):
        value = turn * scale.step
        y = _percent(scale.y(value))
        yield f'<line class="grid" x1="0" y1="{y}" x2="100%" y2="{y}"/>'
        yield f'<text class="tick level" x="-8" y="{y}" dy="4">{scale.tick(value)}</text>'
    for at, name in _named_ticks(chart) if chart.ticks else _time_ticks(scale.end):
        x = _percent(scale.x(at))
        yield f'<line class="grid" x1="{x}" y1="0" x2="{x}" y2="100%"/>'
        yield f'<text class="tick when" x="{x}" y="100%" dy="19">{escape(name)}</text>'


def _time_ticks(end: float) -> Iterator[tuple[float, str]]:
    every = _time_step(end)
    for turn in count():
        at = turn * every
        if at > end * 1.0001:
            break
        yield at, _time(at)


def _named_ticks(chart: Chart) -> Iterator[tuple[float, str]]:
    """As many names as can stand beside each other."""
    every = ceil(len(chart.ticks) / _NAMES)
    for turn in range(0, len(chart.ticks), every):
        yield float(turn), chart.ticks[turn]


def _shapes(chart: Chart, scale: _Scale) -> Iterator[str]:
    for one, bands in _stacked([one for one in chart.series if one.shape == "area"]):
        if any(value for _, value in one.points):
            upper = _path([(at, high) for at, _, high in bands], chart.end, scale)
            lower = _path([(at, low) for at, low, _ in bands], chart.end, scale)
            outline = f"M{_joined(upper)}L{_joined(lower[::-1])}Z"
            yield f'<path class="{one.colour} area" d="{outline}"/>'
    for one in chart.series:
        points: list[tuple[float, float]] = []
        if one.shape == "slope":
            points = [(scale.x(at), scale.y(value)) for at, value in one.points]
        elif one.shape != "area":
            points = _path(one.points, chart.end, scale)
        if points:
            yield f'<path class="{one.colour} {one.shape}" d="M{_joined(points)}"/>'


def _slices(chart: Chart, scale: _Scale) -> Iterator[str]:
    """Columns without colour that say what the chart shows there."""
    if chart.ticks:
        yield from _named_slices(chart, scale)
        return
    width = scale.end / _SLICES
    for turn in range(_SLICES):
        since, until = turn * width, (turn + 1) * width
        words = [f"{moment(since)} to {moment(until)}"]
        for one in chart.series:
            values = _between(one.points, since, until)
            if values:
                shown = dict.fromkeys(scale.amount(edge) for edge in (min(values), max(values)))
                words.append(f"{one.name}: {' to '.join(shown)}")
        place = f'x="{scale.x(since):g}" width="{SIZE / _SLICES:.1f}" height="{SIZE}"'
        yield f'<rect class="slice" {place}>'
        yield f"<title>{escape(chr(10).join(words))}</title></rect>"


def _named_slices(chart: Chart, scale: _Scale) -> Iterator[str]:
    for turn, name in enumerate(chart.ticks):
        words = [name]
        for one in chart.series:
            words += [
                f"{one.name}: {scale.amount(value)}" for at, value in one.points if at == turn
            ]
        left, right = scale.x(turn - 0.5), scale.x(turn + 0.5)
        yield f'<rect class="slice" x="{left:g}" width="{right - left:g}" height="{SIZE}">'
        yield f"<title>{escape(chr(10).join(words))}</title></rect>"


def _between(points: Sequence[tuple[float, float]], since: float, until: float) -> list[float]:
    """The values that hold at some moment of a stretch of time."""
    first = bisect_right(points, since, key=lambda point: point[0])
    last = bisect_left(points, until, key=lambda point: point[0])
    return [value for _, value in points[max(first - 1, 0) : max(last, first)]]


def _markers(chart: Chart, scale: _Scale) -> Iterator[str]:
    for marker in chart.markers:
        x = _percent(scale.x(marker.at))
        words = f"{moment(marker.at)} {marker.text}"
        yield f'<g class="marker {marker.kind}"><title>{escape(words)}</title>'
        if marker.kind == "done":
            yield f'<line x1="{x}" y1="0" x2="{x}" y2="100%"/>'
            yield f'<svg x="{x}" y="0"><path d="M-5 -8h10l-5 8z"/></svg></g>'
        else:
            yield f'<svg x="{x}" y="100%"><path d="M-5 0h10l-5 -8z"/></svg></g>'


def _stacked(
    series: Sequence[ChartSeries],
) -> list[tuple[ChartSeries, list[tuple[float, float, float]]]]:
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


def _percent(place: float) -> str:
    return f"{place * 100 / SIZE:.4g}%"


def _round_step(rough: float) -> float:
    """The next of ... 0.5, 1, 2, 5, 10, 20 ... that is not smaller."""
    power = 10.0 ** floor(log10(rough))
    return next(one for one in (1.0, 2.0, 5.0, 10.0) if one * power >= rough * (1 - 1e-9)) * power


def _time_step(end: float) -> float:
    """Seconds between ticks: at most six of them, so that they fit a phone, at round times."""
    steps = (
        1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 14_400, 21_600,
        28_800, 43_200, 86_400,
    )  # fmt: skip
    return float(next((step for step in steps if end / step <= 6), ceil(end / 6 / 86_400) * 86_400))


def _time(at: float) -> str:
    """`0`, `30s`, `1m30s`, `5m`, `24h`; days from the third on."""
    whole = round(at)
    if whole > 2 * 86_400 and whole % 86_400 == 0:
        return f"{whole // 86_400}d"
    parts = (whole // 3_600, "h"), (whole % 3_600 // 60, "m"), (whole % 60, "s")
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0"

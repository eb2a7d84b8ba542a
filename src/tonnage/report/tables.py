"""The tables of a page: what happened and why, all figures, and the charts in numbers."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from tonnage.consolidation.right_size import SizeAdvice
from tonnage.report import figures
from tonnage.report.figures import FIGURES, GIB, Figure, run_name
from tonnage.report.text import thinned
from tonnage.report.timeline import (
    NODE_STATES,
    Decided,
    Sample,
    Timeline,
    drivers,
    storage_drivers,
)

_SAMPLES = 60
"""Rows of the table that stands for the charts."""


def happened(runs: Sequence[Timeline]) -> Iterator[str]:
    """What was done to the cluster and what was decided in it, in order; runs side by side."""
    yield '<h2>What happened, and why</h2><div class="panels">'
    for run in runs:
        yield '<div class="panel">'
        if len(runs) > 1:
            yield f"<h3>{escape(run_name(run))}</h3>"
        if not run.decisions:
            yield "<p>The autoscaler decided nothing.</p>"
        if run.marks or run.decisions:
            yield from opened(f"What happened: {run_name(run)}")
            yield '<thead><tr><th scope="col">time</th><th scope="col">what</th>'
            yield '<th scope="col">why</th></tr></thead><tbody>'
            yield from _events(run)
            yield "</tbody></table></div>"
        yield "</div>"
    yield "</div>"


def _events(run: Timeline) -> Iterator[str]:
    """Rows in order of time; what was done stands before what it led to."""
    rows = [
        *((mark.at, f'<td colspan="2">{escape(mark.text)}</td>', "done") for mark in run.marks),
        *((decision.at, _decision(decision), "decided") for decision in run.decisions),
    ]
    for at, cells, kind in sorted(rows, key=lambda row: row[0]):
        yield f'<tr class="{kind}"><td class="time">{figures.moment(at)}</td>{cells}</tr>'


def _decision(one: Decided) -> str:
    refused = f'<p class="worse">refused: {escape(one.error)}</p>' if one.error else ""
    what = escape(figures.decision(one))
    return f"<td>{what}{refused}</td><td>{escape(one.reason)}</td>"


def judged(figure: Figure, runs: Sequence[Timeline], position: int) -> str:
    """The class of a number that is better or worse than that of the other run."""
    best = figures.better(figure, runs)
    if best is None:
        return ""
    return " better" if best == position else " worse"


def all_figures(runs: Sequence[Timeline]) -> Iterator[str]:
    yield '<h2>All figures</h2><div class="panel figures">'
    yield from opened("All figures")
    heads = [run_name(run) for run in runs] if len(runs) > 1 else ["value"]
    heads += ["change"] if len(runs) == 2 else []
    cells = "".join(f'<th scope="col" class="number">{escape(head)}</th>' for head in heads)
    yield f'<thead><tr><th scope="col">figure</th>{cells}</tr></thead><tbody>'
    for figure in FIGURES:
        values = [figure.of(run.summary) for run in runs]
        row = "".join(
            f'<td class="number{judged(figure, runs, position)}">'
            f"{figures.shown(value, figure.unit)}</td>"
            for position, value in enumerate(values)
        )
        if len(runs) == 2:
            row += f'<td class="number">{figures.change(values[0], values[1], figure.unit)}</td>'
        yield f'<tr><th scope="row">{escape(figure.title)}</th>{row}</tr>'
    yield "</tbody></table></div></div>"


def samples(runs: Sequence[Timeline]) -> Iterator[str]:
    """The charts in numbers, for those who read rather than see."""
    for run in runs:
        of = f": {escape(run_name(run))}" if len(runs) > 1 else ""
        yield f'<details class="panel"><summary>The charts as a table{of}</summary>'
        yield from opened(f"The charts as a table: {run_name(run)}")
        own, local = drivers([run]), storage_drivers([run])
        heads = (
            "time",
            *("pods pending", "starting", "stuck", "running"),
            *(f"nodes {figures.STATES[state]}" for state in NODE_STATES),
            *(f"{driver} {what}" for driver in own for what in ("used", "limit")),
            *(f"{driver} {what}" for driver in local for what in ("used, GiB", "total, GiB")),
            "cost",
        )
        head = "".join(f'<th scope="col" class="number">{escape(head)}</th>' for head in heads)
        yield f"<thead><tr>{head}</tr></thead><tbody>"
        for sample in thinned(run.samples, _SAMPLES):
            cells = _numbers(sample, own, local)
            row = "".join(f'<td class="number">{cell}</td>' for cell in cells)
            yield f"<tr>{row}</tr>"
        yield "</tbody></table></div></details>"


def _numbers(sample: Sample, own: Sequence[str], local: Sequence[str]) -> Iterator[str]:
    pods = sample.pods
    uses = [sample.slots_of(driver) for driver in own]
    numbers = [pods.pending, pods.starting, pods.stuck, pods.running]
    numbers += [sample.nodes.get(state, 0) for state in NODE_STATES]
    numbers += [number for use in uses for number in (use.used, use.limit)]
    yield figures.moment(sample.at)
    yield from (f"{number:,}" for number in numbers)
    for use in map(sample.storage_of, local):
        yield figures.gibibytes(use.used_bytes)
        yield figures.gibibytes(use.total_bytes)
    yield f"{sample.cost:,.2f}"


def opened(name: str) -> Iterator[str]:
    """A table that scrolls in its own box, also by keyboard, and never with the page."""
    yield f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(name)}"><table>'


def size_advice(
    found: SizeAdvice, title: str = "Instance types", *, shown: int = 40
) -> Iterator[str]:
    """Types that would carry the cluster, the cheapest of them, and the best mix; stranded CPU and
    memory."""
    yield f'<h2>{escape(title)}</h2><div class="panel advice">'
    today = "" if found.cost_now is None else f" for {_money(found.cost_now)} an hour"
    if found.pods:
        yield f"<p>{found.pods:,} pods, on {found.nodes_now:,} nodes{today}. All pods packed anew:"
        yield "it is a direction, not a plan.</p>"
    for warning in found.warnings:
        yield f'<p class="facts">{escape(warning[:1].upper() + warning[1:])}.</p>'
    if found.types:
        yield from _table(
            "What each type would cost",
            ("type", "price/h", "usable slots", "price per slot", "nodes", "cost/h", "left out"),
            (
                (
                    one.instance_type,
                    _money(one.price),
                    "-" if one.slots is None else f"{one.slots:,}",
                    "-" if one.price_per_slot is None else _money(one.price_per_slot),
                    f"{one.nodes:,}",
                    _money(one.cost),
                    f"{one.left_out:,}",
                )
                for one in found.types[:shown]
            ),
        )
        mix = ", ".join(f"{count:,} {name}" for name, count in found.mix.items())
        best = f"The best mix found: {mix}, for {_money(found.mix_cost)} an hour;"
        yield f"<p>{escape(best)} none costs less than {_money(found.bound)}.</p>"
        sources = ", ".join(dict.fromkeys(one.source for one in found.types))
        yield f'<p class="facts">{escape(f"Prices: {sources}.")}</p>'
    lost = [one for one in found.stranded if one.cpu_milli or one.memory]
    if lost:
        yield "<h3>CPU and memory that lie idle because slots ran out</h3>"
        yield from _table(
            "Stranded CPU and memory",
            ("group", "driver", "CPUs", "memory, GiB"),
            (
                (one.group, one.driver, f"{one.cpu_milli / 1000:,g}", f"{one.memory / GIB:,.1f}")
                for one in lost
            ),
            words=2,
        )
    yield "</div>"


def _table(
    name: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1
) -> Iterator[str]:
    """`words` are the columns that begin a row; the others are numbers."""
    kinds = ["" if place < words else ' class="number"' for place in range(len(heads))]
    yield from opened(name)
    head = "".join(
        f'<th scope="col"{kind}>{escape(one)}</th>' for kind, one in zip(kinds, heads, strict=True)
    )
    yield f"<thead><tr>{head}</tr></thead><tbody>"
    for row in rows:
        cells = (f"<td{kind}>{escape(one)}</td>" for kind, one in zip(kinds, row, strict=True))
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"


def _money(amount: float) -> str:
    return f"{amount:,.4f}".rstrip("0").rstrip(".")

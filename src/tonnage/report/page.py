"""One HTML file about a run, or two side by side; it needs no network and no fonts.

Charts are drawn as those of the board. Without scripts, and on paper, they are pictures.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple

from tonnage.consolidation.right_size import SizeAdvice
from tonnage.report import figures, interactive, panels, tables
from tonnage.report.figures import FIGURES, run_name
from tonnage.report.timeline import Timeline, drivers

WITHOUT_AWARENESS = (
    "attach slots of new nodes are not counted (csiAware: false). This is Tonnage's own planner"
    " with the rules of cluster-autoscaler, in simulation; cluster-autoscaler itself was not run"
)

_CARDS = (
    "podsRan", "pendingAtEnd", "stuckAtEnd", "podHoursPending",
    "timeToRunningP50", "timeToRunningP99", "nodesBought",
)  # fmt: skip


_TYPES = 10
"""Types of instances in the page of a run."""


class Origin(NamedTuple):
    """What made a page: which version, called how, and when."""

    version: str
    command: str
    date: str


def page(
    runs: Sequence[Timeline],
    *,
    origin: Origin | None = None,
    advice: Sequence[tuple[str, SizeAdvice]] = (),
) -> str:
    """The whole page, for one run or two of the same scenario; `advice` is about the clusters they
    ended with, by the name of the run."""
    parts = (
        *_head(runs),
        *_cards(runs),
        *panels.panels(runs),
        *tables.happened(runs),
        *(
            line
            for label, one in advice
            for line in tables.size_advice(
                one, "Right-sizing" + (f": {label}" if len(runs) > 1 else ""), shown=_TYPES
            )
        ),
        *tables.all_figures(runs),
        *tables.samples(runs),
    )
    return _document(runs[0].name, parts, origin)


def advice_page(name: str, advice: SizeAdvice, *, origin: Origin | None = None) -> str:
    """A page of nothing but what instance types would come to."""
    head = f"<header><h1>{escape(name)}</h1></header>"
    return _document(name, (head, *tables.size_advice(advice)), origin)


def _document(title: str, parts: Iterable[str], origin: Origin | None) -> str:
    return document(
        title,
        parts,
        origin,
        policy=interactive.policy(),
        sheet=interactive.sheet(),
        script=interactive.script(),
    )


def document(
    title: str,
    parts: Iterable[str],
    origin: Origin | None,
    *,
    policy: str,
    sheet: str,
    script: str = "",
) -> str:
    """One file that needs no other."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)} - Tonnage</title>",
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            f"<style>{sheet}</style>",
            "</head>",
            "<body>",
            "<main>",
            *parts,
            *_foot(origin),
            "</main>",
            *([f"<script>{script}</script>"] if script else []),
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
    whose = [f"{run_name(run)}: " if len(runs) > 1 else "" for run in runs]
    facts = [
        f"{figures.duration(first.duration)} of cluster time",
        f"seed {first.seed}",
        *(
            f"{name}{run.summary.changes:,} changes of objects"
            for name, run in zip(whose, runs, strict=True)
        ),
    ]
    yield f'<p class="facts">{escape(" · ".join(facts))}</p>'
    for run in runs:
        if run.options.get("csiAware") is False:
            name = f'"{run_name(run)}"' if len(runs) > 1 else "This run"
            yield f'<p class="facts">{escape(f"{name}: {WITHOUT_AWARENESS}")}</p>'
        for driver in drivers([run]):
            worst = max((sample.slots_of(driver).over for sample in run.samples), default=0)
            if worst:
                prefix = f"{run_name(run)}: " if len(runs) > 1 else ""
                told = f"{prefix}up to {worst:,} volumes of {driver} over the limit of their node"
                yield f'<p class="facts worse">{escape(told)}</p>'
    for problem in dict.fromkeys(problem for run in runs for problem in run.problems):
        yield f'<p class="facts">Note: {escape(problem)}</p>'
    yield "</header>"


def _foot(origin: Origin | None) -> Iterator[str]:
    if origin is not None:
        made = f"Made by Tonnage {origin.version} on {origin.date} with: {origin.command}"
        yield f'<footer><p class="facts">{escape(made)}</p></footer>'


def _cards(runs: Sequence[Timeline]) -> Iterator[str]:
    """The numbers to see first; without prices there is no cost to tell."""
    yield '<section class="cards" aria-label="Summary">'
    by_key = {figure.key: figure for figure in FIGURES}
    last = "cost" if any(run.summary.cost for run in runs) else "nodesAtEnd"
    for key in (*_CARDS, last):
        figure = by_key[key]
        yield f'<div class="card"><h3>{escape(figure.title)}</h3><div class="values">'
        for position, run in enumerate(runs):
            value = figures.shown(figure.of(run.summary), figure.unit)
            name = f"<small>{escape(run_name(run))}</small>" if len(runs) > 1 else ""
            yield f'<span class="value{tables.judged(figure, runs, position)}">{value}</span>{name}'
        yield "</div></div>"
    yield "</section>"

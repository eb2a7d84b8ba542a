"""A run, or two side by side, for a terminal: the sums, the course of things, the decisions."""

from collections.abc import Iterator, Sequence

from tonnage.objects import printable
from tonnage.report import figures
from tonnage.report.timeline import Decided, Sample, StorageUse, Timeline, drivers, storage_drivers

ROWS = 24
"""Lines for the course of a run; a screen has not many more."""

_DECISIONS = 20


def text(runs: Sequence[Timeline], *, rows: int = ROWS) -> str:
    """Everything a reader needs first, widest parts last."""
    return "\n".join(map(printable.escape, _lines(runs, rows))) + "\n"


def _lines(runs: Sequence[Timeline], rows: int) -> Iterator[str]:
    first = runs[0]
    yield f"{first.name}: {figures.duration(first.duration)}, seed {first.seed}"
    if first.description:
        yield first.description
    yield ""
    yield from _summary(runs)
    for run in runs:
        yield ""
        if len(runs) > 1:
            yield figures.run_name(run).upper()
        yield from _course(run, rows)
        yield from _decided(run)
        for problem in run.problems:
            yield f"note: {problem}"


def _summary(runs: Sequence[Timeline]) -> Iterator[str]:
    """The sums; of two runs also what changed."""
    heads = ["FIGURE", *(figures.run_name(run) for run in runs)]
    if len(runs) == 1:
        heads = ["FIGURE", "VALUE"]
    elif len(runs) == 2:
        heads.append("CHANGE")
    table = [heads]
    for figure in figures.FIGURES:
        values = [figure.of(run.summary) for run in runs]
        row = [figure.title, *(figures.shown(value, figure.unit) for value in values)]
        if len(runs) == 2:
            row.append(figures.change(values[0], values[1], figure.unit))
        table.append(row)
    yield from aligned(table, left=1)


def _course(run: Timeline, rows: int) -> Iterator[str]:
    kept = thinned(run.samples, rows)
    own, local = drivers([run]), storage_drivers([run])
    slots = [f"SLOTS {driver}" for driver in own]
    disks = [f"GIB {driver}" for driver in local]
    heads = ["TIME", "PENDING", "STARTING", "STUCK", "RUNNING", "READY", "UPCOMING", "NOT READY"]
    table = [[*heads, "COST", *slots, *disks]]
    for sample in kept:
        nodes, pods = sample.nodes, sample.pods
        upcoming = sum(nodes.get(state, 0) for state in ("requested", "starting", "comingUp"))
        counts = (pods.pending, pods.starting, pods.stuck, pods.running)
        uses = {use.driver: f"{use.used}/{use.limit}" for use in sample.slots}
        stored = {use.driver: _stored(use) for use in sample.local_storage}
        table.append(
            [
                figures.moment(sample.at),
                *(f"{count:,}" for count in counts),
                *(f"{count:,}" for count in (nodes.get("ready", 0), upcoming)),
                f"{nodes.get('notReady', 0):,}",
                f"{sample.cost:,.2f}",
                *(uses.get(driver, "-") for driver in own),
                *(stored.get(driver, "-") for driver in local),
            ]
        )
    yield from aligned(table, left=1)


def _stored(use: StorageUse) -> str:
    return f"{figures.gibibytes(use.used_bytes)}/{figures.gibibytes(use.total_bytes)}"


def _decided(run: Timeline) -> Iterator[str]:
    if not run.decisions and not run.marks:
        return
    yield ""
    happened = [
        *((mark.at, 0, mark.text) for mark in run.marks),
        *((decided.at, 1, _decision(decided)) for decided in run.decisions),
    ]
    happened.sort(key=lambda one: one[:2])
    for at, kind, words in happened[:_DECISIONS]:
        yield f"{figures.moment(at)}  {'->' if kind else '**'} {words}"
    if len(happened) > _DECISIONS:
        yield f"and {len(happened) - _DECISIONS} more; -o json has all of them"


def _decision(decided: Decided) -> str:
    group, nodes = decided.group, decided.nodes
    words = {"increase": f"{group} +{nodes}", "delete": f"{group} -{nodes}"}
    shown = words.get(decided.deed, f"{group}: {nodes} fewer wanted")
    why = f": {decided.reason}" if decided.reason else ""
    return f"{shown}{why}{f' (refused: {decided.error})' if decided.error else ''}"


def thinned(samples: Sequence[Sample], most: int) -> list[Sample]:
    """At most so many samples, spread over time, first and last among them.

    A sample stands for the time up to the next, so what is shown is how it was at that moment.
    """
    if len(samples) <= most:
        return list(samples)
    begin, end = samples[0].at, samples[-1].at
    kept: list[Sample] = []
    position = 0
    for step in range(most):
        at = begin + (end - begin) * step / (most - 1)
        while position + 1 < len(samples) and samples[position + 1].at <= at:
            position += 1
        if not kept or kept[-1] is not samples[position]:
            kept.append(samples[position])
    return kept


def aligned(table: Sequence[Sequence[str]], *, left: int) -> Iterator[str]:
    """Rows in columns; the first `left` hold words, the rest figures."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()

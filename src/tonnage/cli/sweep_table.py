"""The summary of a sweep as tables."""

from tonnage.cli import console
from tonnage.objects.phrases import counted
from tonnage.sweep.page import number, shown
from tonnage.sweep.summary import SHOWN, SweepSummary

_MOST_ROWS = 20
_MOST_FAILED = 5


def print_summary(summary: SweepSummary) -> None:
    """What was asked and answered, figures, each axis, the best, and what failed."""
    told = (
        f"{counted(summary.variants, 'variant')} of {summary.sweep}: {summary.answered:,} answered"
    )
    if summary.failed:
        told += f", {summary.failed:,} failed"
    if summary.missing:
        told += f", {summary.missing:,} missing"
    console.echo(f"{told}.")
    if summary.figures:
        console.echo()
        rows = [
            (name, number(one.least), number(one.median), number(one.most))
            for name, one in summary.figures.items()
        ]
        console.print_table(("FIGURE", "LEAST", "MEDIAN", "MOST"), rows)
    names = [name for name in SHOWN.get(summary.ask, ()) if name in summary.figures]
    for axis in summary.axes:
        console.echo()
        of_axis = [
            (
                shown(one.value),
                f"{one.variants:,}",
                *(
                    number(one.figures[name].median) if name in one.figures else "-"
                    for name in names
                ),
            )
            for one in axis.values[:_MOST_ROWS]
        ]
        heads = (axis.axis, "VARIANTS", *(f"{name} (median)" for name in names))
        console.print_table(heads, of_axis)
        if len(axis.values) > _MOST_ROWS:
            console.echo(f"and {len(axis.values) - _MOST_ROWS:,} more values")
    if summary.best:
        console.echo()
        title = "WORTH A LOOK" if summary.ask == "explore" else "BEST"
        best = [
            (one.variant, one.cluster, *(number(one.figures.get(name)) for name in names))
            for one in summary.best
        ]
        console.print_table((title, "CLUSTER", *names), best)
    if summary.errors:
        console.echo()
        failed = [(one.variant, one.cluster, one.error) for one in summary.errors[:_MOST_FAILED]]
        console.print_table(("FAILED", "CLUSTER", "WHY"), failed)
        if summary.failed > len(failed):
            console.echo(f"and {summary.failed - len(failed):,} more")

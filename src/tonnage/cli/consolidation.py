"""`tonnage plan --consolidate`: which nodes to replace, by what, and what that is worth."""

from collections import Counter
from collections.abc import Sequence

from tonnage.api import Cluster
from tonnage.cli import console, progress_line
from tonnage.cli.podlists import in_series
from tonnage.consolidation.plan import (
    ConsolidatedNode,
    ConsolidationPlan,
    ConsolidationStep,
    NodePurchase,
)
from tonnage.errors import InputError
from tonnage.objects.codec import collector_paused
from tonnage.objects.kinds import KubeObject
from tonnage.objects.phrases import counted, listed
from tonnage.scaledown import suppositions
from tonnage.scaledown.suppositions import WhatIfs


def run(
    cluster: Cluster,
    objects: Sequence[KubeObject],
    changes: WhatIfs,
    *,
    now: float | None,
    form: console.Format,
) -> None:
    """Decide and print."""
    suppositions.check(objects, changes)
    if changes.wanted:
        raise InputError(
            f"what-if {suppositions.REMOVE_NODE}: with --consolidate nodes go only if that is worth"
            " it; --scale-down has nodes go that are named"
        )
    with progress_line.shown("deciding"), collector_paused():
        plan = cluster.consolidate(now=now, ignored_budgets=changes.ignored_budgets)
    if form in ("json", "yaml"):
        console.print_record(plan, form=form)
    else:
        print_plan(plan, wide=form == "wide")
        for warning in plan.warnings:
            console.warn(warning)


_ROWS = 20
"""Lines of a section, unless all are asked for."""


def print_plan(plan: ConsolidationPlan, *, wide: bool) -> None:
    """Print a plan as tables; `wide` leaves nothing out."""
    console.echo(summary(plan))
    if plan.partial:
        console.echo("The plan is partial: time ran out before all was tried.", bold=True)
    _print_steps(plan.steps, wide=wide)
    if wide:
        _print_moves(plan)
    _print_missed(plan)
    _print_staying([node for node in plan.nodes if not node.goes], wide=wide)


def summary(plan: ConsolidationPlan) -> str:
    """The plan in one sentence."""
    cost = plan.cost
    bound = f"no plan costs less than {_priced(cost.bound, cost.unit)}"
    if not plan.steps:
        return (
            f"Nothing is worth replacing: {counted(cost.nodes_before, 'node')},"
            f" {_priced(cost.before, cost.unit)}; {bound}."
        )
    bought = sum(len(one.nodes) for one in plan.buys if not one.spare)
    waves = max((node.wave or 1 for node in plan.going), default=1)
    parts = [f"{counted(len(plan.going), 'node')} can go"]
    if bought:
        parts.append(f"{bought:,} bought instead")
    parts.append(f"{counted(len(plan.moves))} moved in {counted(waves, 'wave')}")
    return (
        f"{', '.join(parts)}: {_priced(cost.after, cost.unit)} instead of"
        f" {_priced(cost.before, cost.unit)}; {bound}."
    )


def _priced(amount: str, unit: str) -> str:
    return f"{amount} an hour" if unit == "price" else f"{amount} nodes"


def _print_steps(steps: Sequence[ConsolidationStep], *, wide: bool) -> None:
    shown = steps if wide else steps[:_ROWS]
    console.print_section(
        ("STEP", "NODES GO", "BOUGHT", "MOVES", "SAVES", "OF IT", "MOVES COST", "PAID BACK IN"),
        [
            (
                str(number),
                _names(step.nodes),
                _bought(step.buys),
                str(step.moves),
                step.saves_per_hour,
                f"{step.saves_percent:g}%",
                step.cost,
                _duration(step.pays_back_in),
            )
            for number, step in enumerate(shown, 1)
        ],
    )
    if len(steps) > len(shown):
        console.echo(f"{counted(len(steps) - len(shown), 'more step')}; -o wide has them all")


def _bought(purchases: Sequence[NodePurchase]) -> str:
    return ", ".join(f"{len(one.nodes)} {one.group}" for one in purchases) or "-"


def _names(nodes: Sequence[str]) -> str:
    return listed([series.phrase for series in in_series(nodes, what="node")])


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _print_moves(plan: ConsolidationPlan) -> None:
    rows = [
        (
            str(move.wave),
            move.pod,
            move.source,
            move.to,
            ", ".join(move.detach) or "-",
            f"{move.seconds:.0f} s",
            move.cost,
        )
        for move in plan.moves
    ]
    console.print_section(("WAVE", "POD", "FROM", "TO", "VOLUMES", "AWAY", "COSTS"), rows)


def _print_missed(plan: ConsolidationPlan) -> None:
    console.print_section(
        ("NOT SAVED", "BECAUSE", "NODES"),
        [(one.saves_per_hour, one.reason, _names(one.nodes)) for one in plan.missed[:_ROWS]],
    )


def _print_staying(staying: Sequence[ConsolidatedNode], *, wide: bool) -> None:
    if wide:
        console.print_section(
            ("NODE", "GROUP", "STAYS BECAUSE", "POD", "UNTIL", "MORE"),
            [
                (
                    node.node,
                    node.group or "-",
                    node.code or "-",
                    node.pod or "-",
                    node.until or "-",
                    node.message or "-",
                )
                for node in staying
            ],
        )
        return
    counts = Counter(node.code or "-" for node in staying)
    console.print_section(
        ("STAY", "BECAUSE", "NODES"),
        [
            (
                f"{count:,}",
                code,
                _names([node.node for node in staying if (node.code or "-") == code]),
            )
            for code, count in counts.most_common()
        ],
    )

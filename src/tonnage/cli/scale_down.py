"""`tonnage plan --scale-down`: which nodes can go, and what keeps the others."""

from collections import Counter
from collections.abc import Sequence

from tonnage.api import Cluster
from tonnage.cli import console, progress_line
from tonnage.cli.podlists import in_series
from tonnage.objects.codec import collector_paused
from tonnage.objects.kinds import KubeObject
from tonnage.objects.phrases import counted, listed
from tonnage.scaledown import suppositions
from tonnage.scaledown.plan import Action, NodeDecision, ScaleDownPlan
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
    with progress_line.shown("deciding"), collector_paused():
        plan = cluster.scale_down(
            now=now, ignored_budgets=changes.ignored_budgets, wanted=changes.wanted
        )
    if form in ("json", "yaml"):
        console.print_record(plan, form=form)
    else:
        print_plan(plan, wide=form == "wide")
        for warning in plan.warnings:
            console.warn(warning)


_ROWS = 20
"""Lines of a section, unless all are asked for."""


def print_plan(plan: ScaleDownPlan, *, wide: bool) -> None:
    """Print a plan as tables; `wide` leaves nothing out."""
    console.echo(summary(plan))
    if plan.partial:
        console.echo("The plan is partial: time ran out before all nodes were tried.", bold=True)
    if plan.cool_down:
        console.echo(f"Nothing goes for now: {plan.cool_down}.")
    _print_going(plan.going, wide=wide)
    if wide:
        _print_moves(plan.going)
    _print_staying([node for node in plan.nodes if not node.goes], wide=wide)


def summary(plan: ScaleDownPlan) -> str:
    """The plan in one sentence."""
    going = plan.going
    bound = f"no fewer than {plan.bounds.nodes:,} can hold the pods"
    if not going:
        return f"None of {counted(len(plan.nodes), 'node')} can go; {bound}."
    moved = sum(len(node.moves) for node in going)
    parts = [
        f"{len(going):,} of {counted(len(plan.nodes), 'node')} can go",
        f"in {counted(max(node.wave or 1 for node in going), 'wave')}",
    ]
    if moved:
        parts.append(f"{counted(moved)} moved")
    if plan.saves_per_hour is not None:
        parts.append(f"{plan.saves_per_hour} an hour saved")
    return f"{', '.join(parts)}; {plan.bounds.remaining:,} stay, {bound}."


def _print_going(going: Sequence[NodeDecision], *, wide: bool) -> None:
    ordered = sorted(going, key=lambda node: node.wave or 0)
    shown = ordered if wide else ordered[:_ROWS]
    console.print_section(
        ("WAVE", "NODE", "GROUP", "ACTION", "USED", "PODS GO TO", "SAVES"),
        [
            (
                str(node.wave),
                node.node,
                node.group or "-",
                str(node.action),
                _used(node),
                _destinations(node),
                node.saves or "-",
            )
            for node in shown
        ],
    )
    _say_more(len(ordered) - len(shown), "node")


def _destinations(node: NodeDecision) -> str:
    if node.action is Action.DELETE:
        return "-"
    counts = Counter(move.to for move in node.moves)
    return listed([f"{name} ({count})" for name, count in counts.most_common()])


def _print_moves(going: Sequence[NodeDecision]) -> None:
    rows = [
        (str(move.wave), move.pod, node.node, move.to, ", ".join(move.detach) or "-")
        for node in sorted(going, key=lambda node: node.wave or 0)
        for move in node.moves
    ]
    console.print_section(("WAVE", "POD", "FROM", "TO", "VOLUMES"), rows)


def _print_staying(staying: Sequence[NodeDecision], *, wide: bool) -> None:
    if not wide:
        _print_reasons(staying)
        return
    console.print_section(
        ("NODE", "GROUP", "USED", "STAYS BECAUSE", "POD", "SINCE", "UNTIL", "WOULD GO WITH"),
        [
            (
                node.node,
                node.group or "-",
                _used(node),
                node.code or "-",
                node.pod or "-",
                node.since or "-",
                node.until or "-",
                node.frees or "-",
            )
            for node in staying
        ],
    )


def _print_reasons(staying: Sequence[NodeDecision]) -> None:
    """Nodes by what keeps them, the most frequent first, with the cure of the first of them."""
    by_code: dict[str, list[NodeDecision]] = {}
    for node in staying:
        by_code.setdefault(node.code or "-", []).append(node)
    rows = []
    for code, nodes in sorted(by_code.items(), key=lambda pair: -len(pair[1])):
        names = ", ".join(
            series.phrase for series in in_series((node.node for node in nodes[:5]), what="node")
        )
        more = f" and {len(nodes) - 5:,} more" if len(nodes) > 5 else ""
        cure = next((node.frees for node in nodes if node.frees), "-")
        rows.append((f"{len(nodes):,}", code, names + more, cure))
    console.print_section(("STAY", "BECAUSE", "NODES", "WOULD GO WITH, SAY"), rows)


def _used(node: NodeDecision) -> str:
    if node.utilisation is None:
        return "-"
    return f"{node.utilisation.value:.0%} {node.utilisation.resource}"


def _say_more(count: int, what: str) -> None:
    if count > 0:
        console.echo(f"{counted(count, f'more {what}')}; -o wide has them all")

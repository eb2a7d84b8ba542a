"""A plan in Markdown, for pull requests and tickets."""

from collections.abc import Iterable, Sequence

from tonnage.api import plan_documents
from tonnage.cli import console, plan_table, podlists
from tonnage.objects.phrases import listed
from tonnage.scaleup.decision import Decision

MOST_ROWS = 30
"""Rows of a table before the rest is only counted."""


def print_plan(made: Decision) -> None:
    """Print the plan as Markdown."""
    plan = made.plan
    console.echo(f"### {plan_table.summary(plan, made.inputs.nodes)}")
    cost = plan_documents.cost_of(made)
    if plan.scale_ups:
        rows = [
            (
                f"`{one.group}`",
                f"+{one.delta:,}",
                f"{sum(len(node.pods) for node in one.nodes):,}",
                plan_table.money(per_hour) if per_hour is not None else "",
                plan_table.why(one.group, plan, made.inputs.options.expander),
            )
            for one, per_hour in zip(plan.scale_ups, cost.of_groups, strict=True)
        ]
        _table(("buy", "nodes", "pods", "cost per hour", "why"), rows)
    if cost.in_all is not None and plan.scale_ups:
        console.echo()
        console.echo(f"Cost per hour: **{plan_table.money(cost.in_all)}**")
    if plan.not_helped:
        reasons: dict[str, list[str]] = {}
        for left in plan.not_helped:
            reasons.setdefault(plan_table.why_left_out(left), []).append(left.pod)
        left_out = [
            (listed([one.phrase for one in podlists.in_series(pods)]), why)
            for why, pods in reasons.items()
        ]
        _table(("left out", "why"), left_out)
    if plan.warnings:
        console.echo()
        for warning in plan.warnings[:MOST_ROWS]:
            console.echo(f"- ⚠ {_cell(warning)}")


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    found = list(rows)
    console.echo()
    console.echo(f"| {' | '.join(headings)} |")
    console.echo("|" + "---|" * len(headings))
    for row in found[:MOST_ROWS]:
        console.echo(f"| {' | '.join(map(_cell, row))} |")
    if len(found) > MOST_ROWS:
        console.echo()
        console.echo(f"… and {len(found) - MOST_ROWS:,} more")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")

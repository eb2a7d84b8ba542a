"""`tonnage plan --consolidate`: which nodes to replace, by what, and what that is worth."""

from collections.abc import Sequence

from tonnage.api import Cluster
from tonnage.cli import console, consolidation_table, progress_line
from tonnage.consolidation.plan import ConsolidationPlan
from tonnage.errors import InputError
from tonnage.objects.codec import collector_paused
from tonnage.objects.kinds import KubeObject
from tonnage.scaledown import suppositions
from tonnage.scaledown.suppositions import WhatIfs


def run(
    cluster: Cluster,
    objects: Sequence[KubeObject],
    changes: WhatIfs,
    *,
    now: float | None,
    form: console.Format,
) -> ConsolidationPlan:
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
        consolidation_table.print_plan(plan, wide=form == "wide")
        for warning in plan.warnings:
            console.warn(warning)
    return plan

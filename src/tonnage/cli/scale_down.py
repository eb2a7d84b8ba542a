"""`tonnage plan --scale-down`: which nodes can go, and what keeps the others."""

from collections.abc import Sequence

from tonnage.api import Cluster
from tonnage.cli import console, progress_line, scale_down_table
from tonnage.objects.codec import collector_paused
from tonnage.objects.kinds import KubeObject
from tonnage.scaledown import suppositions
from tonnage.scaledown.plan import ScaleDownPlan
from tonnage.scaledown.suppositions import WhatIfs


def run(
    cluster: Cluster,
    objects: Sequence[KubeObject],
    changes: WhatIfs,
    *,
    now: float | None,
    form: console.Format,
) -> ScaleDownPlan:
    """Decide and print."""
    suppositions.check(objects, changes)
    with progress_line.shown("deciding"), collector_paused():
        plan = cluster.scale_down(
            now=now, ignored_budgets=changes.ignored_budgets, wanted=changes.wanted
        )
    if form in ("json", "yaml"):
        console.print_record(plan, form=form)
    else:
        scale_down_table.print_plan(plan, wide=form == "wide")
        for warning in plan.warnings:
            console.warn(warning)
    return plan

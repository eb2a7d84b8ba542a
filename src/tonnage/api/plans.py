"""Plans as programs and notebooks get them: the plan itself, as rows, and as a picture."""

from html import escape
from typing import TYPE_CHECKING, Any

import msgspec

from tonnage.api import notebook
from tonnage.objects.phrases import counted
from tonnage.scaleup.decision import Decision
from tonnage.scaleup.plan import Plan
from tonnage.scaleup.plan_diff import PlanDiff

if TYPE_CHECKING:
    import pandas


class PlanRecord(Plan, frozen=True, kw_only=True, omit_defaults=False):
    """A plan that turns into rows, one for each node that is bought, and draws itself."""

    def records(self) -> list[dict[str, Any]]:
        """A row for each new node: its group, pods, and what the group's nodes are fullest of."""
        return [
            {
                "group": one.group,
                "node": node.name,
                "pods": len(node.pods),
                "binding": one.binding,
                "first_pod": node.pods[0] if node.pods else "",
            }
            for one in self.scale_ups
            for node in one.nodes
        ]

    def to_pandas(self) -> "pandas.DataFrame":
        """The same as a DataFrame; needs the extra `pandas`."""
        return notebook.to_pandas(self)

    def _repr_html_(self) -> str:
        most = max((one.delta for one in self.scale_ups), default=1)
        rows = [
            (
                escape(one.group),
                f"+{one.delta}",
                notebook.bar({"taken": one.delta}, most),
                f"{sum(len(node.pods) for node in one.nodes):,}",
                escape(one.binding),
            )
            for one in self.scale_ups
        ]
        nodes = sum(one.delta for one in self.scale_ups)
        title = (
            f"Buys {counted(nodes, 'node')}, no fewer than {self.bounds.nodes:,} would do; "
            f"{counted(len(self.all_on_existing))} on nodes there are, "
            f"{counted(len(self.not_helped))} left out"
        )
        return notebook.table(("group", "nodes", "", "pods", "fullest of"), rows, title=title)


class WhatIfResult(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of the cluster that is changed in thought, that of the cluster as it is, and what
    differs; `notes` are what was assumed."""

    plan: PlanRecord
    before: PlanRecord
    difference: PlanDiff
    notes: tuple[str, ...] = ()

    def records(self) -> list[dict[str, Any]]:
        """A row for each group that either plan buys from."""
        now = {one.group: one.delta for one in self.before.scale_ups}
        then = {one.group: one.delta for one in self.plan.scale_ups}
        return [
            {"group": name, "before": now.get(name, 0), "after": then.get(name, 0)}
            for name in dict.fromkeys((*now, *then))
        ]

    def to_pandas(self) -> "pandas.DataFrame":
        """The same as a DataFrame; needs the extra `pandas`."""
        return notebook.to_pandas(self)

    def _repr_html_(self) -> str:
        most = max((max(row["before"], row["after"]) for row in self.records()), default=1)
        rows = [
            (
                escape(row["group"]),
                f"+{row['before']}",
                notebook.bar({"held": row["before"]}, most),
                f"+{row['after']}",
                notebook.bar({"taken": row["after"]}, most),
            )
            for row in self.records()
        ]
        left = (
            f"{counted(len(self.before.not_helped))} left out, then {len(self.plan.not_helped):,}"
        )
        return notebook.table(("group", "now", "", "then", ""), rows, title=f"What if: {left}")


def of(made: Decision) -> PlanRecord:
    """The plan of a decision."""
    fields = {name: getattr(made.plan, name) for name in Plan.__struct_fields__}
    return PlanRecord(**fields)

"""What a round of consolidation came to, for status and whoever asks about a node."""

from typing import Any

from tonnage.autoscaler.consolidation.memory import StepUnderWay
from tonnage.consolidation.plan import ConsolidatedNode, ConsolidationPlan
from tonnage.objects.meta import Record
from tonnage.objects.timestamps import rfc3339

_MOST = 50
"""Entries of a list in the status; the rest is counted."""


class ConsolidationDocument(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The last decision, for who asks; without a plan there was none yet.

    `held` says why nothing was begun.
    """

    enabled: bool = False
    held: str = ""
    under_way: StepUnderWay | None = None
    plan: ConsolidationPlan | None = None

    def of_node(self, name: str) -> ConsolidatedNode | None:
        """What was last decided about a node."""
        nodes = self.plan.nodes if self.plan is not None else ()
        return next((node for node in nodes if node.node == name), None)


def consolidation_status(given: ConsolidationDocument) -> dict[str, Any]:
    """Our part of the status that is about consolidation."""
    told: dict[str, Any] = {"held": given.held}
    step = given.under_way
    if step is not None:
        told["underWay"] = {
            "nodes": list(step.nodes)[:_MOST],
            "bought": step.bought,
            "since": rfc3339(step.since),
            "savesPerHour": step.saves_per_hour,
        }
    plan = given.plan
    if plan is not None:
        told |= {
            "costPerHour": plan.cost.before,
            "couldCost": plan.cost.after,
            "bound": plan.cost.bound,
            "going": [node.node for node in plan.going][:_MOST],
            "goingCount": len(plan.going),
            "missed": [
                {"reason": one.reason, "savesPerHour": one.saves_per_hour, "nodes": len(one.nodes)}
                for one in plan.missed
            ][:_MOST],
        }
    return told

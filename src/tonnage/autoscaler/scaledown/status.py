"""Scale-down in the status document: what goes, what could, and what keeps the others."""

from collections import Counter
from typing import Any

from tonnage.autoscaler.scaledown.removals import NodeRemoval
from tonnage.autoscaler.scaledown.report import ScaleDownReport
from tonnage.objects.timestamps import rfc3339

_MOST = 50
"""Entries of a list; the rest is counted."""


def scale_down_status(given: ScaleDownReport) -> dict[str, Any]:
    """Our part of the status that is about scale-down."""
    told: dict[str, Any] = {
        "held": given.held,
        "removing": [_going(removal) for removal in given.removals.values()][:_MOST],
        "unneeded": [
            {"node": node, "since": rfc3339(since)} for node, since in given.unneeded.items()
        ][:_MOST],
        "unneededCount": len(given.unneeded),
        "outsideWindows": list(given.closed),
        "lastFailure": given.last_failure,
    }
    plan = given.plan
    if plan is not None:
        codes = Counter(node.code for node in plan.nodes if not node.goes and node.code)
        told["coolDown"] = plan.cool_down or ""
        told["nodesNeededAtLeast"] = plan.bounds.nodes
        told["blocked"] = dict(sorted(codes.items()))
        told["blockedNodes"] = [
            {"node": node.node, "code": node.code, "reason": node.reason, "frees": node.frees}
            for node in plan.nodes
            if not node.goes and node.frees
        ][:_MOST]
    return told


def _going(one: NodeRemoval) -> dict[str, Any]:
    return {
        "node": one.node,
        "group": one.group,
        "reason": one.reason,
        "stage": one.stage.value,
        "since": rfc3339(one.started),
    }

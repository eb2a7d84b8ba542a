"""Scale-down in the status document: what goes, what could, and what keeps the others."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from tonnage.autoscaler.scaledown.removals import Removal
from tonnage.autoscaler.scaledown.report import ScaleDownReport

_MOST = 50
"""Entries of a list; the rest is counted."""


def scale_down_status(given: ScaleDownReport) -> dict[str, Any]:
    """Our part of the status that is about scale-down."""
    told: dict[str, Any] = {
        "held": given.held,
        "removing": [_going(one) for one in given.removals.values()][:_MOST],
        "unneeded": [
            {"node": node, "since": _time(since)} for node, since in given.unneeded.items()
        ][:_MOST],
        "unneededCount": len(given.unneeded),
        "outsideWindows": list(given.closed),
        "lastFailure": given.last_failure,
    }
    plan = given.plan
    if plan is not None:
        codes = Counter(one.code for one in plan.nodes if not one.goes and one.code)
        told["coolDown"] = plan.cool_down or ""
        told["nodesNeededAtLeast"] = plan.bounds.nodes
        told["blocked"] = dict(sorted(codes.items()))
        told["blockedNodes"] = [
            {"node": one.node, "code": one.code, "reason": one.reason, "frees": one.frees}
            for one in plan.nodes
            if not one.goes and one.frees
        ][:_MOST]
    return told


def _going(one: Removal) -> dict[str, Any]:
    return {
        "node": one.node,
        "group": one.group,
        "reason": one.reason,
        "stage": one.stage.value,
        "since": _time(one.started),
    }


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"

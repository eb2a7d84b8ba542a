"""What a round of scale-down came to, for status, metrics and whoever asks about a node."""

from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from tonnage.autoscaler.consolidation.recordings import RecordedConsolidation
from tonnage.autoscaler.consolidation.report import ConsolidationDocument
from tonnage.autoscaler.scaledown.removals import NodeRemoval
from tonnage.objects.meta import Record
from tonnage.objects.timestamps import rfc3339
from tonnage.scaledown.plan import Action, NodeDecision, ScaleDownPlan


class ScaleDownReport(NamedTuple):
    """`held` says why nothing was decided; `last_failure` is of the last removal that failed."""

    enabled: bool = False
    held: str = ""
    plan: ScaleDownPlan | None = None
    unneeded: Mapping[str, float] = MappingProxyType({})
    removals: Mapping[str, NodeRemoval] = MappingProxyType({})
    closed: tuple[str, ...] = ()
    """Reasons for which nodes may not go now, because no window is open."""
    last_failure: str = ""
    problems: tuple[str, ...] = ()
    consolidation: ConsolidationDocument = ConsolidationDocument()
    recorded: Collection[RecordedConsolidation] = ()
    """The newest decisions of consolidation with what they came from."""


class NodeReport(Record, frozen=True, kw_only=True):
    """What was last decided about a node, and how far its removal is, if it is going."""

    decision: NodeDecision
    removal: NodeRemoval | None = None


class ScaleDownDocument(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A round as it is told to who asks about nodes; without a time there was none yet."""

    time: str = ""
    enabled: bool = False
    held: str = ""
    cool_down: str | None = None
    outside_windows: tuple[str, ...] = ()
    nodes: tuple[NodeReport, ...] = ()
    consolidation: ConsolidationDocument | None = None


def document(given: ScaleDownReport, *, time: str) -> ScaleDownDocument:
    """The round for who asks about nodes; those that are going are told of also if it was held."""
    plan = given.plan or ScaleDownPlan()
    decided = {node.node: node for node in plan.nodes}
    for name, removal in given.removals.items():
        decided.setdefault(
            name, NodeDecision(node=name, group=removal.group, candidate=True, action=Action.KEEP)
        )
    return ScaleDownDocument(
        time=time,
        enabled=given.enabled,
        held=given.held,
        cool_down=plan.cool_down,
        consolidation=given.consolidation if given.consolidation.enabled else None,
        outside_windows=given.closed,
        nodes=tuple(
            NodeReport(decision=one, removal=given.removals.get(name))
            for name, one in decided.items()
        ),
    )


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

"""What a round of scale-down came to, for status, metrics and whoever asks about a node."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tonnage.autoscaler.consolidation import report as consolidation
from tonnage.autoscaler.consolidation.report import ConsolidationDocument, ConsolidationReport
from tonnage.autoscaler.scaledown.removals import NodeRemoval
from tonnage.objects.meta import Record
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
    consolidation: ConsolidationReport = ConsolidationReport()


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
        consolidation=consolidation.document(given.consolidation)
        if given.consolidation.enabled
        else None,
        outside_windows=given.closed,
        nodes=tuple(
            NodeReport(decision=one, removal=given.removals.get(name))
            for name, one in decided.items()
        ),
    )

"""The documents that `-o json` and `-o yaml` print, as types: what `tonnage schema` tells.

Fields may be added and are never renamed. What is printed is tested against these.
"""

from typing import Any

import msgspec

from tonnage.api.slots import DriverTotal, SlotReport
from tonnage.consolidation.plan import ConsolidationPlan
from tonnage.consolidation.right_size import SizeAdvice
from tonnage.doctor.codes import FindingCode
from tonnage.doctor.findings import Finding
from tonnage.doctor.preview import OptInPreview
from tonnage.groups.catalogue import CatalogueLimit
from tonnage.groups.catalogue.denser import DenserType
from tonnage.migration.comparison import DecisionComparison
from tonnage.migration.documents import Migration
from tonnage.objects.meta import Record
from tonnage.objects.scenarios import API_VERSION, NodeGroup, Scenario
from tonnage.report.timeline import Timeline, TimelineComparison
from tonnage.scaledown.plan import ScaleDownPlan
from tonnage.scaleup.plan import GroupReason, Plan, ScaleUp
from tonnage.scaleup.plan_diff import PlanDiff
from tonnage.sweep.definition import SweepFile
from tonnage.sweep.summary import SweepSummary


class Document(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What all documents have."""

    api_version: str = API_VERSION
    kind: str


class CauseFields(Record, frozen=True, kw_only=True):
    """What is behind a reason; facts depend on the cause."""

    cause: str
    facts: dict[str, Any]


class VerdictFields(Record, frozen=True, kw_only=True):
    """What becomes of a pod on a node; a node that fits has no phase and no plugin."""

    pod: str
    node: str
    code: str
    reasons: tuple[str, ...]
    phase: str | None = None
    plugin: str | None = None
    warnings: tuple[str, ...] = ()
    causes: tuple[CauseFields, ...] = ()


class ExplainedPod(Record, frozen=True, kw_only=True):
    """`summary` is kube-scheduler's line; `node` is where the pod runs, if it does."""

    pod: str
    summary: str
    verdicts: tuple[VerdictFields, ...]
    node: str = ""


class ExplanationDocument(Document, frozen=True, kw_only=True):
    pods: tuple[ExplainedPod, ...]


class ScaleUpWithCost(ScaleUp, frozen=True, kw_only=True):
    """`costPerHour` of all nodes that are bought of the group; null without a price."""

    cost_per_hour: float | None


class PlanWithCost(Plan, frozen=True, kw_only=True):
    """`costPerHour` of all that is bought; null if a group that is bought from has no price."""

    scale_ups: tuple[ScaleUpWithCost, ...] = ()
    cost_per_hour: float | None


class NewNodeLimit(Record, frozen=True, kw_only=True):
    count: int | None
    source: str


class SlotShareFields(DriverTotal, frozen=True, kw_only=True):
    """`group` or `type`, by what was asked for."""

    group: str = ""
    type: str = ""
    sources: tuple[str, ...]
    new_node: NewNodeLimit | None
    full_nodes: tuple[str, ...]
    stranded_cpu: str = msgspec.field(name="strandedCPU")
    stranded_memory: int
    denser_types: tuple[DenserType, ...]


class StrandingReportDocument(Document, frozen=True, kw_only=True):
    by: str
    shares: tuple[SlotShareFields, ...]
    warnings: tuple[str, ...]


class FindingList(Document, frozen=True, kw_only=True):
    findings: tuple[Finding, ...]


class FindingCodeList(Document, frozen=True, kw_only=True):
    codes: tuple[FindingCode, ...]


class StuckPod(Record, frozen=True, kw_only=True):
    pod: str
    node: str
    driver: str
    volumes: int
    waited_seconds: int | None
    surplus: bool


class StuckPodList(Document, frozen=True, kw_only=True):
    pods: tuple[StuckPod, ...]


class LoggedDecisionFields(Record, frozen=True, kw_only=True):
    time: str
    outcome: str
    group: str | None
    node: str | None
    reason: str
    result: str
    groups: tuple[GroupReason, ...]


class Why(Document, frozen=True, kw_only=True):
    """`replay` is there with `--replay` only."""

    pod: str
    decisions: tuple[LoggedDecisionFields, ...]
    replay: dict[str, Any] = {}


class LearnedLimit(Record, frozen=True, kw_only=True):
    instance_type: str
    driver: str
    kind: str
    count: int
    node: str
    seen: str


class LearnedLimitList(Document, frozen=True, kw_only=True):
    items: tuple[LearnedLimit, ...]


class LimitList(Document, frozen=True, kw_only=True):
    items: tuple[CatalogueLimit, ...]


class LimitKey(Record, frozen=True, kw_only=True):
    driver: str
    key: str
    hashed: bool


class LimitKeyList(Document, frozen=True, kw_only=True):
    items: tuple[LimitKey, ...]


class WrittenNodeGroup(NodeGroup, frozen=True, kw_only=True):
    """A NodeGroup with its names, as a file has it."""

    api_version: str = API_VERSION
    kind: str = "NodeGroup"


class NodeGroupList(Document, frozen=True, kw_only=True):
    items: tuple[WrittenNodeGroup, ...]


PRINTED: dict[str, tuple[str, type[Record]]] = {
    "Plan": ("plan", PlanWithCost),
    "ScaleDownPlan": ("plan --scale-down", ScaleDownPlan),
    "ConsolidationPlan": ("plan --consolidate", ConsolidationPlan),
    "PlanDiff": ("diff", PlanDiff),
    "Explanation": ("explain", ExplanationDocument),
    "SlotReport": ("slots", SlotReport),
    "StrandingReport": ("slots --by group", StrandingReportDocument),
    "SizeAdvice": ("advise", SizeAdvice),
    "FindingList": ("doctor", FindingList),
    "FindingCodeList": ("doctor explain", FindingCodeList),
    "OptInPreview": ("doctor --preview opt-in=DRIVER", OptInPreview),
    "StuckPodList": ("rescue", StuckPodList),
    "Why": ("why POD", Why),
    "LimitList": ("limits show TYPE", LimitList),
    "LimitKeyList": ("limits key DRIVER", LimitKeyList),
    "LearnedLimitList": ("limits learned", LearnedLimitList),
    "NodeGroupList": ("groups discover", NodeGroupList),
    "Timeline": ("simulate FILE", Timeline),
    "TimelineComparison": ("simulate FILE --compare", TimelineComparison),
    "Migration": ("migrate", Migration),
    "DecisionComparison": ("compare-decisions", DecisionComparison),
    "SweepSummary": ("sweep", SweepSummary),
}
"""By kind: the command that prints it with `-o json`, and its type."""

READ: dict[str, type[Record]] = {
    "NodeGroup": NodeGroup,
    "Scenario": Scenario,
    "Sweep": SweepFile,
}
"""Kinds of ours that are read."""

"""NodeUnschedulable: cordoned nodes take only pods that tolerate the cordon."""

from tonnage.rules.causes import Cause
from tonnage.rules.framework import (
    Ask,
    Code,
    EventKind,
    NodeResults,
    Outcome,
    PreFilter,
    Rule,
    always,
)


class NodeUnschedulable(Rule):
    name = "NodeUnschedulable"
    cures = (
        EventKind.NODE_ADDED,
        EventKind.NODE_TAINTED,
        EventKind.POD_TOLERATIONS,
    )

    def pre_filter(self, ask: Ask) -> Outcome:
        return PreFilter(
            lambda: NodeResults.passing(
                ask.snapshot.columns.open_to(
                    ask.pod_class.tolerations, comparing=ask.features.taint_comparison_operators
                ),
                Code.UNRESOLVABLE,
                always(Cause.NODE_UNSCHEDULABLE),
            )
        )

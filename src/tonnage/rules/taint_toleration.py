"""TaintToleration: every NoSchedule and NoExecute taint must be tolerated."""

from tonnage.objects import taints
from tonnage.rules.causes import Cause, Reason
from tonnage.rules.framework import (
    Ask,
    Code,
    EventKind,
    NodeResults,
    Outcome,
    PreFilter,
    Rule,
    single,
)


class TaintToleration(Rule):
    name = "TaintToleration"
    cures = (
        EventKind.NODE_ADDED,
        EventKind.NODE_TAINTED,
        EventKind.POD_TOLERATIONS,
    )

    def pre_filter(self, ask: Ask) -> Outcome:
        comparing = ask.features.taint_comparison_operators
        columns = ask.snapshot.columns

        def reasons(row: int) -> tuple[Reason, ...]:
            taint = taints.untolerated(
                columns.taints_of(row), ask.pod_class.tolerations, comparison_operators=comparing
            )
            assert taint is not None
            return single(
                Cause.TAINT_NOT_TOLERATED, key=taint.key, value=taint.value, effect=taint.effect
            )

        return PreFilter(
            lambda: NodeResults.passing(
                columns.tolerated(ask.pod_class.tolerations, comparing=comparing),
                Code.UNRESOLVABLE,
                reasons,
            )
        )

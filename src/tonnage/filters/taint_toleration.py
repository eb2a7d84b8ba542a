"""TaintToleration: every NoSchedule and NoExecute taint must be tolerated."""

from tonnage.filters.causes import Cause, Reason
from tonnage.filters.framework import Ask, Begun, Code, Outcome, Screen, one
from tonnage.objects import taints


class TaintToleration:
    name = "TaintToleration"
    cures = ("Node.add", "Node.taint", "Pod.tolerations")

    def begin(self, ask: Ask) -> Outcome:
        comparing = ask.features.taint_comparison_operators
        columns = ask.snapshot.columns

        def reasons(row: int) -> tuple[Reason, ...]:
            taint = taints.untolerated(
                columns.taints_of(row), ask.pods.tolerations, comparison_operators=comparing
            )
            assert taint is not None
            return one(
                Cause.TAINT_NOT_TOLERATED, key=taint.key, value=taint.value, effect=taint.effect
            )

        return Begun(
            lambda: Screen.passing(
                columns.tolerated(ask.pods.tolerations, comparing=comparing),
                Code.UNRESOLVABLE,
                reasons,
            )
        )

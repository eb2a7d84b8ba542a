"""NodeUnschedulable: cordoned nodes take only pods that tolerate the cordon."""

from tonnage.filters.causes import Cause
from tonnage.filters.framework import Ask, Begun, Code, Outcome, Screen, always


class NodeUnschedulable:
    name = "NodeUnschedulable"
    cures = ("Node.add", "Node.taint", "Pod.tolerations")

    def begin(self, ask: Ask) -> Outcome:
        return Begun(
            lambda: Screen.passing(
                ask.snapshot.columns.open_to(
                    ask.pods.tolerations, comparing=ask.features.taint_comparison_operators
                ),
                Code.UNRESOLVABLE,
                always(Cause.NODE_UNSCHEDULABLE),
            )
        )

"""NodeDeclaredFeatures: what a pod's spec needs, its node must declare."""

from tonnage.objects import pod_features
from tonnage.rules.causes import Cause
from tonnage.rules.framework import (
    SKIP,
    Ask,
    Code,
    EventKind,
    NodeResults,
    Outcome,
    PreFilter,
    Rule,
    always,
)


class NodeDeclaredFeatures(Rule):
    name = "NodeDeclaredFeatures"
    cures = (
        EventKind.NODE_ADDED,
        EventKind.NODE_FEATURES,
    )

    def pre_filter(self, ask: Ask) -> Outcome:
        if not ask.features.node_declared_features:
            return SKIP
        needed = ask.pod_class.features
        if ask.features.version < (1, 37):
            needed = needed - {pod_features.BIND_MOUNT_OPTIONS}
        if not needed:
            return SKIP
        return PreFilter(
            lambda: NodeResults.passing(
                ask.snapshot.columns.declaring(needed),
                Code.UNRESOLVABLE,
                always(Cause.FEATURE_NOT_DECLARED, features=sorted(needed)),
            )
        )

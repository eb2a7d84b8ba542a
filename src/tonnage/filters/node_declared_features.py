"""NodeDeclaredFeatures: what a pod's spec needs, its node must declare."""

from tonnage.filters.causes import Cause
from tonnage.filters.framework import SKIP, Ask, Begun, Code, Outcome, Screen, always
from tonnage.objects import pod_features


class NodeDeclaredFeatures:
    name = "NodeDeclaredFeatures"
    cures = ("Node.add", "Node.declaredFeatures")

    def begin(self, ask: Ask) -> Outcome:
        if not ask.features.node_declared_features:
            return SKIP
        needed = ask.pods.features
        if ask.features.version < (1, 37):
            needed = needed - {pod_features.BIND_MOUNT_OPTIONS}
        if not needed:
            return SKIP
        return Begun(
            lambda: Screen.passing(
                ask.snapshot.columns.declaring(needed),
                Code.UNRESOLVABLE,
                always(Cause.FEATURE_NOT_DECLARED, features=sorted(needed)),
            )
        )

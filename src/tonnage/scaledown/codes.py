"""Why a node or a pod stays: our stable codes, and upstream's two spellings of each.

Upstream's names are those of 1.37; it is about to spell them in snake case. Ours do not change.
"""

from enum import StrEnum


class KeepCode(StrEnum):
    """Why a node stays."""

    NO_GROUP = "node-without-group"
    GROUP_AT_MIN_SIZE = "group-at-min-size"
    DISABLED_BY_ANNOTATION = "disabled-by-annotation"
    UNREADY_DISABLED = "unready-not-removed"
    BEING_REMOVED = "being-removed"
    IN_USE = "in-use"
    UNKNOWN_UTILISATION = "utilisation-unknown"
    BLOCKED_BY_POD = "blocked-by-pod"
    WAITS_FOR_COMPLETION = "waits-for-completion"
    NO_PLACE = "no-place-for-pods"
    LAST_OF_ZONE = "last-node-of-volumes"
    NOT_LONG_ENOUGH = "unneeded-too-short"
    NOT_UNREADY_LONG_ENOUGH = "unready-too-short"
    COOLING_DOWN = "cooling-down"
    MIN_SIZE = "min-size-reached"
    MIN_RESOURCES = "min-resources-reached"
    ALL_OR_NOTHING = "group-only-whole"
    COMING_UP = "coming-up"
    KEPT_ROOM = "room-kept-ready"
    NOT_THIS_TIME = "not-this-time"


class PodCode(StrEnum):
    """Why a pod keeps its node."""

    CONTROLLER_NOT_FOUND = "controller-not-found"
    MIN_REPLICAS = "min-replicas-reached"
    NOT_REPLICATED = "not-replicated"
    SYSTEM_POD = "system-pod-without-budget"
    NOT_SAFE_TO_EVICT = "not-safe-to-evict"
    LOCAL_STORAGE = "local-storage"
    BUDGET = "disruption-budget-used-up"


NODE_REASONS: dict[KeepCode, str] = {
    KeepCode.NO_GROUP: "NotAutoscaled",
    KeepCode.GROUP_AT_MIN_SIZE: "NodeGroupMinSizeReached",
    KeepCode.DISABLED_BY_ANNOTATION: "ScaleDownDisabledAnnotation",
    KeepCode.UNREADY_DISABLED: "ScaleDownUnreadyDisabled",
    KeepCode.BEING_REMOVED: "CurrentlyBeingDeleted",
    KeepCode.IN_USE: "NotUnderutilized",
    KeepCode.UNKNOWN_UTILISATION: "UnexpectedError",
    KeepCode.BLOCKED_BY_POD: "BlockedByPod",
    KeepCode.WAITS_FOR_COMPLETION: "BlockedByOnCompletionPod",
    KeepCode.NO_PLACE: "NoPlaceToMovePods",
    KeepCode.LAST_OF_ZONE: "NoPlaceToMovePods",
    KeepCode.NOT_LONG_ENOUGH: "NotUnneededLongEnough",
    KeepCode.NOT_UNREADY_LONG_ENOUGH: "NotUnreadyLongEnough",
    KeepCode.COOLING_DOWN: "NotUnneededOtherReason",
    KeepCode.MIN_SIZE: "NodeGroupMinSizeReached",
    KeepCode.MIN_RESOURCES: "MinimalResourceLimitExceeded",
    KeepCode.ALL_OR_NOTHING: "AtomicScaleDownFailed",
    KeepCode.COMING_UP: "NotUnneededOtherReason",
    KeepCode.KEPT_ROOM: "NotUnneededOtherReason",
    KeepCode.NOT_THIS_TIME: "NotUnneededOtherReason",
}
"""Upstream's names of why a node stays, as of 1.37."""

POD_REASONS: dict[PodCode, str] = {
    PodCode.CONTROLLER_NOT_FOUND: "ControllerNotFound",
    PodCode.MIN_REPLICAS: "MinReplicasReached",
    PodCode.NOT_REPLICATED: "NotReplicated",
    PodCode.SYSTEM_POD: "UnmovableKubeSystemPod",
    PodCode.NOT_SAFE_TO_EVICT: "NotSafeToEvictAnnotation",
    PodCode.LOCAL_STORAGE: "LocalStorageRequested",
    PodCode.BUDGET: "NotEnoughPdb",
}
"""Upstream's names of why a pod blocks."""

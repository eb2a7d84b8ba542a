"""Why a node or a pod stays: our stable codes, and upstream's two spellings of each.

Upstream's names are those of 1.37; it is about to spell them in snake case. Ours do not change.
"""

from enum import StrEnum
from typing import NamedTuple


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


class Spellings(NamedTuple):
    """Upstream's names of a reason: of 1.37, and as it is going to be."""

    upstream: str
    upstream_next: str


NODE_REASONS: dict[KeepCode, Spellings] = {
    KeepCode.NO_GROUP: Spellings("NotAutoscaled", "not_autoscaled"),
    KeepCode.GROUP_AT_MIN_SIZE: Spellings(
        "NodeGroupMinSizeReached", "node_pool_min_size_limit_reached"
    ),
    KeepCode.DISABLED_BY_ANNOTATION: Spellings(
        "ScaleDownDisabledAnnotation", "node_has_scale_down_disabled_annotation"
    ),
    KeepCode.UNREADY_DISABLED: Spellings("ScaleDownUnreadyDisabled", "scale_down_unready_disabled"),
    KeepCode.BEING_REMOVED: Spellings("CurrentlyBeingDeleted", "node_is_already_being_deleted"),
    KeepCode.IN_USE: Spellings(
        "NotUnderutilized", "node_utilization_is_above_scale_down_threshold"
    ),
    KeepCode.UNKNOWN_UTILISATION: Spellings("UnexpectedError", "internal_autoscaler_error"),
    KeepCode.BLOCKED_BY_POD: Spellings("BlockedByPod", "node_has_unevictable_pods"),
    KeepCode.WAITS_FOR_COMPLETION: Spellings(
        "BlockedByOnCompletionPod", "node_has_on_completion_pods_running"
    ),
    KeepCode.NO_PLACE: Spellings("NoPlaceToMovePods", "no_suitable_node_to_reschedule_pods"),
    KeepCode.LAST_OF_ZONE: Spellings("NoPlaceToMovePods", "no_suitable_node_to_reschedule_pods"),
    KeepCode.NOT_LONG_ENOUGH: Spellings("NotUnneededLongEnough", "not_unneeded_long_enough"),
    KeepCode.NOT_UNREADY_LONG_ENOUGH: Spellings("NotUnreadyLongEnough", "not_unready_long_enough"),
    KeepCode.COOLING_DOWN: Spellings("NotUnneededOtherReason", "skipped_in_this_autoscaling_loop"),
    KeepCode.MIN_SIZE: Spellings("NodeGroupMinSizeReached", "node_pool_min_size_limit_reached"),
    KeepCode.MIN_RESOURCES: Spellings(
        "MinimalResourceLimitExceeded", "minimal_resource_limit_exceeded"
    ),
    KeepCode.ALL_OR_NOTHING: Spellings(
        "AtomicScaleDownFailed", "atomic_node_group_scale_down_failed"
    ),
    KeepCode.COMING_UP: Spellings("NotUnneededOtherReason", "skipped_in_this_autoscaling_loop"),
    KeepCode.KEPT_ROOM: Spellings("NotUnneededOtherReason", "skipped_in_this_autoscaling_loop"),
    KeepCode.NOT_THIS_TIME: Spellings("NotUnneededOtherReason", "skipped_in_this_autoscaling_loop"),
}

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

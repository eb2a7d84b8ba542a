"""Why a pod was refused: a closed set of causes with facts, and kube-scheduler's words for them.

Rules decide with causes; text is made here and nowhere else.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from tonnage.objects.meta import Record

Fact: TypeAlias = str | int | list[str] | None


class Cause(StrEnum):
    """What stands in the way. The value is the name in machine-readable output."""

    SCHEDULING_GATED = "SchedulingGated"
    OUTSIDE_NODE_SET = "OutsideNodeSet"
    NODE_SETS_DISJOINT = "NodeSetsDisjoint"
    OTHER_NODE_REQUESTED = "OtherNodeRequested"
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    NODE_AFFINITY_MISMATCH = "NodeAffinityMismatch"
    NODE_AFFINITY_CONFLICT = "NodeAffinityConflict"
    HOST_PORT_TAKEN = "HostPortTaken"
    TOO_MANY_PODS = "TooManyPods"
    INSUFFICIENT_RESOURCE = "InsufficientResource"
    DISK_IN_USE = "DiskInUse"
    CLAIM_IN_USE = "ClaimInUse"
    CLAIM_NOT_FOUND = "ClaimNotFound"
    CLAIM_LOOKUP_FAILED = "ClaimLookupFailed"
    CLAIM_NOT_CREATED_YET = "ClaimNotCreatedYet"
    CLAIM_LOST = "ClaimLost"
    CLAIM_BEING_DELETED = "ClaimBeingDeleted"
    CLAIM_NOT_OWNED = "ClaimNotOwned"
    CLAIM_WITHOUT_NAME = "ClaimWithoutName"
    CLAIM_WITHOUT_CLASS = "ClaimWithoutClass"
    CLAIM_UNBOUND_IMMEDIATE = "ClaimUnboundImmediate"
    BINDING_MODE_MISSING = "BindingModeMissing"
    CLASS_NOT_FOUND = "StorageClassNotFound"
    INLINE_NOT_TRANSLATABLE = "InlineVolumeNotTranslatable"
    VOLUME_NOT_TRANSLATABLE = "VolumeNotTranslatable"
    CSI_NODE_MISSING = "CSINodeMissing"
    CSI_DRIVER_MISSING = "CSIDriverMissingOnNode"
    MAX_VOLUME_COUNT = "MaxVolumeCountExceeded"
    SLOT_POOL_EXHAUSTED = "SlotPoolExhausted"
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    SLOTS_RESERVED = "SlotsReserved"
    ROOM_BOOKED = "RoomBooked"
    PLACE_KEPT = "PlaceKept"
    PLACE_ELSEWHERE = "PlaceElsewhere"
    LIMIT_UNKNOWN = "LimitUnknown"
    VOLUME_AFFINITY_MISMATCH = "VolumeAffinityMismatch"
    NO_VOLUME_TO_BIND = "NoVolumeToBind"
    NOT_ENOUGH_STORAGE = "NotEnoughStorage"
    VOLUME_MISSING = "VolumeMissing"
    VOLUME_NOT_FOUND = "VolumeNotFound"
    VOLUME_WITHOUT_NAME = "VolumeWithoutName"
    VOLUME_ZONE_MISMATCH = "VolumeZoneMismatch"
    SPREAD_LABEL_MISSING = "SpreadLabelMissing"
    SPREAD_SKEW = "SpreadSkew"
    SELECTOR_INVALID = "SelectorInvalid"
    POD_AFFINITY_UNMET = "PodAffinityUnmet"
    POD_ANTI_AFFINITY = "PodAntiAffinity"
    EXISTING_ANTI_AFFINITY = "ExistingPodsAntiAffinity"
    FEATURE_NOT_DECLARED = "FeatureNotDeclared"


class Shortage(msgspec.Struct, frozen=True):
    """So much is wanted of a resource, and so much is there.

    `temporary` says that it would do but for what other pods have taken.
    """

    resource: str
    wanted: int
    available: int
    temporary: bool = False

    @property
    def lack(self) -> float:
        """The part of what is wanted that is not there."""
        return (self.wanted - self.available) / self.wanted if self.wanted else 0.0


class Reason(Record, frozen=True):
    """A cause with the facts of one case, and what is short if it is a matter of amounts."""

    cause: Cause
    facts: dict[str, Fact] = {}
    shortage: Shortage | None = None

    def __str__(self) -> str:
        return text(self.cause, self.facts)


def text(cause: Cause, facts: Mapping[str, Fact]) -> str:
    """The cause as kube-scheduler words it."""
    return _TEXTS[cause].format_map(facts)


_TEXTS: dict[Cause, str] = {
    Cause.SCHEDULING_GATED: "waiting for scheduling gates: [{gates}]",
    Cause.OUTSIDE_NODE_SET: "node(s) didn't satisfy plugin(s) [{plugins}]",
    Cause.NODE_SETS_DISJOINT: "node(s) didn't satisfy plugin(s) [{plugins}] simultaneously",
    Cause.OTHER_NODE_REQUESTED: "node(s) didn't match the requested node name",
    Cause.NODE_UNSCHEDULABLE: "node(s) were unschedulable",
    Cause.TAINT_NOT_TOLERATED: "node(s) had untolerated taint(s)",
    Cause.NODE_AFFINITY_MISMATCH: "node(s) didn't match Pod's node affinity/selector",
    Cause.NODE_AFFINITY_CONFLICT: "pod affinity terms conflict",
    Cause.HOST_PORT_TAKEN: "node(s) didn't have free ports for the requested pod ports",
    Cause.TOO_MANY_PODS: "Too many pods",
    Cause.INSUFFICIENT_RESOURCE: "Insufficient {resource}",
    Cause.DISK_IN_USE: "node(s) had no available disk",
    Cause.CLAIM_IN_USE: (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
        " already in-use by another pod"
    ),
    Cause.CLAIM_NOT_FOUND: 'persistentvolumeclaim "{claim}" not found',
    Cause.CLAIM_LOOKUP_FAILED: (
        'looking up PVC {namespace}/{claim}: persistentvolumeclaim "{claim}" not found'
    ),
    Cause.CLAIM_NOT_CREATED_YET: (
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "{claim}"'
    ),
    Cause.CLAIM_LOST: (
        'persistentvolumeclaim "{claim}" bound to non-existent persistentvolume "{volume}"'
    ),
    Cause.CLAIM_BEING_DELETED: 'persistentvolumeclaim "{claim}" is being deleted',
    Cause.CLAIM_NOT_OWNED: (
        "PVC {namespace}/{claim} was not created for pod {namespace}/{pod} (pod is not owner)"
    ),
    Cause.CLAIM_WITHOUT_NAME: "PersistentVolumeClaim had no name",
    Cause.CLAIM_WITHOUT_CLASS: "PersistentVolumeClaim had no pv name and storageClass name",
    Cause.CLAIM_UNBOUND_IMMEDIATE: "pod has unbound immediate PersistentVolumeClaims",
    Cause.BINDING_MODE_MISSING: 'VolumeBindingMode not set for StorageClass "{storage_class}"',
    Cause.CLASS_NOT_FOUND: 'storageclass.storage.k8s.io "{storage_class}" not found',
    Cause.INLINE_NOT_TRANSLATABLE: "converting volume({volume}) from inline to csi: {detail}",
    Cause.VOLUME_NOT_TRANSLATABLE: "could not translate pv: {detail}",
    Cause.CSI_NODE_MISSING: "{driver} CSI driver is not installed on the node",
    Cause.CSI_DRIVER_MISSING: "{driver} CSI driver is not installed on the node",
    Cause.MAX_VOLUME_COUNT: "node(s) exceed max volume count",
    # Ours: kube-scheduler has no pools.
    Cause.SLOT_POOL_EXHAUSTED: "node(s) have too few slots left in pool {pool}",
    # Ours: what rules of your own count.
    Cause.INSUFFICIENT_CAPACITY: "node(s) have too little left of {resource}",
    # Ours: kube-scheduler does not know of ProvisioningRequests.
    Cause.ROOM_BOOKED: "node(s) have only room that ProvisioningRequests have booked",
    # The extender alone gives these.
    Cause.PLACE_KEPT: "node(s) have only room that is kept for pods that are moving",
    Cause.PLACE_ELSEWHERE: "another node is kept for the pod, which is moving",
    # These two the extender alone gives too; to users of kube-scheduler they are the same trouble.
    Cause.SLOTS_RESERVED: "node(s) exceed max volume count",
    Cause.LIMIT_UNKNOWN: "{driver} CSI driver is not installed on the node",
    Cause.VOLUME_AFFINITY_MISMATCH: "node(s) didn't match PersistentVolume's node affinity",
    Cause.NO_VOLUME_TO_BIND: "node(s) didn't find available persistent volumes to bind",
    Cause.NOT_ENOUGH_STORAGE: "node(s) did not have enough free storage",
    Cause.VOLUME_MISSING: (
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    ),
    Cause.VOLUME_NOT_FOUND: 'persistentvolume "{volume}" not found',
    Cause.VOLUME_WITHOUT_NAME: "PersistentVolume had no name",
    Cause.VOLUME_ZONE_MISMATCH: "node(s) had no available volume zone",
    Cause.SPREAD_LABEL_MISSING: (
        "node(s) didn't match pod topology spread constraints (missing required label)"
    ),
    Cause.SPREAD_SKEW: "node(s) didn't match pod topology spread constraints",
    Cause.SELECTOR_INVALID: "{context}: {detail}",
    Cause.POD_AFFINITY_UNMET: "node(s) didn't match pod affinity rules",
    Cause.POD_ANTI_AFFINITY: "node(s) didn't match pod anti-affinity rules",
    Cause.EXISTING_ANTI_AFFINITY: "node(s) didn't satisfy existing pods anti-affinity rules",
    Cause.FEATURE_NOT_DECLARED: "node(s) didn't match Pod's required features",
}

"""Taints that say something about a node's present and nothing about the next node of its group."""

from collections.abc import Iterable

from tonnage.groups.policy import GroupPolicy
from tonnage.objects.nodes import Taint

TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
DELETION_CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
MAKING_ROOM = "tonnage.dev/making-room"
NOT_READY = "node.kubernetes.io/not-ready"
DISK_PRESSURE = "node.kubernetes.io/disk-pressure"
NETWORK_UNAVAILABLE = "node.kubernetes.io/network-unavailable"

_CONDITIONS = frozenset(
    {
        TO_BE_DELETED,
        DELETION_CANDIDATE,
        MAKING_ROOM,
        NOT_READY,
        DISK_PRESSURE,
        NETWORK_UNAVAILABLE,
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
        "cloud.google.com/impending-node-termination",
        "NodeWithImpairedVolumes",
    }
)
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_STARTUP_PREFIXES = (
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
)
_STATUS_PREFIX = "status-taint.cluster-autoscaler.kubernetes.io/"
AGENT_NOT_READY = "/agent-not-ready"


def is_startup(taint: Taint, policy: GroupPolicy) -> bool:
    """Whether the taint keeps pods off a node that is still starting.

    Beside those the operator named: `<driver>/agent-not-ready`, which CSI drivers (EBS, EFS,
    Azure disk) take off when they have registered. Upstream wants each of them listed.
    """
    key = taint.key
    return (
        key in policy.startup_taints
        or key.startswith(_STARTUP_PREFIXES)
        or any(key.startswith(prefix) for prefix in policy.startup_taint_prefixes)
        or (key.endswith(AGENT_NOT_READY) and not policy.as_upstream)
    )


def lasting(taints: Iterable[Taint], policy: GroupPolicy) -> tuple[Taint, ...]:
    """The taints that a new node of the same group would have too."""
    return tuple(taint for taint in taints if not _is_passing(taint, policy))


def _is_passing(taint: Taint, policy: GroupPolicy) -> bool:
    return (
        taint.key in _CONDITIONS
        or taint.key in policy.status_taints
        or taint.key.startswith(_STATUS_PREFIX)
        or is_startup(taint, policy)
        or (taint.key == _OUT_OF_SERVICE and not policy.as_upstream)
    )

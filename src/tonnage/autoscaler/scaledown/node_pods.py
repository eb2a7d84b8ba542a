"""What is on a node that goes: pods by what becomes of them, and volumes that have yet to leave."""

from collections.abc import Iterable
from typing import NamedTuple

from tonnage.autoscaler.world import ClusterView
from tonnage.groups import daemons
from tonnage.objects import timestamps
from tonnage.objects.pods import FINISHED, Pod
from tonnage.objects.storage import PersistentVolumeClaim, VolumeAttachment

DEFAULT_GRACE = 30
"""Seconds a pod has to end, if it does not say."""

_DS_EVICTION = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"
_LATE = 30.0
"""Seconds past its grace after which a pod that is ending is no longer waited for."""
_DRIVER_CONTAINERS = ("node-driver-registrar", "csi-node-driver-registrar", "driver-registrar")


class NodePods(NamedTuple):
    """`workload` has to be elsewhere before the node goes; the others go with it.

    Of these, `drivers` serve volumes, so they are the last.
    """

    workload: tuple[Pod, ...]
    daemons: tuple[Pod, ...]
    drivers: tuple[Pod, ...]


def sort(pods: Iterable[Pod], *, now: float) -> NodePods:
    """Static pods, finished ones and those that do not end though they should are left out."""
    workload: list[Pod] = []
    served: list[Pod] = []
    drivers: list[Pod] = []
    for pod in pods:
        if daemons.is_mirror(pod) or pod.status.phase in FINISHED or is_overdue(pod, now=now):
            continue
        if not daemons.is_daemon(pod.metadata):
            workload.append(pod)
        elif is_driver(pod):
            drivers.append(pod)
        else:
            served.append(pod)
    return NodePods(tuple(workload), tuple(served), tuple(drivers))


def is_driver(pod: Pod) -> bool:
    """Whether the pod registers a CSI driver with its node's kubelet."""
    return any(container.name in _DRIVER_CONTAINERS for container in pod.spec.containers)


def is_overdue(pod: Pod, *, now: float) -> bool:
    """Whether the pod was to end so long ago that its node may go all the same."""
    # The moment of the request and the grace together.
    ends = timestamps.moment(pod.metadata.deletion_timestamp)
    return ends is not None and now > ends + _LATE


def grace(pod: Pod) -> int:
    told = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE if told is None else told


def may_evict_daemon(pod: Pod, *, default: bool) -> bool:
    """What the pod itself says goes before what is set for all."""
    told = pod.metadata.annotations.get(_DS_EVICTION)
    return told == "true" if told in ("true", "false") else default


def attached(world: ClusterView, node: str, *, staying: Iterable[Pod]) -> list[str]:
    """Attachments of the node that are to go: not those of pods which leave only with it.

    Without them its volumes can be attached elsewhere at once. A node that is deleted before holds
    them for minutes: nobody can say any more that they were unmounted.
    """
    kept = set(_volumes(world, staying))
    return sorted(
        attachment.metadata.name
        for attachment in world.cache(VolumeAttachment)
        if attachment.spec.node_name == node
        and attachment.spec.source.persistent_volume_name not in kept
    )


def _volumes(world: ClusterView, pods: Iterable[Pod]) -> Iterable[str]:
    for pod in pods:
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            claim = world.cache(PersistentVolumeClaim).get(
                volume.persistent_volume_claim.claim_name, namespace=pod.metadata.namespace
            )
            if claim is not None and claim.spec.volume_name:
                yield claim.spec.volume_name

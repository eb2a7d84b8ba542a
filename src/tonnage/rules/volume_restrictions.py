"""VolumeRestrictions: disks that attach once, and claims that one pod at a time may use."""

import numpy as np

from tonnage.objects.volume_sources import RBDSource, VolumeSource
from tonnage.rules.causes import Cause
from tonnage.rules.framework import (
    SKIP,
    Ask,
    Aspect,
    Code,
    EventKind,
    NodeResults,
    Outcome,
    PreFilter,
    Rejection,
    Rule,
    kinds_of,
    single,
)
from tonnage.snapshot.rows import Bools
from tonnage.snapshot.snapshot import PodRecord, Snapshot

_SINGLE_POD = "ReadWriteOncePod"


class VolumeRestrictions(Rule):
    name = "VolumeRestrictions"
    about = frozenset({Aspect.VOLUMES, Aspect.OTHER_PODS})
    cures = (
        EventKind.POD_DELETED,
        EventKind.NODE_ADDED,
        EventKind.CLAIM_ADDED,
        EventKind.CLAIM_UPDATED,
    )

    def pre_filter(self, ask: Ask) -> Outcome:
        taken: list[str] = []
        for volume in ask.pod.volumes:
            if volume.ephemeral or volume.source.persistent_volume_claim is None:
                continue
            claim = ask.snapshot.storage.claim(ask.pod_class.namespace, volume.claim)
            if claim is None:
                return Rejection(Code.UNRESOLVABLE, Cause.CLAIM_NOT_FOUND, claim=volume.claim)
            if _SINGLE_POD in claim.spec.access_modes and _in_use(ask, volume.claim):
                taken.append(volume.claim)
        disks = [volume.source for volume in ask.pod.volumes if _is_disk(volume.source)]
        if not taken and not disks:
            return SKIP

        def results() -> NodeResults:
            free = _free_of_conflicts(ask, disks)
            passes = free if not taken else np.zeros(ask.size, dtype=np.bool_)
            return NodeResults.passing(
                passes,
                Code.UNSCHEDULABLE,
                lambda row: (
                    single(Cause.CLAIM_IN_USE, claim=taken[0])
                    if free[row]
                    else single(Cause.DISK_IN_USE)
                ),
                kinds=lambda: kinds_of((free,)),
            )

        return PreFilter(results)

    def helps(self, event: EventKind, subject: object, pod: PodRecord, snapshot: Snapshot) -> bool:
        return not isinstance(subject, PodRecord) or bool(subject.volumes)


def _in_use(ask: Ask, claim: str) -> bool:
    """Whether a pod on a node uses the claim by name; ephemeral volumes do not count."""
    return any(
        volume.claim == claim and not volume.ephemeral
        for user in ask.snapshot.claim_users(ask.pod_class.namespace, claim)
        for volume in user.volumes
    )


def _is_disk(source: VolumeSource) -> bool:
    return (
        source.gce_persistent_disk is not None
        or source.aws_elastic_block_store is not None
        or source.rbd is not None
        or source.iscsi is not None
    )


def _free_of_conflicts(ask: Ask, disks: list[VolumeSource]) -> Bools:
    free = np.ones(ask.size, dtype=np.bool_)
    if disks:
        for row, users in ask.snapshot.disk_pods.items():
            free[row] = not any(
                _conflict(disk, volume.source)
                for user in users.values()
                for volume in user.volumes
                for disk in disks
            )
    return free


def _conflict(a: VolumeSource, b: VolumeSource) -> bool:
    if a.gce_persistent_disk and b.gce_persistent_disk:
        gce, other_gce = a.gce_persistent_disk, b.gce_persistent_disk
        return gce.pd_name == other_gce.pd_name and not (gce.read_only and other_gce.read_only)
    if a.aws_elastic_block_store and b.aws_elastic_block_store:
        return a.aws_elastic_block_store.volume_id == b.aws_elastic_block_store.volume_id
    if a.iscsi and b.iscsi:
        return a.iscsi.iqn == b.iscsi.iqn and not (a.iscsi.read_only and b.iscsi.read_only)
    return a.rbd is not None and b.rbd is not None and _rbd_conflict(a.rbd, b.rbd)


def _rbd_conflict(a: RBDSource, b: RBDSource) -> bool:
    return (
        not set(a.monitors).isdisjoint(b.monitors)
        and a.pool == b.pool
        and a.image == b.image
        and not (a.read_only and b.read_only)
    )

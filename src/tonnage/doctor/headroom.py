"""Slots that are left, and pods that nothing can take."""

from collections.abc import Iterator

from tonnage.doctor.evidence import Evidence
from tonnage.doctor.findings import Finding
from tonnage.objects.phrases import listed
from tonnage.objects.pods import Pod
from tonnage.snapshot.slots import UNLIMITED

MOST_FULL = 0.8
"""The share of a driver's nodes without a free slot from which on it is a finding."""


def nearly_full(evidence: Evidence) -> Iterator[Finding]:
    """Drivers most of whose nodes have no slot left."""
    snapshot = evidence.snapshot
    for driver in snapshot.slots.drivers():
        nodes = full = limit = free = 0
        for record in snapshot.ordered_nodes():
            number = int(driver.limit.data[record.row])
            if number == UNLIMITED or number <= 0:
                continue
            left = (
                number
                - int(driver.used.data[record.row])
                - int(driver.idle_attachments.data[record.row])
            )
            nodes += 1
            full += left <= 0
            limit += number
            free += max(left, 0)
        if nodes and full >= MOST_FULL * nodes:
            yield Finding(
                code="TON307",
                severity="warning",
                object=f"CSIDriver {driver.name}",
                message=f"{full:,} of {nodes:,} nodes have no attach slot free; {free:,} of"
                f" {limit:,} slots are left",
                facts={"nodes": nodes, "full": full, "limit": limit, "free": free},
            )


def without_room(evidence: Evidence) -> Iterator[Finding]:
    """Pods with volumes that are pending, and that no node and no node group can take."""
    with_volumes = {
        pod.metadata.key for pod in evidence.of(Pod) if not pod.spec.node_name and _has_volumes(pod)
    }
    if not with_volumes:
        return
    left = [one.pod for one in evidence.plan.not_helped if one.pod in with_volumes]
    if left:
        groups = len(evidence.inputs.groups)
        nor = f"and none of {groups:,} node groups can take" if groups else "can take"
        yield Finding(
            code="TON308",
            severity="error",
            object=f"Pod {left[0]}" if len(left) == 1 else f"{len(left):,} pods",
            message=f"pending with volumes, and no node {nor} {'it' if len(left) == 1 else 'them'}:"
            f" {listed(left)}" + ("" if groups else "; no NodeGroups were given"),
            facts={"pods": left, "groups": groups},
        )


def _has_volumes(pod: Pod) -> bool:
    return any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None
        for volume in pod.spec.volumes
    )

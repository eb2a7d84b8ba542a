"""Volumes that have yet to leave a node, so that they can be attached elsewhere at once.

A node that is deleted before holds them for minutes: nobody can say any more that they were
unmounted.
"""

from collections.abc import Iterable

from tonnage.autoscaler.world import ClusterView
from tonnage.objects.pods import Pod
from tonnage.objects.storage import PersistentVolumeClaim, VolumeAttachment


def attached(world: ClusterView, node: str, *, staying: Iterable[Pod]) -> list[str]:
    """Attachments of the node that are to go: not those of pods which leave only with it."""
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

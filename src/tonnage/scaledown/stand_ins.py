"""Single replicas that a second one can stand in for while they move."""

from tonnage.groups.options import Options
from tonnage.objects.meta import OwnerReference
from tonnage.objects.pods import Pod
from tonnage.scaledown.controllers import Controllers
from tonnage.snapshot.storage import StorageState

_SHARED = frozenset({"ReadWriteMany", "ReadOnlyMany"})
"""Access modes of volumes that two nodes may have at once."""


def scaled(pod: Pod, controllers: Controllers) -> OwnerReference | None:
    """What has to be scaled for a second replica of the pod: its Deployment, or its ReplicaSet.

    `None` if it is not the only replica of one. A ReplicaSet that somebody else controls is not
    ours to scale.
    """
    owner = pod.metadata.controller
    if owner is None or owner.kind != "ReplicaSet":
        return None
    found = controllers.find(pod.metadata.namespace, owner)
    if found is None or found.replicas != 1:
        return None
    if found.owner is None:
        return owner
    return found.owner if found.owner.kind == "Deployment" else None


def possible(pod: Pod, controllers: Controllers, storage: StorageState, options: Options) -> bool:
    """Whether a second replica may stand in, and is wanted to: never beside a volume that only one
    node may have."""
    if options.as_upstream or not options.consolidation.surge_single_replicas:
        return False
    return scaled(pod, controllers) is not None and not attaches_once(pod, storage)


def attaches_once(pod: Pod, storage: StorageState) -> bool:
    """Whether the pod has a claim, or one that is made for it, that two nodes cannot share."""
    for volume in pod.spec.volumes:
        if volume.ephemeral is not None:
            return True
        reference = volume.persistent_volume_claim
        if reference is None:
            continue
        claim = storage.claim(pod.metadata.namespace, reference.claim_name)
        if claim is None or not _SHARED.intersection(claim.spec.access_modes):
            return True
    return False

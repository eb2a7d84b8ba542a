"""Which volumes the unbound claims of a pod would get on a node.

Shared by the VolumeBinding filter, which asks whether that works out, and by a
replay, which has to remember the choice as upstream's Reserve does.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import msgspec

from tonnage.objects import quantities, selectors
from tonnage.objects.meta import Quantity
from tonnage.objects.pods import NodeSelector, Pod
from tonnage.objects.storage import (
    SELECTED_NODE_ANNOTATION,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
)
from tonnage.testing.reference.inventory import HostedNode, StorageObjects, key, namespace
from tonnage.testing.reference.outcomes import AttemptError


class ClaimUse(NamedTuple):
    """A volume of a pod that is backed by a claim."""

    name: str
    ephemeral: bool


class SortedClaims(NamedTuple):
    """The claims of a pod by what is left to do for them; a claim used twice is listed twice."""

    bound: list[PersistentVolumeClaim]
    delayed: list[PersistentVolumeClaim]
    immediate: list[PersistentVolumeClaim]


class Matches(NamedTuple):
    """Unbound claims with the existing volume each would take, and those left over."""

    matched: list[tuple[PersistentVolumeClaim, PersistentVolume]]
    unmatched: list[PersistentVolumeClaim]


def claim_uses(pod: Pod) -> list[ClaimUse]:
    """The claims a pod names, in spec order."""
    uses = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            uses.append(ClaimUse(volume.persistent_volume_claim.claim_name, ephemeral=False))
        elif volume.ephemeral is not None:
            uses.append(ClaimUse(f"{pod.metadata.name}-{volume.name}", ephemeral=True))
    return uses


def sort_claims(storage: StorageObjects, pod: Pod) -> SortedClaims:
    """Bound, waiting for a node, or in need of somebody else's binding first."""
    claims = SortedClaims([], [], [])
    for use in claim_uses(pod):
        claim = storage.claim(pod, use.name)
        if claim is None:
            continue
        if claim.fully_bound:
            claims.bound.append(claim)
        elif waits_for_consumer(storage, claim) and not claim.spec.volume_name:
            claims.delayed.append(claim)
        else:
            claims.immediate.append(claim)
    return claims


def waits_for_consumer(storage: StorageObjects, claim: PersistentVolumeClaim) -> bool:
    storage_class = storage.classes.get(claim.class_name) if claim.class_name else None
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        raise AttemptError(f'VolumeBindingMode not set for StorageClass "{claim.class_name}"')
    return storage_class.volume_binding_mode == "WaitForFirstConsumer"


def match_volumes(
    storage: StorageObjects, claims: list[PersistentVolumeClaim], hosted: HostedNode
) -> Matches:
    """Gives existing volumes to claims, smallest request first; each volume goes to one claim."""
    matches = Matches([], [])
    taken: set[str] = set()
    for claim in sorted(claims, key=_wanted_size):
        volume = _best_volume(storage, claim, hosted, taken)
        if volume is None:
            matches.unmatched.append(claim)
        else:
            taken.add(volume.metadata.name)
            matches.matched.append((claim, volume))
    return matches


def node_affinity(volume: PersistentVolume) -> NodeSelector | None:
    affinity = volume.spec.node_affinity
    return affinity.required if affinity is not None else None


def reachable(affinity: NodeSelector | None, hosted: HostedNode) -> bool:
    """Whether a volume's node affinity admits a node. Only labels count, not the node's name."""
    return affinity is None or selectors.node_matches(affinity, hosted.labels, None)


def requested(claim: PersistentVolumeClaim) -> Quantity:
    """The size a claim asks for; none is 0."""
    return claim.spec.resources.requests.get("storage", 0)


def assumed(
    storage: StorageObjects, pod: Pod, hosted: HostedNode
) -> Iterator[PersistentVolume | PersistentVolumeClaim]:
    """Volumes and claims as they are once the pod is promised to the node."""
    delayed = [
        claim
        for claim in sort_claims(storage, pod).delayed
        if SELECTED_NODE_ANNOTATION not in claim.metadata.annotations
    ]
    matches = match_volumes(storage, delayed, hosted)
    for claim, volume in matches.matched:
        yield _taken_by(volume, claim)
    for claim in matches.unmatched:
        yield _pinned_to(claim, hosted.name)


def _best_volume(
    storage: StorageObjects, claim: PersistentVolumeClaim, hosted: HostedNode, taken: set[str]
) -> PersistentVolume | None:
    try:
        selectors.check(claim.spec.selector)
    except selectors.SelectorError as error:
        text = f"error creating internal label selector for claim: {key(claim.metadata)}: {error}"
        raise AttemptError(text) from error
    best: PersistentVolume | None = None
    for volume in storage.volumes.values():
        if volume.metadata.name in taken or not _could_serve(volume, claim):
            continue
        near = reachable(node_affinity(volume), hosted)
        if _belongs_to(volume, claim):
            # A volume reserved for the claim is the only candidate, wherever it is.
            return volume if near else None
        if near and _is_free_for(volume, claim) and (best is None or _size(volume) < _size(best)):
            best = volume
    return best


def _could_serve(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (
        volume.class_name == claim.class_name
        and (volume.spec.claim_ref is None or _belongs_to(volume, claim))
        and _size(volume) >= _wanted_size(claim)
        and (volume.spec.volume_mode or "Filesystem") == (claim.spec.volume_mode or "Filesystem")
        and (volume.spec.volume_attributes_class_name or "")
        == (claim.spec.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def _is_free_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    selector = claim.spec.selector
    return (
        volume.status.phase == "Available"
        and (selector is None or selectors.matches(selector, volume.metadata.labels))
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
    )


def _belongs_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and reference.name == claim.metadata.name
        and (reference.namespace or "default") == namespace(claim.metadata)
        and reference.uid in ("", claim.metadata.uid)
    )


def _size(volume: PersistentVolume) -> Fraction:
    return quantities.exact(volume.spec.capacity.get("storage", 0))


def _wanted_size(claim: PersistentVolumeClaim) -> Fraction:
    return quantities.exact(requested(claim))


def _taken_by(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    reference = ObjectReference(
        kind="PersistentVolumeClaim",
        namespace=namespace(claim.metadata),
        name=claim.metadata.name,
        uid=claim.metadata.uid,
    )
    spec = msgspec.structs.replace(volume.spec, claim_ref=reference)
    return msgspec.structs.replace(volume, spec=spec)


def _pinned_to(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    annotations = {**claim.metadata.annotations, SELECTED_NODE_ANNOTATION: node_name}
    metadata = msgspec.structs.replace(claim.metadata, annotations=annotations)
    return msgspec.structs.replace(claim, metadata=metadata)

"""A workload with more or fewer replicas, known by one of its pods alone.

A live cluster is read without its Deployments and StatefulSets, so the siblings of a pod are those
of the same controller, and a new one is a copy: of a StatefulSet with claims of its own, which
have no volume yet.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import count

import msgspec

from tonnage.errors import InputError
from tonnage.objects.kinds import KubeObject
from tonnage.objects.labels import POD_INDEX_LABEL
from tonnage.objects.pods import FINISHED, Pod, PodStatus
from tonnage.objects.storage import ClaimStatus, PersistentVolumeClaim

MOST = 100_000

_ORDINAL = re.compile(r"-(\d+)$")
_IDENTITY_LABELS = ("statefulset.kubernetes.io/pod-name", POD_INDEX_LABEL)


def scaled(objects: Iterable[KubeObject], pod: str, replicas: int) -> list[KubeObject]:
    """The objects with so many pods like that one, named `namespace/name`."""
    if not 0 <= replicas <= MOST:
        raise InputError(f"replicas of {pod}: {replicas}: expected 0 to {MOST:,}")
    held = list(objects)
    model = next((one for one in held if isinstance(one, Pod) and one.metadata.key == pod), None)
    if model is None:
        raise InputError(f"replicas of {pod}: no such pod")
    siblings = _siblings(held, model)
    if replicas <= len(siblings):
        # As controllers do it: those that wait go first, then the newest.
        siblings.sort(key=lambda one: (bool(one.spec.node_name), -_ordinal(one)))
        gone = {id(one) for one in siblings[: len(siblings) - replicas]}
        return [one for one in held if id(one) not in gone]
    claims = {
        one.metadata.name: one
        for one in held
        if isinstance(one, PersistentVolumeClaim)
        and one.metadata.namespace == model.metadata.namespace
    }
    taken = {one.metadata.name for one in held if isinstance(one, Pod)}
    base = _ORDINAL.sub("", model.metadata.name)
    numbers = (number for number in count() if f"{base}-{number}" not in taken)
    for _ in range(replicas - len(siblings)):
        held += _copy(model, claims, f"{base}-{next(numbers)}")
    return held


def _siblings(objects: Iterable[KubeObject], model: Pod) -> list[Pod]:
    owner = model.metadata.controller
    if owner is None:
        return [model]
    namespace = model.metadata.namespace
    return [
        one
        for one in objects
        if isinstance(one, Pod)
        and one.metadata.namespace == namespace
        and one.metadata.controller == owner
        and one.status.phase not in FINISHED
    ]


def _ordinal(pod: Pod) -> int:
    found = _ORDINAL.search(pod.metadata.name)
    return int(found[1]) if found else 0


def _copy(model: Pod, claims: dict[str, PersistentVolumeClaim], name: str) -> Sequence[KubeObject]:
    made: list[KubeObject] = []
    volumes = []
    for volume in model.spec.volumes:
        source = volume.persistent_volume_claim
        if source is not None and source.claim_name.endswith(f"-{model.metadata.name}"):
            old = source.claim_name
            new = old.removesuffix(model.metadata.name) + name
            if old in claims and new not in claims:
                made.append(_unbound(claims[old], new))
            volume = msgspec.structs.replace(
                volume,
                persistent_volume_claim=msgspec.structs.replace(source, claim_name=new),
            )
        volumes.append(volume)
    labels = {
        key: value for key, value in model.metadata.labels.items() if key not in _IDENTITY_LABELS
    }
    metadata = msgspec.structs.replace(
        model.metadata, name=name, uid=f"copy-{name}", labels=labels, deletion_timestamp=None
    )
    spec = msgspec.structs.replace(model.spec, node_name="", volumes=tuple(volumes))
    made.append(
        msgspec.structs.replace(
            model, metadata=metadata, spec=spec, status=PodStatus(phase="Pending")
        )
    )
    return made


def _unbound(claim: PersistentVolumeClaim, name: str) -> PersistentVolumeClaim:
    metadata = msgspec.structs.replace(claim.metadata, name=name, uid="", annotations={})
    spec = msgspec.structs.replace(claim.spec, volume_name="")
    return msgspec.structs.replace(
        claim, metadata=metadata, spec=spec, status=ClaimStatus(phase="Pending")
    )

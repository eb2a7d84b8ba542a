"""VolumeZone: a bound volume's zone and region labels must agree with the node's."""

from tonnage.objects.labels import BETA_REGION, BETA_ZONE, REGION, ZONE
from tonnage.objects.storage import PersistentVolume
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
    always,
)
from tonnage.snapshot.labels import ABSENT
from tonnage.snapshot.rows import Bools

_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_SUCCESSORS = {BETA_ZONE: ZONE, BETA_REGION: REGION}
_SEPARATOR = "__"


class VolumeZone(Rule):
    name = "VolumeZone"
    about = frozenset({Aspect.VOLUMES})
    cures = (
        EventKind.CLASS_ADDED,
        EventKind.NODE_ADDED,
        EventKind.NODE_LABELLED,
        EventKind.CLAIM_ADDED,
        EventKind.CLAIM_UPDATED,
        EventKind.VOLUME_ADDED,
        EventKind.VOLUME_UPDATED,
    )

    def pre_filter(self, ask: Ask) -> Outcome:
        wanted: list[tuple[str, frozenset[str]]] = []
        for volume in ask.pod.volumes:
            if volume.source.persistent_volume_claim is None:
                continue
            found = _volume_of(ask, volume.claim)
            if isinstance(found, Rejection):
                return found
            if found is not None:
                wanted.extend(_zones(found))
        if not wanted:
            return SKIP
        return PreFilter(
            lambda: NodeResults.passing(
                _passing(ask, wanted),
                Code.UNRESOLVABLE,
                always(Cause.VOLUME_ZONE_MISMATCH),
            )
        )


def _volume_of(ask: Ask, name: str) -> PersistentVolume | Rejection | None:
    """The bound volume of a claim; `None` while it waits for its first consumer."""
    storage = ask.snapshot.storage
    if not name:
        return Rejection(Code.UNRESOLVABLE, Cause.CLAIM_WITHOUT_NAME)
    claim = storage.claim(ask.pod_class.namespace, name)
    if claim is None:
        return Rejection(Code.UNRESOLVABLE, Cause.CLAIM_NOT_FOUND, claim=name)
    volume_name = claim.spec.volume_name
    if volume_name:
        volume = storage.volume(volume_name)
        if volume is None:
            return Rejection(Code.UNRESOLVABLE, Cause.VOLUME_NOT_FOUND, volume=volume_name)
        return volume
    class_name = claim.class_name
    if not class_name:
        return Rejection(Code.UNRESOLVABLE, Cause.CLAIM_WITHOUT_CLASS)
    storage_class = storage.storage_class(class_name)
    if storage_class is None:
        return Rejection(Code.UNRESOLVABLE, Cause.CLASS_NOT_FOUND, storage_class=class_name)
    if storage_class.volume_binding_mode is None:
        return Rejection(Code.UNRESOLVABLE, Cause.BINDING_MODE_MISSING, storage_class=class_name)
    if storage_class.volume_binding_mode == "WaitForFirstConsumer":
        return None
    return Rejection(Code.UNRESOLVABLE, Cause.VOLUME_WITHOUT_NAME)


def _zones(volume: PersistentVolume) -> list[tuple[str, frozenset[str]]]:
    """Zone and region labels with their values; one empty value makes a label say nothing."""
    found = []
    for key in _LABELS:
        if key in volume.metadata.labels:
            values = frozenset(
                part.strip() for part in volume.metadata.labels[key].split(_SEPARATOR)
            )
            if "" not in values:
                found.append((key, values))
    return found


def _passing(ask: Ask, wanted: list[tuple[str, frozenset[str]]]) -> Bools:
    labels, rows = ask.snapshot.columns.labels, slice(0, ask.size)
    labelled = labels.find(_LABELS[0]).data[rows] != ABSENT
    for key in _LABELS[1:]:
        labelled = labelled | (labels.find(key).data[rows] != ABSENT)
    inside = None
    for key, values in wanted:
        mask = labels.find(key).among(values, rows)
        if key in _SUCCESSORS:
            without = labels.find(key).data[rows] == ABSENT
            mask = mask | (without & labels.find(_SUCCESSORS[key]).among(values, rows))
        inside = mask if inside is None else inside & mask
    assert inside is not None
    passing: Bools = ~labelled | inside
    return passing

"""Which volumes of a pod take attach slots, and under which name: the one place that knows.

A volume's unique name is its driver and handle. A claim that is not bound yet
has no handle; it stands for itself, so that two pods that share it count it once.
"""

from typing import Protocol

import msgspec

from tonnage.objects import intree, limit_keys
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import Pod
from tonnage.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from tonnage.objects.volume_sources import VolumeSource


class StorageLookup(Protocol):
    """Where claims, volumes and classes are found by name.

    `intree_apart` says that volumes of in-tree plugins are counted under the name of their plugin
    too, for limits that hold for no others.
    """

    intree_apart: bool

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None: ...
    def volume(self, name: str) -> PersistentVolume | None: ...
    def storage_class(self, name: str) -> StorageClass | None: ...


class VolumeUse(msgspec.Struct, frozen=True):
    """One attach slot's worth of a volume."""

    driver: str
    handle: str


class PodVolume(msgspec.Struct, frozen=True, gc=False):
    """A volume of a pod that needs looking at: a claim, or an inline source of an old plugin."""

    name: str
    claim: str
    ephemeral: bool
    source: VolumeSource


class Slots(msgspec.Struct, frozen=True):
    """What a pod's volumes come to on a node.

    `migrated` are uses of in-tree plugins, which count only where the node's CSINode
    exists. `problem` is what upstream would fail with, `None` if nothing; where there is a
    CSINode `migrated_problem` comes before it.
    """

    uses: tuple[VolumeUse, ...]
    migrated: tuple[VolumeUse, ...]
    problem: "VolumeProblem | None" = None
    migrated_problem: "VolumeProblem | None" = None


class VolumeProblem(msgspec.Struct, frozen=True):
    """Why volumes could not be resolved. Only `missing` is a refusal; the rest are errors."""

    kind: str  # "missing", "nameless", "foreign", "untranslatable"
    claim: str
    detail: str


NO_SLOTS = Slots((), ())


def of_pod(pod: Pod) -> tuple[PodVolume, ...]:
    """The volumes of a pod that storage filters look at, in spec order."""
    found = []
    for source in pod.spec.volumes:
        claim = source.persistent_volume_claim
        if claim is not None:
            found.append(PodVolume(source.name, claim.claim_name, False, source))
        elif source.ephemeral is not None:
            name = f"{pod.metadata.name}-{source.name}"
            found.append(PodVolume(source.name, name, True, source))
        elif _is_inline_disk(source):
            found.append(PodVolume(source.name, "", False, source))
    return tuple(found)


def controlled_by(claim: PersistentVolumeClaim, pod: ObjectMeta) -> bool:
    """Whether a generic ephemeral volume's claim really belongs to the pod."""
    owner = claim.metadata.controller
    return owner is not None and owner.uid == pod.uid and claim.metadata.namespace == pod.namespace


def slots(
    pod: ObjectMeta, volumes: tuple[PodVolume, ...], lookup: StorageLookup, *, placed: bool
) -> Slots:
    """The slots a pod takes. A placed pod's missing claim is passed over, a new pod's is not."""
    uses: list[VolumeUse] = []
    migrated: list[VolumeUse] = []
    problem = migrated_problem = None
    for volume in volumes:
        if not volume.claim and not _is_claim(volume.source):
            migrated_problem = migrated_problem or _add_inline(volume, migrated)
            continue
        problem = _add_claim(pod, volume, lookup, uses, migrated, placed=placed)
        if problem is not None:
            break
    if not (uses or migrated or problem or migrated_problem):
        return NO_SLOTS
    if lookup.intree_apart:
        migrated += [
            VolumeUse(limit_keys.PLUGINS[use.driver], use.handle)
            for use in migrated
            if use.driver in limit_keys.PLUGINS
        ]
    return Slots(_distinct(uses), _distinct(migrated), problem, migrated_problem)


def _distinct(uses: list[VolumeUse]) -> tuple[VolumeUse, ...]:
    return tuple(uses) if len(uses) < 2 else tuple(dict.fromkeys(uses))


def use_of_claim(
    claim: PersistentVolumeClaim, lookup: StorageLookup
) -> tuple[VolumeUse, bool] | None:
    """The slot of one claim and whether it is a migrated in-tree one; `None` if it takes none."""
    volume = lookup.volume(claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is None:
        return _use_of_class(claim, lookup)
    source = volume.spec.csi
    if source is not None:
        return _use(source.driver, source.volume_handle, migrated=False)
    if intree.plugin_of(volume.spec) not in intree.COUNTED:
        return None
    try:
        translated = intree.volume_handle(volume)
    except intree.TranslationError:
        return None
    return _use(translated.driver, translated.volume_handle, migrated=True)


def _use_of_class(
    claim: PersistentVolumeClaim, lookup: StorageLookup
) -> tuple[VolumeUse, bool] | None:
    name = claim.class_name
    storage_class = lookup.storage_class(name) if name else None
    if storage_class is None:
        return None
    handle = f"unbound:{claim.metadata.key}"
    provisioner = storage_class.provisioner
    driver = intree.csi_driver_of(provisioner)
    if driver is None:
        return _use(provisioner, handle, migrated=False)
    if provisioner not in intree.COUNTED:
        return None
    return _use(driver, handle, migrated=True)


def _use(driver: str, handle: str, *, migrated: bool) -> tuple[VolumeUse, bool] | None:
    return (VolumeUse(driver, handle), migrated) if driver and handle else None


def _add_inline(volume: PodVolume, migrated: list[VolumeUse]) -> VolumeProblem | None:
    if intree.plugin_of(volume.source) not in intree.COUNTED:
        return None
    try:
        source = intree.translate_inline(volume.source)
    except intree.TranslationError as error:
        return VolumeProblem("untranslatable", volume.name, str(error))
    migrated.append(VolumeUse(source.driver, source.volume_handle))
    return None


def _add_claim(
    pod: ObjectMeta,
    volume: PodVolume,
    lookup: StorageLookup,
    uses: list[VolumeUse],
    migrated: list[VolumeUse],
    *,
    placed: bool,
) -> VolumeProblem | None:
    if not volume.claim:
        return VolumeProblem("nameless", "", "")
    claim = lookup.claim(pod.namespace, volume.claim)
    if claim is None:
        return None if placed else VolumeProblem("missing", volume.claim, "")
    if volume.ephemeral and not controlled_by(claim, pod):
        return VolumeProblem("foreign", volume.claim, "")
    found = use_of_claim(claim, lookup)
    if found is not None:
        use, in_tree = found
        (migrated if in_tree else uses).append(use)
    return None


def _is_claim(source: VolumeSource) -> bool:
    return source.persistent_volume_claim is not None or source.ephemeral is not None


def _is_inline_disk(source: VolumeSource) -> bool:
    return (
        intree.plugin_of(source) is not None or source.iscsi is not None or source.rbd is not None
    )

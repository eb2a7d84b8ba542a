"""VolumeRestrictions and NodeVolumeLimits: may the pod's volumes be attached to a node."""

from tonnage.objects import intree
from tonnage.objects.pods import Pod
from tonnage.objects.storage import CSINode, PersistentVolumeClaim
from tonnage.objects.volume_sources import VolumeSource
from tonnage.testing.reference import volume_choice
from tonnage.testing.reference.cluster import ReferenceCluster
from tonnage.testing.reference.inventory import HostedNode, StorageObjects, key, namespace
from tonnage.testing.reference.outcomes import (
    SKIP,
    AttemptError,
    PluginRefusal,
    Stance,
    unresolvable,
    unschedulable,
)
from tonnage.testing.reference.volume_binding import not_owner

DISK_IN_USE = "node(s) had no available disk"
CLAIM_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
TOO_MANY_VOLUMES = "node(s) exceed max volume count"


class _MissingClaimError(Exception):
    """A claim of the new pod does not exist."""


def volume_restrictions(cluster: ReferenceCluster, pod: Pod) -> Stance:
    exclusive: set[str] = set()
    for use in volume_choice.claim_uses(pod):
        if use.ephemeral:
            continue
        claim = cluster.storage.claim(pod, use.name)
        if claim is None:
            return Stance(refusal=unresolvable(f'persistentvolumeclaim "{use.name}" not found'))
        if "ReadWriteOncePod" in claim.spec.access_modes:
            exclusive.add(key(claim.metadata))
    in_use = any(exclusive & _named_claims(other) for other in cluster.running())
    disks = [volume for volume in pod.spec.volumes if _is_disk(volume)]
    if not disks and not in_use:
        return SKIP

    def check(hosted: HostedNode) -> PluginRefusal | None:
        for other in hosted.pods:
            if any(_same_disk(mine, theirs) for mine in disks for theirs in other.spec.volumes):
                return unschedulable(DISK_IN_USE)
        return unschedulable(CLAIM_IN_USE) if in_use else None

    return Stance(check=check)


def node_volume_limits(cluster: ReferenceCluster, pod: Pod) -> Stance:
    storage = cluster.storage
    if not volume_choice.claim_uses(pod) and not any(map(intree.plugin_of, pod.spec.volumes)):
        return SKIP

    def check(hosted: HostedNode) -> PluginRefusal | None:
        try:
            new = _attachable(storage, pod, hosted.csi_node, is_new=True)
        except _MissingClaimError as missing:
            return unresolvable(str(missing))
        for driver in sorted(set(new.values())):
            if not _driver_ready(cluster, driver, hosted.csi_node):
                return unschedulable(f"{driver} CSI driver is not installed on the node")
        limits = _limits(hosted.csi_node)
        # A node without any limit is never looked into, so its pods cannot fail it either.
        if not new or not limits:
            return None
        in_use: dict[str, str] = {}
        for other in hosted.pods:
            in_use |= _attachable(storage, other, hosted.csi_node, is_new=False)
        attached = _attached(storage, hosted.name) | in_use
        # To upstream a volume that is attached but in use by no pod counts twice: there and as new.
        for name in attached if cluster.returning_volume_once else in_use:
            new.pop(name, None)
        for driver in new.values():
            count = [*attached.values(), *new.values()].count(driver)
            if driver in limits and count > limits[driver]:
                return unschedulable(TOO_MANY_VOLUMES)
        return None

    return Stance(check=check)


def _named_claims(pod: Pod) -> set[str]:
    uses = volume_choice.claim_uses(pod)
    return {f"{namespace(pod.metadata)}/{use.name}" for use in uses if not use.ephemeral}


def _is_disk(volume: VolumeSource) -> bool:
    kinds = (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.rbd, volume.iscsi)
    return any(kind is not None for kind in kinds)


def _same_disk(mine: VolumeSource, theirs: VolumeSource) -> bool:
    """Whether two pods on one node would fight over a disk; read-only users share, but not EBS."""
    gce, their_gce = mine.gce_persistent_disk, theirs.gce_persistent_disk
    if gce is not None and their_gce is not None and gce.pd_name == their_gce.pd_name:
        return not (gce.read_only and their_gce.read_only)
    ebs, their_ebs = mine.aws_elastic_block_store, theirs.aws_elastic_block_store
    if ebs is not None and their_ebs is not None:
        return ebs.volume_id == their_ebs.volume_id
    iscsi, their_iscsi = mine.iscsi, theirs.iscsi
    if iscsi is not None and their_iscsi is not None and iscsi.iqn == their_iscsi.iqn:
        return not (iscsi.read_only and their_iscsi.read_only)
    rbd, their_rbd = mine.rbd, theirs.rbd
    if rbd is not None and their_rbd is not None and set(rbd.monitors) & set(their_rbd.monitors):
        same_image = (rbd.pool, rbd.image) == (their_rbd.pool, their_rbd.image)
        return same_image and not (rbd.read_only and their_rbd.read_only)
    return False


def _driver_ready(cluster: ReferenceCluster, driver: str, csi_node: CSINode | None) -> bool:
    """The opt-in: a driver that asks for it must be registered on the node."""
    known = cluster.storage.drivers.get(driver)
    version = cluster.kubernetes_version
    if known is None or version < (1, 35) or not cluster.enabled("VolumeLimitScaling"):
        return True
    # 1.35 had the gate but not the field: every driver with an object was enforced.
    if version > (1, 35) and not known.spec.prevent_pod_scheduling_if_missing:
        return True
    return csi_node is not None and any(entry.name == driver for entry in csi_node.spec.drivers)


def _limits(csi_node: CSINode | None) -> dict[str, int]:
    drivers = csi_node.spec.drivers if csi_node is not None else ()
    return {entry.name: entry.limit for entry in drivers if entry.limit is not None}


def _attachable(
    storage: StorageObjects, pod: Pod, csi_node: CSINode | None, *, is_new: bool
) -> dict[str, str]:
    """The pod's volumes that take a slot: unique name to driver."""
    found: dict[str, str] = {}
    uses = iter(volume_choice.claim_uses(pod))
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is None and volume.ephemeral is None:
            if _migrated(csi_node, intree.plugin_of(volume)):
                driver, handle = _translated_inline(volume)
                found[f"{driver}/{handle}"] = driver
            continue
        use = next(uses)
        if not use.name:
            raise AttemptError("PersistentVolumeClaim had no name")
        claim = storage.claim(pod, use.name)
        if claim is None:
            if is_new:
                wanted = f"{namespace(pod.metadata)}/{use.name}"
                raise _MissingClaimError(
                    f'looking up PVC {wanted}: persistentvolumeclaim "{use.name}" not found'
                )
            continue
        foreign = not_owner(pod, claim) if use.ephemeral else None
        if foreign is not None:
            raise AttemptError(foreign)
        driver, handle = _driver_and_handle(storage, claim, csi_node)
        if driver and handle:
            found[f"{driver}/{handle}"] = driver
    return found


def _driver_and_handle(
    storage: StorageObjects, claim: PersistentVolumeClaim, csi_node: CSINode | None
) -> tuple[str, str]:
    volume = storage.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is None:
        return _driver_of_class(storage, claim, csi_node)
    if volume.spec.csi is not None:
        return volume.spec.csi.driver, volume.spec.csi.volume_handle
    if not _migrated(csi_node, intree.plugin_of(volume.spec)):
        return "", ""
    try:
        translated = intree.volume_handle(volume)
    except intree.TranslationError:
        return "", ""
    return translated.driver, translated.volume_handle


def _driver_of_class(
    storage: StorageObjects, claim: PersistentVolumeClaim, csi_node: CSINode | None
) -> tuple[str, str]:
    """An unbound claim stands for itself under its class's provisioner."""
    storage_class = storage.classes.get(claim.class_name) if claim.class_name else None
    if storage_class is None:
        return "", ""
    provisioner = storage_class.provisioner
    driver = intree.csi_driver_of(provisioner)
    if driver is None:
        driver = provisioner
    elif not _migrated(csi_node, provisioner):
        return "", ""
    return driver, f"unbound claim {key(claim.metadata)}"


def _translated_inline(volume: VolumeSource) -> tuple[str, str]:
    try:
        translated = intree.translate_inline(volume)
    except intree.TranslationError as error:
        text = f"converting volume({volume.name}) from inline to csi: {error}"
        raise AttemptError(text) from error
    return translated.driver, translated.volume_handle


def _migrated(csi_node: CSINode | None, plugin: str | None) -> bool:
    """Whether an in-tree plugin's volumes are its CSI driver's; nobody knows without a CSINode."""
    return csi_node is not None and plugin in intree.COUNTED


def _attached(storage: StorageObjects, node_name: str) -> dict[str, str]:
    """Volumes the attach controller has on the node, in use or not: unique name to driver."""
    found: dict[str, str] = {}
    for attachment in storage.attachments.values():
        spec = attachment.spec
        name = spec.source.persistent_volume_name
        if spec.node_name != node_name or not spec.attacher or name is None:
            continue
        volume = storage.volumes.get(name)
        if volume is not None and volume.spec.csi is not None:
            found[f"{spec.attacher}/{volume.spec.csi.volume_handle}"] = spec.attacher
    return found

"""VolumeBinding and VolumeZone: can the pod's volumes be, or be made, reachable from a node."""

from tonnage.objects import intree, quantities, selectors
from tonnage.objects.labels import BETA_REGION, BETA_ZONE, REGION, ZONE
from tonnage.objects.pods import Pod
from tonnage.objects.storage import (
    MIGRATED_PLUGINS_ANNOTATION,
    SELECTED_NODE_ANNOTATION,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologyTerm,
)
from tonnage.testing.reference import volume_choice
from tonnage.testing.reference.cluster import ReferenceCluster
from tonnage.testing.reference.inventory import HostedNode, StorageObjects, key
from tonnage.testing.reference.outcomes import (
    SKIP,
    AttemptError,
    PluginRefusal,
    Stance,
    unresolvable,
)

WRONG_NODE = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
WRONG_ZONE = "node(s) had no available volume zone"

NO_PROVISIONER = "kubernetes.io/no-provisioner"

GENERALLY_AVAILABLE = {BETA_ZONE: ZONE, BETA_REGION: REGION}
ZONE_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)


def volume_binding(cluster: ReferenceCluster, pod: Pod) -> Stance:
    storage = cluster.storage
    uses = volume_choice.claim_uses(pod)
    if not uses:
        return SKIP
    for use in uses:
        problem = _claim_problem(storage, pod, use)
        if problem is not None:
            return Stance(refusal=unresolvable(problem))
    claims = volume_choice.sort_claims(storage, pod)
    if claims.immediate:
        return Stance(refusal=unresolvable("pod has unbound immediate PersistentVolumeClaims"))

    def check(hosted: HostedNode) -> PluginRefusal | None:
        reasons = [
            *_bound_reasons(storage, claims.bound, hosted),
            *_delayed_reasons(storage, claims.delayed, hosted),
        ]
        # Upstream collects flags and names them in a fixed order, a lost volume last.
        reasons.sort(key=(WRONG_NODE, NOTHING_TO_BIND, NO_SPACE, VOLUME_GONE).index)
        return unresolvable(*reasons) if reasons else None

    return Stance(check=check)


def not_owner(pod: Pod, claim: PersistentVolumeClaim) -> str | None:
    """What upstream says when a generic ephemeral volume's claim is somebody else's."""
    owner = claim.metadata.controller
    if owner is not None and owner.uid == pod.metadata.uid:
        return None
    return (
        f"PVC {key(claim.metadata)} was not created for pod {key(pod.metadata)} (pod is not owner)"
    )


def _claim_problem(storage: StorageObjects, pod: Pod, use: volume_choice.ClaimUse) -> str | None:
    claim = storage.claim(pod, use.name)
    if claim is None:
        if use.ephemeral:
            return (
                "waiting for ephemeral volume controller to create the "
                f'persistentvolumeclaim "{use.name}"'
            )
        return f'persistentvolumeclaim "{use.name}" not found'
    if claim.status.phase == "Lost":
        return (
            f'persistentvolumeclaim "{use.name}" bound to non-existent '
            f'persistentvolume "{claim.spec.volume_name}"'
        )
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{use.name}" is being deleted'
    return not_owner(pod, claim) if use.ephemeral else None


def _bound_reasons(
    storage: StorageObjects, claims: list[PersistentVolumeClaim], hosted: HostedNode
) -> list[str]:
    for claim in claims:
        volume = storage.volumes.get(claim.spec.volume_name)
        if volume is None:
            return [VOLUME_GONE]
        affinity = volume_choice.node_affinity(volume)
        if _migrated_on(hosted.csi_node, volume):
            try:
                affinity = intree.translated_affinity(volume)
            except intree.TranslationError as error:
                raise AttemptError(f"could not translate pv: {error}") from error
        if not volume_choice.reachable(affinity, hosted):
            return [WRONG_NODE]
    return []


def _migrated_on(csi_node: CSINode | None, volume: PersistentVolume) -> bool:
    plugin = intree.plugin_of(volume.spec)
    if plugin not in intree.COUNTED or csi_node is None:
        return False
    migrated = csi_node.metadata.annotations.get(MIGRATED_PLUGINS_ANNOTATION, "")
    return plugin in migrated.split(",")


def _delayed_reasons(
    storage: StorageObjects, claims: list[PersistentVolumeClaim], hosted: HostedNode
) -> list[str]:
    to_provision = []
    to_match = []
    for claim in claims:
        selected = claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION)
        if selected is None:
            to_match.append(claim)
        elif selected != hosted.name:
            return [NOTHING_TO_BIND]
        else:
            to_provision.append(claim)
    to_provision += volume_choice.match_volumes(storage, to_match, hosted).unmatched
    for claim in to_provision:
        problem = _provisioning_problem(storage, claim, hosted)
        if problem is not None:
            return [problem]
    return []


def _provisioning_problem(
    storage: StorageObjects, claim: PersistentVolumeClaim, hosted: HostedNode
) -> str | None:
    storage_class = storage.classes[claim.class_name]
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return NOTHING_TO_BIND
    if not _topology_allows(storage_class.allowed_topologies, hosted):
        return NOTHING_TO_BIND
    return None if _has_capacity(storage, claim, storage_class, hosted) else NO_SPACE


def _topology_allows(terms: tuple[TopologyTerm, ...], hosted: HostedNode) -> bool:
    return not terms or any(
        term.match_label_expressions
        and all(
            hosted.labels.get(requirement.key) in requirement.values
            for requirement in term.match_label_expressions
        )
        for term in terms
    )


def _has_capacity(
    storage: StorageObjects,
    claim: PersistentVolumeClaim,
    storage_class: StorageClass,
    hosted: HostedNode,
) -> bool:
    if "storage" not in claim.spec.resources.requests:
        return True
    driver = storage.drivers.get(storage_class.provisioner)
    if driver is None or not driver.spec.storage_capacity:
        return True
    # Each claim on its own: what the pod's other claims take is not subtracted.
    return any(
        capacity.storage_class_name == storage_class.metadata.name
        and _is_enough(capacity, claim)
        and _is_near(capacity, hosted)
        for capacity in storage.capacities.values()
    )


def _is_enough(capacity: CSIStorageCapacity, claim: PersistentVolumeClaim) -> bool:
    limit = capacity.maximum_volume_size
    if limit is None:
        limit = capacity.capacity
    wanted = quantities.value(volume_choice.requested(claim))
    return limit is not None and quantities.value(limit) >= wanted


def _is_near(capacity: CSIStorageCapacity, hosted: HostedNode) -> bool:
    try:
        return selectors.matches(capacity.node_topology, hosted.labels)
    except selectors.SelectorError:
        return False


def volume_zone(cluster: ReferenceCluster, pod: Pod) -> Stance:
    """Zone labels of bound volumes. Ephemeral volumes are not looked at.

    Upstream checks claims and classes here once more; VolumeBinding comes first and
    has refused whatever could fail, except a volume that does not exist.
    """
    storage = cluster.storage
    zones: list[tuple[str, set[str]]] = []
    for use in volume_choice.claim_uses(pod):
        claim = storage.claim(pod, use.name)
        if use.ephemeral or claim is None or not claim.spec.volume_name:
            continue
        volume = storage.volumes.get(claim.spec.volume_name)
        if volume is None:
            missing = f'persistentvolume "{claim.spec.volume_name}" not found'
            return Stance(refusal=unresolvable(missing))
        zones += _zones_of(volume)
    if not zones:
        return SKIP

    def check(hosted: HostedNode) -> PluginRefusal | None:
        labels = hosted.labels
        if not any(label in labels for label in ZONE_LABELS):
            return None
        for label, allowed in zones:
            value = labels.get(label, labels.get(GENERALLY_AVAILABLE.get(label, label)))
            if value not in allowed:
                return unresolvable(WRONG_ZONE)
        return None

    return Stance(check=check)


def _zones_of(volume: PersistentVolume) -> list[tuple[str, set[str]]]:
    zones = []
    for label in ZONE_LABELS:
        if label in volume.metadata.labels:
            values = {part.strip() for part in volume.metadata.labels[label].split("__")}
            if "" not in values:
                zones.append((label, values))
    return zones

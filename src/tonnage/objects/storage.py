"""Claims, volumes, classes, and what CSI drivers publish about themselves."""

import msgspec

from tonnage.objects.meta import (
    LabelSelector,
    ObjectRecord,
    Quantity,
    Record,
    ResourceList,
)
from tonnage.objects.pods import NodeSelector
from tonnage.objects.volume_sources import ClaimSpec, VolumeSource

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED_ANNOTATION = "pv.kubernetes.io/bind-completed"
SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node"
MIGRATED_PLUGINS_ANNOTATION = "storage.alpha.kubernetes.io/migrated-plugins"
OPT_IN_FIELD = "preventPodSchedulingIfMissing"
OPT_IN_ALIAS = "preventPodPlacementWithoutDriver"
OPT_IN_ANNOTATION = "tonnage.dev/prevent-pod-scheduling-if-missing"


class ClaimStatus(Record, frozen=True, kw_only=True):
    phase: str = ""
    capacity: ResourceList = {}


class PersistentVolumeClaim(ObjectRecord, frozen=True, kw_only=True):
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def class_name(self) -> str:
        """Name of the StorageClass: the old annotation wins, even when empty."""
        annotated = self.metadata.annotations.get(CLASS_ANNOTATION)
        return annotated if annotated is not None else self.spec.storage_class_name or ""

    @property
    def fully_bound(self) -> bool:
        """Bound in both directions, as the binding controller records it."""
        return bool(self.spec.volume_name) and (
            BIND_COMPLETED_ANNOTATION in self.metadata.annotations
        )


class ObjectReference(Record, frozen=True, kw_only=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(Record, frozen=True, kw_only=True):
    required: NodeSelector | None = None


class VolumeSpec(VolumeSource, frozen=True, kw_only=True):
    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None


class VolumeStatus(Record, frozen=True, kw_only=True):
    phase: str = ""


class PersistentVolume(ObjectRecord, frozen=True, kw_only=True):
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()

    @property
    def class_name(self) -> str:
        annotated = self.metadata.annotations.get(CLASS_ANNOTATION)
        return annotated if annotated is not None else self.spec.storage_class_name


class TopologyRequirement(Record, frozen=True, kw_only=True):
    key: str
    values: tuple[str, ...] = ()


class TopologyTerm(Record, frozen=True, kw_only=True):
    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(ObjectRecord, frozen=True, kw_only=True):
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] = ()


class NodeDriverAllocatable(Record, frozen=True, kw_only=True):
    count: int | None = None


class NodeDriver(Record, frozen=True, kw_only=True):
    """One driver registered on a node. A count of `None` is unlimited, 0 is none at all."""

    name: str
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: NodeDriverAllocatable | None = None

    @property
    def limit(self) -> int | None:
        return self.allocatable.count if self.allocatable is not None else None


class CSINodeSpec(Record, frozen=True, kw_only=True):
    drivers: tuple[NodeDriver, ...] = ()


class CSINode(ObjectRecord, frozen=True, kw_only=True):
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Record, frozen=True, kw_only=True):
    """`prevent_pod_placement_without_driver` is what the text of KEP-5030 calls the opt-in.

    No API server knows that name. In files it says the same.
    """

    attach_required: bool | None = None
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None
    prevent_pod_placement_without_driver: bool | None = None
    node_allocatable_update_period_seconds: int | None = None

    def __post_init__(self) -> None:
        field, alias = (
            self.prevent_pod_scheduling_if_missing,
            self.prevent_pod_placement_without_driver,
        )
        if alias is None or alias is field:
            return
        if field is not None:
            raise ValueError(
                f"{OPT_IN_ALIAS}: {str(alias).lower()}: expected {OPT_IN_FIELD} alone, which says"
                f" {str(field).lower()}"
            )
        # So that whoever asks finds one name, wherever the object comes from.
        msgspec.structs.force_setattr(self, "prevent_pod_scheduling_if_missing", alias)


class CSIDriver(ObjectRecord, frozen=True, kw_only=True):
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(ObjectRecord, frozen=True, kw_only=True):
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class AttachmentSource(Record, frozen=True, kw_only=True):
    persistent_volume_name: str | None = None


class AttachmentSpec(Record, frozen=True, kw_only=True):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class AttachError(Record, frozen=True, kw_only=True):
    time: str | None = None
    message: str = ""
    error_code: int | None = None


class AttachmentStatus(Record, frozen=True, kw_only=True):
    attached: bool = False
    attach_error: AttachError | None = None
    detach_error: AttachError | None = None


class VolumeAttachment(ObjectRecord, frozen=True, kw_only=True):
    spec: AttachmentSpec = AttachmentSpec()
    status: AttachmentStatus = AttachmentStatus()

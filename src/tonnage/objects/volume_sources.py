"""Where the bytes of a volume come from: sources shared by pods and persistent volumes.

A pod's inline volume and a PersistentVolume name the same in-tree plugins with
slightly different shapes; one record holds the union of the fields we read.
"""

import msgspec

from tonnage.objects.meta import LabelSelector, ObjectRecord, Record, ResourceList


class ClaimReference(Record, frozen=True, kw_only=True):
    claim_name: str = ""
    read_only: bool = False


class VolumeResources(Record, frozen=True, kw_only=True):
    requests: ResourceList = {}


class ClaimSpec(Record, frozen=True, kw_only=True):
    """The spec of a PersistentVolumeClaim, also inside a generic ephemeral volume."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResources = VolumeResources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class ClaimTemplate(ObjectRecord, frozen=True, kw_only=True):
    spec: ClaimSpec = ClaimSpec()


class EphemeralSource(Record, frozen=True, kw_only=True):
    volume_claim_template: ClaimTemplate | None = None


class EmptyDirSource(Record, frozen=True, kw_only=True):
    """Scratch space of a pod, on its node's disk unless the medium is memory."""

    medium: str = ""


class CSISource(Record, frozen=True, kw_only=True):
    """Inline (`driver` only) or persistent (`driver` and `volumeHandle`)."""

    driver: str = ""
    volume_handle: str = ""


class AWSElasticBlockStoreSource(Record, frozen=True, kw_only=True):
    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class GCEPersistentDiskSource(Record, frozen=True, kw_only=True):
    pd_name: str = ""
    read_only: bool = False


class AzureDiskSource(Record, frozen=True, kw_only=True):
    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None


class AzureFileSource(Record, frozen=True, kw_only=True):
    secret_name: str = ""
    secret_namespace: str | None = None
    share_name: str = ""


class CinderSource(Record, frozen=True, kw_only=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class VsphereVolumeSource(Record, frozen=True, kw_only=True):
    volume_path: str = ""


class PortworxVolumeSource(Record, frozen=True, kw_only=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class ISCSISource(Record, frozen=True, kw_only=True):
    iqn: str = ""
    read_only: bool = False


class RBDSource(Record, frozen=True, kw_only=True):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class HostPathSource(Record, frozen=True, kw_only=True):
    path: str = ""


class VolumeSource(Record, frozen=True, kw_only=True):
    """One entry of a pod's `spec.volumes`, or the source part of a PersistentVolume."""

    name: str = ""
    persistent_volume_claim: ClaimReference | None = None
    ephemeral: EphemeralSource | None = None
    empty_dir: EmptyDirSource | None = None
    csi: CSISource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreSource | None = None
    gce_persistent_disk: GCEPersistentDiskSource | None = None
    azure_disk: AzureDiskSource | None = None
    azure_file: AzureFileSource | None = None
    cinder: CinderSource | None = None
    vsphere_volume: VsphereVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    iscsi: ISCSISource | None = None
    rbd: RBDSource | None = None
    host_path: HostPathSource | None = None

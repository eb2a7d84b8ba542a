"""In-tree volume plugins, and the CSI drivers that took over their volumes.

A volume of an in-tree plugin is attached by a CSI driver today, so it takes one of that
driver's slots, under the handle the driver would know it by, and its node affinity speaks
of the driver's topology keys.
"""

import re
from collections.abc import Iterable
from urllib.parse import unquote

import msgspec

from tonnage.objects.labels import BETA_REGION, BETA_ZONE, REGION, ZONE
from tonnage.objects.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tonnage.objects.storage import PersistentVolume
from tonnage.objects.volume_sources import (
    AWSElasticBlockStoreSource,
    AzureDiskSource,
    AzureFileSource,
    CSISource,
    VolumeSource,
)

AWS_EBS = "kubernetes.io/aws-ebs"
GCE_PD = "kubernetes.io/gce-pd"
AZURE_DISK = "kubernetes.io/azure-disk"
AZURE_FILE = "kubernetes.io/azure-file"
CINDER = "kubernetes.io/cinder"
VSPHERE = "kubernetes.io/vsphere-volume"
PORTWORX = "kubernetes.io/portworx-volume"

COUNTED = frozenset({AWS_EBS, GCE_PD, AZURE_DISK, CINDER, PORTWORX})
"""Plugins whose migration the scheduler takes as done; volumes of the others are not counted."""


_DRIVERS = {
    AWS_EBS: "ebs.csi.aws.com",
    GCE_PD: "pd.csi.storage.gke.io",
    AZURE_DISK: "disk.csi.azure.com",
    AZURE_FILE: "file.csi.azure.com",
    CINDER: "cinder.csi.openstack.org",
    VSPHERE: "csi.vsphere.vmware.com",
    PORTWORX: "pxd.portworx.com",
}
_ZONE_KEYS = {
    AWS_EBS: "topology.ebs.csi.aws.com/zone",
    GCE_PD: "topology.gke.io/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
}
_VSPHERE_ZONE = "topology.csi.vmware.com/zone"
_VSPHERE_REGION = "topology.csi.vmware.com/region"

_SEVERAL_ZONES = "__"
_UNSPECIFIED = "UNSPECIFIED"
_AZURE_FILE_GROUP = "kubernetes.io/azure-file-resource-group"
_AZURE_FILE_SECRET = r"azure-storage-account-(.+)-secret"
_EBS_SCHEME = "aws://"
_EBS_URL = (
    r"aws://[^\s%/?#:]*(?::[0-9]*)?"  # the zone, in the place of a host
    r"(?P<path>(?:/(?:[^\x00-\x1f%?#]|%[0-9A-Fa-f]{2})*)?)"
    r"(?:[?#].*)?"
)
_EBS_VOLUME = r"vol-[^/]*"


class TranslationError(ValueError):
    """A volume that no CSI driver took over, or whose source is malformed."""


def plugin_of(source: VolumeSource) -> str | None:
    """The in-tree plugin behind a pod's volume or a PersistentVolume's spec, if any."""
    # Asked of every volume of every pod, nearly always in vain: plain tests are the fastest way.
    if source.aws_elastic_block_store is not None:
        return AWS_EBS
    if source.gce_persistent_disk is not None:
        return GCE_PD
    if source.azure_disk is not None:
        return AZURE_DISK
    if source.azure_file is not None:
        return AZURE_FILE
    if source.cinder is not None:
        return CINDER
    if source.vsphere_volume is not None:
        return VSPHERE
    if source.portworx_volume is not None:
        return PORTWORX
    return None


def csi_driver_of(plugin: str) -> str | None:
    """The driver that took over an in-tree plugin, or the provisioner of the same name."""
    return _DRIVERS.get(plugin)


def translate_inline(source: VolumeSource, *, namespace: str = "") -> CSISource:
    """Driver and handle of a pod's in-tree volume; `namespace` is the pod's."""
    if source.gce_persistent_disk is not None:
        disk = source.gce_persistent_disk.pd_name
        return _csi(GCE_PD, _gce_handle("zones", _UNSPECIFIED, disk=disk))
    if source.azure_file is not None:
        account = _azure_file_account(source.azure_file)
        share = source.azure_file.share_name
        return _csi(AZURE_FILE, f"#{account}#{share}#{source.name}#{namespace or 'default'}")
    return _translate_common(source, source.name)


def volume_handle(pv: PersistentVolume) -> CSISource:
    """Driver and handle of a PersistentVolume with an in-tree source."""
    if pv.spec.gce_persistent_disk is not None:
        return _csi(GCE_PD, _gce_persistent_handle(pv, pv.spec.gce_persistent_disk.pd_name))
    if pv.spec.azure_file is not None:
        return _csi(AZURE_FILE, _azure_file_persistent_handle(pv, pv.spec.azure_file))
    return _translate_common(pv.spec, pv.metadata.name)


def translated_affinity(pv: PersistentVolume) -> NodeSelector | None:
    """Node affinity as it is after translation, in terms of the driver's topology keys.

    A volume that is not in-tree keeps its own. One that cannot be translated has none:
    `TranslationError`, as from `volume_handle`.
    """
    affinity = pv.spec.node_affinity.required if pv.spec.node_affinity is not None else None
    plugin = plugin_of(pv.spec)
    if plugin is None:
        return affinity
    volume_handle(pv)
    labels = pv.metadata.labels
    zone_key, region_key = _topology_keys(affinity, labels)
    if plugin in _ZONE_KEYS:
        zones = labels.get(zone_key, "").split(_SEVERAL_ZONES)
        affinity = _moved(affinity, zone_key, to=_ZONE_KEYS[plugin], otherwise=zones)
        if region_key == BETA_REGION:
            affinity = _moved(affinity, region_key, to=REGION, otherwise=())
    elif plugin == VSPHERE:
        for key, to in ((zone_key, _VSPHERE_ZONE), (region_key, _VSPHERE_REGION)):
            affinity = _moved(affinity, key, to=to, otherwise=[labels.get(key, "")])
    return affinity


def _csi(plugin: str, handle: str) -> CSISource:
    return CSISource(driver=_DRIVERS[plugin], volume_handle=handle)


def _translate_common(source: VolumeSource, name: str) -> CSISource:
    """Sources that mean the same inline and in a PersistentVolume."""
    if source.aws_elastic_block_store is not None:
        return _csi(AWS_EBS, _ebs_handle(source.aws_elastic_block_store))
    if source.azure_disk is not None:
        return _csi(AZURE_DISK, _azure_disk_handle(source.azure_disk))
    if source.cinder is not None:
        return _csi(CINDER, source.cinder.volume_id)
    if source.vsphere_volume is not None:
        return _csi(VSPHERE, source.vsphere_volume.volume_path)
    if source.portworx_volume is not None:
        return _csi(PORTWORX, source.portworx_volume.volume_id)
    raise TranslationError(f'could not find in-tree plugin translation logic for "{name}"')


def _ebs_handle(source: AWSElasticBlockStoreSource) -> str:
    """Either the bare id, or `aws://<zone>/<id>` with an optional zone."""
    given = source.volume_id
    if not given.startswith(_EBS_SCHEME):
        return given
    failed = "failed to translate Kubernetes ID to EBS Volume ID"
    url = re.fullmatch(_EBS_URL, given)
    if url is None:
        raise TranslationError(f"{failed} Invalid disk name ({given}): not a URL")
    handle = unquote(url["path"]).strip("/")
    if not re.fullmatch(_EBS_VOLUME, handle):
        raise TranslationError(f"{failed} Invalid format for AWS volume ({given})")
    return handle


def _gce_handle(kind: str, place: str, *, disk: str) -> str:
    return f"projects/{_UNSPECIFIED}/{kind}/{place}/disks/{disk}"


def _gce_persistent_handle(pv: PersistentVolume, disk: str) -> str:
    labels = pv.metadata.labels
    # The older label wins here, other than in the affinity.
    label = labels.get(BETA_ZONE) or labels.get(ZONE) or _UNSPECIFIED
    zones = label.split(_SEVERAL_ZONES)
    if len(zones) == 1:
        return _gce_handle("zones", label, disk=disk)
    return _gce_handle("regions", _gce_region(zones), disk=disk)


def _gce_region(zones: Iterable[str]) -> str:
    failed = "failed to get region from zones"
    regions: set[str] = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise TranslationError(
                f"{failed}: zone in unexpected format, "
                f"expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        found = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise TranslationError(
            f"{failed}: multiple or no regions gotten from zones, got: map[{found}]"
        )
    return regions.pop()


def _azure_disk_handle(source: AzureDiskSource) -> str:
    if source.kind is not None and source.kind.lower() != "managed":
        raise TranslationError(f"kind({source.kind}) is not supported in csi migration")
    return source.disk_uri


def _azure_file_account(source: AzureFileSource) -> str:
    named = re.search(_AZURE_FILE_SECRET, source.secret_name)
    return named[1] if named else source.secret_name


def _azure_file_persistent_handle(pv: PersistentVolume, source: AzureFileSource) -> str:
    namespace = source.secret_namespace
    if namespace is None and pv.spec.claim_ref is not None:
        namespace = pv.spec.claim_ref.namespace
    if not namespace:
        raise TranslationError(
            "could not find a secret namespace in PersistentVolumeSource or ClaimRef"
        )
    group = pv.metadata.annotations.get(_AZURE_FILE_GROUP, "")
    account = _azure_file_account(source)
    return f"{group}#{account}#{source.share_name}#{pv.metadata.name}#{namespace}"


def _topology_keys(affinity: NodeSelector | None, labels: dict[str, str]) -> tuple[str, str]:
    """The zone and region keys this volume speaks in: its affinity decides before its labels."""
    used = {r.key for r in _requirements(affinity)}
    for present in (used, labels):
        if ZONE in present:
            return ZONE, REGION
        if BETA_ZONE in present:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _moved(
    affinity: NodeSelector | None, key: str, *, to: str, otherwise: Iterable[str]
) -> NodeSelector | None:
    """Rename `key` where it names values, or else demand one of the values from the labels."""
    terms = affinity.node_selector_terms if affinity is not None else ()
    if any(r.key == key and r.values for r in _requirements(affinity)):
        return _with_expressions(
            (
                term,
                (
                    msgspec.structs.replace(r, key=to) if r.key == key else r
                    for r in term.match_expressions
                ),
            )
            for term in terms
        )
    values = tuple(sorted({value.strip() for value in otherwise} - {""}))
    if not values:
        return affinity
    demanded = NodeSelectorRequirement(key=to, operator="In", values=values)
    return _with_expressions(
        (term, (*term.match_expressions, demanded)) for term in terms or (NodeSelectorTerm(),)
    )


def _with_expressions(
    terms: Iterable[tuple[NodeSelectorTerm, Iterable[NodeSelectorRequirement]]],
) -> NodeSelector:
    return NodeSelector(
        node_selector_terms=tuple(
            msgspec.structs.replace(term, match_expressions=tuple(expressions))
            for term, expressions in terms
        )
    )


def _requirements(affinity: NodeSelector | None) -> Iterable[NodeSelectorRequirement]:
    if affinity is not None:
        for term in affinity.node_selector_terms:
            yield from term.match_expressions

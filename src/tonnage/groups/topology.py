"""The topology labels that CSI drivers set on the nodes they run on.

A volume pinned to `topology.ebs.csi.aws.com/zone` can be helped by a node that does not exist yet
only if its template has the label that the driver would put there. And a label that names one host
must not be copied from it to the next.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tonnage.objects.labels import BETA_REGION, BETA_ZONE, HOSTNAME, REGION, ZONE
from tonnage.objects.nodes import Node
from tonnage.objects.storage import NodeDriver

AZURE_ZONE = "topology.disk.csi.azure.com/zone"

KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ebs.csi.aws.com": ("topology.ebs.csi.aws.com/zone",),
        "pd.csi.storage.gke.io": ("topology.gke.io/zone",),
        "disk.csi.azure.com": (AZURE_ZONE,),
        "cinder.csi.openstack.org": ("topology.cinder.csi.openstack.org/zone",),
        "csi.vsphere.vmware.com": (
            "topology.csi.vmware.com/zone",
            "topology.csi.vmware.com/region",
        ),
        "diskplugin.csi.alibabacloud.com": ("topology.diskplugin.csi.alibabacloud.com/zone",),
        "csi.scaleway.com": ("topology.csi.scaleway.com/zone",),
        "linodebs.csi.linode.com": ("topology.linode.com/region",),
    }
)
"""The keys of drivers that are known to name a zone or region, for when no CSINode tells."""

_STANDARD = frozenset({ZONE, REGION, BETA_ZONE, BETA_REGION, HOSTNAME})
_HOST_NAMES = frozenset(
    {
        "node",
        "nodename",
        "nodeid",
        "host",
        "hostname",
        "hostid",
        "instance",
        "instanceid",
        "machine",
        "machineid",
    }
)


def derived(
    labels: Mapping[str, str], drivers: Iterable[NodeDriver], *, wanted: Iterable[str], name: str
) -> dict[str, str]:
    """Labels that drivers would add to a node with these labels, and that it does not have.

    Looked at are the keys of the drivers' entries, and the known keys of them and of the wanted
    ones. A key of a zone or region takes the standard label's value, a key of a host the name.
    """
    keys: dict[str, None] = {}
    for driver in drivers:
        keys.update(dict.fromkeys((*driver.topology_keys, *KEYS.get(driver.name, ()))))
    for driver_name in wanted:
        keys.update(dict.fromkeys(KEYS.get(driver_name, ())))
    found: dict[str, str] = {}
    for key in keys:
        value = _value(key, labels, name)
        if key not in labels and value is not None:
            found[key] = value
    return found


def host_keys(
    node: Node, drivers: Iterable[NodeDriver], siblings: Iterable[Node]
) -> tuple[str, ...]:
    """Topology keys of a node's drivers whose value names this node and no other.

    A key counts when its value is the node's name or hostname; or when its last part is a word for
    a host (`node`, `nodename`, `hostname`, `instance-id` and so on) and no sibling has the same
    value. A zone with a single node in it is thus never taken for a host.
    """
    labels = node.metadata.labels
    names = {node.metadata.name, labels.get(HOSTNAME, node.metadata.name)}
    others = [other for other in siblings if other.metadata.name != node.metadata.name]
    found = []
    for key in dict.fromkeys(key for driver in drivers for key in driver.topology_keys):
        value = labels.get(key)
        if value is None or key in _STANDARD:
            continue
        if value in names or (
            _is_host_like(key) and all(other.metadata.labels.get(key) != value for other in others)
        ):
            found.append(key)
    return tuple(found)


def _value(key: str, labels: Mapping[str, str], name: str) -> str | None:
    zone = labels.get(ZONE) or labels.get(BETA_ZONE)
    region = labels.get(REGION) or labels.get(BETA_REGION)
    last = key.rpartition("/")[2]
    if key in _STANDARD:
        return None
    if key == AZURE_ZONE:
        return None if zone is None else _azure_zone(zone, region)
    if last == "zone" or last.endswith("-zone"):
        return zone
    if last == "region" or last.endswith("-region"):
        return region
    return name if _is_host_like(key) else None


def _azure_zone(zone: str, region: str | None) -> str:
    """The driver's label is the zone, `eastus-1`; empty where the number is only a fault domain."""
    is_zone = zone.lower().startswith(f"{region.lower()}-") if region else "-" in zone
    return zone if is_zone else ""


def _is_host_like(key: str) -> bool:
    word = key.rpartition("/")[2].lower().replace("-", "").replace("_", "").replace(".", "")
    return word in _HOST_NAMES

"""What the machine has: its disks with their uses, and its network interfaces.

Everything is read below a root, so that a container sees the host's files and a test its own:
`sys/block`, `sys/class/net`, `proc/1/mountinfo`.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from tonnage.groups import catalogue
from tonnage.objects.meta import Record


class DiskPurpose(StrEnum):
    ROOT = "root"
    CSI = "csi"
    FOREIGN = "foreign"
    """Mounted, and not by CSI."""
    IDLE = "idle"
    """Not mounted: on its way to or from a pod, or nobody's."""


class Disk(Record, frozen=True, kw_only=True):
    name: str
    vendor: str = ""
    model: str = ""
    path: str = ""
    """Where the kernel has it; says which controller it is on."""
    use: DiskPurpose = DiskPurpose.IDLE


class Host(Record, frozen=True, kw_only=True):
    disks: tuple[Disk, ...] = ()
    interfaces: int = 0
    """Network interfaces with a device behind them; 0 if none could be seen."""


class _Kind(NamedTuple):
    """How the disks of a driver look; each pattern matches the whole text."""

    vendor: str = ".*"
    model: str = ".*"
    name: str = ".*"

    def fits(self, disk: Disk) -> bool:
        pairs = ((self.vendor, disk.vendor), (self.model, disk.model), (self.name, disk.name))
        return all(re.fullmatch(pattern, text) for pattern, text in pairs)


_KINDS: Mapping[str, tuple[_Kind, ...]] = MappingProxyType(
    {
        catalogue.EBS: (_Kind(model="Amazon Elastic Block Store.*"), _Kind(name="xvd[a-z]+")),
        catalogue.GCE_PD: (
            _Kind(vendor="Google", model="PersistentDisk"),
            _Kind(model="nvme_card-pd"),
        ),
        catalogue.AZURE_DISK: (
            _Kind(vendor="Msft", model="Virtual Disk"),
            _Kind(model="MSFT NVMe Accelerator.*"),
        ),
        "blockvolume.csi.oraclecloud.com": (_Kind(vendor="ORACLE", model="BlockVolume"),),
        "cinder.csi.openstack.org": (_Kind(name="vd[a-z]+"),),
        "csi.hetzner.cloud": (_Kind(vendor="HC", model="Volume"),),
        "csi.vsphere.vmware.com": (_Kind(vendor="VMware", model="Virtual disk"),),
        "dobs.csi.digitalocean.com": (_Kind(vendor="DO", model="Volume"),),
        "linodebs.csi.linode.com": (_Kind(vendor="Linode", model="Volume"),),
    }
)
"""The drivers whose disks can be told from others; of the rest no foreign disks are known."""

# Azure puts the disk of the system and the temporary one on a controller of their own; they do
# not count as data disks.
_AZURE_SYSTEM = re.compile(r"/(f8b3781a-1e82-4818-a1c3-63d806ec15bb|00000000-000[01]-)")

_ROOT_POINTS = ("/", "/sysroot", "/usr", "/boot", "/boot/efi")
_CSI_POINTS = ("/plugins/kubernetes.io/csi/", "/volumes/kubernetes.io~csi/")
_CSI_DEVICES = "/volumeDevices/kubernetes.io~csi/"


def read(root: Path) -> Host:
    """The machine as it is now; what is not there to be read is left out."""
    block = root / "sys/block"
    uses = _uses(block, _mounts(root / "proc/1/mountinfo"))
    interfaces = len(_interfaces(root / "sys/class/net"))
    if DiskPurpose.ROOT not in uses.values():
        # Who does not find the root disk does not see the mounts, and would take every disk for
        # a foreign one.
        return Host(interfaces=interfaces)
    disks = [
        Disk(
            name=entry.name,
            vendor=_text(entry / "device/vendor"),
            model=_text(entry / "device/model"),
            path=str(entry.resolve()),
            use=uses.get(entry.name, DiskPurpose.IDLE),
        )
        for entry in _entries(block)
        if (entry / "device").exists()
    ]
    return Host(disks=tuple(disks), interfaces=interfaces)


def foreign_disks(host: Host, driver: str, *, attachments: int) -> int:
    """Disks that take room of a driver's volumes and are none of them.

    A disk that is not mounted may be a volume between two pods; as many of those as there are
    `attachments` without a mounted disk are taken for volumes.
    """
    kinds = _KINDS.get(driver, ())
    uses = [
        disk.use
        for disk in host.disks
        if any(kind.fits(disk) for kind in kinds) and not _AZURE_SYSTEM.search(disk.path)
    ]
    on_their_way = max(attachments - uses.count(DiskPurpose.CSI), 0)
    return uses.count(DiskPurpose.FOREIGN) + max(uses.count(DiskPurpose.IDLE) - on_their_way, 0)


class _Mount(NamedTuple):
    device: str
    """Major and minor number."""
    source: str
    """The name of the device, where the file system has one."""
    point: str

    @property
    def of_csi(self) -> bool:
        return any(part in self.point for part in (*_CSI_POINTS, _CSI_DEVICES))


def _mounts(path: Path) -> Iterator[_Mount]:
    for line in _text(path).splitlines():
        head, dash, tail = line.partition(" - ")
        fields, rest = head.split(), tail.split()
        if not dash or len(fields) < 5 or len(rest) < 2:
            continue
        # A raw block volume is a device node of the devtmpfs, mounted as a file.
        device = fields[3] if rest[0] == "devtmpfs" else rest[1]
        yield _Mount(fields[2], device.rpartition("/")[2], fields[4])


def _uses(block: Path, mounts: Iterator[_Mount]) -> dict[str, DiskPurpose]:
    """The use of each disk, by name; mounts of partitions and mappings count for their disk."""
    disks_of: dict[str, set[str]] = {}
    for entry in _entries(block):
        disks = _disks_below(block, entry)
        parts = [part for part in _entries(entry) if (part / "partition").exists()]
        for device in (entry, *parts):
            disks_of.setdefault(device.name, set()).update(disks)
            disks_of.setdefault(_text(device / "dev"), set()).update(disks)
    mounted: dict[str, list[_Mount]] = {}
    for mount in mounts:
        for disk in disks_of.get(mount.device) or disks_of.get(mount.source) or ():
            mounted.setdefault(disk, []).append(mount)
    system = _system_disks(mounted)
    return {disk: _use(points, system=disk in system) for disk, points in mounted.items()}


def _use(mounts: list[_Mount], *, system: bool) -> DiskPurpose:
    if system:
        return DiskPurpose.ROOT
    return DiskPurpose.CSI if any(mount.of_csi for mount in mounts) else DiskPurpose.FOREIGN


def _system_disks(mounted: Mapping[str, list[_Mount]]) -> set[str]:
    """The disks of the root, or of what comes nearest to it on systems that boot otherwise."""
    for wanted in _ROOT_POINTS:
        found = {
            disk
            for disk, mounts in mounted.items()
            if any(mount.point == wanted for mount in mounts)
        }
        if found:
            return found
    return set()


def _disks_below(block: Path, entry: Path) -> set[str]:
    """The disks a mapping stands on; a disk stands on itself."""
    below = _entries(entry / "slaves")
    if not below:
        return {entry.name}
    # A slave may be a partition, which has no entry of its own at the top.
    owners = {part.name: disk for disk in _entries(block) for part in _entries(disk)}
    found: set[str] = set()
    for slave in below:
        disk = owners.get(slave.name, block / slave.name)
        found |= _disks_below(block, disk) if disk != entry else {entry.name}
    return found


def _interfaces(net: Path) -> set[str]:
    """Devices behind the network interfaces: one with several queues or names counts once."""
    return {
        str((entry / "device").resolve()) for entry in _entries(net) if (entry / "device").exists()
    }


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""

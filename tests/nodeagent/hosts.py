"""Machines made of files: the parts of sys and proc that the agent reads."""

from collections.abc import Iterable
from pathlib import Path

EBS_MODEL = "Amazon Elastic Block Store              "
CSI_MOUNT = "/var/lib/kubelet/plugins/kubernetes.io/csi/ebs.csi.aws.com/0a1b/globalmount"
AZURE_DATA = "f8b3781b-1e82-4818-a1c3-63d806ec15bb"
AZURE_SYSTEM = "f8b3781a-1e82-4818-a1c3-63d806ec15bb"


class FakeHost:
    """A root directory; disks and interfaces are added one by one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._numbers = 0
        for name in ("sys/block", "sys/class/net", "proc/1"):
            (root / name).mkdir(parents=True)
        (root / "proc/1/mountinfo").touch()

    def disk(
        self,
        name: str,
        *,
        model: str = EBS_MODEL,
        vendor: str = "",
        mounts: Iterable[str] = (),
        partition: bool = False,
        controller: str = "pci0000:00",
    ) -> None:
        """A disk, mounted where it says, by its first partition if it has one."""
        directory = self.root / "sys/devices" / controller / name
        (directory / "device").mkdir(parents=True)
        (directory / "device/model").write_text(f"{model}\n")
        if vendor:
            (directory / "device/vendor").write_text(f"{vendor}\n")
        link = self.root / "sys/block" / name
        link.symlink_to(Path("../devices") / controller / name)
        number = self._device(directory)
        if partition:
            part = directory / f"{name}p1"
            part.mkdir()
            (part / "partition").write_text("1\n")
            number = self._device(part)
        for point in mounts:
            self.mount(number, point, source=f"/dev/{name}")

    def mapping(self, name: str, over: str, *, mounts: Iterable[str] = ()) -> None:
        """A device that stands on others, such as an encrypted or a logical volume."""
        directory = self.root / "sys/block" / name
        (directory / "slaves" / over).mkdir(parents=True)
        number = self._device(directory)
        for point in mounts:
            self.mount(number, point, source=f"/dev/mapper/{name}")

    def mount(self, number: str, point: str, *, source: str, kind: str = "ext4", root: str = "/"):
        line = f"30 1 {number} {root} {point} rw,relatime shared:1 - {kind} {source} rw\n"
        with (self.root / "proc/1/mountinfo").open("a") as file:
            file.write(line)

    def interface(self, name: str, *, real: bool = True) -> None:
        directory = self.root / "sys/class/net" / name
        directory.mkdir()
        if real:
            device = self.root / "sys/devices/net" / name
            device.mkdir(parents=True)
            (directory / "device").symlink_to(device)

    def remove_interface(self, name: str) -> None:
        (self.root / "sys/class/net" / name / "device").unlink()
        (self.root / "sys/class/net" / name).rmdir()

    def _device(self, directory: Path) -> str:
        self._numbers += 1
        number = f"259:{self._numbers}"
        (directory / "dev").write_text(f"{number}\n")
        return number


def azure(root: Path) -> FakeHost:
    """An Azure machine with a disk for the system and a temporary one."""
    host = FakeHost(root)
    azure_disk(host, "sda", mounts=["/"], controller=AZURE_SYSTEM)
    azure_disk(host, "sdb", mounts=["/mnt"], controller=f"{AZURE_SYSTEM}/1")
    host.interface("eth0")
    return host


def azure_disk(
    host: FakeHost, name: str, *, mounts: Iterable[str] = (), controller: str = AZURE_DATA
) -> None:
    host.disk(name, vendor="Msft", model="Virtual Disk", mounts=mounts, controller=controller)


def ec2(root: Path, *, interfaces: int = 1) -> FakeHost:
    """An EC2 machine with nothing but its root disk."""
    host = FakeHost(root)
    host.disk("nvme0n1", mounts=["/", "/boot"], partition=True)
    for number in range(interfaces):
        host.interface(f"eth{number}")
    host.interface("lo", real=False)
    host.interface("veth1", real=False)
    return host

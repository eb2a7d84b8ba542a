"""What is seen of a machine, from files that look like its own."""

from pathlib import Path

import pytest

from tests.nodeagent.hosts import CSI_MOUNT, FakeHost, azure, azure_disk, ec2
from tonnage.groups import catalogue
from tonnage.nodeagent import host
from tonnage.nodeagent.host import DiskPurpose

EBS = catalogue.EBS


def uses(fake: FakeHost) -> dict[str, DiskPurpose]:
    return {disk.name: disk.use for disk in host.read(fake.root).disks}


def foreign(fake: FakeHost, driver: str = EBS, *, attachments: int = 0) -> int:
    return host.foreign_disks(host.read(fake.root), driver, attachments=attachments)


@pytest.fixture
def machine(tmp_path: Path) -> FakeHost:
    return ec2(tmp_path)


def test_the_disk_that_holds_the_root_is_no_foreign_one(machine: FakeHost) -> None:
    assert uses(machine) == {"nvme0n1": DiskPurpose.ROOT}
    assert foreign(machine) == 0


def test_a_disk_mounted_by_csi_is_no_foreign_one(machine: FakeHost) -> None:
    machine.disk("nvme1n1", mounts=[CSI_MOUNT])
    assert uses(machine)["nvme1n1"] is DiskPurpose.CSI
    assert foreign(machine) == 0


def test_a_disk_mounted_by_anybody_else_is(machine: FakeHost) -> None:
    machine.disk("nvme1n1", mounts=["/var/lib/containerd"], partition=True)
    assert foreign(machine, attachments=5) == 1


def test_a_raw_block_volume_of_a_pod_is_no_foreign_disk(machine: FakeHost) -> None:
    machine.disk("nvme1n1")
    point = "/var/lib/kubelet/pods/1/volumeDevices/kubernetes.io~csi/pvc-1"
    machine.mount("0:5", point, source="udev", kind="devtmpfs", root="/nvme1n1")
    assert foreign(machine) == 0


def test_a_file_system_without_a_device_number_is_known_by_its_name(machine: FakeHost) -> None:
    machine.disk("nvme1n1")
    machine.mount("0:44", "/data", source="/dev/nvme1n1", kind="btrfs")
    assert foreign(machine, attachments=1) == 1


def test_an_encrypted_volume_of_a_pod_is_known_by_what_it_stands_on(machine: FakeHost) -> None:
    machine.disk("nvme1n1")
    machine.mapping("dm-0", "nvme1n1", mounts=[CSI_MOUNT])
    assert uses(machine)["nvme1n1"] is DiskPurpose.CSI


def test_a_logical_volume_on_a_partition_makes_its_disk_foreign(machine: FakeHost) -> None:
    machine.disk("nvme1n1", partition=True)
    machine.mapping("dm-0", "nvme1n1p1", mounts=["/data"])
    assert uses(machine)["nvme1n1"] is DiskPurpose.FOREIGN


def test_a_disk_on_its_way_to_a_pod_is_no_foreign_one(machine: FakeHost) -> None:
    machine.disk("nvme1n1")
    assert foreign(machine, attachments=1) == 0


def test_a_disk_nobody_mounts_and_nobody_attached_is_foreign(machine: FakeHost) -> None:
    machine.disk("nvme1n1", mounts=[CSI_MOUNT])
    machine.disk("nvme2n1")
    assert foreign(machine, attachments=1) == 1


def test_local_disks_take_no_slot_of_the_driver(machine: FakeHost) -> None:
    machine.disk("nvme1n1", model="Amazon EC2 NVMe Instance Storage", mounts=["/scratch"])
    assert foreign(machine) == 0


def test_of_a_driver_whose_disks_look_like_any_no_foreign_disks_are_known(
    machine: FakeHost,
) -> None:
    machine.disk("nvme1n1", mounts=["/data"])
    assert foreign(machine, "disks.example.com") == 0


def test_azure_data_disks_count_and_those_of_the_system_do_not(tmp_path: Path) -> None:
    fake = azure(tmp_path)
    azure_disk(fake, "sdc", mounts=["/data"])
    assert foreign(fake, catalogue.AZURE_DISK) == 1


def test_only_interfaces_with_a_device_count(tmp_path: Path) -> None:
    assert host.read(ec2(tmp_path, interfaces=3).root).interfaces == 3


def test_who_does_not_see_the_root_disk_claims_nothing_about_disks(tmp_path: Path) -> None:
    fake = FakeHost(tmp_path)
    fake.disk("nvme1n1", mounts=["/data"])
    assert host.read(fake.root).disks == ()


def test_a_machine_without_these_files_has_nothing(tmp_path: Path) -> None:
    assert host.read(tmp_path / "nowhere") == host.Host()

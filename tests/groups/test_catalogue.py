"""What the catalogue says of instance types, and that it never guesses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.errors import InputError
from tonnage.groups import catalogue
from tonnage.groups.catalogue import AZURE_DISK, EBS, GCE_OVERRIDE_LABEL, GCE_PD, tables

MOTO = "EC2 DescribeInstanceTypes as shipped by moto 5.2.5"
AZURE_TABLE = "Kubernetes 1.26 in-tree Azure disk table, unchanged in azuredisk-csi-driver d983d61"
AZURE_RULE = "rule of azuredisk-csi-driver d983d61 by series and vCPUs"
GCE_SOURCE = "gcp-compute-persistent-disk-csi-driver b560165, disks by machine type"

aws_types = st.sampled_from(sorted(tables.aws().types))


def limit(driver: str, instance_type: str) -> catalogue.CatalogueLimit:
    found = catalogue.lookup(driver, instance_type)
    assert found is not None
    return found


def ebs(instance_type: str, *, enis: int = 1, reserved: int | None = None) -> int:
    found = catalogue.lookup(EBS, instance_type, enis=enis, reserved=reserved)
    assert found is not None
    return found.count


# Shared: everything takes slots of the same 28.
NITRO_SHARED = [
    ("m5.large", 26, "28 shared slots - 1 root disk - 1 ENI - 0 local NVMe - 0 reserved = 26"),
    ("c5.18xlarge", 26, "28 shared slots - 1 root disk - 1 ENI - 0 local NVMe - 0 reserved = 26"),
    ("r7g.large", 26, "28 shared slots - 1 root disk - 1 ENI - 0 local NVMe - 0 reserved = 26"),
    ("m7g.16xlarge", 26, "28 shared slots - 1 root disk - 1 ENI - 0 local NVMe - 0 reserved = 26"),
    ("m6i.large", 26, "28 shared slots - 1 root disk - 1 ENI - 0 local NVMe - 0 reserved = 26"),
    ("t3.micro", 26, "28 shared slots - 1 root disk - 1 ENI - 0 local NVMe - 0 reserved = 26"),
    ("t3a.small", 26, "28 shared slots - 1 root disk - 1 ENI - 0 local NVMe - 0 reserved = 26"),
    ("t4g.xlarge", 26, "28 shared slots - 1 root disk - 1 ENI - 0 local NVMe - 0 reserved = 26"),
]
NITRO_SHARED_WITH_LOCAL_DISKS = [
    ("m5d.large", 25, "28 shared slots - 1 root disk - 1 ENI - 1 local NVMe - 0 reserved = 25"),
    ("m6id.16xlarge", 24, "28 shared slots - 1 root disk - 1 ENI - 2 local NVMe - 0 reserved = 24"),
    ("m5d.24xlarge", 22, "28 shared slots - 1 root disk - 1 ENI - 4 local NVMe - 0 reserved = 22"),
    ("c6gd.4xlarge", 25, "28 shared slots - 1 root disk - 1 ENI - 1 local NVMe - 0 reserved = 25"),
    ("i3en.24xlarge", 18, "28 shared slots - 1 root disk - 1 ENI - 8 local NVMe - 0 reserved = 18"),
    ("i4i.32xlarge", 18, "28 shared slots - 1 root disk - 1 ENI - 8 local NVMe - 0 reserved = 18"),
    ("d3.xlarge", 23, "28 shared slots - 1 root disk - 1 ENI - 3 local NVMe - 0 reserved = 23"),
    ("d3.8xlarge", 2, "28 shared slots - 1 root disk - 1 ENI - 24 local NVMe - 0 reserved = 2"),
    ("d3en.12xlarge", 2, "28 shared slots - 1 root disk - 1 ENI - 24 local NVMe - 0 reserved = 2"),
]
NITRO_SHARED_WITH_ACCELERATORS = [
    (
        "g4dn.xlarge",
        24,
        "28 shared slots - 1 root disk - 1 ENI - 1 local NVMe - 1 accelerator - 0 reserved = 24",
    ),
    (
        "g5.12xlarge",
        21,
        "28 shared slots - 1 root disk - 1 ENI - 1 local NVMe - 4 accelerators - 0 reserved = 21",
    ),
    (
        "g5.48xlarge",
        8,
        "28 shared slots - 1 root disk - 1 ENI - 2 local NVMe - 16 accelerators - 0 reserved = 8",
    ),
    (
        "p3dn.24xlarge",
        16,
        "28 shared slots - 1 root disk - 1 ENI - 2 local NVMe - 8 accelerators - 0 reserved = 16",
    ),
    (
        "inf1.24xlarge",
        10,
        "28 shared slots - 1 root disk - 1 ENI - 0 local NVMe - 16 accelerators - 0 reserved = 10",
    ),
    ("trn1.32xlarge", 27, "29 shared slots - 1 root disk - 1 ENI - 0 local NVMe - 0 reserved = 27"),
    ("inf2.48xlarge", 27, "29 shared slots - 1 root disk - 1 ENI - 0 local NVMe - 0 reserved = 27"),
]
NITRO_DEDICATED = [
    ("m7i.large", 31, "32 dedicated slots - 1 root disk - 0 reserved = 31"),
    ("m7i.12xlarge", 31, "32 dedicated slots - 1 root disk - 0 reserved = 31"),
    ("m7i.16xlarge", 47, "48 dedicated slots - 1 root disk - 0 reserved = 47"),
    ("m7i.24xlarge", 63, "64 dedicated slots - 1 root disk - 0 reserved = 63"),
    ("m7a.32xlarge", 87, "88 dedicated slots - 1 root disk - 0 reserved = 87"),
    ("m7i.48xlarge", 127, "128 dedicated slots - 1 root disk - 0 reserved = 127"),
    ("c7i-flex.large", 31, "32 dedicated slots - 1 root disk - 0 reserved = 31"),
    ("i7ie.18xlarge", 47, "48 dedicated slots - 1 root disk - 0 reserved = 47"),
    ("hpc7a.96xlarge", 26, "27 dedicated slots - 1 root disk - 0 reserved = 26"),
    ("p4d.24xlarge", 27, "28 dedicated slots - 1 root disk - 0 reserved = 27"),
    ("p5.48xlarge", 63, "64 dedicated slots - 1 root disk - 0 reserved = 63"),
]
BEFORE_NITRO = [
    ("m4.large", 38, "39 slots (before Nitro) - 1 root disk - 0 reserved = 38"),
    ("i3.xlarge", 38, "39 slots (before Nitro) - 1 root disk - 0 reserved = 38"),
    ("t2.micro", 38, "39 slots (before Nitro) - 1 root disk - 0 reserved = 38"),
    ("d2.8xlarge", 38, "39 slots (before Nitro) - 1 root disk - 0 reserved = 38"),
]
BARE_METAL = [
    ("m5.metal", 30, "32 shared slots - 1 root disk - 1 ENI - 0 local NVMe - 0 reserved = 30"),
    ("i3en.metal", 30, "32 shared slots - 1 root disk - 1 ENI - 0 local NVMe - 0 reserved = 30"),
    ("mac1.metal", 15, "17 shared slots - 1 root disk - 1 ENI - 0 local NVMe - 0 reserved = 15"),
    ("mac2.metal", 9, "11 shared slots - 1 root disk - 1 ENI - 0 local NVMe - 0 reserved = 9"),
    ("c7i.metal-24xl", 38, "39 dedicated slots - 1 root disk - 0 reserved = 38"),
    ("m7i.metal-48xl", 78, "79 dedicated slots - 1 root disk - 0 reserved = 78"),
    (
        "m8a.metal-48xl",
        78,
        "79 dedicated slots (EC2 says shared) - 1 root disk - 0 reserved = 78",
    ),
    (
        "i7ie.metal-24xl",
        38,
        "39 dedicated slots (EC2 says shared) - 1 root disk - 0 reserved = 38",
    ),
]
AZURE = [
    ("Basic_A0", 1, "1 data disk - 0 reserved = 1"),
    ("Standard_B1s", 2, "2 data disks - 0 reserved = 2"),
    ("Standard_A1", 2, "2 data disks - 0 reserved = 2"),
    ("Standard_DS1_v2", 4, "4 data disks - 0 reserved = 4"),
    ("Standard_D2s_v3", 4, "4 data disks - 0 reserved = 4"),
    ("Standard_DS2_v2", 8, "8 data disks - 0 reserved = 8"),
    ("Standard_DS3_v2", 16, "16 data disks - 0 reserved = 16"),
    ("Standard_L8s_v3", 16, "16 data disks - 0 reserved = 16"),
    ("Standard_D16ads_v5", 32, "32 data disks - 0 reserved = 32"),
    ("Standard_E8-4ds_v5", 32, "32 data disks - 0 reserved = 32"),
    ("Standard_M416ms_v2", 64, "64 data disks - 0 reserved = 64"),
    ("Standard_NC24ads_A100_v4", 8, "8 data disks - 0 reserved = 8"),
    ("Standard_D40_v3", 40, "40 data disks - 0 reserved = 40"),
    ("Standard_D2as_v6", 4, "4 data disks - 0 reserved = 4"),
    ("Standard_D2s_v6", 8, "8 data disks - 0 reserved = 8"),
    ("Standard_D4ps_v6", 12, "12 data disks - 0 reserved = 12"),
    ("Standard_E8ds_v6", 24, "24 data disks - 0 reserved = 24"),
    ("Standard_E20s_v6", 48, "48 data disks - 0 reserved = 48"),
    ("Standard_L32s_v4", 64, "64 data disks - 0 reserved = 64"),
]
GCE = [
    ("f1-micro", 15, "16 disks - 1 boot disk - 0 reserved = 15"),
    ("e2-medium", 15, "16 disks - 1 boot disk - 0 reserved = 15"),
    ("e2-standard-2", 127, "128 disks - 1 boot disk - 0 reserved = 127"),
    ("n1-standard-1", 127, "128 disks - 1 boot disk - 0 reserved = 127"),
    ("custom-2-4096", 127, "128 disks - 1 boot disk - 0 reserved = 127"),
    ("n2d-highmem-96", 127, "128 disks - 1 boot disk - 0 reserved = 127"),
    ("c3d-highmem-8-lssd", 127, "128 disks - 1 boot disk - 0 reserved = 127"),
    ("c3-standard-4", 127, "128 disks - 1 boot disk - 0 reserved = 127"),
    ("c3-highcpu-192-metal", 15, "16 disks - 1 boot disk - 0 reserved = 15"),
    ("c4-standard-2", 7, "8 disks - 1 boot disk - 0 reserved = 7"),
    ("c4-standard-48", 63, "64 disks - 1 boot disk - 0 reserved = 63"),
    ("c4-standard-192", 127, "128 disks - 1 boot disk - 0 reserved = 127"),
    ("c4a-standard-4", 15, "16 disks - 1 boot disk - 0 reserved = 15"),
    ("c4a-standard-32-lssd", 31, "32 disks - 1 boot disk - 0 reserved = 31"),
    ("c4d-standard-2", 3, "4 disks - 1 boot disk - 0 reserved = 3"),
    ("c4d-standard-32", 31, "32 disks - 1 boot disk - 0 reserved = 31"),
    ("n4-standard-16", 31, "32 disks - 1 boot disk - 0 reserved = 31"),
    ("n4-custom-8-16384-ext", 15, "16 disks - 1 boot disk - 0 reserved = 15"),
    ("n4d-standard-16", 31, "32 disks - 1 boot disk - 0 reserved = 31"),
    ("n4a-standard-8", 15, "16 disks - 1 boot disk - 0 reserved = 15"),
    ("x4-megamem-960-metal", 39, "40 disks - 1 boot disk - 0 reserved = 39"),
    ("a4-highgpu-8g", 127, "128 disks - 1 boot disk - 0 reserved = 127"),
    ("a4x-highgpu-1g", 63, "64 disks - 1 boot disk - 0 reserved = 63"),
    ("a4x-highgpu-4g", 127, "128 disks - 1 boot disk - 0 reserved = 127"),
    ("a4x-maxgpu-metal", 31, "32 disks - 1 boot disk - 0 reserved = 31"),
]
AWS = (
    NITRO_SHARED
    + NITRO_SHARED_WITH_LOCAL_DISKS
    + NITRO_SHARED_WITH_ACCELERATORS
    + NITRO_DEDICATED
    + BEFORE_NITRO
    + BARE_METAL
)


@pytest.mark.parametrize(("instance_type", "count", "formula"), AWS)
def test_an_aws_type_attaches(instance_type: str, count: int, formula: str) -> None:
    assert limit(EBS, instance_type) == catalogue.CatalogueLimit(
        instance_type=instance_type,
        driver=EBS,
        count=count,
        formula=formula,
        source=MOTO,
        date="2026-10-27",
    )


@pytest.mark.parametrize(("instance_type", "count", "formula"), AZURE)
def test_an_azure_size_attaches(instance_type: str, count: int, formula: str) -> None:
    found = limit(AZURE_DISK, instance_type)
    assert (found.count, found.formula, found.date) == (count, formula, "2026-08-22")
    assert found.source in (AZURE_TABLE, AZURE_RULE)


@pytest.mark.parametrize(("instance_type", "count", "formula"), GCE)
def test_a_gce_type_attaches(instance_type: str, count: int, formula: str) -> None:
    found = limit(GCE_PD, instance_type)
    assert (found.count, found.formula, found.date) == (count, formula, "2026-08-18")
    assert found.source == GCE_SOURCE


@pytest.mark.parametrize(
    ("driver", "count", "formula"),
    [
        ("blockvolume.csi.oraclecloud.com", 32, "32 (iSCSI; paravirtualised attachments allow 16)"),
        ("cinder.csi.openstack.org", 256, "256 (unless node-volume-attach-limit is set)"),
        ("csi.hetzner.cloud", 16, "16 (every server type)"),
        ("csi.hpe.com", 100, "100 (the driver's default)"),
        ("csi.scaleway.com", 15, "16 (every instance type) - 1 root disk"),
        (
            "csi.vsphere.vmware.com",
            59,
            "59 (every virtual machine; 255 with high-pv-node-density)",
        ),
        ("dobs.csi.digitalocean.com", 7, "7 (unless --volume-limit is set)"),
        ("named-disk.csi.cloud-director.vmware.com", 15, "15 (every virtual machine)"),
        ("vpc.block.csi.ibm.io", 12, "12 (unless VOLUME_ATTACHMENT_LIMIT is set)"),
    ],
)
def test_a_driver_with_a_fixed_number_has_it_on_every_type(
    driver: str, count: int, formula: str
) -> None:
    found = limit(driver, "whatever")
    assert (found.count, found.formula) == (count, f"{formula} - 0 reserved = {count}")


@pytest.mark.parametrize(("memory_gib", "count"), [(1, 6), (8, 6), (16, 14), (64, 62), (512, 62)])
def test_the_number_of_linode_follows_the_memory(memory_gib: int, count: int) -> None:
    found = catalogue.lookup("linodebs.csi.linode.com", "g6-x", memory_gib=memory_gib)
    assert found is not None
    assert found.count == count


@pytest.mark.parametrize(
    ("driver", "instance_type"),
    [
        (EBS, "m99.large"),
        (EBS, "M5.large"),
        (EBS, ""),
        (EBS, "Standard_DS2_v2"),
        (AZURE_DISK, "Standard_D3s_v5"),
        (AZURE_DISK, "DS2_v2"),
        (AZURE_DISK, "m5.large"),
        (GCE_PD, "n9-standard-4"),
        (GCE_PD, "n4-micro"),
        (GCE_PD, "n4-highcpu-4x"),
        (GCE_PD, "n4-standard-4g"),
        (GCE_PD, "a4x-highgpu-big"),
        (GCE_PD, "a4x-highgpu"),
        (GCE_PD, "n1-standard"),
        (GCE_PD, "m5.large"),
        (GCE_PD, ""),
        ("linodebs.csi.linode.com", "g6-standard-4"),
        ("made-up.csi.example.com", "m5.large"),
    ],
)
def test_what_is_not_known_is_not_guessed(driver: str, instance_type: str) -> None:
    assert catalogue.lookup(driver, instance_type) is None


def test_azure_sizes_are_known_in_any_case() -> None:
    assert limit(AZURE_DISK, "STANDARD_ds2_V2").count == 8


def test_every_interface_after_the_first_takes_a_shared_slot() -> None:
    assert [ebs("m5.large", enis=enis) for enis in (1, 2, 3)] == [26, 25, 24]


def test_interfaces_take_no_dedicated_slot() -> None:
    assert ebs("m7i.large", enis=3) == ebs("m7i.large")


def test_interfaces_take_no_slot_before_nitro() -> None:
    assert ebs("m4.large", enis=2) == 38


def test_an_extra_data_disk_is_a_reserved_slot() -> None:
    assert ebs("m5.large", enis=2, reserved=1) == 24


def test_the_formula_has_the_numbers_that_were_given() -> None:
    found = catalogue.lookup(EBS, "m5.large", enis=3, reserved=2)
    assert found is not None
    assert found.formula == (
        "28 shared slots - 1 root disk - 3 ENIs - 0 local NVMe - 2 reserved = 22"
    )


def test_the_ebs_driver_never_publishes_less_than_one() -> None:
    found = catalogue.lookup(EBS, "d3.8xlarge", enis=3)
    assert found is not None
    assert found.count == 1
    assert found.formula.endswith("- 0 reserved = 0: the driver publishes 1, never less")


def test_reserving_more_than_there_is_leaves_none() -> None:
    found = catalogue.lookup(AZURE_DISK, "Standard_B1s", reserved=3)
    assert found is not None
    assert (found.count, found.formula) == (0, "2 data disks - 3 reserved = -1: none left")


@pytest.mark.parametrize(("enis", "reserved"), [(0, 0), (1, -1)])
def test_impossible_circumstances_are_refused(enis: int, reserved: int) -> None:
    with pytest.raises(InputError, match=r"is (0|-1);"):
        catalogue.lookup(EBS, "m5.large", enis=enis, reserved=reserved)


@pytest.mark.parametrize(
    ("machine_type", "label", "count"),
    [
        ("n1-standard-1", "20", 20),
        ("n4-standard-16", "127", 127),
        ("n1-standard-1", "128", 127),
        ("n1-standard-1", "0", 127),
        ("n1-standard-1", "many", 127),
        ("e2-micro", "20", 15),
    ],
)
def test_a_node_label_overrides_the_number_of_gce(
    machine_type: str, label: str, count: int
) -> None:
    found = catalogue.lookup(GCE_PD, machine_type, labels={GCE_OVERRIDE_LABEL: label})
    assert found is not None
    assert found.count == count


@pytest.mark.parametrize(
    ("instance_type", "driver"),
    [
        ("m5.large", EBS),
        ("n2-standard-4", GCE_PD),
        ("g2-standard-4", GCE_PD),
        ("Standard_D4s_v5", AZURE_DISK),
        ("cx22", "csi.hetzner.cloud"),
        ("s-2vcpu-4gb", "dobs.csi.digitalocean.com"),
        ("VM.Standard.E4.Flex", "blockvolume.csi.oraclecloud.com"),
        ("PRO2-S", "csi.scaleway.com"),
        ("bx2-4x16", "vpc.block.csi.ibm.io"),
        ("g6-standard-4", "linodebs.csi.linode.com"),
    ],
)
def test_the_cloud_is_told_by_the_name_of_the_type(instance_type: str, driver: str) -> None:
    found = catalogue.drivers_for(instance_type, memory_gib=8)
    assert [limit.driver for limit in found] == [driver]


def test_an_unknown_type_has_no_drivers() -> None:
    assert catalogue.drivers_for("m99.large") == []


def test_no_listed_type_belongs_to_two_clouds() -> None:
    names = [*catalogue.types_of(EBS), *catalogue.types_of(AZURE_DISK)]
    assert [n for n in names if len(catalogue.drivers_for(n, memory_gib=8)) != 1] == []


def test_a_driver_that_goes_by_a_rule_lists_no_types() -> None:
    assert catalogue.types_of(GCE_PD) == []


def test_shared_slots_are_a_pool_of_volumes_interfaces_disks_and_accelerators() -> None:
    pool = catalogue.pool("g5.12xlarge")
    assert pool is not None
    assert pool.size == 28
    assert [(m.name, m.kind, m.weight, m.held, m.most) for m in pool.members] == [
        (EBS, "driver", 1, 0, None),
        ("eni", "interface", 1, 1, 15),
        ("root-disk", "disk", 1, 1, 1),
        ("local-nvme", "disk", 1, 1, 1),
        ("accelerator", "accelerator", 1, 4, 4),
    ]


def test_the_disks_of_a_gce_machine_are_a_pool_with_the_boot_disk() -> None:
    pool = catalogue.pool("n4-standard-16")
    assert pool is not None
    assert (pool.size, [(m.name, m.held) for m in pool.members]) == (
        32,
        [(GCE_PD, 0), ("boot-disk", 1)],
    )


@pytest.mark.parametrize(
    "instance_type",
    ["m7i.large", "m4.large", "m8a.metal-48xl", "Standard_D4s_v5", "m99.large"],
)
def test_slots_that_nothing_shares_are_no_pool(instance_type: str) -> None:
    assert catalogue.pool(instance_type) is None


@given(aws_types.filter(lambda name: catalogue.pool(name) is not None))
def test_what_a_fresh_machine_leaves_of_its_pool_is_the_limit(instance_type: str) -> None:
    pool = catalogue.pool(instance_type)
    assert pool is not None
    held = sum(member.weight * member.held for member in pool.members)
    assert pool.size - held == ebs(instance_type)


@given(aws_types, st.integers(1, 60), st.integers(0, 200))
def test_no_circumstance_takes_the_limit_of_ebs_below_one(
    instance_type: str, enis: int, reserved: int
) -> None:
    assert 1 <= ebs(instance_type, enis=enis, reserved=reserved) <= ebs(instance_type)

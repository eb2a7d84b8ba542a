"""The tables behind the catalogue: what they have, and what is said of a name that they lack."""

import subprocess
import sys

import pytest

from tonnage.errors import InputError
from tonnage.groups import catalogue
from tonnage.groups.catalogue import AZURE_DISK, EBS, GCE_PD, tables


def test_the_table_of_aws_has_every_type_that_moto_ships() -> None:
    assert len(catalogue.types_of(EBS)) == 1395


def test_the_table_of_azure_has_all_sizes_of_the_in_tree_plugin() -> None:
    assert len(tables.azure().legacy) == 712


def test_the_rule_for_newer_azure_sizes_changes_no_number_of_the_in_tree_table() -> None:
    table = tables.azure()
    assert {name: table.sizes[name] for name in table.legacy} == table.legacy


@pytest.mark.parametrize(
    ("driver", "date"),
    [("csi.hetzner.cloud", "2026"), ("csi.hpe.com", "2024")],
)
def test_a_fixed_number_has_the_date_of_its_own_source(driver: str, date: str) -> None:
    found = catalogue.lookup(driver, "whatever")
    assert found is not None
    assert found.date == date


@pytest.mark.parametrize(
    ("size", "source"),
    [
        ("Standard_DS2_v2", "Kubernetes 1.26 in-tree Azure disk table"),
        ("Standard_D2s_v6", "rule of azuredisk-csi-driver d983d61"),
    ],
)
def test_an_azure_size_names_the_table_it_is_from(size: str, source: str) -> None:
    found = catalogue.lookup(AZURE_DISK, size)
    assert found is not None
    assert found.source.startswith(source)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("m5.larg", "m5.large"),
        ("Standard_D4_s_v5", "Standard_D4s_v5"),
        ("standard_nc24ads_a100v4", "Standard_NC24ads_A100_v4"),
        ("n5-standard-4", "n4-standard-4"),
        ("e2-medum", "e2-medium"),
    ],
)
def test_a_name_that_is_nearly_right_is_recognised(wrong: str, right: str) -> None:
    assert right in catalogue.near(wrong)


def test_a_name_like_no_other_has_no_near_match() -> None:
    assert catalogue.near("zzz") == []


@pytest.mark.parametrize(
    ("instance_type", "driver", "reason"),
    [
        ("m5.larg", None, "m5.larg is not in the catalogue; near matches: m5.large"),
        ("zzz", None, "zzz is not in the catalogue; no name comes near"),
        ("zzz", AZURE_DISK, "disk.csi.azure.com itself would assume 16 data disks"),
        ("zzz", EBS, "ebs.csi.aws.com itself would assume 27 shared slots"),
        ("zzz", GCE_PD, "pd.csi.storage.gke.io itself would assume 127 disks"),
        ("m5.large", GCE_PD, "no limit of pd.csi.storage.gke.io in the catalogue, only of ebs"),
        ("m5.large", "x.example.com", "x.example.com is not a driver of the catalogue"),
        ("g6-standard-4", None, "linodebs.csi.linode.com depends on the memory"),
    ],
)
def test_the_reason_for_no_answer_says_what_would_help(
    instance_type: str, driver: str | None, reason: str
) -> None:
    assert reason in catalogue.why_unknown(instance_type, driver)


@pytest.mark.parametrize(
    ("plugin", "provider", "instance_type", "limit"),
    [
        ("kubernetes.io/azure-disk", "azure", "Standard_DS2_v2", 8),
        ("kubernetes.io/azure-disk", "azure", "Standard_D2s_v6", 16),
        ("kubernetes.io/aws-ebs", "aws", "m5.large", 25),
        ("kubernetes.io/gce-pd", "gce", "n4-standard-2", 127),
    ],
)
def test_an_in_tree_plugin_has_the_number_its_last_kubelet_knew(
    plugin: str, provider: str, instance_type: str, limit: int
) -> None:
    assert catalogue.intree_limit(plugin, instance_type, provider=provider) == limit


def test_asking_for_ebs_on_a_gce_node_is_an_error() -> None:
    with pytest.raises(InputError, match="aws-ebs was asked for on a node of cloud provider 'gce'"):
        catalogue.intree_limit("kubernetes.io/aws-ebs", "n1-standard-1", provider="gce")


def test_the_catalogue_does_without_numpy() -> None:
    code = (
        "import sys; from tonnage.groups import catalogue;"
        "catalogue.drivers_for('m5.large'); sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

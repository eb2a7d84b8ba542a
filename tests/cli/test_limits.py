"""`tonnage limits show` and `tonnage limits key`."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tonnage.cli.app import program


def run(*arguments: str) -> Result:
    return CliRunner().invoke(program, ["limits", *arguments])


def test_show_prints_number_formula_source_and_date() -> None:
    line = run("show", "m5.large").stdout.splitlines()[1]
    assert re.split(r"  +", line) == [
        "m5.large",
        "ebs.csi.aws.com",
        "26",
        "28 shared slots - 1 root disk - 1 ENI - 0 local NVMe - 0 reserved = 26",
        "EC2 DescribeInstanceTypes as shipped by moto 5.2.5",
        "2026-10-27",
    ]


def test_show_prints_types_of_several_clouds_in_the_order_given() -> None:
    lines = run("show", "n4-standard-16", "m5.large", "Standard_D4s_v5").stdout.splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["TYPE", "DRIVER", "LIMIT"],
        ["n4-standard-16", "pd.csi.storage.gke.io", "31"],
        ["m5.large", "ebs.csi.aws.com", "26"],
        ["Standard_D4s_v5", "disk.csi.azure.com", "8"],
    ]


def test_show_takes_interfaces_and_reserved_slots_off() -> None:
    assert (
        "3 ENIs - 0 local NVMe - 1 reserved = 23"
        in run("show", "m5.large", "--enis", "3", "--reserved", "1").stdout
    )


def test_show_as_json_is_one_versioned_document() -> None:
    assert json.loads(run("show", "m7i.large", "-o", "json").stdout) == {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "LimitList",
        "items": [
            {
                "instanceType": "m7i.large",
                "driver": "ebs.csi.aws.com",
                "count": 31,
                "formula": "32 dedicated slots - 1 root disk - 0 reserved = 31",
                "source": "EC2 DescribeInstanceTypes as shipped by moto 5.2.5",
                "date": "2026-10-27",
            }
        ],
    }


@pytest.mark.parametrize("arguments", [("show", "m5.large"), ("key", "ebs.csi.aws.com")])
def test_yaml_says_the_same_as_json(arguments: tuple[str, ...]) -> None:
    as_json = json.loads(run(*arguments, "-o", "json").stdout)
    assert yaml.safe_load(run(*arguments, "-o", "yaml").stdout) == as_json


def test_an_unknown_type_is_one_line_with_near_matches_and_code_2() -> None:
    result = run("show", "m5.larg")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "tonnage: error: m5.larg is not in the catalogue; "
        "near matches: m5.large, m5n.large, m5d.large\n"
    )


def test_known_types_are_printed_beside_an_unknown_one() -> None:
    result = run("show", "zzz", "m5.large")
    assert (result.exit_code, result.stdout.splitlines()[1].split()[0]) == (2, "m5.large")


def test_json_stays_a_document_when_no_type_is_known() -> None:
    assert json.loads(run("show", "zzz", "-o", "json").stdout)["items"] == []


def test_a_driver_with_a_fixed_number_is_asked_for_by_name() -> None:
    result = run("show", "vm", "--driver", "csi.vsphere.vmware.com")
    assert result.stdout.splitlines()[1].split()[:3] == ["vm", "csi.vsphere.vmware.com", "59"]


def test_a_driver_of_another_cloud_is_refused() -> None:
    result = run("show", "m5.large", "--driver", "pd.csi.storage.gke.io")
    assert (result.exit_code, "only of ebs.csi.aws.com" in result.stderr) == (2, True)


def test_an_unknown_driver_is_complained_about_once() -> None:
    result = run("show", "m5.large", "m5.xlarge", "--driver", "x.example.com")
    assert result.stderr.count("x.example.com is not a driver") == 1


def test_memory_gives_the_number_of_drivers_that_follow_it() -> None:
    result = run("show", "g6-standard-6", "--memory", "16")
    assert result.stdout.splitlines()[1].split()[2] == "14"


def test_more_interfaces_than_the_type_has_are_refused() -> None:
    result = run("show", "m5.large", "--enis", "4")
    assert (result.exit_code, result.stderr) == (
        2,
        "tonnage: error: --enis 4: m5.large has at most 3 network interfaces\n",
    )


@pytest.mark.parametrize("option", [("--enis", "0"), ("--reserved", "-1"), ("-o", "xml")])
def test_a_wrong_option_is_wrong_usage(option: tuple[str, str]) -> None:
    assert run("show", "m5.large", *option).exit_code == 2


@pytest.mark.parametrize("command", ["show", "key"])
def test_help_has_examples(command: str) -> None:
    assert f"Examples:\n    tonnage limits {command} " in run(command, "--help").stdout


def test_key_prints_the_key_and_whether_it_was_hashed() -> None:
    long = "very-long-driver-name.storage.example-company.com"
    lines = run("key", "ebs.csi.aws.com", long, "kubernetes.io/gce-pd").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["DRIVER", "KEY", "HASHED"],
        ["ebs.csi.aws.com", "attachable-volumes-csi-ebs.csi.aws.com", "no"],
        [long, "attachable-volumes-csi-very-long-driver-name.s2cf230bfc5aabd7e", "yes"],
        ["kubernetes.io/gce-pd", "attachable-volumes-gce-pd", "no"],
    ]


def csi_driver(path: Path, key: str) -> str:
    annotations = {"tonnage.dev/attach-limit-key": key}
    meta = {"name": "ebs.csi.aws.com", "annotations": annotations}
    manifest = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": meta}
    path.write_text(json.dumps(manifest))
    return str(path)


def test_key_prints_the_key_that_a_csidriver_names(tmp_path: Path) -> None:
    file = csi_driver(tmp_path / "driver.json", "attachable-volumes-mine")
    lines = run("key", "ebs.csi.aws.com", "other.example.com", "-f", file).stdout.splitlines()
    assert [line.split()[1] for line in lines[1:]] == [
        "attachable-volumes-mine",
        "attachable-volumes-csi-other.example.com",
    ]


def test_key_refuses_a_csidriver_that_names_what_is_no_key(tmp_path: Path) -> None:
    result = run("key", "ebs.csi.aws.com", "-f", csi_driver(tmp_path / "driver.json", "cpu"))
    assert result.exit_code == 2
    assert "annotation tonnage.dev/attach-limit-key: 'cpu'" in result.stderr


@pytest.mark.parametrize("driver", ["", "no driver", "trailing-"])
def test_key_refuses_what_cannot_be_a_resource_name(driver: str) -> None:
    result = run("key", driver)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("package", ["numpy", "rich", "yaml"])
def test_a_plain_table_needs_no(package: str) -> None:
    code = f"""
import sys
from tonnage.cli.app import program
program(["limits", "show", "m5.large"], standalone_mode=False)
sys.exit({package!r} in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert (run.returncode, run.stdout.startswith(b"TYPE")) == (0, True)

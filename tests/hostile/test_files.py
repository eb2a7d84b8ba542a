"""Files made to hurt: each gets one line that says what is wrong, within bounds of memory."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tonnage.cli.app import program
from tonnage.errors import InputError
from tonnage.files import object_collector, sources

NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": 4, "memory": "8Gi", "pods": 110}},
}


def pod(cpu: object) -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "db-0"},
        "spec": {"containers": containers},
    }


def group(**spec: object) -> dict[str, Any]:
    return {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "NodeGroup",
        "metadata": {"name": "g"},
        "spec": {"maxSize": 10, "template": {"node": {"status": NODE["status"]}}, **spec},
    }


def asked(command: str, tmp_path: Path, *objects: object) -> Result:
    file = tmp_path / "cluster.json"
    file.write_text("\n".join(map(json.dumps, objects)))
    return CliRunner().invoke(program, [command, "-f", str(file)])


@pytest.mark.parametrize("command", ["explain", "plan", "slots"])
@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**40])
def test_a_number_of_more_than_64_bits_is_refused_by_its_field(
    command: str, number: int, tmp_path: Path
) -> None:
    result = asked(command, tmp_path, NODE, pod(number), group())
    assert (result.exit_code, result.stdout) == (2, "")
    assert (
        "Pod default/db-0: spec.containers[0].resources.requests.cpu: "
        "expected a number of at most 64 bits, or a quantity in quotes, found "
    ) in result.stderr


def test_the_doctor_leaves_such_a_pod_out_and_says_so(tmp_path: Path) -> None:
    result = asked("doctor", tmp_path, NODE, pod(2**64))
    assert "left out: " in result.stderr
    assert "expected a number of at most 64 bits" in result.stderr


def test_an_export_never_rounds_a_number(tmp_path: Path) -> None:
    source, target = tmp_path / "cluster.json", tmp_path / "out.json"
    source.write_text("\n".join(map(json.dumps, (NODE, pod(2**64), pod("18446744073709551617")))))
    result = CliRunner().invoke(program, ["export", "-f", str(source), str(target)])
    assert result.exit_code == 2
    assert not target.exists()


@pytest.mark.parametrize("price", ["1e999", "1e9", 1e300])
def test_a_price_beyond_all_measure_is_told_and_not_used(price: object, tmp_path: Path) -> None:
    result = asked("plan", tmp_path, NODE, pod(1), group(pricePerHour=price))
    assert result.exit_code == 0
    wanted = "NodeGroup g: spec.pricePerHour: expected a price of an hour, above 0 and below 1,000,"
    assert wanted in result.stderr


def test_a_group_of_billions_of_nodes_is_refused(tmp_path: Path) -> None:
    result = asked("plan", tmp_path, NODE, pod(1), group(targetSize=2**31 - 1))
    assert result.exit_code == 2
    wanted = "spec.targetSize: expected a whole number, 0 or more and below 100,001"
    assert wanted in result.stderr


def test_a_file_that_unpacks_to_a_thousand_times_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "SMALL", sources.MIB)
    bomb = tmp_path / "bomb.json.gz"
    bomb.write_bytes(gzip.compress(b" " * (4 * sources.MIB)))
    result = CliRunner().invoke(program, ["slots", "-f", str(bomb)])
    assert result.exit_code == 2
    assert "bytes of gzip unpack to more than 1 MiB" in result.stderr


def test_a_file_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LARGEST", sources.MIB)
    large = tmp_path / "large.json"
    large.write_bytes(b" " * (sources.MIB + 1))
    with pytest.raises(InputError, match=r"large\.json: more than 1 MiB"):
        sources.read(sources.InputSource("large.json", large))


def test_a_line_of_a_batch_that_never_ends_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LARGEST_LINE", sources.MIB)
    batch = tmp_path / "batch.jsonl.gz"
    batch.write_bytes(gzip.compress(b" " * (2 * sources.MIB)))
    result = CliRunner().invoke(program, ["batch", "verdicts", str(batch)])
    assert result.exit_code == 2
    assert "line 1 has more than 1 MiB" in result.stderr


def test_more_objects_than_any_cluster_has_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_collector, "MOST_OBJECTS", 2)
    nodes = [{**NODE, "metadata": {"name": f"n{number}"}} for number in range(3)]
    result = asked("slots", tmp_path, *nodes)
    assert result.exit_code == 2
    assert "cluster.json: more than 2 objects in the input" in result.stderr

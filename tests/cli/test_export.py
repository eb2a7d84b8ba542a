"""`tonnage export`."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.cli.conftest import Written
from tests.cli.liveserver import LiveCluster, live_cluster
from tests.clusters import random_cluster
from tonnage import files
from tonnage.cli.app import program
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.workloads import StatefulSet
from tonnage.testing import builders as make

EXAMPLE = str(Path(__file__).parent.parent.parent / "examples" / "two-databases")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path, version="v1.36.1") as running:
        running.add([make.namespace("shop"), make.node("n1"), make.pod("web", namespace="shop")])
        running.add([StatefulSet(metadata=ObjectMeta(name="db", namespace="shop"))])
        yield running


def run(*arguments: str) -> Result:
    return CliRunner().invoke(program, ["export", *arguments])


def scenario(path: Path) -> dict[str, Any]:
    return json.loads(path.read_bytes())


def test_a_live_cluster_becomes_a_scenario_with_its_version(
    cluster: LiveCluster, tmp_path: Path
) -> None:
    target = tmp_path / "out.json"
    assert run(str(target), "--kubeconfig", cluster.kubeconfig).exit_code == 0
    written = scenario(target)
    assert written["metadata"]["name"] == "production"
    assert written["spec"]["kubernetesVersion"] == "1.36"
    kinds = dict.fromkeys(one["kind"] for one in written["spec"]["objects"])
    assert list(kinds) == ["Node", "Pod", "Namespace", "StatefulSet"]


def test_the_scenario_says_when_a_live_cluster_was_taken(
    cluster: LiveCluster, tmp_path: Path
) -> None:
    target = tmp_path / "out.json"
    result = run(str(target), "--kubeconfig", cluster.kubeconfig)
    assert f"--now {scenario(target)['metadata']['creationTimestamp']}" in result.stderr


def test_an_anonymous_export_does_not_name_the_context(
    cluster: LiveCluster, tmp_path: Path
) -> None:
    target = tmp_path / "out.json"
    run(str(target), "--kubeconfig", cluster.kubeconfig, "--anonymise")
    assert b"production" not in target.read_bytes()


@pytest.mark.parametrize("seed", range(10))
def test_what_is_exported_reads_back_as_it_was(seed: int, written: Written, tmp_path: Path) -> None:
    target = str(tmp_path / "out.json")
    source = written(*random_cluster(seed).objects)
    assert run(target, "-f", source, "--lenient").exit_code == 0
    before = files.load([source], lenient=True).objects
    assert files.load([target]).objects[: len(before)] == before


def test_a_name_in_gz_is_compressed(tmp_path: Path) -> None:
    target = tmp_path / "out.json.gz"
    run(str(target), "-f", EXAMPLE)
    assert json.loads(gzip.decompress(target.read_bytes()))["kind"] == "Scenario"


def test_the_same_cluster_gives_the_same_bytes(tmp_path: Path) -> None:
    one, other = tmp_path / "one.json.gz", tmp_path / "other.json.gz"
    run(str(one), "-f", EXAMPLE)
    run(str(other), "-f", EXAMPLE)
    assert one.read_bytes() == other.read_bytes()


def test_it_can_be_written_to_standard_output() -> None:
    assert json.loads(run("-", "-f", EXAMPLE).stdout)["kind"] == "Scenario"


def test_an_export_is_one_line_fit_for_a_batch() -> None:
    assert run("-", "-f", EXAMPLE).stdout.count("\n") == 1


@pytest.mark.parametrize("command", ["explain", "plan"])
def test_an_anonymous_export_answers_as_the_original(command: str, tmp_path: Path) -> None:
    target, names = str(tmp_path / "out.json"), tmp_path / "names.json"
    run(target, "-f", EXAMPLE, "--anonymise", "--names", str(names))
    before = CliRunner().invoke(program, [command, "-f", EXAMPLE, "-o", "json"]).stdout
    after = CliRunner().invoke(program, [command, "-f", target, "-o", "json"]).stdout
    table = {
        old: new for kind in json.loads(names.read_bytes()).values() for old, new in kind.items()
    }
    for old in sorted(table, key=len, reverse=True):
        before = before.replace(f'"{old}"', f'"{table[old]}"')
    codes, originals = json.loads(after), json.loads(before)
    if command == "plan":
        assert codes["scaleUps"][0]["group"] == originals["scaleUps"][0]["group"]
        assert codes["notHelped"][0]["reasons"] == originals["notHelped"][0]["reasons"]
    else:
        assert codes == originals


def test_no_name_of_the_original_is_in_an_anonymous_export(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    run(str(target), "-f", EXAMPLE, "--anonymise")
    text = target.read_text()
    assert [word for word in ("orders", "search", "shop", "invoices") if word in text] == []


def test_options_that_name_things_are_left_out_and_said(tmp_path: Path) -> None:
    source = tmp_path / "in.json"
    source.write_text(
        json.dumps(
            {
                "apiVersion": "tonnage.dev/v1alpha1",
                "kind": "Scenario",
                "metadata": {"name": "s"},
                "spec": {"options": {"priorities": {"10": ["acme-.*"]}, "maxNodesTotal": 3}},
            }
        )
    )
    target = tmp_path / "out.json"
    result = run(str(target), "-f", str(source), "--anonymise")
    assert scenario(target)["spec"]["options"] == {"maxNodesTotal": 3}
    assert "options priorities" in result.stderr


def test_names_without_anonymising_are_wrong_usage() -> None:
    assert run("-", "-f", EXAMPLE, "--names", "names.json").exit_code == 2


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    target = tmp_path / "missing" / "out.json"
    result = run(str(target), "-f", EXAMPLE)
    assert (result.exit_code, result.stderr) == (
        2,
        f"tonnage: error: {target}: cannot be written: No such file or directory\n",
    )


def test_an_export_that_fails_leaves_no_half_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full_disk)
    assert run(str(tmp_path / "out.json"), "-f", EXAMPLE).exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_every_object_is_a_manifest_of_its_own() -> None:
    document = json.loads(run("-", "-f", EXAMPLE).stdout)
    raw = msgspec.json.encode({"kind": "List", "items": document["spec"]["objects"]})
    result = CliRunner().invoke(program, ["explain", "-f", "-"], input=raw)
    assert result.exit_code == 0

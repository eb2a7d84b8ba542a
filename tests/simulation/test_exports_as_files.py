"""Simulations of a cluster that was exported: `files:` takes a Scenario apart."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.docs.blocks import REPOSITORY
from tonnage.cli.app import program

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "7"},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "gone",
        "uid": "u9",
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "c"}], **spec},
    }


EXPORT = {
    "apiVersion": "tonnage.dev/v1alpha1",
    "kind": "Scenario",
    "metadata": {"name": "production"},
    "spec": {"objects": [NODE, pod("waits"), pod("runs", nodeName="n1")]},
}


def play(tmp_path: Path, file: str, text: bytes) -> Result:
    (tmp_path / file).write_bytes(text)
    simulation = {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "Simulation",
        "metadata": {"name": "replayed"},
        "spec": {"duration": "1m", "files": [file]},
    }
    (tmp_path / "s.yaml").write_text(json.dumps(simulation))
    return CliRunner().invoke(program, ["simulate", str(tmp_path / "s.yaml"), "-o", "json"])


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("one-line.json", json.dumps(EXPORT).encode()),
        ("indented.yaml", json.dumps(EXPORT, indent=2).encode()),
        ("packed.json.gz", gzip.compress(json.dumps(EXPORT).encode())),
        ("a-list.json", json.dumps({"kind": "List", "items": [EXPORT]}).encode()),
    ],
)
def test_the_pods_of_an_export_run_on_its_nodes(tmp_path: Path, file: str, text: bytes) -> None:
    result = play(tmp_path, file, text)
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)["summary"]
    assert (summary["podsCreated"], summary["podsRan"], summary["nodesAtEnd"]) == (2, 2, 1)


def test_a_typed_list_is_taken_apart(tmp_path: Path) -> None:
    untyped = {key: value for key, value in NODE.items() if key not in ("apiVersion", "kind")}
    listed = {"apiVersion": "v1", "kind": "NodeList", "items": [untyped]}
    result = play(tmp_path, "nodes.json", json.dumps(listed).encode())
    assert json.loads(result.stdout)["summary"]["nodesAtEnd"] == 1


def test_a_simulation_of_nothing_says_so(tmp_path: Path) -> None:
    empty = {**EXPORT, "spec": {"objects": []}}
    result = play(tmp_path, "empty.json", json.dumps(empty).encode())
    assert result.exit_code == 2
    assert "nothing to play: there is no pod, no node" in result.stderr


def test_the_pods_of_a_set_stay_its_pods(tmp_path: Path) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s1"}
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c"}]}}
    database = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "shop", "uid": "s1"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "db"}}, "template": template},
    }
    replica = pod("db-0", nodeName="n1")
    replica["metadata"] |= {
        "labels": {"app": "db"},
        "ownerReferences": [{**owner, "controller": True}],
    }
    export = {**EXPORT, "spec": {"objects": [replica, NODE, database]}}
    summary = json.loads(play(tmp_path, "x.json", json.dumps(export).encode()).stdout)["summary"]
    assert (summary["podsCreated"], summary["podsRan"]) == (1, 1)


def test_why_nothing_was_decided_is_said(tmp_path: Path) -> None:
    problems = json.loads(play(tmp_path, "x.json", json.dumps(EXPORT).encode()).stdout)["problems"]
    assert any("nothing was decided: there are no node groups" in one for one in problems)


def test_our_own_example_plays_from_its_export_and_from_its_files(tmp_path: Path) -> None:
    example = REPOSITORY / "examples" / "two-databases"
    export = tmp_path / "two-databases.json"
    CliRunner().invoke(program, ["export", str(export), "-f", str(example)])
    (tmp_path / "manifests").symlink_to(example)
    for files in ("two-databases.json", "manifests"):
        simulation = {
            "apiVersion": "tonnage.dev/v1alpha1",
            "kind": "Simulation",
            "metadata": {"name": "replayed"},
            "spec": {"duration": "2m", "files": [files]},
        }
        (tmp_path / "s.yaml").write_text(json.dumps(simulation))
        result = CliRunner().invoke(program, ["simulate", str(tmp_path / "s.yaml"), "-o", "json"])
        assert result.exit_code == 0, result.output
        timeline = json.loads(result.stdout)
        assert timeline["summary"]["podsCreated"] == 8
        (unplayed,) = timeline["problems"]
        assert "did not register disk.csi.azure.com, file.csi.azure.com" in unplayed

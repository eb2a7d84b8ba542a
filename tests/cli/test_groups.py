"""`tonnage groups discover`, and plans with the groups it finds."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.cli.conftest import Written
from tests.cli.liveserver import live_cluster
from tonnage.cli import run_providers
from tonnage.cli.app import program
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.providers.declarative import DeclarativeProvider
from tonnage.testing import builders as make

DRIVER = "disk.example.com"
POOL = {"eks.amazonaws.com/nodegroup": "db"}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(program, list(arguments))


def full() -> list[KubeObject]:
    """A node of a managed group whose one slot is taken, and a pod that needs one."""
    return [
        make.node("n1", labels=POOL),
        make.csinode("n1", {DRIVER: 1}),
        make.storage_class("fast", DRIVER),
        make.pvc("data-0", storage_class="fast"),
        make.pvc("data-1", storage_class="fast"),
        make.pod("db-0", on="n1", pvcs=["data-0"]),
        make.pod("db-1", pvcs=["data-1"]),
    ]


def test_what_is_written_is_a_file_for_node_groups(written: Written, tmp_path: Path) -> None:
    cluster = written(*full())
    groups = tmp_path / "groups.yaml"
    groups.write_text(run("groups", "discover", "-f", cluster).stdout)
    result = run("plan", "-f", cluster, "--node-groups", str(groups))
    assert "1 pod on 1 new node" in result.stdout


def test_remarks_are_comments(written: Written) -> None:
    text = run("groups", "discover", "-f", written(*full())).stdout
    assert "# EKS: label eks.amazonaws.com/nodegroup" in text
    assert yaml.safe_load(text)["metadata"]["name"] == "db"


def test_a_plan_discovers_by_itself(written: Written) -> None:
    result = run("plan", "-f", written(*full()), "--discover")
    assert "1 pod on 1 new node" in result.stdout
    assert "their maxSize is a guess" in result.stderr


def test_a_plan_without_groups_says_how_to_get_some(written: Written) -> None:
    result = run("plan", "-f", written(*full()))
    assert (result.exit_code, "give --discover" in result.stderr) == (2, True)


def test_a_cluster_that_shows_no_groups_is_one_error(written: Written) -> None:
    result = run("groups", "discover", "-f", written(make.node("n1")))
    assert result.exit_code == 2
    assert "no node group found by nodes: 1 node read; add --group-label KEY" in result.stderr


def test_a_label_of_ones_own_names_groups(written: Written) -> None:
    cluster = written(make.node("n1", labels={"pool": "search"}))
    result = run("groups", "discover", "-f", cluster, "--group-label", "pool", "-o", "table")
    assert result.stdout.splitlines()[1].split()[:2] == ["search", "1"]


def test_karpenter_says_groups_by_its_pools(written: Written, tmp_path: Path) -> None:
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "any"},
        "spec": {"template": {"spec": {"requirements": []}}},
    }
    labels = {"karpenter.sh/nodepool": "any", "node.kubernetes.io/instance-type": "m5.large"}
    (tmp_path / "pool.json").write_text(json.dumps(pool))
    files = ["-f", written(make.node("n1", labels=labels)), "-f", str(tmp_path / "pool.json")]
    result = run("groups", "discover", *files, "--provider", "karpenter", "-o", "json")
    assert json.loads(result.stdout)["items"][0]["metadata"]["name"].startswith("any")


def test_a_provider_gives_sizes_and_templates(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    template = GroupTemplate(node=make.node("", labels=POOL))
    group = NodeGroup(
        metadata=ObjectMeta(name="asg"), spec=NodeGroupSpec(max_size=7, template=template)
    )
    monkeypatch.setattr(
        run_providers, "chosen", lambda *_, **__: lambda _: DeclarativeProvider([group])
    )
    with live_cluster(tmp_path) as cluster:
        cluster.add([make.namespace("default"), make.node("n1")])
        result = run(
            "groups", "discover", "--provider", "aws", "-o", "json",
            "--kubeconfig", cluster.kubeconfig,
        )  # fmt: skip
    (found,) = json.loads(result.stdout)["items"]
    assert (found["spec"]["maxSize"], "template" in found["spec"]) == (7, True)

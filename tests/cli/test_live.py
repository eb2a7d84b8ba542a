"""Commands that read a live cluster, over real HTTPS."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web
from click.testing import CliRunner, Result

from tests.cli.conftest import Written
from tests.cli.liveserver import TOKEN, LiveCluster, live_cluster
from tests.cluster.apiserver import answer, status
from tonnage.cli.app import program
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import Namespace, Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import CSIDriver, CSINode, PersistentVolumeClaim, VolumeAttachment
from tonnage.testing import builders as make

DRIVER = "disk.example.com"


def full_node() -> list[KubeObject]:
    """A node with one slot, taken by db-0; db-1 waits for another."""
    return [
        make.namespace("default"),
        make.node("n1"),
        make.csinode("n1", {DRIVER: 1}),
        make.storage_class("fast", DRIVER),
        make.pvc("data-0", storage_class="fast"),
        make.pvc("data-1", storage_class="fast"),
        make.pod("db-0", on="n1", pvcs=["data-0"]),
        make.pod("db-1", pvcs=["data-1"]),
    ]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path) as running:
        running.add(full_node())
        yield running


def run(cluster: LiveCluster, *arguments: str) -> Result:
    return CliRunner().invoke(program, [*arguments, "--kubeconfig", cluster.kubeconfig])


@pytest.mark.parametrize("command", [["explain"], ["slots"], ["explain", "db-0", "-o", "json"]])
def test_a_live_cluster_gets_the_answer_its_manifests_get(
    cluster: LiveCluster, written: Written, command: list[str]
) -> None:
    from_files = CliRunner().invoke(program, [*command, "-f", written(*full_node())])
    assert run(cluster, *command).stdout == from_files.stdout


def test_explain_says_what_hinders_a_pod_of_a_live_cluster(cluster: LiveCluster) -> None:
    result = run(cluster, "explain", "db-1")
    assert (result.exit_code, "node(s) exceed max volume count" in result.stdout) == (0, True)


def test_plan_takes_the_groups_from_a_file_beside_the_live_cluster(
    cluster: LiveCluster, tmp_path: Path
) -> None:
    groups = tmp_path / "groups.json"
    groups.write_text(
        json.dumps(
            {
                "apiVersion": "tonnage.dev/v1alpha1",
                "kind": "NodeGroup",
                "metadata": {"name": "dbs"},
                "spec": {"maxSize": 5, "nodes": ["n1"]},
            }
        )
    )
    result = run(cluster, "plan", "--node-groups", str(groups), "-o", "json")
    assert json.loads(result.stdout)["steps"][0]["pods"] == ["default/db-1"]


def test_options_of_a_scenario_beside_the_live_cluster_are_taken(
    cluster: LiveCluster, tmp_path: Path
) -> None:
    group = {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "NodeGroup",
        "metadata": {"name": "dbs"},
        "spec": {"maxSize": 5, "nodes": ["n1"]},
    }
    scenario = {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "s"},
        "spec": {"options": {"maxNodesTotal": 1}, "objects": [group]},
    }
    path = tmp_path / "groups.json"
    path.write_text(json.dumps(scenario))
    result = run(cluster, "plan", "--node-groups", str(path), "-o", "json")
    assert json.loads(result.stdout)["scaleUps"] == []


def test_the_context_decides_who_asks(cluster: LiveCluster) -> None:
    run(cluster, "slots")
    run(cluster, "slots", "--context", "stranger")
    first, *_, last = cluster.lists_of(Node)
    assert (first.headers.get("Authorization"), last.headers.get("Authorization")) == (
        f"Bearer {TOKEN}",
        None,
    )


def test_the_kubeconfig_of_the_environment_is_used(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", cluster.kubeconfig)
    assert CliRunner().invoke(program, ["slots"]).exit_code == 0


def test_files_and_a_live_cluster_at_once_are_refused(cluster: LiveCluster) -> None:
    result = run(cluster, "slots", "-f", "cluster.json")
    assert (result.exit_code, "give one of them" in result.stderr) == (2, True)


def test_lists_are_fetched_in_pages(cluster: LiveCluster) -> None:
    cluster.add(make.pod(f"web-{number}", on="n1") for number in range(600))
    assert run(cluster, "explain", "web-599").exit_code == 0
    assert len(cluster.lists_of(Pod)) == 2


def test_a_list_that_expires_between_pages_is_fetched_again(cluster: LiveCluster) -> None:
    cluster.add(make.pod(f"web-{number}", on="n1") for number in range(2))
    cut = {"metadata": {"resourceVersion": "1", "continue": "x"}, "items": []}
    cluster.script(
        Pod,
        answer(lambda: web.json_response(cut)),
        answer(lambda: status(410, "Expired")),
    )
    assert run(cluster, "explain", "web-1").exit_code == 0


def test_a_kind_that_may_not_be_listed_is_named_with_the_missing_right(
    cluster: LiveCluster,
) -> None:
    cluster.forbid(VolumeAttachment)
    result = run(cluster, "slots")
    assert result.exit_code == 0
    assert (
        "tonnage: warning: not allowed to list volumeattachments.storage.k8s.io (verb list, kind"
        " VolumeAttachment, group storage.k8s.io): going on without, volumes attached without a pod"
        " are not counted"
    ) in result.stderr


def test_the_core_group_is_shown_as_rbac_writes_it(cluster: LiveCluster) -> None:
    cluster.forbid(PersistentVolumeClaim)
    assert 'kind PersistentVolumeClaim, group ""' in run(cluster, "slots").stderr


@pytest.mark.parametrize("kind", [Node, Pod])
def test_without_the_right_to_list_nodes_or_pods_there_is_no_answer(
    cluster: LiveCluster, kind: type[KubeObject]
) -> None:
    cluster.forbid(kind)
    result = run(cluster, "explain")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"kind {kind.__name__}" in result.stderr


def test_namespaces_that_may_not_be_listed_are_assumed(cluster: LiveCluster) -> None:
    cluster.forbid(Namespace)
    assert "no Namespace object for default: assumed" in run(cluster, "explain").stderr


def test_a_kind_the_server_does_not_serve_is_passed_over(cluster: LiveCluster) -> None:
    cluster.script(CSIDriver, answer(lambda: web.Response(status=404, text="404 page not found")))
    result = run(cluster, "explain", "db-1")
    assert (result.exit_code, "going on without csidrivers.storage.k8s.io" in result.stderr) == (
        0,
        True,
    )


def test_an_object_that_cannot_be_used_is_left_out_and_named(cluster: LiveCluster) -> None:
    cluster.server.put("/api/v1/nodes", {"metadata": {"name": "bad", "labels": 7}})
    result = run(cluster, "explain", "db-1")
    assert (result.exit_code, "left out: production: Node bad" in result.stderr) == (0, True)


def test_an_unknown_identity_is_one_line_and_code_1(cluster: LiveCluster) -> None:
    cluster.script(Node, answer(lambda: status(401, "Unauthorized")))
    result = run(cluster, "slots")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)


def test_a_server_that_is_not_there_is_one_line_and_code_1(tmp_path: Path) -> None:
    with live_cluster(tmp_path) as cluster:
        pass
    result = run(cluster, "slots")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    ("version", "told"),
    [("v1.36.2-eks-1", ""), ("v1.29.0", "answering as 1.34"), ("v1.50.1", "answering as 1.37")],
)
def test_answers_are_those_of_the_servers_version_or_the_nearest(
    tmp_path: Path, version: str, told: str
) -> None:
    with live_cluster(tmp_path, version=version) as cluster:
        cluster.add(full_node())
        stderr = run(cluster, "slots").stderr
    assert told in stderr
    assert ("answering as" in stderr) == bool(told)


def test_slots_are_not_known_where_csinodes_may_not_be_read(cluster: LiveCluster) -> None:
    cluster.forbid(CSINode)
    result = run(cluster, "slots")
    assert "No node has a CSI driver" not in result.stdout
    assert "Without a CSINode" not in result.stdout
    assert "CSINodes could not be read" in result.output


def test_a_watch_asks_again_until_it_is_interrupted(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    result = run(cluster, "slots", "--watch")
    assert (result.exit_code, result.stdout.count("NODE ")) == (130, 2)


def test_files_are_not_watched(written: Written) -> None:
    result = CliRunner().invoke(program, ["slots", "-f", written(*full_node()), "--watch"])
    assert (result.exit_code, "--watch asks a live cluster" in result.stderr) == (2, True)

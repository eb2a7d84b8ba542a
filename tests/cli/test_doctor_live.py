"""`tonnage doctor` and `rescue` on a live cluster: the embedded API server, over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.conftest import manifest
from tests.cli.embeddedserver import EmbeddedCluster, embedded_cluster
from tests.doctor import broken_clusters
from tests.doctor.broken_clusters import EBS
from tonnage.cli.app import program
from tonnage.testing import builders

DEPLOYMENTS = "/apis/apps/v1/namespaces/kube-system/deployments"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
RIGHTS = "TON501"
NOT_AWARE = "TON101"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """A driver has opted in, and an autoscaler that does not know it may list nodes alone."""
    with embedded_cluster(tmp_path) as running:
        driver = manifest(builders.csidriver(EBS, opt_in=True))
        running.create("/apis/storage.k8s.io/v1/csidrivers", driver)
        autoscaler = broken_clusters.upstream()
        labels = {"app": "autoscaler"}
        autoscaler["spec"]["selector"] = {"matchLabels": labels}
        autoscaler["spec"]["template"]["metadata"] = {"labels": labels}
        running.create(DEPLOYMENTS, autoscaler)
        role, binding = broken_clusters.role(broken_clusters.rule("", "nodes"))
        running.create(f"{RBAC}/clusterroles", role)
        running.create(f"{RBAC}/clusterrolebindings", binding)
        yield running


def doctor(cluster: EmbeddedCluster, *flags: str) -> Result:
    return CliRunner().invoke(program, ["doctor", "--kubeconfig", cluster.kubeconfig, *flags])


def codes(result: Result) -> set[str]:
    return {one["code"] for one in json.loads(result.stdout)["findings"]}


def test_deployments_of_the_cluster_are_looked_at(cluster: EmbeddedCluster) -> None:
    assert NOT_AWARE in codes(doctor(cluster, "-o", "json"))


def test_roles_of_the_cluster_are_looked_at(cluster: EmbeddedCluster) -> None:
    result = doctor(cluster, "-o", "json")
    lacking = {
        one["facts"]["resource"]
        for one in json.loads(result.stdout)["findings"]
        if one["code"] == RIGHTS
    }
    assert "pods" in lacking
    assert "nodes" not in lacking


def test_with_every_right_nothing_is_said(cluster: EmbeddedCluster) -> None:
    assert doctor(cluster).stderr == ""


@pytest.mark.parametrize(
    ("plural", "kind", "group", "lacks"),
    [
        ("deployments", "Deployment", "apps", "autoscalers and schedulers that run in it"),
        ("clusterroles", "ClusterRole", "rbac.authorization.k8s.io", "rights of what runs in it"),
        (
            "clusterrolebindings",
            "ClusterRoleBinding",
            "rbac.authorization.k8s.io",
            "rights of what runs in it",
        ),
    ],
)
def test_a_missing_right_is_named_with_what_the_answer_lacks(
    cluster: EmbeddedCluster, plural: str, kind: str, group: str, lacks: str
) -> None:
    cluster.server.kept_back = {plural}
    (line,) = doctor(cluster).stderr.splitlines()
    assert line.startswith(
        f"tonnage: warning: not allowed to list {plural}.{group} (verb list, kind {kind},"
        f" group {group}): going on without, {lacks}"
    )


@pytest.mark.parametrize("plural", ["clusterroles", "clusterrolebindings"])
def test_rights_that_may_not_be_read_are_not_taken_for_missing(
    cluster: EmbeddedCluster, plural: str
) -> None:
    cluster.server.kept_back = {plural}
    found = codes(doctor(cluster, "-o", "json"))
    assert RIGHTS not in found
    assert NOT_AWARE in found


def test_rescue_asks_for_nothing_that_only_doctor_looks_at(cluster: EmbeddedCluster) -> None:
    cluster.server.kept_back = {"deployments", "clusterroles", "clusterrolebindings"}
    result = CliRunner().invoke(program, ["rescue", "--kubeconfig", cluster.kubeconfig])
    assert (result.exit_code, result.stderr) == (0, "")

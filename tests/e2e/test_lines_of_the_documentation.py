"""Lines of kubectl and Helm in README and docs run as printed, on the embedded API."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.chart import helm
from tests.cli.embeddedserver import EmbeddedCluster, embedded_cluster
from tests.docs import blocks, other_tools
from tests.docs.blocks import REPOSITORY
from tests.e2e.controlplane import programs
from tests.e2e.crds import cluster_api

LINES = [
    one
    for one in blocks.lines()
    if one.program in other_tools.RUN and blocks.command(one.text) not in other_tools.LINES
]
FLEET = "/apis/cluster.x-k8s.io/v1beta2/namespaces/fleet/machinedeployments"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """What the pages take for granted: Cluster API with a deployment, and contexts by name."""
    with embedded_cluster(tmp_path) as running:
        for definition in cluster_api.definitions(("v1beta2",)):
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            running.create(path, definition)
        for name in ("fleet", "tonnage-system"):
            running.create("/api/v1/namespaces", {"metadata": {"name": name}})
        spec = {"clusterName": "prod", "replicas": 3, "template": {"spec": {}}}
        running.create(
            FLEET,
            {
                "apiVersion": "cluster.x-k8s.io/v1beta2",
                "kind": "MachineDeployment",
                "metadata": {"name": "db"},
                "spec": spec,
            },
        )
        for kind, api, name in (
            ("configmaps", "/api/v1", "cluster-autoscaler-status"),
            ("leases", "/apis/coordination.k8s.io/v1", "cluster-autoscaler"),
        ):
            running.create(f"{api}/namespaces/tonnage-system/{kind}", {"metadata": {"name": name}})
        config = yaml.safe_load(Path(running.kubeconfig).read_text())
        context = config["contexts"][0]["context"]
        config["contexts"].append({"name": "kind-tonnage", "context": context})
        Path(running.kubeconfig).write_text(yaml.safe_dump(config))
        yield running


@pytest.fixture
def place(cluster: EmbeddedCluster, tmp_path: Path) -> Path:
    """A folder with what the lines read."""
    for name in ("deploy", "examples"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    shutil.copy(cluster.kubeconfig, tmp_path / "embedded.yaml")
    (tmp_path / "statefulset.yaml").write_text(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: of-the-reader}}"
    )
    (tmp_path / "certificates").mkdir()
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / "certificates" / name).write_text("x")
    (tmp_path / "moving").mkdir()
    (tmp_path / "moving" / "values.yaml").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("page", sorted({one.page for one in LINES}))
def test_the_lines_of_the_page_run(page: str, place: Path, cluster: EmbeddedCluster) -> None:
    for line in LINES:
        if line.page != page:
            continue
        built = helm.program("helm")
        if line.program == "helm" and not built:
            pytest.skip("helm is not built: tools/go-tools build helm (make e2e does)")
        tools = f"{programs()}:{Path(built).parent}:{os.defpath}"
        environment = {"PATH": tools, "HOME": str(place), "KUBECONFIG": cluster.kubeconfig}
        run = subprocess.run(
            ["bash", "-c", line.text], cwd=place, env=environment, capture_output=True, text=True,
            timeout=180,
        )  # fmt: skip
        assert run.returncode == 0, f"{line.text}: {run.stderr}"

"""`tonnage groups discover` and `plan --provider` against AWS, Cluster API and a gRPC server."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.cli.embeddedserver import EmbeddedCluster, embedded_cluster
from tests.docs.blocks import REPOSITORY
from tests.e2e.crds import cluster_api
from tests.providers.aws.emulated import REGION, Aws, aws, endpoint
from tonnage.cli.app import program
from tonnage.files import scenario_writer
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.testing import builders as make

__all__ = ["aws", "endpoint"]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POD = {
    "metadata": {"name": "waits", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]},
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """A pod that waits, and no node."""
    with embedded_cluster(tmp_path) as running:
        running.create("/api/v1/namespaces/default/pods", POD)
        yield running


def run(cluster: EmbeddedCluster, *arguments: str) -> Result:
    result = CliRunner().invoke(program, [*arguments, "--kubeconfig", cluster.kubeconfig])
    assert result.exit_code == 0, result.output
    return result


def discovered(cluster: EmbeddedCluster, *arguments: str) -> dict[str, Any]:
    """The one group that is found: its spec; and the file that is written is one for plans."""
    result = run(cluster, "groups", "discover", *arguments)
    (document,) = yaml.safe_load_all(result.stdout)
    assert document["kind"] == "NodeGroup"
    file = Path(cluster.kubeconfig).parent / "groups.yaml"
    file.write_text(result.stdout)
    for groups in (["--node-groups", str(file)], [*arguments]):
        plan = json.loads(run(cluster, "plan", *groups, "-o", "json").stdout)
        (bought,) = plan["scaleUps"]
        assert (bought["group"], bought["delta"]) == (document["metadata"]["name"], 1)
    spec: dict[str, Any] = document["spec"]
    return spec


def test_auto_scaling_groups_of_aws(cluster: EmbeddedCluster, aws: Aws, tmp_path: Path) -> None:
    aws.group("databases", most=7, type_="m5.large")
    aws.autoscaling.create_auto_scaling_group(
        AutoScalingGroupName="of-others", MinSize=0, MaxSize=3, AvailabilityZones=["us-east-1a"],
        LaunchTemplate=aws.template(),
    )  # fmt: skip
    config = tmp_path / "aws.yaml"
    config.write_text(f"{{region: {REGION}, endpointURL: '{aws.endpoint}'}}")
    before = aws.instances("databases")
    spec = discovered(cluster, "--provider", "aws", "--cloud-config", str(config))
    assert (spec["minSize"], spec["maxSize"], spec["targetSize"]) == (0, 7, 0)
    labels = spec["template"]["node"]["metadata"]["labels"]
    assert labels["node.kubernetes.io/instance-type"] == "m5.large"
    assert aws.instances("databases") == before


def test_machine_deployments_of_cluster_api(cluster: EmbeddedCluster) -> None:
    for one in cluster_api.definitions(("v1beta2",)):
        cluster.create(DEFINITIONS, one)
    prefix = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-"
    sizes = {f"{prefix}min-size": "0", f"{prefix}max-size": "5"}
    capacity = {
        "capacity.cluster-autoscaler.kubernetes.io/cpu": "8",
        "capacity.cluster-autoscaler.kubernetes.io/memory": "32Gi",
    }
    for name, annotations in (("databases", {**sizes, **capacity}), ("not-scaled", {})):
        cluster.create(
            "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machinedeployments",
            {
                "apiVersion": "cluster.x-k8s.io/v1beta2",
                "kind": "MachineDeployment",
                "metadata": {"name": name, "annotations": annotations},
                "spec": {"clusterName": "prod", "replicas": 0, "template": {"spec": {}}},
            },
        )
    spec = discovered(cluster, "--provider", "clusterapi")
    assert (spec["minSize"], spec["maxSize"], spec["targetSize"]) == (0, 5, 0)
    assert spec["template"]["node"]["status"]["allocatable"]["cpu"] == "8"


def test_groups_of_a_grpc_server(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    # The server that docs/providers/external-grpc.md has people start from, as a process.
    template = GroupTemplate(node=make.node("", cpu="8"))
    spec_of = NodeGroupSpec(min_size=1, max_size=7, template=template)
    group = NodeGroup(metadata=ObjectMeta(name="databases"), spec=spec_of)
    (tmp_path / "served.yaml").write_bytes(scenario_writer.manifest(group))
    server = subprocess.Popen(
        [
            sys.executable, str(REPOSITORY / "examples" / "external-grpc" / "provider.py"),
            str(tmp_path / "served.yaml"), "--address", "127.0.0.1:0",
        ],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        port = server.stdout.readline().split()[-1]
        config = tmp_path / "cloud-config.yaml"
        config.write_text(f"address: 127.0.0.1:{port}")
        spec = discovered(cluster, "--provider", "externalgrpc", "--cloud-config", str(config))
    finally:
        server.kill()
        server.wait()
    assert (spec["minSize"], spec["maxSize"]) == (1, 7)
    assert spec["template"]["node"]["status"]["allocatable"]["cpu"] == "8"

"""Tonnage in dry-run beside a played cluster-autoscaler, which knows nothing of attach slots."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from tests.cli.embeddedserver import EmbeddedCluster, embedded_cluster
from tonnage.cli.app import program
from tonnage.cluster.transport import HttpRequest

DRIVER = "ebs.csi.aws.com"
STATUS = """\
autoscalerStatus: Running
nodeGroups:
- name: db
  health: {cloudProviderTarget: 1, minSize: 0, maxSize: 20}
  scaleUp: {status: InProgress}
"""
GROUP = {
    "apiVersion": "tonnage.dev/v1alpha1",
    "kind": "NodeGroup",
    "metadata": {"name": "db"},
    "spec": {
        "maxSize": 20,
        "limits": {DRIVER: 2},
        "nodeSelector": {"matchLabels": {"group": "db"}},
        "template": {
            "node": {
                "metadata": {"labels": {"group": "db"}},
                "status": {
                    "capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"},
                    "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
                },
            },
            "csiNode": {"spec": {"drivers": [{"name": DRIVER, "nodeID": "x"}]}},
        },
    },
}


def play(cluster: EmbeddedCluster) -> None:
    """Four pods with a volume each: by CPU they share one node, by slots they need two."""
    cluster.create(
        "/apis/storage.k8s.io/v1/storageclasses",
        {"metadata": {"name": "ebs"}, "provisioner": DRIVER,
         "volumeBindingMode": "WaitForFirstConsumer"},
    )  # fmt: skip
    for number in range(4):
        claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "ebs",
                 "resources": {"requests": {"storage": "1Gi"}}}  # fmt: skip
        cluster.create(
            "/api/v1/namespaces/default/persistentvolumeclaims",
            {"metadata": {"name": f"data-{number}"}, "spec": claim},
        )
        cluster.create("/api/v1/namespaces/default/pods", pod(f"db-{number}", f"data-{number}"))
        refuse(cluster, f"db-{number}")
        event(
            cluster, f"db-{number}", "TriggeredScaleUp",
            "pod triggered scale-up: [{db 0->1 (max: 20)}]",
        )  # fmt: skip
    cluster.create(
        "/api/v1/namespaces/kube-system/configmaps",
        {"metadata": {"name": "cluster-autoscaler-status"}, "data": {"status": STATUS}},
    )


def pod(name: str, claim: str) -> dict[str, Any]:
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": "1"}}}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [container], "volumes": [volume]},
    }


def refuse(cluster: EmbeddedCluster, name: str) -> None:
    """As the scheduler does it."""
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    request = HttpRequest(
        method="PATCH",
        path=f"/api/v1/namespaces/default/pods/{name}/status",
        headers=(("Content-Type", "application/merge-patch+json"),),
        body=msgspec.json.encode({"status": {"conditions": [refused]}}),
    )
    assert cluster.server.answer(request).status == 200


def event(cluster: EmbeddedCluster, about: str, reason: str, message: str) -> None:
    cluster.create(
        "/api/v1/namespaces/default/events",
        {
            "metadata": {"name": f"{about}.{reason.lower()}"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": about},
            "reason": reason,
            "message": message,
            "source": {"component": "cluster-autoscaler"},
            "firstTimestamp": "2026-01-02T03:04:05Z",
        },
    )


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Options of a comparison after one round of both."""
    directory = tmp_path_factory.mktemp("beside")
    (directory / "groups.yaml").write_text(yaml.safe_dump(GROUP))
    (directory / "config.yaml").write_text(f"decisionFile: {directory / 'decisions.jsonl'}\n")
    with embedded_cluster(directory) as cluster:
        play(cluster)
        ran = call(
            "run", "--dry-run", "--once", "--provider=declarative",
            f"--node-groups={directory / 'groups.yaml'}", f"--config={directory / 'config.yaml'}",
            f"--kubeconfig={cluster.kubeconfig}", "--address=127.0.0.1:0",
        )  # fmt: skip
        assert ran.exit_code == 0, ran.stderr
        yield [f"--decisions={directory / 'decisions.jsonl'}", f"--kubeconfig={cluster.kubeconfig}"]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(program, arguments)


def test_the_group_that_slots_make_larger_is_shown(beside: list[str]) -> None:
    told = call("compare-decisions", *beside)
    assert told.exit_code == 1
    assert told.stdout.partition(", from ")[0] == (
        "GROUP  CLUSTER-AUTOSCALER  TONNAGE  TARGET  SCALE-UP\n"
        "db     +1                  +2       1       InProgress\n"
        "\n"
        "4 of 4 pods and 0 of 1 groups alike; 1 decisions, 4 events"
    )


def test_as_json_every_pod_has_both_answers(beside: list[str]) -> None:
    told = msgspec.json.decode(call("compare-decisions", *beside, "-o", "json").stdout)
    assert [(one["theirs"]["outcome"], one["ours"]["outcome"]) for one in told["pods"]] == [
        ("bought", "bought")
    ] * 4


def test_files_do_as_well_as_a_cluster(beside: list[str], tmp_path: Path) -> None:
    config_map = {"kind": "ConfigMap", "metadata": {"name": "cluster-autoscaler-status"},
                  "data": {"status": STATUS}}  # fmt: skip
    refusal = {"kind": "Event", "reason": "NotTriggerScaleUp",
               "message": "pod didn't trigger scale-up: 1 node(s) exceed max volume count",
               "involvedObject": {"namespace": "default", "name": "db-0"}}  # fmt: skip
    file = tmp_path / "theirs.json"
    file.write_bytes(msgspec.json.encode({"kind": "List", "items": [config_map, refusal]}))
    told = call("compare-decisions", beside[0], "-f", str(file))
    assert "default/db-0  left out            bought db" in told.stdout

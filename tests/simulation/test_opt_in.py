"""A cluster of 1.36 whose scheduler asks our extender: the autoscaler has to know of it.

Pods are refused for a missing driver by somebody who is not kube-scheduler. Whoever thinks that
they fit on the node that lacks it buys nothing, and they wait for ever.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.objects.storage import OPT_IN_ANNOTATION
from tonnage.report.timeline import Summary
from tonnage.simulation import runner, scenario_files

DRIVER = "disk.example.com"
ROOM = {"cpu": "8", "memory": "32Gi", "pods": "110"}


def group(name: str, **spec: Any) -> dict[str, Any]:
    template = {"node": {"status": {"capacity": ROOM, "allocatable": ROOM}}}
    return {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "NodeGroup",
        "metadata": {"name": name},
        "spec": {"maxSize": 5, "template": template | spec.pop("template", {}), **spec},
    }


def extender_pod() -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "tonnage-extender"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "extender", "namespace": "kube-system", "labels": labels},
        "spec": {"containers": [{"name": "extender", "image": "tonnage"}]},
    }


def played(
    *others: dict[str, Any], annotations: dict[str, str] | None = None, **options: str
) -> Summary:
    """A node with room for everybody and without the driver, and a group whose nodes have it."""
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disk",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    objects = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER, "annotations": annotations or {}},
            "spec": {"preventPodSchedulingIfMissing": True},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "disk"},
            "provisioner": DRIVER,
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "db", "namespace": "default"},
            "spec": {
                "replicas": 0,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": {"app": "db"}},
                "template": {
                    "metadata": {"labels": {"app": "db"}},
                    "spec": {
                        "containers": [{"name": "db", "resources": {"requests": {"cpu": "100m"}}}]
                    },
                },
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
            },
        },
        group("plain", targetSize=1),
        group(
            "db",
            template={
                "csiNode": {
                    "spec": {
                        "drivers": [{"name": DRIVER, "nodeID": "x", "allocatable": {"count": 10}}]
                    }
                }
            },
        ),
        *others,
    ]
    scenario = {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "Simulation",
        "metadata": {"name": "skew"},
        "spec": {
            "duration": "20m",
            "kubernetesVersion": "1.36",
            "extender": True,
            "options": options,
            "world": {"drivers": [{"name": DRIVER, "limit": 10, "neverOn": ["plain*"]}]},
            "objects": objects,
            "script": [{"at": "5m", "scale": {"kind": "StatefulSet", "name": "db", "replicas": 5}}],
        },
    }
    text = yaml.safe_dump(scenario).encode()
    return runner.simulate(scenario_files.parse(text, file="skew.yaml", beside=Path())).summary


@pytest.mark.parametrize(
    "summary",
    [
        pytest.param(
            lambda: played(annotations={OPT_IN_ANNOTATION: "true"}), id="our annotation is used"
        ),
        pytest.param(lambda: played(extender_pod()), id="our extender runs in the cluster"),
        pytest.param(lambda: played(enforceOptIn="always"), id="the operator says so"),
    ],
)
def test_a_node_is_bought_for_pods_that_the_extender_keeps_off_the_one_without_driver(
    summary,
) -> None:
    found = summary()
    assert (found.pending_at_end, found.nodes_bought) == (0, 1)


def test_as_the_server_does_nothing_is_bought_and_the_pods_wait_for_ever() -> None:
    found = played(extender_pod(), enforceOptIn="as-server")
    assert (found.pending_at_end, found.nodes_bought) == (5, 0)

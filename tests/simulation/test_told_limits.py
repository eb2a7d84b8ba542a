"""Who tells what a new node will have: nodes that disagree, the operator, keys, published disks.

Each scenario is decided in one go, with exactly the nodes that are needed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.groups.model import TEMPLATE_NODE_LABEL
from tonnage.report.timeline import Timeline
from tonnage.simulation import runner, scenario_files

DRIVER = "ebs.csi.aws.com"
LOCAL = "local.example.com"
TYPE = "node.kubernetes.io/instance-type"


def group(
    *,
    target: int = 0,
    key: Mapping[str, str] | None = None,
    slots: int | None = None,
    drivers: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Machines of four cores; what their provider says of drivers, if anything."""
    room = {"cpu": "4", "memory": "32Gi", "pods": "110", **(key or {})}
    node = {
        "metadata": {"labels": {TYPE: "m5.large"}},
        "status": {"capacity": room, "allocatable": room},
    }
    template: dict[str, Any] = {"node": node}
    if slots is not None:
        told = {"name": DRIVER, "nodeID": "t", "allocatable": {"count": slots}}
        template["csiNode"] = {"spec": {"drivers": [told]}}
    elif drivers:
        template["csiNode"] = {
            "spec": {
                "drivers": [
                    {"name": one, "nodeID": "t", "topologyKeys": [f"topology.{one}/node"]}
                    for one in drivers
                ]
            }
        }
    return {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "NodeGroup",
        "metadata": {"name": "db"},
        "spec": {"maxSize": 20, "targetSize": target, "template": template},
    }


def storage(driver: str = DRIVER, **spec: object) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": driver},
            "spec": spec,
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "disk"},
            "provisioner": driver,
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    ]


def workload(name: str, *, cpu: str, size: str = "") -> dict[str, Any]:
    """Pods by the script, all at once; with a volume each if it has a size."""
    labels = {"app": name}
    pod = {"containers": [{"name": name, "resources": {"requests": {"cpu": cpu}}}]}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disk",
        "resources": {"requests": {"storage": size}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 0,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}] if size else [],
        },
    }


def played(
    *objects: dict[str, Any], driver: Mapping[str, object], pods: int, **spec: Any
) -> Timeline:
    """Nodes that are there are filled at first; ten minutes later come pods with volumes."""
    busy = {"kind": "StatefulSet", "name": "busy"}
    (nodes,) = [one["spec"]["targetSize"] for one in objects if one["kind"] == "NodeGroup"]
    script = [
        {"at": "1m", "scale": {**busy, "replicas": nodes}},
        *spec.pop("script", ()),
        {"at": "11m", "scale": {"kind": "StatefulSet", "name": "db", "replicas": pods}},
    ]
    scenario = {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "Simulation",
        "metadata": {"name": "told"},
        "spec": {
            "duration": "20m",
            "world": {"drivers": [{"name": DRIVER, **driver}]},
            "cloud": {"start": "30s"},
            "objects": [*objects, workload("busy", cpu="4")],
            "script": script,
            **spec,
        },
    }
    text = yaml.safe_dump(scenario).encode()
    return runner.simulate(scenario_files.parse(text, file="told.yaml", beside=Path()))


def bought(timeline: Timeline) -> list[int]:
    assert timeline.summary.pending_at_end == 0
    return [one.nodes for one in timeline.decisions if one.deed == "increase"]


@pytest.mark.parametrize(
    ("most", "odd", "nodes", "pods", "needed"),
    [
        pytest.param(26, 2, 3, 12, 1, id="the first says too little"),
        pytest.param(3, 10, 5, 20, 7, id="the first says too much"),
    ],
)
def test_one_odd_node_does_not_decide_for_new_ones(
    most: int, odd: int, nodes: int, pods: int, needed: int
) -> None:
    change = {"driver": DRIVER, "limit": odd, "nodes": ["db-1????"]}
    timeline = played(
        *storage(),
        group(target=nodes),
        workload("db", cpu="10m", size="1Gi"),
        driver={"limit": most},
        pods=pods,
        script=[{"at": "5m", "setLimit": change}],
    )
    assert bought(timeline) == [needed]


def test_the_operators_number_goes_before_what_the_provider_says() -> None:
    timeline = played(
        *storage(),
        group(slots=25),
        workload("db", cpu="10m", size="1Gi"),
        driver={"limit": 4},
        pods=12,
        options={"limits": {"groups": {"db": {DRIVER: 4}}}},
    )
    assert bought(timeline) == [3]


def test_a_key_among_the_resources_of_a_live_node_goes_before_the_catalogue() -> None:
    timeline = played(
        *storage(),
        group(target=1, key={f"attachable-volumes-csi-{DRIVER}": "3"}),
        workload("db", cpu="10m", size="1Gi"),
        driver={},
        pods=6,
    )
    assert bought(timeline) == [2]


def test_a_disk_told_of_by_expressions_is_one_of_each_new_node() -> None:
    expressions = [
        {"key": TEMPLATE_NODE_LABEL, "operator": "Exists"},
        {"key": TYPE, "operator": "In", "values": ["m5.large", "m5.xlarge"]},
    ]
    published = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": "of-new-nodes", "namespace": "kube-system"},
        "storageClassName": "disk",
        "nodeTopology": {"matchExpressions": expressions},
        "capacity": "100Gi",
    }
    timeline = played(
        *storage(LOCAL, attachRequired=False, storageCapacity=True),
        group(drivers=(LOCAL,)),
        published,
        workload("db", cpu="10m", size="40Gi"),
        driver={"name": LOCAL, "capacity": "100Gi"},
        pods=10,
    )
    assert bought(timeline) == [5]

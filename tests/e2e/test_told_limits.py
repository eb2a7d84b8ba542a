"""What is bought where nodes disagree, the operator or a key tells a limit, or a driver is missing.

Nobody plays kubelets here: nodes are full from the beginning, and what is asked of the provider is
looked at.
"""

import json

import pytest

from tests.e2e import manifests
from tests.e2e.autoscaler import Autoscaler
from tests.e2e.scale_up import DRIVER, STORAGE_CLASS, Stage, group, old_node, stateful_set
from tonnage.groups.model import TEMPLATE_NODE_LABEL

pytestmark = pytest.mark.patience(300)

CATALOGUED, TYPE = "ebs.csi.aws.com", {"node.kubernetes.io/instance-type": "m5.large"}
STALE = "stale.example.com"


def full_node(
    stage: Stage,
    name: str,
    *,
    group: str = "db",
    drivers: dict[str, int | None],
    labels: dict[str, str] | None = None,
    resources: dict[str, str] | None = None,
) -> str:
    """A node of a group that has been ready for an hour, and a pod that takes all of its cores."""
    name = stage.work.name(name)
    node = old_node(name, group=group)
    node["metadata"]["labels"] |= labels or {}
    node["status"]["allocatable"] = node["status"]["allocatable"] | (resources or {})
    node["status"]["capacity"] = node["status"]["allocatable"]
    pod = manifests.pod(name, namespace=stage.work.namespace, cpu="16", nodeName=name)
    stage.work.create(node, manifests.csinode(name, drivers), pod)
    return name


def refuse(stage: Stage, pods: int) -> None:
    """Create pods with a volume each, and wait until kube-scheduler has refused all of them."""
    stage.cluster.create(stateful_set("db", pods, namespace=stage.work.namespace))
    names = [f"db-{number}" for number in range(pods)]
    stage.wait(lambda: all(map(stage.work.scheduler_says, names)), "all pods are refused")


def bought(stage: Stage, autoscaler: Autoscaler) -> list[tuple[str, int]]:
    """What is asked of the provider first."""
    stage.wait(lambda: bool(autoscaler.requests()), "something is bought")
    return autoscaler.requests()


def told(autoscaler: Autoscaler, driver: str = DRIVER) -> dict[str, object]:
    limits: list[dict[str, object]] = autoscaler.tells("limits")
    (limit,) = [one for one in limits if one["driver"] == driver]
    return limit


def test_one_odd_node_does_not_decide_for_new_ones(stage: Stage) -> None:
    stage.groups(group("db"))
    stage.storage()
    for number, slots in enumerate((2, 26, 26)):
        full_node(stage, f"n{number}", drivers={DRIVER: slots})
    refuse(stage, 12)
    autoscaler = stage.autoscaler()
    assert bought(stage, autoscaler) == [("db", 1)]
    limit = told(autoscaler)
    assert (limit["count"], limit["source"], limit["votes"], limit["voters"]) == (26, "live", 2, 3)


def test_the_operators_number_goes_before_the_providers(stage: Stage) -> None:
    stage.groups(group("db", limit=25))
    stage.storage()
    refuse(stage, 12)
    autoscaler = stage.autoscaler(limits={"groups": {"db": {DRIVER: 4}}})
    assert bought(stage, autoscaler) == [("db", 3)]


def test_a_key_of_a_live_node_goes_before_the_catalogue(stage: Stage) -> None:
    key = f"attachable-volumes-csi-{CATALOGUED}"
    stage.groups(group("db"))
    stage.storage(driver=CATALOGUED)
    full_node(stage, "n0", drivers={CATALOGUED: None}, labels=TYPE, resources={key: "3"})
    refuse(stage, 6)
    autoscaler = stage.autoscaler()
    assert bought(stage, autoscaler) == [("db", 2)]
    limit = told(autoscaler, CATALOGUED)
    assert (limit["count"], limit["source"], limit["key"]) == (3, "live", key)


def test_a_disk_told_of_by_expressions_is_one_of_each_new_node(stage: Stage) -> None:
    expressions = [
        {"key": TEMPLATE_NODE_LABEL, "operator": "Exists"},
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux", "windows"]},
    ]
    stage.groups(group("db", limit=100))
    stage.storage()
    patch = json.dumps({"spec": {"storageCapacity": True}})
    stage.cluster.kubectl("patch", "csidriver", DRIVER, "--type=merge", "-p", patch)
    stage.cluster.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": "of-new-nodes", "namespace": stage.work.namespace},
            "storageClassName": STORAGE_CLASS,
            "nodeTopology": {"matchExpressions": expressions},
            "capacity": "2Gi",
        }
    )
    refuse(stage, 10)
    autoscaler = stage.autoscaler()
    assert bought(stage, autoscaler) == [("db", 5)]


def test_a_young_node_waits_for_the_driver_that_nodes_of_other_groups_have(stage: Stage) -> None:
    made = group("db", most=5)
    made["spec"]["template"]["node"]["metadata"]["labels"] |= TYPE
    stage.groups(made, group("web", most=1))
    stage.storage(opt_in=True)
    full_node(stage, "web", group="web", drivers={DRIVER: 25}, labels=TYPE)
    young = old_node(stage.work.name("young"), group="db")
    young["metadata"]["labels"] |= TYPE
    stage.work.create(young, manifests.csinode(young["metadata"]["name"]))
    refuse(stage, 5)
    autoscaler = stage.autoscaler()
    stage.wait(
        lambda: (autoscaler.tells("lastDecision") or {}).get("fitOnExisting") == 5,
        "all pods are taken to fit on the node that is coming up",
    )
    assert [one["node"] for one in autoscaler.tells("comingUp")] == [young["metadata"]["name"]]
    assert autoscaler.requests() == []


def test_a_driver_that_only_the_provider_knows_does_not_stop_the_cluster(stage: Stage) -> None:
    made = group("db", limit=25)
    listed = made["spec"]["template"]["csiNode"]["spec"]["drivers"]
    listed.append({**listed[0], "name": STALE})
    stage.groups(made)
    stage.storage()
    for number in range(5):
        full_node(stage, f"n{number}", drivers={DRIVER: 25})
    autoscaler = stage.autoscaler(driverRegistrationTimeout=1)
    stage.wait(lambda: len(autoscaler.tells("unready") or ()) == 5, "all nodes wait in vain")
    refuse(stage, 3)
    assert bought(stage, autoscaler) == [("db", 1)]
    outages = [(one["driver"], one["groups"]) for one in autoscaler.tells("driverOutages")]
    assert outages == [(STALE, ["db"])]

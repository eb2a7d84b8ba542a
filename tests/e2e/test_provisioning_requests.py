"""ProvisioningRequests on a real control plane, with the API's own checks and shipped rights."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e import deployed
from tests.e2e.controlplane import ControlPlane
from tests.e2e.crds import provisioning_requests
from tests.e2e.manifests import Manifest
from tests.e2e.scale_up import DRIVER, Stage, group
from tests.e2e.test_headroom import pod_template
from tonnage.embedded.world.behaviour import Delay, DriverBehaviour
from tonnage.objects.provisioning_requests import ATOMIC_SCALE_UP, CHECK_CAPACITY

pytestmark = pytest.mark.patience(600)

GROUP = "requested"


@pytest.fixture(scope="module", autouse=True)
def definition(cluster: ControlPlane) -> Iterator[None]:
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(provisioning_requests.definition()))
    name = f"crd/{provisioning_requests.NAME}"
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=120s", name)
    with deployed.allowing_provisioning_requests(cluster):
        yield
    cluster.kubectl("delete", name)


def request(name: str, stage: Stage, count: int, *, kind: str, of: str = "worker") -> Manifest:
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": name, "namespace": stage.work.namespace},
        "spec": {
            "provisioningClassName": kind,
            "podSets": [{"podTemplateRef": {"name": of}, "count": count}],
        },
    }


def conditions(stage: Stage, name: str) -> dict[str, tuple[str, str]]:
    found: dict[str, Any] = stage.cluster.get("provreq", name, namespace=stage.work.namespace)
    return {
        one["type"]: (one["status"], one["reason"])
        for one in found.get("status", {}).get("conditions", ())
    }


def test_requests_are_answered_whole_bought_once_and_told(stage: Stage) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=10, registers_after=Delay(0.1)))
    stage.storage()
    stage.groups(group(GROUP, limit=10))
    stage.work.create(
        pod_template("worker", stage.work.namespace, claims=3),
        request("atomic", stage, 5, kind=ATOMIC_SCALE_UP),
        request("bad", stage, 1, kind=ATOMIC_SCALE_UP, of="gone"),
    )
    stage.autoscaler(provisioningRequests=True)

    stage.wait(
        lambda: conditions(stage, "atomic").get("Provisioned") == ("True", "CapacityIsProvisioned"),
        "the request is provisioned",
    )
    stage.wait(lambda: len(stage.ready_nodes(GROUP)) == 2, "two nodes for five pods")
    stage.wait(
        lambda: conditions(stage, "bad") == {"Failed": ("True", "FailedToCreatePods")},
        "the bad request is told what is wrong",
    )

    # Two nodes hold six pods, and five of these places are booked.
    stage.work.create(
        request("one", stage, 1, kind=CHECK_CAPACITY),
        request("two", stage, 2, kind=CHECK_CAPACITY),
    )
    stage.wait(lambda: len(conditions(stage, "two")) == 2, "both requests have an answer")
    stage.wait(lambda: len(conditions(stage, "one")) == 2, "both requests have an answer")
    assert conditions(stage, "one")["Provisioned"] == ("True", "CapacityIsFound")
    assert conditions(stage, "two")["Provisioned"] == ("False", "CapacityIsNotFound")
    assert [size for size in stage.sizes(GROUP) if size] == [2]

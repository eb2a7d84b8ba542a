"""Room is kept ready on a real control plane, with the API's own checks and the shipped rights."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e import deployed, manifests
from tests.e2e.controlplane import ControlPlane
from tests.e2e.crds import capacity_buffers
from tests.e2e.manifests import Manifest
from tests.e2e.scale_up import DRIVER, STORAGE_CLASS, Stage, group
from tonnage.embedded.world.behaviour import Delay, DriverBehaviour

pytestmark = pytest.mark.patience(600)

GROUP = "kept-ready"


@pytest.fixture(scope="module", autouse=True)
def definition(cluster: ControlPlane) -> Iterator[None]:
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(capacity_buffers.definition()))
    name = f"crd/{capacity_buffers.NAME}"
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=120s", name)
    with deployed.allowing_headroom(cluster):
        yield
    cluster.kubectl("delete", name)


def buffer(name: str, namespace: str, **spec: object) -> Manifest:
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def pod_template(name: str, namespace: str, *, claims: int) -> Manifest:
    spec = manifests.pod("any", namespace=namespace, cpu="100m")["spec"]
    claim = manifests.claim("any", STORAGE_CLASS, namespace=namespace)["spec"]
    spec["volumes"] = [
        {"name": f"data-{number}", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
        for number in range(claims)
    ]
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "template": {"spec": spec},
    }


def conditions(stage: Stage, name: str) -> dict[str, tuple[str, str]]:
    found: dict[str, Any] = stage.cluster.get("cb", name, namespace=stage.work.namespace)
    return {
        one["type"]: (one["status"], one["reason"])
        for one in found.get("status", {}).get("conditions", ())
    }


def test_room_for_chunks_with_claims_is_bought_told_and_used(stage: Stage) -> None:
    namespace = stage.work.namespace
    stage.play(DriverBehaviour(name=DRIVER, limit=10, registers_after=Delay(0.1)))
    stage.storage()
    stage.groups(group(GROUP, limit=10))
    stage.work.create(
        pod_template("chunk", namespace, claims=3),
        buffer("room", namespace, podTemplateRef={"name": "chunk"}, replicas=5),
        buffer("missing", namespace, podTemplateRef={"name": "nothing"}, replicas=1),
    )
    stage.autoscaler(capacityBuffers=True)

    stage.wait(lambda: len(stage.ready_nodes(GROUP)) == 2, "two nodes for five chunks")
    stage.wait(
        lambda: conditions(stage, "room").get("Provisioning") == ("True", "RoomKept"),
        "the buffer says that its room is there",
    )
    assert conditions(stage, "missing") == {
        "ReadyForProvisioning": ("False", "PodTemplateNotFound"),
        "Provisioning": ("False", "PodTemplateNotFound"),
    }
    status = stage.cluster.get("cb", "room", namespace=namespace)["status"]
    assert (status["replicas"], status["podTemplateRef"]) == (5, {"name": "chunk"})
    # A pod with all of a node's slots takes the place of chunks at once; the room is bought again.
    taking = manifests.pod("taker", namespace=namespace, cpu="100m")
    claim = manifests.claim("any", STORAGE_CLASS, namespace=namespace)["spec"]
    taking["spec"]["volumes"] = [
        {"name": f"data-{number}", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
        for number in range(8)
    ]
    stage.work.create(taking)
    stage.wait_running(1)
    stage.wait(lambda: stage.sizes(GROUP)[-1] == 3, "a third node, for the room that was used")
    assert stage.grown_to(GROUP, 3)

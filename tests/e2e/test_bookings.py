"""Our scheduler leaves booked room to its pods, on a real control plane and with shipped rights."""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.manifests import documents
from tests.e2e import deployed, manifests
from tests.e2e.controlplane import ControlPlane
from tests.e2e.crds import provisioning_requests
from tests.e2e.processes import Program, Watchdog
from tests.e2e.scale_up import Stage
from tests.e2e.test_provisioning_requests import request
from tests.e2e.test_scheduler import ACCOUNT, NAMESPACE, shipped
from tonnage.objects.provisioning_requests import CHECK_CAPACITY, CONSUME_ANNOTATION

_TONNAGE = Path(sys.executable).with_name("tonnage")

pytestmark = pytest.mark.patience(300)


@pytest.fixture
def scheduler(cluster: ControlPlane, watchdog: Watchdog, tmp_path: Path) -> Iterator[Program]:
    """A scheduler that respects bookings, with the rights for that and no others."""
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(provisioning_requests.definition()))
    name = f"crd/{provisioning_requests.NAME}"
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=120s", name)
    running = ("Deployment", "PodDisruptionBudget")
    parts = [one for one in shipped(cluster) if one["kind"] not in running]
    extra = documents("scheduler/bookings")
    deployed.install(cluster, [*parts, *extra], account=ACCOUNT, namespace=NAMESPACE)
    config = tmp_path / "scheduler.yaml"
    config.write_text(yaml.safe_dump({"provisioningRequests": True}))
    program = Program(
        "scheduler",
        [
            str(_TONNAGE),
            "scheduler",
            f"--kubeconfig={cluster.kubeconfig_of_account(ACCOUNT, namespace=NAMESPACE)}",
            f"--config={config}",
            "--leader-elect=false",
            "--address=127.0.0.1:0",
        ],
        log=tmp_path / "scheduler.log",
        environ={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        watchdog=watchdog,
    )
    try:
        yield program
    finally:
        program.kill()
        print(program.last_words(60))
        cluster.kubectl("delete", "-f", "-", stdin=yaml.safe_dump_all(extra))
        cluster.kubectl("delete", name)


def test_booked_room_is_left_to_the_pods_that_take_it(stage: Stage, scheduler: Program) -> None:
    space, node = stage.work.namespace, stage.work.name("booked")
    template = manifests.pod("worker", namespace=space, cpu="3")
    condition = {
        "type": "Provisioned",
        "status": "True",
        "reason": "CapacityIsFound",
        "message": "there is room for all pods",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    here: dict[str, Any] = {
        "schedulerName": "tonnage",
        "nodeSelector": {"kubernetes.io/hostname": node},
    }
    stage.work.create(
        manifests.node(node, cpu="4", labels={"kubernetes.io/hostname": node}),
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "worker", "namespace": space},
            "template": {"spec": {**template["spec"], "nodeSelector": here["nodeSelector"]}},
        },
        request("job", stage, 1, kind=CHECK_CAPACITY),
    )
    status = json.dumps({"status": {"conditions": [condition]}})
    stage.cluster.kubectl(
        "patch", "provreq", "job", "-n", space, "--subresource=status", "--type=merge", "-p", status
    )
    stage.work.create(manifests.pod("web", namespace=space, cpu="2", **here))
    scheduler.start()
    stage.wait(
        lambda: "ProvisioningRequests have booked" in stage.work.scheduler_says("web"),
        "the other pod is told that the room is booked",
    )
    taker = manifests.pod("worker", namespace=space, cpu="3", **here)
    taker["metadata"]["annotations"] = {CONSUME_ANNOTATION: "job"}
    stage.work.create(taker)

    def where(pod: str) -> str:
        spec = stage.cluster.get("pod", pod, namespace=space)["spec"]
        return str(spec.get("nodeName", ""))

    stage.wait(lambda: where("worker") == node, "the pod that takes it has its node")
    assert where("web") == ""

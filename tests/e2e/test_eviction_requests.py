"""Eviction by request on a server that serves EvictionRequest (1.37, alpha, behind a gate).

The server's own controller does not exist yet: the test plays it, and the operator behind it.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e import deployed
from tests.e2e.controlplane import API_SERVER, FEATURE_GATES, ControlPlane
from tests.e2e.manifests import Manifest
from tests.e2e.scale_up import Stage
from tests.e2e.test_scale_down import begun, deployment, giving_back, nodes_of
from tonnage.autoscaler.actuator import EventReason

GATES = {**FEATURE_GATES, "EvictionRequestAPI": True}
SERVED = {"runtime-config": "lifecycle.k8s.io/v1alpha1=true"}
WITHIN = 120
FAILED = {
    "type": "Failed",
    "status": "True",
    "reason": "NoResponder",
    "message": "nobody is awake",
    "lastTransitionTime": "2026-01-31T12:00:00Z",
}

pytestmark = pytest.mark.patience(300)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    directory = tmp_path_factory.mktemp("control-plane")
    with ControlPlane(directory, feature_gates=GATES, flags={API_SERVER: SERVED}) as started:
        yield started


@pytest.fixture(scope="module")
def rights(cluster: ControlPlane) -> Iterator[None]:
    deployed.apply(cluster)
    with deployed.allowing_scale_down(cluster):
        yield


def operated(name: str, *, namespace: str) -> Manifest:
    """A replica whose operator is asked before it is evicted."""
    made = deployment(name, 1, namespace=namespace, cpu="1")
    responder = {"name": f"{name}.example.com/operator", "priority": 10_000}
    made["spec"]["template"]["spec"]["evictionResponders"] = [responder]
    return made


def listed(stage: Stage, kind: str) -> list[dict[str, Any]]:
    told = stage.cluster.kubectl("get", kind, "-n", stage.work.namespace, "-o", "json")
    found: list[dict[str, Any]] = json.loads(told)["items"]
    return found


def requests(stage: Stage) -> dict[str, str]:
    """By the pod that is to go, the name of the request."""
    return {
        one["spec"]["target"]["pod"]["name"]: one["metadata"]["name"]
        for one in listed(stage, "evictionrequests")
    }


def answer(stage: Stage, pod: str, **status: object) -> None:
    """What the controller of the server writes into the request for a pod."""
    name, body = requests(stage)[pod], json.dumps({"status": status})
    words = ("--subresource=status", "--type=merge", "-p", body)
    stage.cluster.kubectl("patch", "evictionrequest", name, "-n", stage.work.namespace, *words)


def told(stage: Stage, name: str) -> list[str]:
    """What was said of the eviction of a Deployment's pods."""
    return [
        one["message"]
        for one in listed(stage, "events")
        if one["reason"] == EventReason.EVICTION_REQUESTED
        and one["involvedObject"]["name"].startswith(name)
    ]


def test_an_operator_moves_its_replica_and_one_that_sleeps_has_it_evicted(stage: Stage) -> None:
    space = stage.work.namespace
    stage.play()
    autoscaler = begun(stage, 2, nodes_of("web", 2))
    small, large = stage.nodes("web")
    stage.cluster.kubectl("cordon", large)
    stage.work.create(operated("awake", namespace=space), operated("asleep", namespace=space))
    stage.wait_running(2)
    stage.cluster.kubectl("uncordon", large)
    stage.cluster.kubectl("cordon", small)
    stage.work.create(deployment("busy", 1, namespace=space, cpu="12"))
    stage.wait_running(3)
    stage.cluster.kubectl("uncordon", small)

    giving_back(stage, autoscaler, evictionRequestTimeout=WITHIN)
    stage.wait(lambda: len(requests(stage)) == 2, "both operators are asked")
    asleep, awake = sorted(requests(stage))
    answer(stage, awake, observedGeneration=1)
    stage.cluster.kubectl("delete", "pod", awake, "-n", space, "--wait=false")
    answer(stage, asleep, observedGeneration=1, conditions=[FAILED])

    stage.wait(lambda: stage.nodes("web") == [large], "the small node is gone")
    stage.wait(lambda: list(stage.running().values()) == [large] * 3, "all run on the other")
    assert requests(stage) == {}
    stage.wait(lambda: len(told(stage, "asleep")) == 2, "what became of it was told")
    assert told(stage, "awake") == [
        "asked awake.example.com/operator to move the pod for node scale down"
    ]
    assert set(told(stage, "asleep")) == {
        "asked asleep.example.com/operator to move the pod for node scale down",
        "not moved by request, evicted instead: nobody is awake",
    }

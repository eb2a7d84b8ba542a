"""Gangs on a real control plane: the server's own PodGroup, and that of coscheduling."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import manifests
from tests.e2e.controlplane import API_SERVER, FEATURE_GATES, ControlPlane, wait_until
from tests.e2e.crds import pod_groups
from tests.e2e.manifests import Manifest
from tests.e2e.processes import Program, Watchdog

_TONNAGE = Path(sys.executable).with_name("tonnage")
GATES = {**FEATURE_GATES, "GenericWorkload": True}
SERVED = {"runtime-config": "scheduling.k8s.io/v1beta1=true"}

pytestmark = pytest.mark.patience(300)


@pytest.fixture
def with_gangs(tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane whose server serves PodGroups of both kinds."""
    directory = tmp_path / "control-plane"
    directory.mkdir()
    with ControlPlane(directory, feature_gates=GATES, flags={API_SERVER: SERVED}) as cluster:
        cluster.create(pod_groups.definition())
        cluster.kubectl("wait", "--for=condition=Established", f"crd/podgroups.{pod_groups.GROUP}")
        yield cluster


@pytest.fixture
def scheduler(with_gangs: ControlPlane, watchdog: Watchdog, tmp_path: Path) -> Iterator[Program]:
    program = Program(
        "scheduler",
        [
            str(_TONNAGE),
            "scheduler",
            f"--kubeconfig={with_gangs.kubeconfig()}",
            "--leader-elect=false",
            "--address=127.0.0.1:0",
        ],
        log=tmp_path / "scheduler.log",
        environ={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        watchdog=watchdog,
    )
    program.start()
    try:
        yield program
    finally:
        program.kill()
        print(program.last_words(60))


def member(name: str, **more: Any) -> Manifest:
    return manifests.pod(name, namespace="default", cpu="3", schedulerName="tonnage", **more)


def nodes_of(cluster: ControlPlane, *names: str) -> list[str]:
    pods = [cluster.get("pod", name, namespace="default") for name in names]
    return [pod["spec"].get("nodeName", "") for pod in pods]


def refusal(cluster: ControlPlane, name: str) -> str:
    conditions = cluster.get("pod", name, namespace="default")["status"].get("conditions", [])
    return next((one.get("message", "") for one in conditions if one["status"] == "False"), "")


@pytest.mark.usefixtures("scheduler")
def test_gangs_of_both_kinds_wait_for_room_for_all_and_then_go_at_once(
    with_gangs: ControlPlane,
) -> None:
    cluster = with_gangs
    own = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    theirs = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"minMember": 2},
    }
    label = {"scheduling.x-k8s.io/pod-group": "job"}
    cluster.create(manifests.node("gang-n1"), manifests.csinode("gang-n1"), own, theirs)
    group = {"podGroupName": "train"}
    cluster.create(
        *(member(f"train-{number}", schedulingGroup=group) for number in range(2)),
        *(member(f"job-{number}", labels=label) for number in range(2)),
    )

    for name in ("train-0", "train-1", "job-0", "job-1"):
        wait_until(
            lambda name=name: "there is room for 1" in refusal(cluster, name),  # type: ignore[misc]
            what=f"{name} was told that its gang has room for one",
            late=lambda name=name: refusal(cluster, name),  # type: ignore[misc]
        )
    assert nodes_of(cluster, "train-0", "train-1", "job-0", "job-1") == [""] * 4

    cluster.create(manifests.node("gang-n2"), manifests.csinode("gang-n2"))
    wait_until(
        lambda: (
            sorted(nodes_of(cluster, "train-0", "train-1")) == ["gang-n1", "gang-n2"]
            or sorted(nodes_of(cluster, "job-0", "job-1")) == ["gang-n1", "gang-n2"]
        ),
        what="one of the gangs is on both nodes",
    )
    whole = [all(nodes_of(cluster, f"{gang}-0", f"{gang}-1")) for gang in ("train", "job")]
    assert sorted(whole) == [False, True]
    assert sum(map(bool, nodes_of(cluster, "train-0", "train-1", "job-0", "job-1"))) == 2

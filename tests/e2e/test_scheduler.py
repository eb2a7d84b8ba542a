"""`tonnage scheduler` as a process, with the rights that `deploy/scheduler` ships."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import manifests
from tests.e2e.controlplane import REPOSITORY, ControlPlane
from tests.e2e.manifests import Manifest
from tests.e2e.processes import Program, Watchdog
from tests.e2e.scaling import DRIVER, Stage, old_node, stateful_set
from tonnage.embedded.world.behaviour import Delay, DriverBehaviour

NAME = "tonnage"
ACCOUNT = "tonnage-scheduler"
NAMESPACE = "tonnage-system"
OVERLAY = REPOSITORY / "deploy" / "scheduler"

_TONNAGE = Path(sys.executable).with_name("tonnage")

Start = Callable[..., Program]

pytestmark = pytest.mark.usefixtures("scheduler_rights")


def shipped(cluster: ControlPlane) -> list[Manifest]:
    rendered = cluster.kubectl("kustomize", str(OVERLAY))
    return [one for one in yaml.safe_load_all(rendered) if one]


def arguments(cluster: ControlPlane) -> list[str]:
    """What the Deployment calls the program with, but for the file nobody mounts here."""
    (deployment,) = (one for one in shipped(cluster) if one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return [str(one) for one in container["args"] if not str(one).startswith("--config=")]


@pytest.fixture(scope="module")
def scheduler_rights(cluster: ControlPlane) -> None:
    """The account may do what the shipped manifests say, and nothing else."""
    running = ("Deployment", "PodDisruptionBudget")
    kept = [one for one in shipped(cluster) if one["kind"] not in running]
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(kept))


@pytest.fixture
def start(stage: Stage, watchdog: Watchdog, tmp_path: Path) -> Iterator[Start]:
    """Starts replicas of the scheduler."""
    started: list[Program] = []

    def begin(name: str = "scheduler") -> Program:
        kubeconfig = stage.cluster.kubeconfig_of_account(ACCOUNT, namespace=NAMESPACE)
        command = [
            str(_TONNAGE),
            *arguments(stage.cluster),
            f"--kubeconfig={kubeconfig}",
            "--address=127.0.0.1:0",
        ]
        program = Program(
            name,
            command,
            log=tmp_path / f"{name}.log",
            environ={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            watchdog=watchdog,
        )
        started.append(program)
        program.start()
        return program

    try:
        yield begin
    finally:
        for program in started:
            program.kill()
            print(program.last_words(60))


def for_us(manifest: Manifest, **spec: Any) -> Manifest:
    """The pod, or the pods of the set, are to be scheduled by us."""
    of_set = manifest["kind"] == "StatefulSet"
    pod = manifest["spec"]["template"]["spec"] if of_set else manifest["spec"]
    pod.update(schedulerName=NAME, **spec)
    return manifest


def nodes(stage: Stage, *names: str) -> None:
    stage.work.create(*(old_node(name, group="db") for name in names))


def a_set(stage: Stage, replicas: int) -> None:
    stage.cluster.create(for_us(stateful_set("db", replicas, namespace=stage.work.namespace)))


def says(stage: Stage, pod: str, words: str) -> bool:
    return stage.work.scheduler_says(pod) == words


def per_node(stage: Stage) -> Counter[str]:
    return Counter(stage.running().values())


@pytest.mark.patience(240)
def test_a_stateful_set_with_claims_that_wait_is_spread_over_nodes_within_their_limits(
    stage: Stage, start: Start
) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=5))
    stage.storage()
    nodes(stage, "s-1", "s-2", "s-3", "s-4", "s-5")
    start()
    a_set(stage, 20)
    stage.wait_running(20, within=150)
    assert sorted(per_node(stage).values()) == [4, 4, 4, 4, 4]


@pytest.mark.patience(240)
def test_limits_hold_and_whoever_is_left_is_told_in_the_words_of_kube_scheduler(
    stage: Stage, start: Start
) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=3))
    stage.storage()
    nodes(stage, "s-1", "s-2")
    start()
    a_set(stage, 8)
    stage.wait_running(6, within=120)
    waiting = {f"db-{number}" for number in range(8)} - set(stage.running())
    told = (
        "0/2 nodes are available: 2 node(s) exceed max volume count."
        " preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )
    for pod in waiting:
        stage.wait(partial(says, stage, pod, told), f"{pod} is told")
        assert stage.work.events(pod, reason="FailedScheduling")
    assert per_node(stage) == {"s-1": 3, "s-2": 3}

    nodes(stage, "s-3")
    stage.wait_running(8)
    assert per_node(stage) == {"s-1": 3, "s-2": 3, "s-3": 2}


@pytest.mark.patience(240)
def test_pods_of_a_driver_that_opted_in_wait_until_it_registers(stage: Stage, start: Start) -> None:
    # Without a limit, whose coming kube-scheduler does not notice.
    stage.play(DriverBehaviour(name=DRIVER, registers_after=Delay(15.0)))
    stage.storage(opt_in=True)
    nodes(stage, "s-1", "s-2")
    start()
    a_set(stage, 4)
    stage.wait(
        lambda: "is not installed on the node" in stage.work.scheduler_says("db-0"),
        "the pods are told",
    )
    stage.wait_running(4, within=90)
    assert stage.see(lambda history: history.too_early(DRIVER)) == []


@pytest.mark.patience(240)
def test_a_more_important_pod_takes_the_slot_of_another(stage: Stage, start: Start) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=2))
    stage.storage()
    nodes(stage, "s-1")
    important = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "important"},
        "value": 1000,
    }
    stage.work.create(important)
    start()
    a_set(stage, 2)
    stage.wait_running(2)

    namespace = stage.work.namespace
    stage.cluster.create(
        manifests.claim("own", "disk", namespace=namespace),
        for_us(
            manifests.pod("boss", namespace=namespace, claims=["own"]),
            priorityClassName="important",
        ),
    )
    stage.wait(lambda: stage.running().get("boss") == "s-1", "the important pod runs", within=90)
    victims = [pod for pod in ("db-0", "db-1") if stage.work.events(pod, reason="Preempted")]
    assert len(victims) == 1


@pytest.mark.patience(300)
def test_when_the_leader_dies_in_a_burst_the_other_goes_on_and_no_node_is_over_its_limit(
    stage: Stage, start: Start
) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=10))
    stage.storage()
    nodes(stage, "s-1", "s-2", "s-3", "s-4", "s-5", "s-6")
    first = start("first")
    stage.wait(lambda: bool(_leader(stage)), "one leads")
    start("second")
    a_set(stage, 50)
    stage.wait(lambda: len(stage.running()) >= 5, "some run")
    first.kill()
    stage.wait_running(50, within=180)
    assert max(per_node(stage).values()) <= 10


def _leader(stage: Stage) -> str:
    found = stage.cluster.kubectl("get", "leases", "-n", NAMESPACE, "-o", "json")
    return "".join(one["spec"].get("holderIdentity") or "" for one in json.loads(found)["items"])

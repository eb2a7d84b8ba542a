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

from tests.e2e import deployed, manifests
from tests.e2e.controlplane import REPOSITORY, ControlPlane, KubectlError
from tests.e2e.manifests import Manifest
from tests.e2e.processes import Program, Watchdog
from tests.e2e.scale_up import DRIVER, Stage, old_node, stateful_set
from tonnage.embedded.world.behaviour import DriverBehaviour

NAME = "tonnage"
ACCOUNT = LEASE = "tonnage-scheduler"
NAMESPACE = "tonnage-system"
OVERLAY = REPOSITORY / "deploy" / "scheduler"

_TONNAGE = Path(sys.executable).with_name("tonnage")

Start = Callable[..., Program]

pytestmark = [pytest.mark.usefixtures("scheduler_rights"), pytest.mark.patience(600)]


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
    deployed.install(cluster, kept, account=ACCOUNT, namespace=NAMESPACE)


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


def nodes(stage: Stage, *names: str) -> list[str]:
    """Nodes on which somebody plays already."""
    made = [stage.work.name(name) for name in names]
    stage.work.create(*(old_node(name, group="db") for name in made))
    return made


def a_set(stage: Stage, replicas: int) -> None:
    stage.cluster.create(for_us(stateful_set("db", replicas, namespace=stage.work.namespace)))


def says(stage: Stage, pod: str, words: str) -> bool:
    return stage.work.scheduler_says(pod) == words


def lacks_driver(stage: Stage, pod: str) -> bool:
    return "is not installed on the node" in stage.work.scheduler_says(pod)


def has_event(stage: Stage, pod: str, reason: str) -> bool:
    return bool(stage.work.events(pod, reason=reason))


def per_node(stage: Stage) -> Counter[str]:
    return Counter(stage.running().values())


def test_a_stateful_set_with_claims_that_wait_is_spread_over_nodes_within_their_limits(
    stage: Stage, start: Start
) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=5))
    stage.storage()
    stage.wait_registered(*nodes(stage, "s-1", "s-2", "s-3", "s-4", "s-5"))
    start()
    a_set(stage, 20)
    stage.wait_running(20)
    assert sorted(per_node(stage).values()) == [4, 4, 4, 4, 4]


def test_limits_hold_and_whoever_is_left_is_told_in_the_words_of_kube_scheduler(
    stage: Stage, start: Start
) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=3))
    stage.storage()
    first, second = nodes(stage, "s-1", "s-2")
    stage.wait_registered(first, second)
    start()
    a_set(stage, 8)
    stage.wait_running(6)
    waiting = {f"db-{number}" for number in range(8)} - set(stage.running())
    told = (
        "0/2 nodes are available: 2 node(s) exceed max volume count."
        " preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )
    for pod in waiting:
        stage.wait(partial(says, stage, pod, told), f"{pod} is told")
        stage.wait(partial(has_event, stage, pod, "FailedScheduling"), f"{pod} has an event")
    assert per_node(stage) == {first: 3, second: 3}

    (third,) = nodes(stage, "s-3")
    stage.wait_running(8)
    assert per_node(stage) == {first: 3, second: 3, third: 2}


def test_pods_of_a_driver_that_opted_in_wait_until_it_registers(stage: Stage, start: Start) -> None:
    # Without a limit, whose coming kube-scheduler does not notice.
    stage.play(DriverBehaviour(name=DRIVER, never_on=("*",)))
    stage.storage(opt_in=True)
    both = nodes(stage, "s-1", "s-2")
    start()
    a_set(stage, 4)
    for number in range(4):
        stage.wait(partial(lacks_driver, stage, f"db-{number}"), "the pod is told")
    for node in both:
        stage.background.run(stage.world.drivers.register(node, DRIVER))
    stage.wait_running(4)
    assert stage.too_early() == []


def test_a_more_important_pod_takes_the_slot_of_another(stage: Stage, start: Start) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=2))
    stage.storage()
    (node,) = nodes(stage, "s-1")
    stage.wait_registered(node)
    important: Manifest = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": stage.work.name("important")},
        "value": 1000,
    }
    stage.work.create(important)
    start()
    a_set(stage, 2)
    stage.wait_running(2)
    before = stage.uids()

    namespace = stage.work.namespace
    boss = for_us(
        manifests.pod("boss", namespace=namespace, claims=["own"]),
        priorityClassName=important["metadata"]["name"],
    )
    stage.wait(lambda: would_be_taken(stage, boss), "the server has heard of the priority")
    stage.cluster.create(manifests.claim("own", "disk", namespace=namespace), boss)
    stage.wait(lambda: stage.running().get("boss") == node, "the important pod runs")
    (victim,) = (pod for pod, uid in before.items() if stage.uids().get(pod) != uid)
    stage.wait(lambda: has_event(stage, victim, "Preempted"), "the victim is told why")


def test_when_the_leader_dies_in_a_burst_the_other_goes_on_and_no_node_is_over_its_limit(
    stage: Stage, start: Start
) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=10))
    stage.storage()
    stage.wait_registered(*nodes(stage, "s-1", "s-2", "s-3", "s-4", "s-5", "s-6"))
    first = start("first")
    stage.wait(lambda: bool(_leader(stage)), "one leads")
    start("second")
    a_set(stage, 50)
    stage.wait(lambda: len(stage.running()) >= 5, "some run")
    first.kill()
    stage.wait_running(50)
    assert max(per_node(stage).values()) <= 10


def _leader(stage: Stage) -> str:
    holder = "jsonpath={.spec.holderIdentity}"
    return stage.cluster.kubectl(
        "get", "lease", LEASE, "-n", NAMESPACE, "--ignore-not-found", "-o", holder
    )


def would_be_taken(stage: Stage, pod: Manifest) -> bool:
    """Whether the server would take the pod; it hears of priorities by a watch."""
    try:
        stage.cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
    except KubectlError:
        return False
    return True

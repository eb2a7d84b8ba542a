"""What goes wrong around a running autoscaler, on a real control plane, and that it comes right."""

import time

import pytest

from tests.e2e import deployed, manifests
from tests.e2e.controlplane import API_SERVER, ETCD
from tests.e2e.scale_up import DRIVER, Stage, group, old_node, stateful_set
from tonnage.autoscaler import state
from tonnage.embedded.world.behaviour import DriverBehaviour
from tonnage.objects import timestamps
from tonnage.providers.kwok import LEDGER

pytestmark = pytest.mark.patience(600)

BOOK = f"/api/v1/namespaces/{deployed.NAMESPACE}/configmaps/{LEDGER}"
"""Where the provider writes down how many nodes are asked for."""

STATE = f"/api/v1/namespaces/{deployed.NAMESPACE}/configmaps/{state.NAME}"
"""Where the autoscaler writes down that it is about to ask."""


def set_up(stage: Stage) -> None:
    """A group whose nodes take five volumes each, and a driver that is there at once."""
    stage.play(DriverBehaviour(name=DRIVER, limit=5))
    stage.groups(group("db", limit=5))
    stage.storage()


def create(stage: Stage, name: str, pods: int) -> None:
    stage.cluster.create(stateful_set(name, pods, namespace=stage.work.namespace))


@pytest.mark.parametrize(
    ("path", "answered"),
    [(STATE, False), (BOOK, True)],
    ids=["decided-and-not-asked", "asked-and-not-answered"],
)
def test_killed_between_deciding_and_acting_it_buys_once(
    stage: Stage, path: str, answered: bool
) -> None:
    """It writes down what it is about to do, asks, and hears the answer: killed in between."""
    set_up(stage)
    gate = stage.gate()
    autoscaler = stage.autoscaler(gate=gate, batchWindow=2)
    held = gate.hold("PUT", path, answered=answered)
    create(stage, "db", 10)
    gate.wait_arrived(held)
    autoscaler.program.kill()
    assert stage.nodes("db") == []

    stage.forget_leader()
    autoscaler.start()
    stage.wait_running(10)
    # What was on its way when its sender died arrives now.
    gate.release(held)
    assert stage.stays(lambda: len(stage.nodes("db")) == 2, seconds=3)
    assert stage.grown_to("db", 2)
    stage.wait_healthy(autoscaler)


def test_an_api_server_that_restarts_loses_nothing(stage: Stage) -> None:
    set_up(stage)
    autoscaler = stage.autoscaler(batchWindow=2)
    create(stage, "db", 5)
    stage.wait_running(5)
    before = stage.uids()

    stage.cluster.restart(API_SERVER)
    create(stage, "more", 10)
    stage.wait_running(15)
    assert stage.grown_to("db", 3)
    assert {name: stage.uids()[name] for name in before} == before
    stage.wait_healthy(autoscaler)


def test_an_etcd_that_stands_still_costs_the_lead_for_a_while_and_nothing_else(
    stage: Stage,
) -> None:
    set_up(stage)
    autoscaler = stage.autoscaler(batchWindow=2)
    create(stage, "db", 5)
    stage.wait_running(5)
    before = stage.uids()

    create(stage, "more", 10)
    with stage.cluster.paused(ETCD):
        stage.wait(lambda: autoscaler.says("leadership lost") > 0, "the lead was given up")
    stage.wait_running(15)
    assert stage.grown_to("db", 3)
    assert {name: stage.uids()[name] for name in before} == before
    assert autoscaler.requests("delete") == []
    stage.wait_healthy(autoscaler)


def test_watches_that_are_cut_again_and_again_hide_no_pod(stage: Stage) -> None:
    set_up(stage)
    gate = stage.gate()
    autoscaler = stage.autoscaler(gate=gate)
    stage.wait(lambda: gate.watches() > 5, "it watches many kinds")
    gate.cut_watches()
    create(stage, "db", 10)
    until = time.monotonic() + 6
    while time.monotonic() < until:
        time.sleep(0.5)
        gate.cut_watches()
    stage.wait_running(10)
    assert len(stage.nodes("db")) == 2
    assert stage.grown_to("db", 2)
    stage.wait_healthy(autoscaler)


def test_of_two_replicas_one_that_wakes_up_after_the_other_took_over_buys_nothing(
    stage: Stage,
) -> None:
    set_up(stage)
    gate = stage.gate()
    settings = stage.settings(batchWindow=2)
    sleeper = stage.autoscaler(settings, gate=gate)
    other = stage.replica("other", settings)
    other.start()
    held = gate.hold("PUT", BOOK)
    create(stage, "db", 10)
    gate.wait_arrived(held)
    with sleeper.program.paused():
        other.wait_leading()
        # What the sleeper was about to do stands written, and may have happened out of sight.
        stage.wait_running(10)
        # The answer to its request is there when it wakes up, before it has looked at the time.
        gate.release(held)
    stage.wait(lambda: sleeper.says("leadership lost") > 0, "the sleeper has noticed")
    assert stage.stays(lambda: len(stage.nodes("db")) == 2, seconds=3)
    assert stage.grown_to("db", 2)
    stage.wait_healthy(other)

    other.program.stop()
    stage.wait(lambda: sleeper.says("leading") == 2, "the sleeper leads again")
    create(stage, "more", 5)
    stage.wait_running(15)
    assert stage.grown_to("db", 3)


def test_a_right_to_create_nodes_that_is_taken_and_given_back_costs_only_time(
    stage: Stage,
) -> None:
    set_up(stage)
    autoscaler = stage.autoscaler(
        initialNodeGroupBackoffDuration=3, maxNodeGroupBackoffDuration=3, batchWindow=2
    )
    create(stage, "db", 5)
    stage.wait_running(5)
    before = stage.running()
    stage.take_right("tonnage-kwok", resource="nodes", verbs={"create"})

    create(stage, "more", 10)
    stage.wait(lambda: autoscaler.says("node not created") > 0, "a node was refused")
    (refused, *_) = autoscaler.lines("node not created")
    assert "verb create" in refused["error"] or "cannot create resource" in refused["error"]
    assert stage.running() == before

    stage.give_rights_back()
    stage.wait_running(15)
    assert len(stage.nodes("db")) == 3
    assert stage.stays(lambda: stage.sizes("db")[-1] == 3, seconds=2)
    assert {name: stage.running()[name] for name in before} == before
    stage.wait_healthy(autoscaler)


DEADLINE = 20
"""Seconds a driver has to register: many times as long as it is away in this test."""


def test_a_driver_that_restarts_on_all_nodes_past_their_deadline_costs_no_node(
    stage: Stage,
) -> None:
    stage.groups(group("db", limit=5, csi_node="empty"))
    stage.storage(opt_in=True)
    nodes = [stage.work.name(f"db-{number}") for number in range(3)]
    for node in nodes:
        stage.work.create(old_node(node, group="db"), manifests.csinode(node, {DRIVER: 5}))
    # Only now: kubelets that play would make a CSINode for a node themselves.
    stage.play(DriverBehaviour(name=DRIVER, limit=5))
    autoscaler = stage.autoscaler(driverRegistrationTimeout=DEADLINE, replaceUnreadyDrivers=True)
    last = timestamps.parse(stage.cluster.get("node", nodes[-1])["metadata"]["creationTimestamp"])
    stage.wait(lambda: time.time() > last + DEADLINE, "all nodes are older than the deadline")

    for node in nodes:
        stage.background.run(stage.world.drivers.unregister(node, DRIVER))
    stage.create_with_volume("db")

    def decided() -> bool:
        told = autoscaler.status["tonnage"]
        waited_for = {one["node"] for one in told["comingUp"]}
        return waited_for == {*nodes} and told.get("lastDecision", {}).get("fitOnExisting") == 1

    stage.wait(decided, "a pod is to wait for the driver, which is missing on all nodes")
    for node in nodes:
        stage.background.run(stage.world.drivers.register(node, DRIVER))
    stage.wait_running(1)
    stage.wait(lambda: autoscaler.tells("comingUp") == [], "all nodes are ready again")
    assert autoscaler.requests() == []
    assert autoscaler.requests("delete") == []
    assert stage.nodes("db") == nodes
    stage.wait_healthy(autoscaler)

"""Taints that keep pods off until a driver is there, taken off with the rights that are shipped."""

from collections.abc import Iterator

import pytest

from tests.e2e import deployed
from tests.e2e.scale_up import DRIVER, Stage, group, stateful_set
from tonnage.embedded.world.behaviour import Delay, DriverBehaviour

pytestmark = pytest.mark.patience(600)

TAINT = {"key": f"{DRIVER}/agent-not-ready", "effect": "NoSchedule"}


def taints(stage: Stage, node: str) -> list[str]:
    found = stage.cluster.get("node", node)["spec"].get("taints", ())
    return [one["key"] for one in found]


@pytest.fixture
def allowed(stage: Stage) -> Iterator[None]:
    with deployed.allowing_to_untaint(stage.cluster):
        yield


@pytest.mark.parametrize("removes", [True, False], ids=["asked to", "not asked to"])
def test_a_startup_taint_goes_when_its_driver_has_registered_if_that_is_wanted(
    stage: Stage, removes: bool, request: pytest.FixtureRequest
) -> None:
    if removes:
        request.getfixturevalue("allowed")
    stage.play(DriverBehaviour(name=DRIVER, limit=10, registers_after=Delay(3.0)))
    wanted = group("db", limit=10, csi_node="empty")
    wanted["spec"]["template"]["node"]["spec"] = {"taints": [TAINT]}
    stage.groups(wanted)
    stage.storage(opt_in=True)
    autoscaler = stage.autoscaler(removeStartupTaints=removes)
    stage.cluster.create(stateful_set("db", 3, namespace=stage.work.namespace))
    stage.wait(lambda: len(stage.ready_nodes("db")) == 1, "there is a node")
    (node,) = stage.nodes("db")

    if removes:
        stage.wait_running(3)
        assert TAINT["key"] not in taints(stage, node)
        assert stage.too_early() == []
        stage.wait_event(node, "StartupTaintRemoved")
    else:
        stage.wait_registered(node)
        assert stage.stays(lambda: TAINT["key"] in taints(stage, node), seconds=4)
        assert stage.running() == {}
    # The node is coming up meanwhile, so nothing more was bought for its pods.
    assert autoscaler.requests() == [("db", 1)]
    stage.wait_healthy(autoscaler)

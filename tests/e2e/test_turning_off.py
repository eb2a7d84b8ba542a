"""What is turned off and on again: awareness of slots, and the scheduler's gate."""

from pathlib import Path

import pytest

from tests.e2e import manifests
from tests.e2e.controlplane import FEATURE_GATES, ControlPlane, wait_until
from tests.e2e.scale_up import DRIVER, STORAGE_CLASS, Stage, group, stateful_set
from tests.e2e.workspace import workspace
from tonnage.embedded.world.behaviour import DriverBehaviour

pytestmark = pytest.mark.patience(600)

NOT_INSTALLED = f"{DRIVER} CSI driver is not installed on the node"


def test_awareness_that_is_turned_off_and_on_again_counts_slots_as_before(stage: Stage) -> None:
    stage.groups(group("db", limit=10, csi_node="empty"))
    stage.storage()
    settings = stage.settings(batchWindow=2)
    autoscaler = stage.autoscaler(settings)
    stage.cluster.create(stateful_set("db", 20, namespace=stage.work.namespace))
    stage.wait(lambda: autoscaler.requests() == [("db", 2)], "two nodes were asked for at once")

    settings.change(csiAware=False)
    stage.wait(lambda: autoscaler.says("configuration reloaded") == 1, "awareness is off")
    stage.cluster.create(stateful_set("more", 40, namespace=stage.work.namespace))
    stage.wait(lambda: autoscaler.tells("waitingPods") == 60, "all pods were seen")
    # Without their slots two nodes are enough for all of them.
    assert autoscaler.requests() == [("db", 2)]

    settings.change(csiAware=True)
    stage.wait(lambda: len(autoscaler.requests()) == 2, "more was asked for")
    stage.play(DriverBehaviour(name=DRIVER, limit=10))
    stage.wait_running(60)
    assert autoscaler.requests() == [("db", 2), ("db", 4)]
    assert stage.grown_to("db", 6)
    stage.wait_healthy(autoscaler)


def test_a_gate_that_is_turned_off_and_on_again_keeps_the_opt_in_and_who_runs(
    tmp_path: Path,
) -> None:
    with ControlPlane(tmp_path) as cluster, workspace(cluster, "gate") as work:
        work.create(
            manifests.csidriver(DRIVER, opt_in=True),
            manifests.storage_class(STORAGE_CLASS, DRIVER),
            manifests.node("n1"),
            manifests.csinode("n1"),
        )
        work.create_with_volume("first", driver=DRIVER, storage_class=STORAGE_CLASS)
        wait_until(lambda: NOT_INSTALLED in work.scheduler_says("first"), what="it is refused")

        cluster.switch(dict.fromkeys(FEATURE_GATES, False))
        wait_until(lambda: work.node_of("first") == "n1", what="it is bound with the gate off")

        cluster.switch(FEATURE_GATES)
        assert work.get("csidriver", DRIVER)["spec"]["preventPodSchedulingIfMissing"] is True
        work.create_with_volume("second", driver=DRIVER, storage_class=STORAGE_CLASS)
        wait_until(lambda: NOT_INSTALLED in work.scheduler_says("second"), what="it is refused")
        assert work.node_of("first") == "n1"

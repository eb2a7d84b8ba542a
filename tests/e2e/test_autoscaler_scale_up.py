"""From pods that wait to nodes that carry them: the storage-aware part, on a real control plane."""

import time
from collections.abc import Callable

import pytest

from tests.e2e import deployed, manifests
from tests.e2e.scale_up import DRIVER, Stage, group, old_node, stateful_set
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.embedded.world.behaviour import Delay, DriverBehaviour

pytestmark = pytest.mark.patience(600)

Tell = Callable[[str], None]

BATCH = 5
"""Seconds without a new pod after which all have come, on a machine that has other work too."""


def a_hundred_run(stage: Stage, figure: Tell) -> None:
    """A hundred pods with a volume each are made and run; how long it took is told."""
    autoscaler = stage.autoscaler(batchWindow=BATCH)
    created = time.time()
    stage.cluster.create(stateful_set("db", 100, namespace=stage.work.namespace))
    stage.wait_running(100, within=400)
    running = time.time() - created
    assert autoscaler.requests() == [("db", 10)]
    requested = autoscaler.requested_at()[0].timestamp() - created
    figure(
        f"10 nodes requested {requested:.1f} s after 100 pods were created (batch window {BATCH}"
        f" s), all running after {running:.1f} s"
    )


def test_a_hundred_pods_with_a_volume_each_get_ten_nodes_from_zero_in_one_request(
    stage: Stage, figure: Tell
) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=10))
    stage.groups(group("db", limit=10))
    stage.storage()
    a_hundred_run(stage, lambda text: figure(f"limit 10, from zero: {text}"))
    assert stage.sizes("db") == [0, 10]
    assert len(stage.nodes("db")) == 10


def test_by_default_a_hundred_pods_get_ten_nodes_in_a_few_requests(
    stage: Stage, figure: Tell
) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=10))
    stage.groups(group("db", limit=10))
    stage.storage()
    default = AutoscalerConfig()
    autoscaler = stage.autoscaler(
        batchWindow=default.batch_window, batchWindowMax=default.longest_batch_window
    )
    created = time.time()
    stage.cluster.create(stateful_set("db", 100, namespace=stage.work.namespace))
    stage.wait_running(100, within=400)
    asked = [nodes for _, nodes in autoscaler.requests()]
    moments = [one.timestamp() - created for one in autoscaler.requested_at()]
    assert sum(asked) == 10
    assert stage.grown_to("db", 10)
    figure(
        f"limit 10, from zero, with the default batch window: {len(asked)} requests, for"
        f" {', '.join(map(str, asked))} nodes, {', '.join(f'{one:.1f}' for one in moments)} s after"
        f" 100 pods were created"
    )


def test_with_the_opt_in_no_pod_is_ever_bound_to_a_node_before_its_driver_has_registered(
    stage: Stage, figure: Tell
) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=10, registers_after=Delay(20.0)))
    stage.groups(group("db", limit=10, csi_node="empty"))
    stage.storage(opt_in=True)
    a_hundred_run(stage, lambda text: figure(f"opted in, drivers 20 s late: {text}"))
    assert stage.sizes("db") == [0, 10]
    assert stage.too_early() == []
    # Each pod and each claim.
    assert len(stage.placed()) >= 200


def test_with_the_opt_in_pods_wait_while_their_new_node_has_no_csinode_at_all(
    stage: Stage,
) -> None:
    not_yet = DriverBehaviour(name=DRIVER, limit=5, never_on=("*",))
    stage.play(not_yet, csi_node_at_start=False)
    stage.groups(group("db", limit=5, csi_node="absent"))
    stage.storage(opt_in=True)
    autoscaler = stage.autoscaler()
    stage.cluster.create(stateful_set("db", 10, namespace=stage.work.namespace))
    stage.wait(lambda: len(stage.ready_nodes("db")) == 2, "both nodes are ready")
    nodes = stage.nodes("db")
    assert stage.cluster.kubectl("get", "csinodes", *nodes, "--ignore-not-found") == ""
    assert stage.stays(lambda: stage.running() == {}, seconds=3)

    for node in nodes:
        stage.background.run(stage.world.drivers.register(node, DRIVER))
    stage.wait_running(10)
    assert stage.too_early() == []
    assert stage.grown_to("db", 2)
    stage.wait_healthy(autoscaler)


def test_from_one_the_limit_of_the_live_node_counts_where_the_provider_knows_none(
    stage: Stage,
) -> None:
    stage.groups(group("db"))
    stage.storage()
    first = stage.work.name("db-1")
    stage.work.create(old_node(first, group="db"), manifests.csinode(first, {DRIVER: 5}))
    # Only now: kubelets that play would make a CSINode for the node themselves.
    stage.play(DriverBehaviour(name=DRIVER, limit=5))
    autoscaler = stage.autoscaler(batchWindow=2)
    stage.cluster.create(stateful_set("db", 12, namespace=stage.work.namespace))
    stage.wait_running(12)
    assert stage.grown_to("db", 3)
    limit = {"group": "db", "driver": DRIVER, "count": 5, "source": "live"}

    def told() -> bool:
        limits = autoscaler.tells("limits")
        return bool(limits) and [{**found, **limit} for found in limits] == limits

    stage.wait(told, "the status tells the limit")


def test_a_limit_that_changes_while_pods_run_counts_from_then_on(stage: Stage) -> None:
    stage.groups(group("db", limit=10, csi_node="empty"))
    stage.storage(opt_in=True)
    first = stage.work.name("db-1")
    stage.work.create(old_node(first, group="db"), manifests.csinode(first, {DRIVER: 10}))
    # Only now: kubelets that play would make a CSINode for the node themselves.
    stage.play(DriverBehaviour(name=DRIVER, limit=5))
    autoscaler = stage.autoscaler(batchWindow=2)
    stage.cluster.create(stateful_set("db", 5, namespace=stage.work.namespace))
    stage.wait_running(5)

    stage.background.run(stage.world.drivers.set_limit(first, DRIVER, 5))
    stage.work.cluster.kubectl(
        "scale", "statefulset", "db", "--replicas=15", "-n", stage.work.namespace
    )
    stage.wait_running(15)
    assert stage.grown_to("db", 3)
    assert sum(nodes for _, nodes in autoscaler.requests()) == 2
    assert list(stage.running().values()).count(first) == 5


def test_without_csi_awareness_too_few_are_bought_until_a_reload_turns_it_on(stage: Stage) -> None:
    stage.groups(group("db", limit=10, csi_node="empty"))
    stage.storage()
    settings = stage.settings(csiAware=False)
    autoscaler = stage.autoscaler(settings)
    stage.cluster.create(stateful_set("db", 50, namespace=stage.work.namespace))
    stage.wait(lambda: autoscaler.tells("waitingPods") == 50, "all pods were seen")
    assert autoscaler.requests() == [("db", 1)]

    settings.change(csiAware=True)
    stage.wait(lambda: len(autoscaler.requests()) == 2, "more was asked for")
    # Only now does any node start.
    stage.play(DriverBehaviour(name=DRIVER, limit=10))
    stage.wait_running(50)
    assert autoscaler.requests() == [("db", 1), ("db", 4)]


def test_a_node_whose_driver_never_registers_is_replaced(stage: Stage) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=10, never_on=("*",)))
    stage.groups(group("db", limit=10, csi_node="empty"))
    stage.storage(opt_in=True)
    settings = stage.settings(driverRegistrationTimeout=8, replaceUnreadyDrivers=True)
    autoscaler = stage.autoscaler(settings)
    stage.cluster.create(stateful_set("db", 3, namespace=stage.work.namespace))
    stage.wait(lambda: len(stage.nodes("db")) == 1, "there is a node")
    (first,) = stage.nodes("db")
    stage.wait(lambda: autoscaler.requests("delete") == [("db", 1)], "it is to be deleted")
    # Its successor has all the time that this test takes to register the driver there.
    settings.change(driverRegistrationTimeout=600)
    stage.wait(lambda: bool({*stage.ready_nodes("db")} - {first}), "there is another node")
    (second,) = {*stage.ready_nodes("db")} - {first}

    stage.background.run(stage.world.drivers.register(second, DRIVER))
    stage.wait_running(3)
    assert stage.nodes("db") == [second]
    assert autoscaler.requests("delete") == [("db", 1)]
    stage.wait_event(first, "CSIDriverNotRegistered")


def test_pods_wait_for_a_driver_that_opts_in_and_no_longer_once_it_opts_out(stage: Stage) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=10, never_on=("*",)))
    stage.groups(group("db", limit=10, csi_node="empty"))
    stage.storage(opt_in=False)
    autoscaler = stage.autoscaler()
    stage.create_with_volume("first")
    stage.wait_running(1)
    (node,) = stage.nodes("db")

    stage.opt_in(True)
    stage.create_with_volume("second")
    stage.wait(lambda: "not installed" in stage.work.scheduler_says("second"), "it is refused")
    # The node is coming up, and has room for it once it has its driver.
    assert stage.stays(lambda: stage.sizes("db") == [0, 1], seconds=3)

    stage.opt_in(False)
    stage.create_with_volume("third")
    # The scheduler does not look at the second again before something else happens.
    stage.wait(lambda: "third" in stage.running(), "a pod runs on the node without its driver")
    assert stage.running()["third"] == node
    assert autoscaler.requests() == [("db", 1)]


def test_a_role_without_volumeattachments_is_named_and_costs_nothing_else(stage: Stage) -> None:
    stage.take_right("tonnage", resource="volumeattachments", verbs={"list", "watch"})
    stage.play(DriverBehaviour(name=DRIVER, limit=5))
    stage.groups(group("db", limit=5))
    stage.storage()
    autoscaler = stage.autoscaler(batchWindow=2)
    stage.cluster.create(stateful_set("db", 12, namespace=stage.work.namespace))
    stage.wait_running(12)
    assert stage.grown_to("db", 3)
    stage.wait(lambda: bool(autoscaler.tells("missingRights")), "the status tells of a right")
    missing = autoscaler.tells("missingRights")
    assert [(one["kind"], one["group"]) for one in missing] == [
        ("VolumeAttachment", "storage.k8s.io")
    ]
    assert missing[0]["verb"] in ("list", "watch")


def test_what_was_decided_is_told_on_loopback_and_not_at_the_port_of_the_metrics(
    stage: Stage,
) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=10))
    stage.groups(group("db", limit=10))
    stage.storage()
    autoscaler = stage.autoscaler()
    stage.cluster.create(stateful_set("db", 3, namespace=stage.work.namespace))
    stage.wait_running(3)
    told = autoscaler.why(f"{stage.work.namespace}/db-0")
    assert ("bought" in told, "the same" in told) == (True, True), told
    inside = ("/debug/decisions", "/debug/recorded-decisions", "/debug/snapshot")
    assert [autoscaler.refuses(path) for path in inside] == [True] * 3


def test_the_server_takes_everything_that_is_shipped(stage: Stage) -> None:
    told = stage.cluster.kubectl("apply", "-k", str(deployed.OVERLAY), "--dry-run=server")
    shipped = {one["kind"].lower() for one in deployed.manifests(stage.cluster)}
    assert {line.split("/")[0].split(".")[0] for line in told.splitlines()} == shipped

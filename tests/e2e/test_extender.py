"""kube-scheduler without the gate, and our extender: no pod where its volumes cannot be attached.

The server drops the field that opts a driver in, so the annotation does.
"""

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e import deployed, manifests, scale_up
from tests.e2e.controlplane import SCHEDULER, ControlPlane, wait_until
from tests.e2e.extender_setup import ASKS, GATES, Extended, extended
from tests.e2e.manifests import Manifest
from tests.e2e.processes import Watchdog
from tests.e2e.workspace import Workspace, workspace
from tonnage.embedded.world.behaviour import DriverBehaviour
from tonnage.objects.storage import OPT_IN_ANNOTATION

DRIVER = "disk.example.com"
LIMITS_ON, LIMITS_OFF = "built-in-limits-on", "built-in-limits-off"
NODES, PODS = 50, 500
LIMITS = {f"node-{number}": 5 + number % 21 for number in range(NODES)}
MISSING = f"{DRIVER} CSI driver is not installed on the node"
SOON = 150.0
"""Seconds in which the scheduler has looked again at a pod it was told to look at.

By itself it looks after five minutes.
"""

_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=[LIMITS_ON, LIMITS_OFF])
def plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Extended]:
    with extended(tmp_path_factory.mktemp("extended"), request.param) as made:
        yield made


@pytest.fixture
def own(plane: Extended) -> Iterator[Workspace]:
    with workspace(plane.cluster, f"extended-{next(_numbers)}") as made:
        yield made


def opted_in() -> Manifest:
    driver = manifests.csidriver(DRIVER, opt_in=True)
    driver["metadata"]["annotations"] = {OPT_IN_ANNOTATION: "true"}
    return driver


def disk(namespace: str, claim: str) -> list[Manifest]:
    """A volume and the claim that is bound to it.

    The volume first: a claim for one that is not there yet is looked at again much later.
    """
    name = f"{namespace}-{claim}"
    asked = manifests.claim(claim, "disk", namespace=namespace, volume=name)
    return [manifests.volume(name, "disk", driver=DRIVER, claim=asked), asked]


def opt_in(plane: Extended, work: Workspace) -> None:
    """Make the driver known, to the extender too: until then it lets every pod pass."""
    wait_until(lambda: plane.knows("CSIDriver") == 0, what="the former driver is forgotten")
    work.create(opted_in(), manifests.storage_class("disk", DRIVER))
    wait_until(lambda: plane.knows("CSIDriver") == 1, what="the extender has heard of the driver")


def waits_for_its_driver(work: Workspace, cause: str) -> None:
    work.create_with_volume("db", driver=DRIVER, storage_class="disk")
    wait_until(
        lambda: f"1 {MISSING} ({cause})" in work.scheduler_says("db"),
        what="the scheduler says what is missing",
        within=SOON,
        late=lambda: work.scheduler_says("db"),
    )


def starts(work: Workspace, figure: Callable[[str], None]) -> None:
    began = time.monotonic()
    wait_until(
        lambda: work.node_of("db") == work.name("n1"),
        what="the pod has its node",
        within=SOON,
        late=lambda: work.scheduler_says("db"),
    )
    figure(f"bound {time.monotonic() - began:.1f} s after the driver registered")


def test_a_pod_waits_while_the_csinode_lacks_the_driver_and_starts_when_it_registers(
    plane: Extended, own: Workspace, figure: Callable[[str], None]
) -> None:
    opt_in(plane, own)
    node = own.name("n1")
    own.create(manifests.node(node), manifests.csinode(node, {"other.example.com": 9}))
    waits_for_its_driver(own, "CSIDriverMissingOnNode")
    listed = manifests.csinode(node, {"other.example.com": 9, DRIVER: 5})
    own.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(listed))
    starts(own, figure)


def test_a_pod_waits_while_there_is_no_csinode_and_starts_when_the_driver_registers(
    plane: Extended, own: Workspace, figure: Callable[[str], None]
) -> None:
    opt_in(plane, own)
    node = own.name("n1")
    own.create(manifests.node(node))
    waits_for_its_driver(own, "CSINodeMissing")
    own.create(manifests.csinode(node, {DRIVER: 5}))
    starts(own, figure)


def test_a_driver_that_registers_without_a_limit_wakes_the_pod_too(
    plane: Extended, own: Workspace, figure: Callable[[str], None]
) -> None:
    opt_in(plane, own)
    node = own.name("n1")
    own.create(manifests.node(node), manifests.csinode(node, {"other.example.com": 9}))
    waits_for_its_driver(own, "CSIDriverMissingOnNode")
    listed = manifests.csinode(node, {"other.example.com": 9, DRIVER: None})
    own.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(listed))
    starts(own, figure)


@pytest.mark.patience(600)
def test_the_autoscaler_buys_the_node_that_the_extender_has_a_pod_wait_for(
    plane: Extended, own: Workspace, watchdog: Watchdog, tmp_path: Path
) -> None:
    opt_in(plane, own)
    node = own.name("n1")
    own.create(manifests.node(node), manifests.csinode(node, {"other.example.com": 9}))
    waits_for_its_driver(own, "CSIDriverMissingOnNode")
    deployed.apply(plane.cluster)
    with scale_up.stage(own, tmp_path, watchdog=watchdog) as stage:
        stage.groups(scale_up.group("db", limit=5, driver=DRIVER))
        stage.play(DriverBehaviour(name=DRIVER, limit=5, nodes=("db*",)))
        autoscaler = stage.autoscaler(enforceOptIn="as-server", featureGates=GATES)
        stage.wait(
            lambda: autoscaler.tells("lastDecision")["fitOnExisting"] == 1,
            "the pod is thought to fit on the node without its driver",
        )
        assert autoscaler.requests() == []
        autoscaler.program.kill()
        stage.forget_leader()
        autoscaler = stage.autoscaler(featureGates=GATES)
        stage.wait_running(1)
        assert autoscaler.requests() == [("db", 1)]
        assert autoscaler.tells("optInEnforcedBy").startswith(f"Tonnage: CSIDriver {DRIVER}")


def test_nobody_but_the_scheduler_is_answered(plane: Extended) -> None:
    question = json.dumps(
        {"Pod": manifests.pod("made-up", namespace="default"), "NodeNames": []}
    ).encode()
    told = {user: plane.ask("/v1/filter", question, user=user)[0] for user in ("", "tenant", ASKS)}
    assert told == {"": 403, "tenant": 403, ASKS: 200}


def test_a_made_up_pod_reserves_nothing_even_in_the_schedulers_name(
    plane: Extended, own: Workspace
) -> None:
    """Twenty-five of them held every slot of every node for half a minute."""
    opt_in(plane, own)
    node = own.name("n1")
    own.create(manifests.node(node), manifests.csinode(node, {DRIVER: 1}))
    made_up = manifests.pod("made-up", namespace=own.namespace, claims=["made-up"])
    question = json.dumps({"Pod": made_up, "NodeNames": [node]}).encode()
    status, told = plane.ask("/v1/filter", question, user=ASKS)
    assert (status, told["NodeNames"], "no such pod" in told["Error"]) == (200, None, True)
    own.create_with_volume("db", driver=DRIVER, storage_class="disk")
    starts(own, lambda _: None)


def test_this_server_drops_the_field_and_keeps_the_annotation(own: Workspace) -> None:
    own.create(opted_in())
    driver = own.cluster.get("csidriver", DRIVER)
    assert "preventPodSchedulingIfMissing" not in driver["spec"]
    assert driver["metadata"]["annotations"] == {OPT_IN_ANNOTATION: "true"}


def create(cluster: ControlPlane, objects: Iterable[Manifest]) -> None:
    """Many objects, in several goes side by side, because kubectl takes its time."""
    rest = iter(objects)
    parts = list(iter(lambda: list(itertools.islice(rest, 126)), []))
    with ThreadPoolExecutor(max_workers=4) as threads:
        for _ in threads.map(lambda part: cluster.create(*part), parts):
            pass


def burst(cluster: ControlPlane) -> None:
    """All pods at once, for a scheduler that has just been started."""
    numbers = range(PODS)
    create(cluster, [opted_in(), manifests.storage_class("disk", DRIVER)])
    create(cluster, (manifests.node(name) for name in LIMITS))
    create(cluster, (manifests.csinode(name, {DRIVER: limit}) for name, limit in LIMITS.items()))
    create(cluster, (one for number in numbers for one in disk("default", f"data-{number}")))
    cluster.stop(SCHEDULER)
    create(
        cluster,
        (
            manifests.pod(f"db-{number}", namespace="default", claims=[f"data-{number}"], cpu="1m")
            for number in numbers
        ),
    )
    cluster.start(SCHEDULER)


def placed(cluster: ControlPlane) -> Counter[str]:
    """Pods by node, and under an empty name those without."""
    shown = "jsonpath={range .items[*]}{.spec.nodeName}\n{end}"
    listed = cluster.kubectl("get", "pods", "-n", "default", "-o", shown)
    return Counter(listed.split("\n")[:-1])


@pytest.mark.patience(900)
@pytest.mark.parametrize(
    ("config", "restarted"),
    [(LIMITS_ON, False), (LIMITS_OFF, True)],
    ids=["with the scheduler's own limits", "without them, restarted in the middle"],
)
def test_limits_hold_under_a_burst_and_no_pod_is_stuck(
    tmp_path: Path, figure: Callable[[str], None], config: str, restarted: bool
) -> None:
    with extended(tmp_path, config) as plane:
        cluster = plane.cluster
        burst(cluster)
        began = time.monotonic()
        if restarted:
            some = PODS // 10
            wait_until(
                lambda: PODS - placed(cluster)[""] > some, what="some pods have nodes", every=0.5
            )
            plane.restart()
        wait_until(
            lambda: not placed(cluster)[""],
            what="every pod has a node",
            within=500.0,
            # Often would cost the scheduler the time that is measured.
            every=1.0,
            late=lambda: f"{placed(cluster)}\n{plane.extender.last_words()}",
        )
        found, taken = placed(cluster), time.monotonic() - began
    assert {name: count for name, count in found.items() if count > LIMITS[name]} == {}
    assert sum(found.values()) == PODS
    figure(f"{config}: {PODS} pods bound in {taken:.1f} s{', a restart included' * restarted}")

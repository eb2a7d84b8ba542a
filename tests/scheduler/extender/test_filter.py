"""Which nodes a pod with volumes gets, asked over HTTP as kube-scheduler asks."""

from datetime import timedelta

import msgspec

from tests.scheduler.extender.harness import DRIVER, a_claim, a_node, a_pod, extending, promised
from tonnage.objects.storage import OPT_IN_ANNOTATION, CSIDriver
from tonnage.testing import builders as make
from tonnage.testing.clock import VirtualClock

MISSING = f"{DRIVER} CSI driver is not installed on the node"
FULL = "node(s) exceed max volume count"


def annotated_driver(value: str = "true") -> CSIDriver:
    driver = make.csidriver(DRIVER)
    meta = msgspec.structs.replace(driver.metadata, annotations={OPT_IN_ANNOTATION: value})
    return msgspec.structs.replace(driver, metadata=meta)


# Pods the rules are not about


async def test_a_pod_without_volumes_may_go_anywhere(clock: VirtualClock) -> None:
    async with extending(clock, *a_node("n1", 0)) as stage:
        assert (await stage.filter(make.pod("web"), "n1", "elsewhere")).nodes == ["n1", "elsewhere"]


async def test_a_pod_with_volumes_of_no_driver_may_go_anywhere(clock: VirtualClock) -> None:
    local = make.storage_class("local", "kubernetes.io/no-provisioner")
    claim = make.pvc("data", storage_class="local")
    async with extending(clock, *a_node("n1", 0), local, claim) as stage:
        assert (await stage.filter(make.pod("web", pvcs=["data"]), "n1")).nodes == ["n1"]


# The opt-in


async def test_an_opted_in_driver_keeps_pods_off_nodes_that_do_not_list_it(
    clock: VirtualClock,
) -> None:
    *claims, pod = a_pod("db")
    driver = make.csidriver(DRIVER, opt_in=True)
    nodes = [*a_node("with"), *a_node("without", "unlisted"), *a_node("bare", "none")]
    async with extending(clock, driver, *nodes, *claims) as stage:
        answer = await stage.filter(pod, "with", "without", "bare")
    assert answer.nodes == ["with"]
    assert answer.unresolvable == {
        "without": f"{MISSING} (CSIDriverMissingOnNode)",
        "bare": f"{MISSING} (CSINodeMissing)",
    }


async def test_the_annotation_opts_in_where_the_server_drops_the_field(clock: VirtualClock) -> None:
    *claims, pod = a_pod("db")
    nodes = a_node("without", "unlisted")
    async with extending(clock, annotated_driver(), *nodes, *claims) as stage:
        assert (await stage.filter(pod, "without")).nodes == []


async def test_a_driver_that_has_not_opted_in_does_not_matter_where_it_is_not_listed(
    clock: VirtualClock,
) -> None:
    *claims, pod = a_pod("db")
    nodes = a_node("without", "unlisted")
    async with extending(clock, annotated_driver("false"), *nodes, *claims) as stage:
        assert (await stage.filter(pod, "without")).nodes == ["without"]


async def test_on_1_35_the_mere_existence_of_a_driver_is_no_opt_in(clock: VirtualClock) -> None:
    *claims, pod = a_pod("db")
    nodes = a_node("without", "unlisted")
    driver = make.csidriver(DRIVER)
    async with extending(clock, driver, *nodes, *claims, kubernetesVersion="1.35") as stage:
        assert (await stage.filter(pod, "without")).nodes == ["without"]


async def test_a_node_is_given_as_soon_as_the_driver_registers(clock: VirtualClock) -> None:
    *claims, pod = a_pod("db")
    driver = make.csidriver(DRIVER, opt_in=True)
    async with extending(clock, driver, *a_node("n1", "none"), *claims) as stage:
        before = await stage.filter(pod, "n1")
        await stage.put(make.csinode("n1", {DRIVER: None}))
        assert (before.nodes, (await stage.filter(pod, "n1")).nodes) == ([], ["n1"])


# Limits


async def test_a_full_node_is_refused_and_may_be_helped_by_preemption(clock: VirtualClock) -> None:
    *claims, pod = a_pod("db")
    placed = a_pod("old", "a", "b", on="full")
    async with extending(clock, *a_node("full", 2), *a_node("free"), *placed, *claims) as stage:
        answer = await stage.filter(pod, "full", "free")
    assert answer.nodes == ["free"]
    assert answer.failed == {"full": f"{FULL} (MaxVolumeCountExceeded: {DRIVER})"}


async def test_preemption_does_not_help_where_the_limit_is_below_what_the_pod_wants(
    clock: VirtualClock,
) -> None:
    *claims, pod = a_pod("db", "a", "b", "c")
    async with extending(clock, *a_node("small", 2), *claims) as stage:
        answer = await stage.filter(pod, "small")
    assert answer.unresolvable == {"small": f"{FULL} (MaxVolumeCountExceeded: {DRIVER})"}


async def test_a_shared_volume_takes_one_slot(clock: VirtualClock) -> None:
    placed = a_pod("first", "shared", on="n1")
    async with extending(clock, *a_node("n1", 1), *placed) as stage:
        assert (await stage.filter(make.pod("second", pvcs=["shared"]), "n1")).nodes == ["n1"]


async def test_a_volume_still_detaching_keeps_its_slot(clock: VirtualClock) -> None:
    *claims, pod = a_pod("db")
    volume = make.pv("gone", driver=DRIVER)
    held = make.attachment("gone", "n1", attacher=DRIVER)
    async with extending(clock, *a_node("n1", 1), volume, held, *claims) as stage:
        before = await stage.filter(pod, "n1")
        await stage.delete(held)
        assert (before.nodes, (await stage.filter(pod, "n1")).nodes) == ([], ["n1"])


async def test_a_returning_pod_finds_its_own_volume_attached(clock: VirtualClock) -> None:
    volume, claim = make.pv("mine", driver=DRIVER), a_claim("data", volume="mine")
    held = make.attachment("mine", "n1", attacher=DRIVER)
    async with extending(clock, *a_node("n1", 1), volume, claim, held) as stage:
        assert (await stage.filter(make.pod("db", pvcs=["data"]), "n1")).nodes == ["n1"]


async def test_a_returning_pod_is_counted_as_upstream_counts_it_if_told_so(
    clock: VirtualClock,
) -> None:
    volume, claim = make.pv("mine", driver=DRIVER), a_claim("data", volume="mine")
    held = make.attachment("mine", "n1", attacher=DRIVER)
    nodes = a_node("n1", 1)
    async with extending(clock, *nodes, volume, claim, held, returningVolumeOnce=False) as stage:
        assert (await stage.filter(make.pod("db", pvcs=["data"]), "n1")).nodes == []


async def test_a_node_promised_to_a_pod_as_important_is_kept_for_it(clock: VirtualClock) -> None:
    *claims, pod = a_pod("late")
    claim, early = a_pod("early")
    objects = [claim, promised(early, "n1"), *claims]
    async with extending(clock, *a_node("n1", 1), *objects) as stage:
        assert (await stage.filter(pod, "n1")).nodes == []


async def test_a_node_promised_to_a_lesser_pod_is_given(clock: VirtualClock) -> None:
    *claims, pod = a_pod("late", priority=5)
    claim, early = a_pod("early")
    objects = [claim, promised(early, "n1"), *claims]
    async with extending(clock, *a_node("n1", 1), *objects) as stage:
        assert (await stage.filter(pod, "n1")).nodes == ["n1"]


# Unknown limits


async def test_hold_keeps_pods_off_a_young_node_until_its_driver_registers(
    clock: VirtualClock,
) -> None:
    *claims, pod = a_pod("db")
    objects = [make.csidriver(DRIVER), *a_node("n1", "unlisted", born=clock.now()), *claims]
    async with extending(clock, *objects, unknownLimits="hold") as stage:
        before = await stage.filter(pod, "n1")
        await stage.put(make.csinode("n1", {DRIVER: 5}))
        after = await stage.filter(pod, "n1")
    assert before.unresolvable == {"n1": f"{MISSING} (LimitUnknown)"}
    assert after.nodes == ["n1"]


async def test_hold_ends_with_the_registration_window(clock: VirtualClock) -> None:
    *claims, pod = a_pod("db")
    objects = [make.csidriver(DRIVER), *a_node("n1", "unlisted", born=clock.now()), *claims]
    async with extending(clock, *objects, unknownLimits="hold", registrationWindow="1m") as stage:
        await clock.sleep(61)
        assert (await stage.filter(pod, "n1")).nodes == ["n1"]


async def test_hold_does_not_concern_old_nodes(clock: VirtualClock) -> None:
    *claims, pod = a_pod("db")
    born = clock.now() - timedelta(hours=1)
    objects = [make.csidriver(DRIVER), *a_node("n1", "unlisted", born=born), *claims]
    async with extending(clock, *objects, unknownLimits="hold") as stage:
        assert (await stage.filter(pod, "n1")).nodes == ["n1"]


async def test_hold_does_not_wait_for_a_driver_nobody_knows(clock: VirtualClock) -> None:
    *claims, pod = a_pod("db")
    objects = [*a_node("n1", "unlisted", born=clock.now()), *claims]
    async with extending(clock, *objects, unknownLimits="hold") as stage:
        assert (await stage.filter(pod, "n1")).nodes == ["n1"]


async def test_warn_counts_answers_with_a_limit_unknown(clock: VirtualClock) -> None:
    *claims, pod = a_pod("db")
    nodes = a_node("n1", "unlisted")
    async with extending(clock, make.csidriver(DRIVER), *nodes, *claims) as stage:
        await stage.filter(pod, "n1")
        _, metrics = await stage.get("/metrics")
    assert f'tonnage_extender_unknown_limits_total{{driver="{DRIVER}"}} 1.0' in metrics


# Scores


async def test_the_emptier_node_has_the_higher_score(clock: VirtualClock) -> None:
    *claims, pod = a_pod("db")
    nodes = [*a_node("empty", 10), *a_node("used", 10), *a_node("endless", None)]
    placed = a_pod("old", *"abcd", on="used")
    async with extending(clock, *nodes, *placed, *claims) as stage:
        scores = await stage.scores(pod, "empty", "used", "endless", "strange")
    assert scores == {"empty": 9, "used": 5, "endless": 10, "strange": 0}

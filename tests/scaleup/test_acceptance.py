"""What users of volume-aware autoscaling reported, as whole decisions that come out right."""

import time

import pytest

from tests.scaleup.asking import (
    CLASS,
    EBS,
    TYPE,
    UPSTREAM,
    bought,
    created,
    daemons,
    decide,
    group,
    helped,
    left_out,
    running,
    sources,
    stateful,
)
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import TopologySpreadConstraint
from tonnage.scaleup.plan import Nearest
from tonnage.testing import builders as make

EBS_ZONE = "topology.ebs.csi.aws.com/zone"


def test_a_hundred_pods_with_a_claim_each_take_ten_nodes_of_limit_ten_in_one_plan() -> None:
    plan = decide(CLASS, stateful("db", 100), group("g", slots={EBS: 10}))

    assert bought(plan) == {"g": 10}
    assert len(plan.steps) == 1
    assert helped(plan) == 100


# A pod with more claims than any node has slots.


def test_a_pod_with_28_claims_is_bought_nothing_where_no_node_has_28_slots() -> None:
    groups = [group("small", slots={EBS: 20}), group("large", slots={EBS: 25})]
    plan = decide(CLASS, stateful("db", 1, claims=28), groups)

    assert plan.scale_ups == ()
    assert left_out(plan, "db-0").never_fits


def test_of_groups_that_lack_slots_the_nearest_is_named_with_what_it_has() -> None:
    groups = [group("small", slots={EBS: 20}), group("large", slots={EBS: 25})]
    plan = decide(CLASS, stateful("db", 1, claims=28), groups)

    assert left_out(plan, "db-0").nearest == Nearest(
        group="large", resource=EBS, wanted=28, available=25
    )


def test_slots_that_pods_of_daemonsets_take_are_not_available() -> None:
    cache = make.ephemeral_volume("cache", storage_class="fast")
    agents = daemons("agent", make.pod("agent", volumes=[cache]))
    plan = decide(CLASS, stateful("db", 1, claims=3), agents, group("g", slots={EBS: 3}))

    assert left_out(plan, "db-0").nearest == Nearest(group="g", resource=EBS, wanted=3, available=2)


def test_every_group_says_why_it_does_not_help() -> None:
    groups = [group("small", slots={EBS: 20}), group("tiny", slots={EBS: 50}, cpu="100m")]
    plan = decide(CLASS, stateful("db", 1, claims=28, cpu="1"), groups)

    assert {one.group: one.plugin for one in left_out(plan, "db-0").reasons} == {
        "small": "NodeVolumeLimits",
        "tiny": "NodeResourcesFit",
    }


def test_a_pod_that_only_finds_groups_full_could_fit_one_day() -> None:
    plan = decide(CLASS, stateful("db", 3, claims=2), group("g", slots={EBS: 2}, most=2))

    assert bought(plan) == {"g": 2}
    assert not left_out(plan, "db-2").never_fits
    assert left_out(plan, "db-2").reasons[0].reasons == ("max node group size reached",)


# Volumes that are bound to a zone.


def pinned(zone: str, *, key: str = EBS_ZONE) -> list[KubeObject]:
    """A pod whose volume can be reached from one zone only."""
    claim = make.pvc("data", storage_class="fast", volume="pv")
    reach = make.nodes_with(key, zone)
    return [
        claim,
        make.pv("pv", driver=EBS, storage_class="fast", claim=claim, node_affinity=reach),
        make.pod("db", pvcs=["data"]),
    ]


def test_a_volume_pinned_by_the_drivers_zone_label_is_helped_from_zero_in_its_zone() -> None:
    groups = [group("a", zone="z-a", slots={EBS: 25}), group("b", zone="z-b", slots={EBS: 25})]
    plan = decide(CLASS, pinned("z-b"), groups)

    assert bought(plan) == {"b": 1}


def test_the_drivers_zone_label_is_derived_though_the_provider_lists_no_driver() -> None:
    groups = [group("a", zone="z-a"), group("b", zone="z-b")]
    plan = decide(CLASS, pinned("z-b"), groups)

    assert bought(plan) == {"b": 1}


def test_upstream_does_not_derive_it() -> None:
    groups = [group("a", zone="z-a"), group("b", zone="z-b")]
    plan = decide(CLASS, pinned("z-b"), groups, compatibility=UPSTREAM)

    assert plan.scale_ups == ()


# A claim that takes a few seconds to be bound.

AT_ONCE = make.storage_class("at-once", EBS, immediate=True)


def unbound_since(seconds: float) -> KubeObject:
    return created(make.pvc("data", storage_class="at-once"), seconds)


def test_no_node_is_bought_while_a_claim_may_yet_be_bound() -> None:
    waiting = [AT_ONCE, unbound_since(6), make.pod("db", pvcs=["data"])]
    plan = decide(waiting, group("g", slots={EBS: 25}))

    assert plan.scale_ups == ()
    assert plan.not_helped == ()
    assert any("default/db" in warning for warning in plan.warnings)


def test_once_it_is_bound_the_pod_takes_a_node_that_is_there() -> None:
    claim = make.pvc("data", storage_class="at-once", volume="pv")
    volume = make.pv("pv", driver=EBS, storage_class="at-once", claim=claim)
    plan = decide(
        AT_ONCE, claim, volume, make.node("n1"), make.pod("db", pvcs=["data"]), group("g")
    )

    assert plan.scale_ups == ()
    assert [(fit.pod, fit.node) for fit in plan.fit_on_existing] == [("default/db", "n1")]


def test_a_pod_whose_claim_is_not_bound_in_time_is_named_as_left_out() -> None:
    waiting = [AT_ONCE, unbound_since(31), make.pod("db", pvcs=["data"])]
    plan = decide(waiting, group("g", slots={EBS: 25}))

    assert plan.scale_ups == ()
    assert not left_out(plan, "db").never_fits


def test_how_long_to_wait_is_an_option() -> None:
    waiting = [AT_ONCE, unbound_since(31), make.pod("db", pvcs=["data"])]
    plan = decide(waiting, group("g", slots={EBS: 25}), claimBindWait=60)

    assert plan.not_helped == ()


# Volumes that are still attached.


def full_node(*, leaving: bool) -> list[KubeObject]:
    """A node with 26 slots, 25 of them in use, and one of a pod that is gone or going."""
    claim = make.pvc("data-old", storage_class="fast", volume="pv-old")
    going = [make.pod("old", on="n1", pvcs=["data-old"], deleting=True)] if leaving else []
    return [
        CLASS,
        make.node("n1"),
        make.csinode("n1", {EBS: 26}),
        *running("db", "n1", 25),
        claim,
        make.pv("pv-old", driver=EBS, storage_class="fast", claim=claim),
        make.attachment("pv-old", "n1", attacher=EBS),
        *going,
    ]


@pytest.mark.parametrize("leaving", [True, False], ids=["pod is going", "pod is gone"])
def test_a_slot_is_not_free_before_the_volume_is_detached(leaving: bool) -> None:
    plan = decide(full_node(leaving=leaving), stateful("new", 1), group("g", slots={EBS: 26}))

    assert plan.fit_on_existing == ()
    assert bought(plan) == {"g": 1}


def test_a_pod_that_returns_to_its_attached_volume_needs_no_further_slot() -> None:
    returning = make.pod("old", pvcs=["data-old"])
    plan = decide(full_node(leaving=False), returning, group("g", slots={EBS: 26}))

    assert [fit.pod for fit in plan.fit_on_existing] == ["default/old"]


def test_upstream_counts_the_volume_of_a_returning_pod_twice() -> None:
    returning = make.pod("old", pvcs=["data-old"])
    groups = group("g", slots={EBS: 26})
    plan = decide(full_node(leaving=False), returning, groups, compatibility=UPSTREAM)

    assert plan.fit_on_existing == ()
    assert bought(plan) == {"g": 1}


# No template of the provider's has CSI drivers.


def test_limits_are_learned_from_the_same_instance_type_elsewhere() -> None:
    there: list[KubeObject] = [
        make.node("n1", cpu="1", labels={TYPE: "m5.large"}),
        make.csinode("n1", {EBS: 4}),
        make.pod("full", on="n1", cpu="1"),
    ]
    plan = decide(CLASS, there, stateful("db", 8, cpu="100m"), group("g", kind="m5.large"))

    assert sources(plan) == {"g": (4, "learned")}
    assert bought(plan) == {"g": 2}


def test_limits_come_from_the_catalogue_where_nobody_has_seen_the_instance_type() -> None:
    plan = decide(CLASS, stateful("db", 30), group("g", kind="m5.large"))

    assert sources(plan) == {"g": (26, "catalogue")}
    assert bought(plan) == {"g": 2}


def test_without_any_source_volumes_are_unlimited_and_that_is_warned_about() -> None:
    plan = decide(CLASS, stateful("db", 30, cpu="10m"), group("g"))

    assert sources(plan) == {"g": (None, "unknown")}
    assert bought(plan) == {"g": 1}
    assert any("group g" in warning and EBS in warning for warning in plan.warnings)


# Sizes. Times are of the processor, so that a busy machine does not fail them.


def test_one_pod_and_120_groups_are_decided_at_once() -> None:
    groups = [
        group(f"g{number}", cpu=str(1 + number % 7), slots={EBS: 25}, price=f"0.{number + 100}")
        for number in range(120)
    ]
    started = time.process_time()
    plan = decide(CLASS, stateful("db", 1, cpu="3"), groups, judged=False)

    assert time.process_time() - started < 2
    assert sum(bought(plan).values()) == 1


def test_51000_pods_of_two_shapes_take_2595_nodes() -> None:
    small = [make.pod(f"s{number}", cpu="50m", memory=100) for number in range(50_000)]
    large = [make.pod(f"l{number}", cpu="95m", memory=190) for number in range(1_000)]
    groups = group("g", cpu="1", memory="5000", pods=100, most=3000)
    started = time.process_time()
    plan = decide(small, large, groups, maxNodesPerScaleUp=3000, judged=False)

    assert time.process_time() - started < 10
    assert helped(plan) == 51_000
    assert sum(bought(plan).values()) <= 2595
    assert plan.bounds.nodes <= sum(bought(plan).values())


def diverse(number: int) -> KubeObject:
    """Pods of 25 sizes and 7 kinds, a fifth of them spread over zones, a fifth over hosts."""
    labels = {"app": f"a{number % 7}"}
    key = {1: make.ZONE, 2: make.HOSTNAME}.get(number % 5)
    spread = []
    if key is not None:
        selector = make.selecting(labels)
        spread = [TopologySpreadConstraint(topology_key=key, max_skew=1, label_selector=selector)]
    return make.pod(
        f"p{number}",
        cpu=f"{100 + 300 * (number // 5 % 5)}m",
        memory=f"{128 + 512 * (number // 25 % 5)}Mi",
        labels=labels,
        spread=spread,
    )


def test_20000_diverse_pods_and_400_groups_are_decided_in_seconds() -> None:
    groups = [
        group(
            f"g{number}",
            cpu=str(2 + number // 8),
            memory=f"{4 + 2 * (number % 40)}Gi",
            zone=f"z-{number % 3}",
            price=f"{0.05 + number / 1000:.3f}",
        )
        for number in range(400)
    ]
    pods = [diverse(number) for number in range(20_000)]
    started = time.process_time()
    plan = decide(pods, groups, maxNodesPerScaleUp=10_000, judged=False)

    assert time.process_time() - started < 20
    assert helped(plan) == 20_000

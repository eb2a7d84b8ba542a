"""KEP-5030: its two user stories, every line of its summary's "After", and turning it off."""

import pytest

from tests.scaleup.asking import (
    CLASS,
    EBS,
    UPSTREAM,
    bought,
    created,
    decide,
    group,
    helped,
    left_out,
    running,
    stateful,
)
from tonnage.objects.kinds import KubeObject
from tonnage.rules import features, pipeline
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing import builders as make

OPTED_IN = make.csidriver(EBS, opt_in=True)


def node(name: str, slots: int | None, *, used: int = 0) -> list[KubeObject]:
    """A node with so many slots, or without the driver, and pods with a volume each."""
    drivers = {EBS: slots} if slots is not None else {}
    return [
        make.node(name),
        make.csinode(name, drivers),
        *running(f"on-{name}", name, used, cpu="10m"),
    ]


# Story 1: pods wait because no node has an attach slot left.


def test_as_many_nodes_are_bought_as_the_volumes_of_pending_pods_require() -> None:
    full = node("n1", 5, used=5)
    plan = decide(CLASS, full, stateful("db", 12, cpu="10m"), group("g", slots={EBS: 5}))

    assert bought(plan) == {"g": 3}
    assert helped(plan) == 12


def test_the_node_group_is_picked_by_the_usual_criteria() -> None:
    groups = [
        group("wide", slots={EBS: 6}, cpu="4"),
        group("narrow", slots={EBS: 3}, cpu="4"),
    ]
    plan = decide(CLASS, stateful("db", 6, cpu="10m"), groups, expander="least-nodes")

    assert bought(plan) == {"wide": 1}


# Story 2: some nodes do not have the driver, and nobody taints them.


def test_a_node_without_the_driver_is_not_used_for_pods_with_volumes() -> None:
    plan = decide(CLASS, OPTED_IN, node("n1", None), stateful("db", 1), group("g", slots={EBS: 5}))

    assert plan.fit_on_existing == ()
    assert bought(plan) == {"g": 1}


def test_it_is_used_for_pods_without_volumes() -> None:
    plan = decide(CLASS, OPTED_IN, node("n1", None), make.pod("web"), group("g"))

    assert [fit.node for fit in plan.fit_on_existing] == ["n1"]


def test_a_group_whose_nodes_lack_the_driver_is_not_bought_for_pods_with_volumes() -> None:
    groups = [
        group("plain", nodes=["n1"], price="0.1", described=False),
        group("storage", slots={EBS: 5}, price="9"),
    ]
    plan = decide(CLASS, OPTED_IN, node("n1", None), stateful("db", 1), groups, expander="price")

    assert bought(plan) == {"storage": 1}


# After, line by line.


@pytest.mark.parametrize("opt_in", [None, False], ids=["not said", "said no"])
def test_by_default_a_node_without_information_takes_any_number(opt_in: bool | None) -> None:
    driver = make.csidriver(EBS, opt_in=opt_in)
    plan = decide(CLASS, driver, node("n1", None), stateful("db", 40, cpu="10m"), group("g"))

    assert len(plan.fit_on_existing) == 40


def test_by_default_a_new_node_without_information_takes_any_number() -> None:
    plan = decide(CLASS, stateful("db", 40, cpu="10m"), group("g"))

    assert bought(plan) == {"g": 1}


def test_opted_in_a_node_without_information_takes_none() -> None:
    plan = decide(CLASS, OPTED_IN, node("n1", None), stateful("db", 1))

    assert plan.fit_on_existing == ()


def test_opted_in_a_node_without_csinode_takes_none() -> None:
    plan = decide(CLASS, OPTED_IN, make.node("n1"), stateful("db", 1))

    assert plan.fit_on_existing == ()


def test_opted_in_a_new_node_without_information_takes_none_and_says_so() -> None:
    plan = decide(CLASS, OPTED_IN, stateful("db", 1), group("g"))

    assert plan.scale_ups == ()
    (reason,) = left_out(plan, "db-0").reasons
    assert reason.plugin == "NodeVolumeLimits"
    assert reason.reasons == (f"{EBS} CSI driver is not installed on the node",)


def test_a_node_with_published_limits_is_filled_up_to_them() -> None:
    plan = decide(CLASS, node("n1", 5, used=2), stateful("db", 6, cpu="10m"), group("g"))

    assert [fit.node for fit in plan.fit_on_existing] == ["n1"] * 3


def test_a_node_that_has_yet_to_publish_its_driver_gets_no_pod_now() -> None:
    young = created(make.node("n1"), 60)
    snapshot = Snapshot.of([CLASS, OPTED_IN, young, make.csinode("n1", {}), *stateful("db", 1)])
    (pod,) = snapshot.pending_pods()

    verdict = pipeline.evaluate(snapshot, pod, features.of_version()).on("n1")

    assert verdict.texts == [f"{EBS} CSI driver is not installed on the node"]


def test_the_plan_counts_on_what_such_a_node_will_be() -> None:
    young = created(make.node("n1"), 60)
    plan = decide(
        CLASS,
        OPTED_IN,
        young,
        make.csinode("n1", {}),
        stateful("db", 6, cpu="10m"),
        group("g", slots={EBS: 5}, nodes=["n1"]),
    )

    assert [fit.node for fit in plan.fit_on_existing] == ["n1"] * 5
    assert bought(plan) == {"g": 1}


def test_it_counts_as_coming_up_so_that_nothing_is_bought_twice() -> None:
    young = created(make.node("n1"), 60)
    plan = decide(
        CLASS,
        OPTED_IN,
        young,
        make.csinode("n1", {}),
        stateful("db", 5),
        group("g", slots={EBS: 5}, nodes=["n1"]),
    )

    assert plan.scale_ups == ()
    assert len(plan.fit_on_existing) == 5


def test_past_its_deadline_it_does_not_count_any_more() -> None:
    old = created(make.node("n1"), 3600)
    plan = decide(
        CLASS,
        OPTED_IN,
        old,
        make.csinode("n1", {}),
        stateful("db", 5),
        group("g", slots={EBS: 5}, nodes=["n1"]),
    )

    assert bought(plan) == {"g": 1}


def test_a_node_asked_for_and_not_yet_there_is_filled_up_to_its_templates_limit() -> None:
    groups = group("g", slots={EBS: 3}, target=1)
    plan = decide(CLASS, stateful("db", 5, cpu="10m"), groups)

    assert len(plan.fit_on_existing) == 3
    assert bought(plan) == {"g": 1}


def test_to_upstream_a_target_above_the_registered_nodes_is_not_upcoming() -> None:
    groups = [group("g", slots={EBS: 3}, target=1), group("h", slots={EBS: 3})]
    plan = decide(CLASS, stateful("db", 5, cpu="10m"), groups, compatibility=UPSTREAM)

    assert plan.fit_on_existing == ()
    assert bought(plan) == {"h": 2}


# From zero, and from one.


def test_from_zero_the_providers_limit_counts() -> None:
    plan = decide(CLASS, stateful("db", 10, cpu="10m"), group("g", slots={EBS: 5}))

    assert bought(plan) == {"g": 2}


def test_from_one_the_limit_of_the_live_node_counts() -> None:
    live = node("n1", 2, used=2)
    groups = group("g", nodes=["n1"], described=False)
    plan = decide(CLASS, live, stateful("db", 10, cpu="10m"), groups)

    assert bought(plan) == {"g": 5}


@pytest.mark.parametrize("compatibility", ["none", UPSTREAM])
def test_the_live_nodes_limit_is_believed_before_the_providers(compatibility: str) -> None:
    live = node("n1", 2, used=2)
    groups = group("g", slots={EBS: 5}, nodes=["n1"])
    plan = decide(CLASS, live, stateful("db", 10, cpu="10m"), groups, compatibility=compatibility)

    assert bought(plan) == {"g": 5}


# csiAware off: what was before, to the letter.


def test_without_awareness_new_nodes_are_unlimited() -> None:
    plan = decide(CLASS, stateful("db", 40, cpu="10m"), group("g", slots={EBS: 5}), csiAware=False)

    assert bought(plan) == {"g": 1}


def test_without_awareness_existing_nodes_keep_their_limits() -> None:
    full = node("n1", 2, used=2)
    plan = decide(
        CLASS, full, stateful("db", 10, cpu="10m"), group("g", nodes=["n1"]), csiAware=False
    )

    assert plan.fit_on_existing == ()
    assert bought(plan) == {"g": 1}


def test_without_awareness_an_opted_in_driver_stops_scaling_for_its_volumes() -> None:
    plan = decide(CLASS, OPTED_IN, stateful("db", 1), group("g", slots={EBS: 5}), csiAware=False)

    assert plan.scale_ups == ()
    assert not plan.fit_on_existing


def test_and_the_plan_warns_of_it_by_the_drivers_name() -> None:
    plan = decide(CLASS, OPTED_IN, stateful("db", 1), group("g", slots={EBS: 5}), csiAware=False)

    assert any("csiAware" in warning and EBS in warning for warning in plan.warnings)


def test_pods_without_volumes_are_still_helped() -> None:
    plan = decide(CLASS, OPTED_IN, make.pod("web"), group("g", slots={EBS: 5}), csiAware=False)

    assert bought(plan) == {"g": 1}


@pytest.mark.parametrize(
    "driver", [make.csidriver(EBS), make.csidriver(EBS, opt_in=False)], ids=["silent", "no"]
)
def test_without_awareness_and_without_opt_in_nothing_is_warned_of(driver: KubeObject) -> None:
    plan = decide(CLASS, driver, stateful("db", 1), group("g"), csiAware=False)

    assert not any("csiAware" in warning for warning in plan.warnings)


def test_with_the_gate_off_an_opt_in_means_nothing() -> None:
    plan = decide(
        CLASS,
        OPTED_IN,
        stateful("db", 1),
        group("g"),
        gates={"VolumeLimitScaling": False},
        csiAware=False,
    )

    assert bought(plan) == {"g": 1}
    assert not any("csiAware" in warning for warning in plan.warnings)

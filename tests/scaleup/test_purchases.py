"""Whole decisions: how much may be bought, of what, for pods that mind each other, in what time."""

import itertools
from collections.abc import Callable

import pytest

from tests.scaleup.asking import (
    CLASS,
    EBS,
    bought,
    daemons,
    decide,
    group,
    left_out,
    stateful,
)
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import PodAffinityTerm, TopologySpreadConstraint
from tonnage.objects.scenarios import NodeGroup
from tonnage.scaleup.plan import Plan
from tonnage.testing import builders as make

# How much may be bought.


def test_a_group_grows_to_its_maximum_and_no_further() -> None:
    plan = decide(CLASS, stateful("db", 10), group("g", slots={EBS: 1}, most=3))

    assert bought(plan) == {"g": 3}
    assert len(plan.not_helped) == 7


def test_what_one_group_cannot_hold_goes_to_the_next_in_the_same_plan() -> None:
    groups = [group("a", slots={EBS: 1}, most=3), group("b", slots={EBS: 1}, most=5, cpu="8")]
    plan = decide(CLASS, stateful("db", 10, cpu="2"), groups)

    assert bought(plan) == {"a": 3, "b": 5}
    assert [step.chosen for step in plan.steps] == ["a", "b"]


def test_the_cluster_grows_to_its_number_of_nodes_and_no_further() -> None:
    full = make.node("n1", pods=0)
    plan = decide(CLASS, full, stateful("db", 9), group("g", slots={EBS: 1}), maxNodesTotal=4)

    assert bought(plan) == {"g": 3}
    assert left_out(plan, "db-8").reasons[0].reasons == ("max total nodes in cluster reached",)


def test_a_step_buys_no_more_than_it_may_and_the_next_goes_on() -> None:
    plan = decide(CLASS, stateful("db", 5), group("g", slots={EBS: 1}), maxNodesPerScaleUp=2)

    assert [sum(one.delta for one in step.scale_ups) for step in plan.steps] == [2, 2, 1]


def test_cores_of_the_whole_cluster_are_limited() -> None:
    plan = decide(CLASS, stateful("db", 5), group("g", slots={EBS: 1}, cpu="4"), coresTotal=10)

    assert bought(plan) == {"g": 2}


def test_memory_of_the_whole_cluster_is_limited() -> None:
    groups = group("g", slots={EBS: 1}, memory="16Gi")
    plan = decide(CLASS, stateful("db", 5), groups, memoryTotal=40)

    assert bought(plan) == {"g": 2}


def test_an_all_or_nothing_group_grows_to_its_maximum_at_once() -> None:
    plan = decide(CLASS, stateful("db", 3), group("g", slots={EBS: 1}, most=7, whole=True))

    assert bought(plan) == {"g": 7}


def test_an_all_or_nothing_group_that_may_not_grow_whole_does_not_grow() -> None:
    groups = group("g", slots={EBS: 1}, most=7, whole=True)
    plan = decide(CLASS, stateful("db", 3), groups, maxNodesTotal=5)

    assert plan.scale_ups == ()


# Which pods count.


def test_gated_pods_are_not_counted() -> None:
    plan = decide(make.pod("later", gates=["example.com/wait"]), group("g"))

    assert (plan.scale_ups, plan.not_helped) == ((), ())


def test_expendable_pods_are_not_counted() -> None:
    plan = decide(make.pod("filler", priority=-20), group("g"))

    assert (plan.scale_ups, plan.not_helped) == ((), ())


def test_pods_of_daemonsets_are_not_bought_for() -> None:
    agents = daemons("agent", make.pod("agent", cpu="1"))
    plan = decide(agents, make.pod("web", cpu="3"), make.pod("more", cpu="3"), group("g", cpu="4"))

    assert bought(plan) == {"g": 2}


# Expanders, from option to plan.

ROOMY = group("roomy", cpu="32", memory="128Gi", price="2")
TIGHT = group("tight", cpu="2", memory="8Gi", price="0.3")
CHEAP = group("cheap", cpu="5", memory="32Gi", price="0.2")
SMALL = group("small", cpu="2", memory="8Gi", most=2)
WASTEFUL = group("wasteful", cpu="64", memory="512Gi", price="1")
GROUPS = [ROOMY, TIGHT, CHEAP]
WEB = [make.pod(f"web-{number}", cpu="1", memory="4Gi") for number in range(8)]


@pytest.mark.parametrize(
    ("expander", "groups", "chosen"),
    [
        ("least-waste", GROUPS, "tight"),
        ("least-nodes", GROUPS, "roomy"),
        ("most-pods", [SMALL, ROOMY], "roomy"),
        ("price", GROUPS, "cheap"),
        ("least-nodes,least-waste", [TIGHT, WASTEFUL, ROOMY], "roomy"),
        ("most-pods,price", [SMALL, CHEAP, ROOMY], "cheap"),
    ],
)
def test_the_expander_decides_the_first_step(
    expander: str, groups: list[NodeGroup], chosen: str
) -> None:
    assert decide(WEB, groups, expander=expander).steps[0].chosen == chosen


def test_priorities_decide_before_anything_else() -> None:
    plan = decide(WEB, GROUPS, expander="priority", priorities={"10": [".*"], "50": ["roomy"]})

    assert [step.chosen for step in plan.steps] == ["roomy"]


def test_chance_is_the_same_for_the_same_seed() -> None:
    plans = {
        seed: [decide(WEB, GROUPS, expander="random", randomSeed=seed) for _ in range(2)]
        for seed in range(6)
    }

    assert all(first == second for first, second in plans.values())
    assert len({first.steps[0].chosen for first, _ in plans.values()}) > 1


def test_similar_groups_are_balanced() -> None:
    groups = [group(f"g-{zone}", zone=zone, slots={EBS: 1}) for zone in ("a", "b", "c")]
    plan = decide(CLASS, stateful("db", 6), groups, balanceSimilarNodeGroups=True)

    assert bought(plan) == {"g-a": 2, "g-b": 2, "g-c": 2}


def test_a_group_is_not_bought_beyond_its_maximum_when_balancing_fails() -> None:
    near = PodAffinityTerm(topology_key=make.ZONE, label_selector=make.selecting({"app": "x"}))
    together = [
        make.pod(f"x-{number}", cpu="3", labels={"app": "x"}, near=[near]) for number in range(6)
    ]
    groups = [group(f"g-{zone}", zone=zone, most=2) for zone in ("a", "b", "c")]
    plan = decide(together, groups, balanceSimilarNodeGroups=True)

    assert max(bought(plan).values()) <= 2


# Pods that mind each other.


def spread_over(key: str, app: str) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        topology_key=key, max_skew=1, label_selector=make.selecting({"app": app})
    )


def web(count: int, key: str, **pod: object) -> list[KubeObject]:
    return [
        make.pod(
            f"web-{number}",
            cpu="1",
            labels={"app": "web"},
            spread=[spread_over(key, "web")],
            **pod,  # type: ignore[arg-type]
        )
        for number in range(count)
    ]


def test_one_zone_without_room_does_not_buy_nodes_for_the_zones_that_have_some() -> None:
    nodes = [
        make.node("a1", zone="a", cpu="1", pods=0),
        make.node("b1", zone="b", cpu="20"),
        make.node("c1", zone="c", cpu="20"),
    ]
    groups = [group(f"g-{zone}", zone=zone, cpu="10") for zone in ("a", "b", "c")]
    plan = decide(nodes, web(30, make.ZONE), groups)

    later = [fit for step in plan.steps for fit in step.fit_on_existing]

    assert bought(plan) == {"g-a": 1}
    assert plan.not_helped == ()
    assert {fit.node for fit in later} == {"b1", "c1"}


def test_zones_without_room_are_bought_for_in_one_plan() -> None:
    full = [make.node(f"{zone}1", zone=zone, pods=0) for zone in ("a", "b", "c")]
    groups = [group(f"g-{zone}", zone=zone, cpu="10") for zone in ("a", "b", "c")]
    plan = decide(full, web(30, make.ZONE), groups)

    assert bought(plan) == {"g-a": 1, "g-b": 1, "g-c": 1}
    assert plan.bounds.gap == 0.0


def test_spread_over_hosts_holds_on_all_nodes_of_a_step() -> None:
    others = [make.pod(f"big-{number}", cpu="3") for number in range(2)]
    plan = decide(web(4, make.HOSTNAME), others, group("g", cpu="4"))
    apps = [
        sum(pod.startswith("default/web") for pod in node.pods)
        for one in plan.scale_ups
        for node in one.nodes
    ]

    assert max(apps) - min(apps) <= 1


def test_pods_may_seek_the_pods_that_every_node_starts_with() -> None:
    agents = daemons("agent", make.pod("agent", labels={"app": "agent"}))
    near = PodAffinityTerm(
        topology_key=make.HOSTNAME, label_selector=make.selecting({"app": "agent"})
    )
    plan = decide(agents, make.pod("web", near=[near]), group("g"))

    assert bought(plan) == {"g": 1}


def test_pods_may_not_go_where_every_node_starts_with_what_they_avoid() -> None:
    agents = daemons("agent", make.pod("agent", labels={"app": "agent"}))
    apart = PodAffinityTerm(
        topology_key=make.HOSTNAME, label_selector=make.selecting({"app": "agent"})
    )
    plan = decide(agents, make.pod("web", apart=[apart]), group("g"))

    assert plan.scale_ups == ()


def test_pods_that_others_avoid_are_bought_for_where_the_others_are_not() -> None:
    apart = PodAffinityTerm(topology_key=make.ZONE, label_selector=make.selecting({"app": "web"}))
    pods = [
        make.pod("loner", cpu="1", apart=[apart]),
        make.pod("web", cpu="2", labels={"app": "web"}),
    ]
    groups = [group(f"g-{zone}", zone=zone) for zone in ("a", "b")]
    plan = decide(make.node("n1", zone="a", cpu="1"), pods, groups)

    assert [fit.pod for fit in plan.fit_on_existing] == ["default/loner"]
    assert bought(plan) == {"g-b": 1}


def test_a_new_node_gets_a_name_that_no_node_has() -> None:
    full: list[KubeObject] = [
        make.node("g-new-1", cpu="4"),
        make.pod("full", on="g-new-1", cpu="4"),
    ]
    plan = decide(full, make.pod("web", cpu="1"), group("g", nodes=["g-new-1"]))

    assert [node.name for one in plan.scale_ups for node in one.nodes] == ["g-new-2"]


# Time.


def test_without_time_the_plan_is_partial_and_says_so() -> None:
    plan = decide(CLASS, stateful("db", 5), group("g", slots={EBS: 1}), out_of_time=lambda: True)

    assert plan.partial
    assert plan.scale_ups == ()
    assert len(plan.not_helped) == 5


def running_out_after(questions: int) -> Callable[[], bool]:
    """A clock that says so from the given question on."""
    asked = itertools.count()
    return lambda: next(asked) >= questions


def two_steps(questions: int = 1_000_000) -> Plan:
    """A plan that takes two steps, if there is time for so many questions."""
    groups = [group("a", slots={EBS: 1}, most=2), group("b", slots={EBS: 1}, cpu="8")]
    over = running_out_after(questions)
    return decide(CLASS, stateful("db", 9, cpu="2"), groups, out_of_time=over)


def test_what_was_decided_in_time_is_kept() -> None:
    plans = [two_steps(questions) for questions in range(30)]

    assert any(plan.partial and bought(plan) == {"a": 2} for plan in plans)


@pytest.mark.parametrize("questions", range(0, 30, 3))
def test_a_plan_that_is_not_whole_says_that_it_is_partial(questions: int) -> None:
    plan = two_steps(questions)

    assert plan.partial or plan == two_steps()

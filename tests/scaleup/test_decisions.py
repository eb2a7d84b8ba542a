"""Whole decisions: trouble that stays where it is, nodes on their way, limits, bounds."""

import pytest

from tests.scaleup.asking import (
    CLASS,
    EBS,
    TYPE,
    UPSTREAM,
    assessed,
    bought,
    created,
    decide,
    group,
    helped,
    left_out,
    running,
    sources,
    stateful,
)
from tonnage.groups.memory import TemplateMemory
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node, Taint
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.scaleup.plan import Plan
from tonnage.testing import builders as make

# Trouble stays where it is, and is named.


def warned(plan: Plan, *words: str) -> bool:
    return any(all(word in warning for word in words) for warning in plan.warnings)


@pytest.mark.parametrize("compatibility", ["none", UPSTREAM])
def test_a_node_without_csinode_stops_nothing(compatibility: str) -> None:
    there: list[KubeObject] = [
        make.node("n1"),
        make.node("n2", cpu="1"),
        make.csinode("n2", {EBS: 1}),
        make.pod("full", on="n1", cpu="4"),
        *running("db", "n2"),
    ]
    plan = decide(
        CLASS,
        there,
        stateful("new", 4, cpu="100m"),
        group("g", slots={EBS: 2}, nodes=["n1"]),
        group("h", slots={EBS: 2}, nodes=["n2"]),
        compatibility=compatibility,
    )

    assert helped(plan) == 4


def test_a_pod_with_a_claim_that_does_not_exist_is_left_out_by_name() -> None:
    broken = make.pod("broken", pvcs=["nowhere"])
    plan = decide(CLASS, broken, stateful("db", 2), group("g", slots={EBS: 5}))

    assert helped(plan) == 2
    (reason,) = left_out(plan, "broken").reasons
    assert reason.reasons == ('persistentvolumeclaim "nowhere" not found',)


def test_a_pod_with_a_lost_claim_is_left_out_by_name() -> None:
    lost = make.pvc("lost", storage_class="fast", volume="pv-gone", bound=False, phase="Lost")
    broken = make.pod("broken", pvcs=["lost"])
    plan = decide(CLASS, lost, broken, stateful("db", 2), group("g", slots={EBS: 5}))

    assert helped(plan) == 2
    assert [one.pod for one in plan.not_helped] == ["default/broken"]


def test_a_pod_whose_claim_may_yet_appear_is_not_said_never_to_fit() -> None:
    plan = decide(CLASS, make.pod("broken", pvcs=["nowhere"]), group("g", slots={EBS: 5}))

    assert not left_out(plan, "broken").never_fits


def test_a_group_with_an_empty_template_is_named_and_the_others_are_bought() -> None:
    bad = NodeGroup(
        metadata=ObjectMeta(name="bad"),
        spec=NodeGroupSpec(max_size=5, template=GroupTemplate(node=Node())),
    )
    plan = decide(CLASS, stateful("db", 2), bad, group("g", slots={EBS: 5}))

    assert bought(plan) == {"g": 1}
    assert warned(plan, "group bad")


def test_a_group_without_any_template_is_named_and_the_others_are_bought() -> None:
    plan = decide(
        CLASS, stateful("db", 2), group("empty", described=False), group("g", slots={EBS: 5})
    )

    assert bought(plan) == {"g": 1}
    assert warned(plan, "group empty")


def test_a_cluster_that_is_mostly_broken_is_not_scaled() -> None:
    not_ready = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
    broken = [make.node(f"n{number}", taints=[not_ready]) for number in range(5)]
    plan = decide(CLASS, broken, stateful("db", 1), group("g", slots={EBS: 5}))

    assert plan.scale_ups == ()
    assert warned(plan, "nothing is bought")


# Upcoming nodes.


def test_nodes_on_their_way_are_not_bought_again() -> None:
    groups = group("g", slots={EBS: 2}, target=3)
    plan = decide(CLASS, stateful("db", 6), groups)

    assert plan.scale_ups == ()
    assert len({fit.node for fit in plan.fit_on_existing}) == 3


def test_what_is_on_its_way_counts_toward_the_groups_size() -> None:
    groups = group("g", slots={EBS: 2}, target=3, most=4)
    plan = decide(CLASS, stateful("db", 12), groups)

    assert bought(plan) == {"g": 1}


def test_pods_on_a_node_that_is_coming_up_keep_their_room() -> None:
    plan = decide(
        CLASS,
        created(make.node("n1", cpu="4"), 60),
        make.csinode("n1", {}),
        make.pod("web", on="n1", cpu="4"),
        make.pod("other", cpu="4"),
        group("g", slots={EBS: 5}, nodes=["n1"], cpu="4"),
    )

    assert bought(plan) == {"g": 1}


def test_what_a_driver_tells_of_a_node_that_is_coming_up_beats_what_is_usual_in_its_group() -> None:
    plan = decide(
        CLASS,
        created(make.node("n1", cpu="8"), 60),
        make.csinode("n1", {EBS: 4}),
        stateful("db", 5, cpu="10m"),
        group("g", slots={EBS: 2, "other.example.com": 5}, nodes=["n1"], cpu="8"),
    )

    assert [fit.node for fit in plan.fit_on_existing] == ["n1"] * 4
    assert bought(plan) == {"g": 1}


def test_to_upstream_a_node_that_lacks_a_driver_still_takes_pods() -> None:
    plan = decide(
        CLASS,
        created(make.node("n1"), 60),
        make.csinode("n1", {}),
        make.pod("web", cpu="1"),
        group("g", slots={EBS: 5}, nodes=["n1"]),
        compatibility=UPSTREAM,
    )

    assert [fit.node for fit in plan.fit_on_existing] == ["n1"]


# Where limits come from.


def there(slots: int, *, kind: str = "", labels: dict[str, str] | None = None) -> list[KubeObject]:
    """A full node of the group, with so many slots."""
    marks = {**({TYPE: kind} if kind else {}), **(labels or {})}
    return [
        make.node("n1", cpu="1", labels=marks),
        make.csinode("n1", {EBS: slots}),
        make.pod("full", on="n1", cpu="1"),
    ]


def test_the_operators_word_beats_a_live_node() -> None:
    groups = group("g", slots={EBS: 7}, nodes=["n1"], limits={EBS: 2})
    plan = decide(CLASS, there(9), stateful("db", 4, cpu="10m"), groups)

    assert sources(plan) == {"g": (2, "override")}
    assert bought(plan) == {"g": 2}


def test_a_live_node_beats_the_provider() -> None:
    groups = group("g", slots={EBS: 7}, nodes=["n1"])
    plan = decide(CLASS, there(2), stateful("db", 4, cpu="10m"), groups)

    assert sources(plan) == {"g": (2, "live")}


def test_the_provider_is_believed_without_a_live_node() -> None:
    plan = decide(CLASS, stateful("db", 4), group("g", slots={EBS: 7}))

    assert sources(plan) == {"g": (7, "provider")}


def test_a_driver_without_a_number_anywhere_is_unlimited_and_listed() -> None:
    plan = decide(CLASS, stateful("db", 40, cpu="10m"), group("g", slots={EBS: None}))

    assert sources(plan) == {"g": (None, "provider")}
    assert bought(plan) == {"g": 1}


def remembered() -> TemplateMemory:
    """What a round of templates remembers of a group that had a node."""
    objects: list[KubeObject] = [
        make.node("n1"),
        make.csinode("n1", {EBS: 2}),
        group("g", nodes=["n1"], described=False),
    ]
    return assessed(objects).templates.memory


def test_a_group_that_had_nodes_is_remembered() -> None:
    groups = group("g", described=False)
    plan = decide(CLASS, stateful("db", 4, cpu="10m"), groups, memory=remembered())

    assert sources(plan) == {"g": (2, "remembered")}
    assert bought(plan) == {"g": 2}


def test_the_providers_number_beats_a_remembered_one() -> None:
    groups = group("g", slots={EBS: 4})
    plan = decide(CLASS, stateful("db", 4, cpu="10m"), groups, memory=remembered())

    assert sources(plan) == {"g": (4, "provider")}


def test_upstreams_limits_are_what_its_template_lists() -> None:
    groups = [group("g", kind="m5.large"), group("h", slots={EBS: 3}, limits={EBS: 1})]
    plan = decide(CLASS, stateful("db", 4), groups, compatibility=UPSTREAM)

    assert sources(plan) == {"g": (None, "unknown"), "h": (3, "provider")}


# Bounds.


def test_slots_bound_the_number_of_nodes_from_below() -> None:
    plan = decide(CLASS, stateful("db", 10, claims=2, cpu="10m"), group("g", slots={EBS: 4}))

    assert plan.bounds.nodes == 5
    assert plan.bounds.gap == 0.0


def test_the_gap_says_how_far_a_plan_is_above_its_bound() -> None:
    plan = decide(CLASS, stateful("db", 10, claims=3, cpu="10m"), group("g", slots={EBS: 5}))

    assert bought(plan) == {"g": 10}
    assert plan.bounds.nodes <= 10
    assert plan.bounds.gap == pytest.approx(10 / plan.bounds.nodes - 1)


def test_cost_is_bounded_where_every_bought_group_has_a_price() -> None:
    plan = decide(CLASS, stateful("db", 10), group("g", slots={EBS: 5}, price="0.5"))

    assert plan.bounds.cost_per_hour == pytest.approx(1.0)


def test_cost_is_not_bounded_without_prices() -> None:
    plan = decide(CLASS, stateful("db", 10), group("g", slots={EBS: 5}))

    assert plan.bounds.cost_per_hour is None

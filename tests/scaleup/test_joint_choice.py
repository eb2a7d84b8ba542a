"""The expander least-cost: cheaper than greedy, never worse, within every rule and limit."""

import math

import msgspec
import pytest

from tests.clusters.random_groups import NOW, random_scenario
from tests.clusters.scarcity import scarce_scenario
from tests.scaleup import replay
from tests.scaleup.test_gangs import LABEL, pod_group
from tests.scaleup.test_headroom import buffer, template
from tests.seeds import seeds
from tonnage.errors import InputError
from tonnage.groups import options
from tonnage.groups.inputs import Inputs
from tonnage.objects.kinds import KubeObject
from tonnage.objects.labels import ZONE
from tonnage.objects.meta import LabelSelector, ObjectMeta
from tonnage.objects.pods import PodAffinityTerm, TopologySpreadConstraint
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.optimise import highs
from tonnage.rules import features
from tonnage.scaleup import assessment, decision
from tonnage.scaleup.costly_pods import OwnTime
from tonnage.scaleup.plan import Optimisation, Plan
from tonnage.testing import builders

DRIVER = "ebs.csi.aws.com"


def group(name, *, cpu, price, slots=25, most=100, zone="", scaling="any") -> NodeGroup:
    template = GroupTemplate(
        node=builders.node("t", cpu=cpu, memory="64Gi", zone=zone),
        csi_node=builders.csinode("t", {DRIVER: slots}),
    )
    spec = NodeGroupSpec(max_size=most, price_per_hour=price, template=template, scaling=scaling)
    return NodeGroup(metadata=ObjectMeta(name=name), spec=spec)


def databases(count, *, cpu="1", volumes=1, name="db", **pod) -> list[KubeObject]:
    found: list[KubeObject] = [builders.storage_class("fast", provisioner=DRIVER)]
    for number in range(count):
        claims = [f"{name}-{number}-{volume}" for volume in range(volumes)]
        found += [builders.pvc(one, storage_class="fast", bound=False) for one in claims]
        found.append(builders.pod(f"{name}-{number}", cpu=cpu, pvcs=claims, **pod))
    return found


def planned(objects, *, expander="least-cost", own_time=None, work=None, **settings) -> Plan:
    chosen = options.of({"expander": expander, "optimiseSeconds": 2, **settings})
    inputs = Inputs.of_objects(objects, options=chosen, features=features.of_version(), now=0.0)
    inputs = msgspec.structs.replace(inputs, solver_work=work)
    plan = decision.decide_on(assessment.assess(inputs), own_time=own_time).plan
    found = replay.violations(
        objects, plan, options=chosen, features=features.of_version(), now=0.0
    )
    assert found == []
    return plan


def bought(plan: Plan) -> dict[str, int]:
    return {one.group: one.delta for one in plan.scale_ups}


def told(plan: Plan) -> Optimisation:
    assert isinstance(plan.optimisation, Optimisation)
    return plan.optimisation


TWO_SIZES = [group("large", cpu="8", price="1.0"), group("small", cpu="3", price="0.35")]
NOT_USED = "least-cost: node group odd has no price and is not used while another has one"


def test_groups_are_mixed_where_that_is_cheapest():
    plan = planned([*TWO_SIZES, *databases(11)])
    assert bought(plan) == {"large": 1, "small": 1}
    assert told(plan).cost == told(plan).bound == pytest.approx(1.35)
    assert told(plan).gap == 0.0
    assert plan.bounds.cost_per_hour == pytest.approx(1.35)


def test_slots_decide_where_cpu_would_not():
    groups = [
        group("cheap", cpu="8", price="0.5", slots=2),
        group("dear", cpu="8", price="0.9", slots=8),
    ]
    assert bought(planned([*groups, *databases(8, cpu="100m")])) == {"dear": 1}


def test_a_maximum_is_kept_and_the_next_best_is_bought():
    groups = [group("cheap", cpu="4", price="0.1", most=2), group("dear", cpu="4", price="1")]
    assert bought(planned([*groups, *databases(12)])) == {"cheap": 2, "dear": 1}


def test_the_total_of_the_cluster_is_kept():
    plan = planned([*TWO_SIZES, *databases(16)], maxNodesTotal=2)
    assert bought(plan) == {"large": 2}


def test_steps_are_no_larger_than_a_scale_up_may_be():
    plan = planned([*TWO_SIZES, *databases(40)], maxNodesPerScaleUp=2)
    assert max(sum(one.delta for one in step.scale_ups) for step in plan.steps) <= 2


def test_groups_that_the_operator_put_higher_go_first_though_they_cost_more():
    plan = planned(
        [*TWO_SIZES, *databases(6)], expander="priority,least-cost", priorities={"10": ["large"]}
    )
    assert bought(plan) == {"large": 1}


def test_purchases_are_shared_between_groups_that_are_alike():
    groups = [group(f"db-{zone}", cpu="4", price="1", zone=zone) for zone in ("a", "b")]
    plan = planned([*groups, *databases(16)], balanceSimilarNodeGroups=True)
    assert bought(plan) == {"db-a": 2, "db-b": 2}


def test_room_on_nodes_that_are_there_is_used_by_those_it_saves_most_for():
    nodes = [builders.node("n", cpu="4"), builders.csinode("n", {DRIVER: 1})]
    groups = [group("slots", cpu="2", price="1", slots=1), group("plain", cpu="4", price="0.2")]
    pods = [*databases(1, cpu="2"), builders.pod("web", cpu="3")]
    plan = planned([*nodes, *groups, *pods])
    assert told(plan).cost == pytest.approx(0.2)


def test_pods_are_spread_over_zones():
    spread = TopologySpreadConstraint(
        max_skew=1,
        topology_key=ZONE,
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"app": "db"}),
    )
    nodes = [builders.node(f"n-{zone}", cpu="100m", zone=zone) for zone in ("a", "b")]
    groups = [
        group("a", cpu="4", price="0.1", zone="a"),
        group("b", cpu="4", price="1", zone="b", most=1),
    ]
    pods = databases(12, labels={"app": "db"}, spread=[spread])
    plan = planned([*nodes, *groups, *pods])
    # Zone b ends at four, so that zone a may have five.
    assert bought(plan) == {"a": 2, "b": 1}
    assert len(plan.not_helped) == 3
    assert told(plan).gap == 0.0


def test_pods_that_keep_apart_are_on_nodes_of_their_own():
    term = PodAffinityTerm(
        topology_key="kubernetes.io/hostname",
        label_selector=LabelSelector(match_labels={"app": "db"}),
    )
    plan = planned([*TWO_SIZES, *databases(3, labels={"app": "db"}, apart=[term])])
    assert bought(plan) == {"small": 3}
    assert told(plan).gap == 0.0


def test_without_prices_nodes_are_counted():
    groups = [group("large", cpu="8", price=None), group("small", cpu="3", price=None)]
    plan = planned([*groups, *databases(11)])
    assert sum(bought(plan).values()) == 2
    assert (told(plan).unit, told(plan).gap) == ("nodes", 0.0)
    assert plan.warnings == ("least-cost: no node group has a price; nodes are counted instead",)


@pytest.mark.parametrize("price", ["0", "-1"])
def test_a_price_that_is_none_is_told_and_its_group_not_used(price):
    plan = planned([*TWO_SIZES, group("odd", cpu="8", price=price), *databases(8)])
    assert "odd" not in bought(plan)
    assert any(one.startswith("group odd: spec.pricePerHour: expected") for one in plan.warnings)
    assert NOT_USED in plan.warnings


def test_a_price_in_another_currency_is_told_and_the_group_has_none():
    plan = planned([*TWO_SIZES, group("odd", cpu="8", price="0.9 EUR"), *databases(8)])
    assert "odd" not in bought(plan)
    assert any(one.endswith('found "0.9 EUR"; not used') for one in plan.warnings)
    assert NOT_USED in plan.warnings


def test_without_a_solver_the_plan_is_the_greedy_one_and_says_so(monkeypatch):
    monkeypatch.setattr(highs, "installed", lambda: False)
    plan = planned([*TWO_SIZES, *databases(11)])
    assert plan.optimisation is msgspec.UNSET
    assert bought(plan)
    assert [one for one in plan.warnings if "extra optimise" in one]


def test_a_solver_out_of_time_leaves_the_best_plan_so_far_and_says_so():
    ticks = iter(range(10**9))
    clock = OwnTime(lambda: float(next(ticks)), math.inf)
    objects = [
        *TWO_SIZES,
        *(pod for n in range(12) for pod in databases(9, cpu=f"{110 + 37 * n}m", name=f"k{n}")),
    ]
    plan = planned(objects, own_time=clock)
    assert told(plan).stopped
    assert told(plan).cost <= told(plan).greedy
    assert [one for one in plan.warnings if "ran out of time" in one]
    again = planned(objects, work=told(plan).work)
    assert (bought(again), told(again).cost) == (bought(plan), told(plan).cost)


def test_a_gang_is_bought_for_whole_or_not_at_all():
    gang = [pod_group("job", 6), *databases(6, cpu="4", labels={LABEL: "job"}, name="job")]
    few = [group("large", cpu="8", price="1.0", most=2), group("small", cpu="3", price="0.35")]
    assert bought(planned([*few, *gang])) == {}
    enough = [group("large", cpu="8", price="1.0", most=3), group("small", cpu="3", price="0.35")]
    plan = planned([*enough, *gang, *databases(3)])
    assert bought(plan) == {"large": 3, "small": 1}
    assert told(plan).gap == 0.0


def test_room_that_is_kept_ready_is_bought_beside_what_pods_need():
    kept = [buffer(chunks=4), template(cpu="2")]
    plan = planned([*TWO_SIZES, *kept, *databases(8)])
    cpus = {"large": 8, "small": 3}
    assert sum(cpus[name] * count for name, count in bought(plan).items()) >= 16
    assert told(plan).cost <= told(plan).greedy


@pytest.mark.parametrize("quota", [{"coresTotal": 11}, {"memoryTotal": 128}])
def test_totals_of_cores_and_memory_are_kept(quota):
    plan = planned([*TWO_SIZES, *databases(30)], **quota)
    assert bought(plan) == ({"large": 1, "small": 1} if "coresTotal" in quota else {"large": 2})


def test_zones_whose_groups_run_out_are_filled_to_the_bound():
    spread = TopologySpreadConstraint(
        max_skew=1,
        topology_key=ZONE,
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"app": "db"}),
    )
    zones = ("a", "b", "c")
    nodes = [builders.node(f"n-{zone}", cpu="100m", zone=zone) for zone in zones]
    groups = [
        group(f"{size}-{zone}", cpu=cpu, price=price, zone=zone, most=most)
        for zone, most in zip(zones, (2, 4, 30), strict=True)
        for size, cpu, price in (("large", "8", "1.0"), ("small", "3", "0.35"))
    ]
    pods = [
        *databases(60, labels={"app": "db"}, spread=[spread]),
        *databases(25, cpu="500m", volumes=0, name="web"),
    ]
    plan = planned([*nodes, *groups, *pods])
    # Zone a has room for 22 of them, and its small groups run out.
    assert plan.not_helped == ()
    assert told(plan).gap <= 0.02


def test_kinds_that_are_counted_together_make_up_for_each_other():
    spread = TopologySpreadConstraint(
        max_skew=1,
        topology_key=ZONE,
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"app": "db"}),
    )
    nodes = [builders.node(f"n-{zone}", cpu="100m", zone=zone) for zone in ("a", "b")]
    groups = [
        group("a", cpu="4", price="0.5", zone="a", slots=0),
        group("b", cpu="4", price="0.5", zone="b"),
    ]
    # The pods of one set that have a volume go into one zone, those that have none into the other.
    pods = [
        *databases(4, labels={"app": "db"}, spread=[spread], name="with"),
        *databases(4, labels={"app": "db"}, spread=[spread], name="none", volumes=0),
    ]
    plan = planned([*nodes, *groups, *pods])
    assert plan.not_helped == ()
    assert bought(plan) == {"a": 1, "b": 1}
    assert told(plan).gap == 0.0


def test_company_may_come_with_a_new_node():
    near = PodAffinityTerm(
        topology_key="kubernetes.io/hostname",
        label_selector=LabelSelector(match_labels={"app": "db"}),
    )
    # One is there, on a node that has room for the others; new nodes are for those they seek.
    nodes = [builders.node("n", cpu="4"), builders.pod("db-0", on="n", labels={"app": "db"})]
    seeking = databases(4, cpu="1500m", volumes=0, name="web", near=[near])
    sought = databases(2, cpu="3", labels={"app": "db"}, name="db-new")
    plan = planned([*nodes, group("large", cpu="12", price="1.0"), *seeking, *sought])
    assert plan.not_helped == ()
    assert (told(plan).cost, told(plan).gap) == (1.0, 0.0)


def test_pods_that_keep_apart_by_zone_raise_the_bound():
    apart = PodAffinityTerm(
        topology_key=ZONE, label_selector=LabelSelector(match_labels={"app": "db"})
    )
    groups = [group(zone, cpu="8", price="1.0", zone=zone) for zone in ("a", "b", "c")]
    plan = planned([*groups, *databases(5, labels={"app": "db"}, apart=[apart])])
    assert len(plan.not_helped) == 2
    assert (told(plan).bound, told(plan).gap) == (3.0, 0.0)


def left_out(seed: int, expander: str) -> int:
    """How many pods of a scarce cluster are not helped."""
    scenario = scarce_scenario(seed)
    settings = {**scenario.options, "compatibility": "none", "optimiseSeconds": 1}
    chosen = options.of({**settings, "expander": expander})
    gates = features.of_version()
    inputs = Inputs.of_objects(scenario.objects, options=chosen, features=gates, now=NOW)
    return len(decision.decide(inputs).plan.not_helped)


def test_a_plan_that_buys_nothing_helps_more_pods_where_another_order_does():
    left = {expander: left_out(20, expander) for expander in ("least-waste", "least-cost")}
    assert left == {"least-waste": 7, "least-cost": 4}


@pytest.mark.parametrize(("seed", "left"), [(12, 0), (77, 7)])
def test_an_order_that_is_thought_out_helps_more_pods(seed, left):
    assert left_out(seed, "least-cost") == left


@pytest.mark.parametrize(
    "seed",
    [2, 6, 9, 12, 14, 16, 17, 19, 23, 24, 25, 27, 28, 29, 30, 31, 32, 35, 38, 63, 67, 90, 93, 99],
)
def test_scarce_clusters_are_at_the_bound(seed):
    scenario = scarce_scenario(seed)
    settings = {**scenario.options, "compatibility": "none", "expander": "least-cost"}
    chosen = options.of({**settings, "optimiseSeconds": 1})
    gates = features.of_version()
    inputs = Inputs.of_objects(scenario.objects, options=chosen, features=gates, now=NOW)
    plan = decision.decide(inputs).plan
    found = replay.violations(scenario.objects, plan, options=chosen, features=gates, now=NOW)
    assert found == []
    assert told(plan).gap == 0.0


def test_nothing_but_priority_may_stand_before_it():
    with pytest.raises(InputError, match="nothing before it but priority"):
        planned([*TWO_SIZES, *databases(1)], expander="least-nodes,least-cost")


@pytest.mark.parametrize("seed", range(seeds(8)))
def test_random_clusters_are_never_worse_off_and_every_rule_is_kept(seed):
    scenario = random_scenario(seed)
    settings = {**scenario.options, "compatibility": "none", "optimiseSeconds": 1}
    gates = features.of_version(gates=scenario.gates)
    plans = {}
    for expander in ("least-cost", "least-waste"):
        chosen = options.of({**settings, "expander": expander})
        inputs = Inputs.of_objects(scenario.objects, options=chosen, features=gates, now=NOW)
        plans[expander] = decision.decide(inputs).plan
        plan = plans[expander]
        found = replay.violations(scenario.objects, plan, options=chosen, features=gates, now=NOW)
        assert found == []
    joint = plans["least-cost"].optimisation
    if isinstance(joint, Optimisation):
        assert joint.bound <= joint.cost + 1e-6
        assert joint.cost <= joint.greedy + 1e-6

"""What consolidation decides, one fact a test."""

import re
from typing import Any

import msgspec
import pytest

from tests.consolidation import replay
from tests.consolidation.clusters import (
    DRIVER,
    EXACT,
    bought,
    going,
    group,
    nodes,
    plan,
    volume,
)
from tests.scaledown.clusters import DB, WEB, db, web
from tests.scaleup.test_headroom import buffer, template
from tonnage.api import Cluster
from tonnage.consolidation import decision
from tonnage.consolidation.decision import ConsolidationQuestion
from tonnage.consolidation.state import ConsolidationState
from tonnage.errors import InputError
from tonnage.groups.scale_down_options import AT_ONCE
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import PodAffinityTerm
from tonnage.objects.volume_sources import EmptyDirSource, VolumeSource
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.plan import Action
from tonnage.scaledown.state import ScaleDownState
from tonnage.testing import builders as make

STORAGE = make.storage_class("disk", DRIVER)


def two_for_one() -> list[KubeObject]:
    """Two dear nodes whose pods one cheap node can carry, and nobody else."""
    return [
        *group("dear", "a", "b", price="1", cpu="4"),
        *group("cheap", price="0.5", cpu="8"),
        web("w1", "a", cpu="2500m"),
        web("w2", "b", cpu="2500m"),
    ]


def test_two_nodes_are_replaced_by_one_that_is_cheaper() -> None:
    made = plan(*two_for_one())
    assert (going(made), bought(made)) == (["a", "b"], {"cheap": 1})
    assert (made.cost.before, made.cost.after, made.saves_per_hour) == ("2", "0.5", "1.5")


def test_a_node_on_which_room_is_kept_ready_stays() -> None:
    dear = group("dear", "a", "b", price="1", cpu="4")
    made = plan(*dear, web("w", "b", cpu="1"), template(cpu="3500m"), buffer(chunks=1))
    assert going(made) == []
    assert (nodes(made)["a"].code, nodes(made)["a"].message) == (
        "room-kept-ready",
        "CapacityBuffer default/room",
    )
    assert going(plan(*dear, web("w", "b", cpu="1"))) == ["a"]


def test_one_node_is_replaced_by_two_that_are_cheaper_together() -> None:
    made = plan(
        *group("large", "a", price="1", cpu="8"),
        *group("small", price="0.2", cpu="2"),
        web("w1", "a", cpu="1500m"),
        web("w2", "a", cpu="1500m"),
    )
    assert (going(made), bought(made)) == (["a"], {"small": 2})


def test_three_nodes_become_two() -> None:
    made = plan(
        *group("old", "a", "b", "c", price="1", cpu="4"),
        *group("new", price="1", cpu="6"),
        *(web(f"w{node}", node, cpu="3500m") for node in "abc"),
        web("more", "a", cpu="100m"),
    )
    assert going(made) == []
    made = plan(
        *group("old", "a", "b", "c", price="1", cpu="4"),
        *group("new", price="1.2", cpu="8"),
        *(web(f"w{node}", node, cpu="3500m") for node in "abc"),
    )
    assert (len(going(made)), sum(bought(made).values())) == (2, 1)


def test_a_node_whose_volumes_find_no_slots_elsewhere_stays() -> None:
    made = plan(
        *group("g", "a", "b", price="1", slots=2, most=2),
        *volume("c1", "a"),
        *volume("c2", "b"),
        *volume("c3", "b"),
        db("d1", "a", pvcs=["c1"]),
        db("d2", "b", pvcs=["c2", "c3"]),
    )
    assert going(made) == []


def test_a_pod_makes_room_for_another() -> None:
    objects = [
        *group("small", "a", price="1", cpu="4", most=1),
        *group("large", "b", price="1", cpu="8", least=1, most=1),
        *group("other", "c", price="1", cpu="4", least=1, most=1),
        web("big", "a", cpu="4"),
        web("in-the-way", "b", cpu="5"),
        web("too", "b", cpu="1"),
        web("x", "c", cpu="3"),
    ]
    # However pods are moved, there are 13 cores for them on 12.
    assert going(plan(*objects, **EXACT)) == []
    objects[-3] = web("in-the-way", "b", cpu="4")
    made = plan(*objects, **EXACT)
    assert going(made) == ["a"]
    assert [move.wave for move in made.moves] == [1, 2]
    assert made.moves[-1].pod == "default/big"


def test_a_small_step_is_found_where_a_large_one_saves_too_little_of_its_price() -> None:
    objects = [
        *group("large", "a", price="10", cpu="16", most=1),
        *group("small", "b", price="1", cpu="4", most=1),
        *group("for-both", price="10.6", cpu="20", most=1),
        *group("for-b", price="0.7", cpu="4", most=1),
        web("w1", "a", cpu="15"),
        web("w2", "b", cpu="3"),
    ]
    options: dict[str, Any] = {"priceOfPodHour": 0.001}
    # Both together save 0.4 of 11, which is more than 0.3 of 1, but not 5 percent.
    made = plan(*objects, **options)
    assert (going(made), bought(made)) == (["b"], {"for-b": 1})
    made = plan(*objects, minSavingPercent=3.0, **options)
    assert (going(made), bought(made)) == (["a", "b"], {"for-both": 1})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param({"horizon": 60.0}, "not-worth-the-moves", id="the horizon is too short"),
        pytest.param({"minSaving": 2.0}, "saves-too-little", id="in money"),
        pytest.param({"minSavingPercent": 80.0}, "saves-too-little", id="in percent"),
        pytest.param(
            {"minSavingPerDisruption": 10_000.0}, "not-worth-the-moves", id="for the moves"
        ),
        pytest.param({"budgets": [{"nodes": 0}]}, "budget-spent", id="none may go"),
    ],
)
def test_what_is_not_worth_it_is_not_done_and_told(options: dict[str, Any], reason: str) -> None:
    made = plan(*two_for_one(), **options)
    assert going(made) == []
    assert [(one.reason, one.saves_per_hour) for one in made.missed] == [(reason, "1.5")]


def test_a_disruption_cost_keeps_a_pod_where_it_is() -> None:
    objects = two_for_one()
    pod = web("w1", "a", cpu="1500m")
    pod.metadata.annotations["node-autoscaling.kubernetes.io/disruption-cost"] = "100000"
    made = plan(*objects[:-2], pod, objects[-1])
    assert "a" not in going(made)


def test_data_on_the_node_is_never_lost_unless_that_is_allowed() -> None:
    scratch = VolumeSource(name="scratch", empty_dir=EmptyDirSource())
    objects = [*two_for_one()[:-1], web("w2", "b", cpu="1500m", volumes=[scratch])]
    made = plan(*objects)
    assert (nodes(made)["b"].code, nodes(made)["b"].pod) == ("blocked-by-pod", "default/w2")
    allowed = Cluster([WEB, DB, *objects]).consolidate({"skipNodesWithLocalStorage": False})
    assert going(allowed) == ["a", "b"]
    moved = {move.pod: move.seconds for move in allowed.moves}
    assert moved == {"default/w1": 60.0, "default/w2": 660.0}


def test_a_volume_of_a_slow_driver_costs_what_was_observed() -> None:
    objects = [*two_for_one(), *volume("c1", "b"), STORAGE]
    objects[-5] = db("w2", "b", cpu="1500m", pvcs=["c1"])
    known = ConsolidationState(volume_seconds={DRIVER: 300.0})
    moved = {move.pod: move.seconds for move in plan(*objects, state=known).moves}
    assert moved == {"default/w1": 60.0, "default/w2": 360.0}


def test_a_node_that_has_yet_to_pay_back_stays() -> None:
    known = ConsolidationState(pays_back={"a": 4e9})
    made = plan(*two_for_one(), state=known)
    assert nodes(made)["a"].code == "not-paid-back"
    assert nodes(made)["a"].until == "2096-10-02T07:06:40Z"


def test_a_young_node_stays() -> None:
    objects = two_for_one()
    old = make.node("a", cpu="4")
    born = msgspec.structs.replace(old.metadata, creation_timestamp="2026-01-01T11:59:00Z")
    young = msgspec.structs.replace(old, metadata=born)
    kept = [one for one in objects if one.metadata.name != "a" or type(one).__name__ != "Node"]
    made = Cluster([WEB, DB, *kept, young]).consolidate(now=1767268800.0)
    assert nodes(made)["a"].code == "too-young"


def test_without_prices_fewer_nodes_are_better() -> None:
    made = plan(*group("g", "a", "b"), web("w1", "a", cpu="1"), web("w2", "b", cpu="1"))
    assert len(going(made)) == 1
    assert (made.cost.unit, made.cost.before, made.cost.after) == ("nodes", "2", "1")
    assert any("a node counts as one" in text for text in made.warnings)


def test_a_group_without_a_price_among_others_is_left_alone() -> None:
    made = plan(*group("g", "a"), *group("h", "b", price="1"), web("w1", "a"), web("w2", "b"))
    assert nodes(made)["a"].code == "no-price"
    assert going(made) == ["b"]


def test_equal_prices_merge_if_a_node_costs_something_of_its_own() -> None:
    objects = [
        *group("half", "a", "b", price="1", cpu="4"),
        *group("whole", price="2", cpu="8"),
        web("w1", "a", cpu="3"),
        web("w2", "b", cpu="3"),
    ]
    assert going(plan(*objects)) == []
    made = plan(*objects, nodeOverheadPerHour=0.2, minSavingPercent=0.0)
    assert (going(made), bought(made)) == (["a", "b"], {"whole": 1})


def test_replicas_of_a_set_move_one_wave_after_the_other() -> None:
    made = plan(
        *group("g", "a", "b", "c", price="1"),
        db("d1", "a", cpu="1"),
        db("d2", "b", cpu="1"),
        db("d3", "c", cpu="1"),
        budgets=[{"nodes": "100%"}],
    )
    assert [move.wave for move in made.moves] == [1, 2]


def test_as_many_nodes_go_at_once_as_the_budget_allows() -> None:
    names = [f"n{number}" for number in range(8)]
    objects = [*group("g", *names, price="1"), *(web(f"w-{name}", name) for name in names)]
    waves = [node.wave for node in plan(*objects, budgets=[{"nodes": "25%"}]).going]
    assert sorted(map(str, waves)) == ["1", "1", "2", "2", "3", "3", "4"]
    of_empty = [*group("g", *names, price="1"), web("w", "n0")]
    made = plan(*of_empty, budgets=[{"nodes": "100%"}, {"nodes": 3, "reasons": ["empty"]}])
    assert sorted(node.wave or 0 for node in made.going) == [1, 1, 1, 2, 2, 2, 3]


def test_pods_that_keep_apart_are_kept_apart() -> None:
    apart = PodAffinityTerm(
        topology_key=make.HOSTNAME, label_selector=make.selecting({"app": "web"})
    )
    objects = [
        WEB,
        *group("dear", "a", "b", "c", price="1"),
        *group("cheap", price="0.4"),
        *(web(f"w{node}", node, apart=[apart]) for node in "abc"),
    ]
    made = Cluster(objects).consolidate()
    assert bought(made) == {"cheap": 3}
    assert replay.violations(objects, made) == []


def test_a_group_keeps_its_minimum() -> None:
    made = plan(*group("g", "a", "b", price="1", least=1), *group("h", price="0.1"))
    assert len(going(made)) == 1


def test_a_pod_that_waits_has_its_place_first() -> None:
    made = plan(
        *group("g", "a", "b", price="1", most=2),
        web("w1", "a", cpu="3"),
        web("waits", "", cpu="3"),
    )
    assert nodes(made)["b"].code == "not-this-time"


def test_pods_without_a_controller_keep_their_node() -> None:
    made = plan(*two_for_one(), make.pod("alone", on="a", cpu="100m"))
    assert nodes(made)["a"].code == "blocked-by-pod"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"budgets": [{"nodes": "many"}]}, "budgets[0]: nodes: 'many'"),
        ({"horizon": 0}, "consolidation.horizon: 0: expected more than 0"),
        ({"minSaving": -1}, "consolidation.minSaving: -1: expected 0 or more"),
        ({"driverSeconds": {"d": -1}}, "driverSeconds: d: -1: expected 0 or more"),
        ({"horizon": "soon"}, "consolidation.horizon: expected a number"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=re.escape(told)):
        plan(*two_for_one(), **options)


def test_times_may_be_durations() -> None:
    assert plan(*two_for_one(), horizon="12h").horizon == 43_200.0


def test_a_budget_without_reasons_counts_empty_nodes_and_others_together() -> None:
    names = [f"n{number}" for number in range(8)]
    half = [*group("g", *names, price="1"), *(web(f"w-{name}", name) for name in names[4:])]
    # Three of four that are empty, then the fourth and two that are emptied.
    made = plan(*half, budgets=[{"nodes": 3}])
    waves = {node.node: node.wave or 0 for node in made.going}
    assert sorted(waves[name] for name in names[:4]) == [1, 1, 1, 2]
    assert sorted(waves[name] for name in names[4:] if name in waves) == [2, 2, 3]
    apart = plan(*half, budgets=[{"nodes": 3, "reasons": ["consolidation"]}])
    assert {node.wave for node in apart.going} == {1}


def test_nodes_on_their_way_out_count_against_the_budget() -> None:
    inputs = ScaleDownInputs.of(
        Cluster([WEB, DB, *two_for_one()]).inputs(
            {**AT_ONCE, "consolidation": {"budgets": [{"nodes": 1}]}}, now=4e9
        ),
        [WEB, DB, *two_for_one()],
        state=ScaleDownState(removing={"gone-soon": Action.DELETE}),
    )
    made = decision.decide(ConsolidationQuestion(inputs))
    assert [one.reason for one in made.missed] == ["budget-spent"]


def test_a_pod_whose_volume_is_local_to_its_node_never_moves() -> None:
    here = make.nodes_with(make.HOSTNAME, "a")
    objects = [
        *group("dear", "a", price="1"),
        *group("cheap", price="0.1"),
        *volume("c1", "a", node_affinity=here),
        db("d1", "a", pvcs=["c1"]),
    ]
    made = plan(*objects)
    assert (going(made), bought(made)) == ([], {})
    assert going(plan(*objects[:-4], *volume("c1", "a"), objects[-1])) == ["a"]


def test_what_is_set_for_a_driver_counts_before_what_was_observed() -> None:
    objects = [*two_for_one()[:-1], *volume("c1", "b"), db("w2", "b", cpu="1500m", pvcs=["c1"])]
    known = ConsolidationState(volume_seconds={DRIVER: 300.0})
    made = plan(*objects, state=known, driverSeconds={DRIVER: 7.0}, volumeSeconds=1000.0)
    assert {move.pod: move.seconds for move in made.moves}["default/w2"] == 67.0


def test_pods_that_change_places_pay_for_both_moves_and_for_the_spare_node() -> None:
    objects = [
        *group("a", "na", price="0.3", cpu="3", least=1, most=1),
        *group("b", "nb", price="0.3", cpu="3", least=1, most=1),
        *group("c", "nc", price="1", cpu="2", most=2),
        *(make.csinode(name, {DRIVER: slots}) for name, slots in (("na", 2), ("nb", 1))),
        *(one for claim, node in (("y", "nb"), ("z", "nc")) for one in volume(claim, node)),
        web("x", "na", cpu="3"),
        db("y", "nb", cpu="1", pvcs=["y"]),
        db("z", "nc", cpu="2", pvcs=["z"]),
    ]
    made = plan(*objects, **EXACT, priceOfPodHour=1.0)
    assert (going(made), [one.spare for one in made.buys]) == (["nc"], [True])
    assert [(move.pod, move.to) for move in made.moves] == [
        ("default/y", "c-new-1"),
        ("default/x", "nb"),
        ("default/y", "na"),
        ("default/z", "na"),
    ]
    assert {move.step for move in made.moves} == {1}
    paid = sum(float(move.cost) for move in made.moves) + 1.0
    assert float(made.steps[0].cost) == pytest.approx(paid, abs=1e-5)
    # An hour's saving does not pay for that.
    dear = plan(*objects, horizon=3600.0, minSavingPercent=0.0, priceOfPodHour=1.0)
    assert (going(dear), nodes(dear)["nc"].code) == ([], "not-worth-the-moves")

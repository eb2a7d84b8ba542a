"""Which node is the better one."""

from typing import Any

import numpy as np
import pytest

from tests.scheduler.harness import DRIVER, REPLICA
from tonnage.objects.pods import Pod, TopologySpreadConstraint
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask
from tonnage.scheduler.config import Weights
from tonnage.scheduler.node_scores import Scores, share_out, spread_wishes
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing import builders

NOTHING = {"least_allocated": 0, "balanced_allocation": 0, "topology_spread": 0, "free_slots": 0}
LABELS = {"app": "db"}


def scores(pod: Pod, *objects: object, **weights: float) -> Scores:
    """Of a pod on the nodes among the objects, with only the weights given."""
    snapshot = Snapshot.of([*objects, pod])
    record = snapshot.pods[f"default/{pod.metadata.name}"]
    rows = np.array([node.row for node in snapshot.ordered_nodes()])
    ask = Ask(snapshot, record, Features())
    made = Weights(**{**NOTHING, **weights})
    return Scores(ask, spread_wishes(record.pod_class, pod), made, rows=rows)


def of_first(pod: Pod, *objects: object, **weights: float) -> list[float]:
    return [round(float(one), 1) for one in scores(pod, *objects, **weights).of(1)[0]]


def shared(pod: Pod, wanted: int, *objects: object, room: int = 100, **weights: float) -> list[int]:
    found = scores(pod, *objects, **weights)
    count = found.of(1).shape[1]
    rng = np.random.default_rng(1)
    counts: Any = share_out(found, np.full(count, room, dtype=np.int64), wanted, rng)
    return [int(one) for one in counts]


def test_the_emptier_node_is_better() -> None:
    found = of_first(
        builders.pod("p", cpu="1"),
        builders.node("full"),
        builders.node("empty"),
        builders.pod("there", on="full", cpu="2"),
        least_allocated=1,
    )
    assert found[0] < found[1]


def test_cpu_and_memory_used_alike_are_better() -> None:
    found = of_first(
        builders.pod("p", cpu="2", memory="8Gi"),
        builders.node("even", cpu="4", memory="16Gi"),
        builders.node("uneven", cpu="4", memory="64Gi"),
        balanced_allocation=1,
    )
    assert found[0] == 100.0 > found[1]


def test_more_free_slots_are_better_and_no_limit_is_best() -> None:
    found = of_first(
        builders.pod("p", pvcs=["c"]),
        builders.storage_class("fast", DRIVER),
        builders.pvc("c", storage_class="fast"),
        builders.node("few"),
        builders.csinode("few", {DRIVER: 2}),
        builders.node("many"),
        builders.csinode("many", {DRIVER: 20}),
        builders.node("any"),
        builders.csinode("any", {DRIVER: None}),
        free_slots=1,
    )
    assert found == [50.0, 95.0, 100.0]


def test_slots_do_not_matter_to_pods_without_volumes() -> None:
    nodes = [builders.node("a"), builders.csinode("a", {DRIVER: 1}), builders.node("b")]
    found = of_first(builders.pod("p"), *nodes, free_slots=1)
    assert found[0] == found[1]


def test_replicas_would_rather_be_on_different_nodes() -> None:
    found = of_first(
        builders.pod("p", labels=LABELS, owner=REPLICA),
        builders.node("with"),
        builders.node("without"),
        builders.pod("sibling", labels=LABELS, on="with"),
        topology_spread=1,
    )
    assert found[0] < found[1]


def test_replicas_would_rather_be_in_different_zones() -> None:
    found = of_first(
        builders.pod("p", labels=LABELS, owner=REPLICA),
        builders.node("there", zone="a"),
        builders.node("beside", zone="a"),
        builders.node("away", zone="b"),
        builders.pod("sibling", labels=LABELS, on="there"),
        topology_spread=1,
    )
    assert found[0] < found[1] < found[2]


def test_a_wish_of_the_pod_itself_goes_before_the_usual_one() -> None:
    wish = TopologySpreadConstraint(
        max_skew=1,
        topology_key=builders.ZONE,
        when_unsatisfiable="ScheduleAnyway",
        label_selector=builders.selecting(LABELS),
    )
    pod = builders.pod("p", labels=LABELS, owner=REPLICA, spread=[wish])
    snapshot = Snapshot.of([pod])
    assert spread_wishes(snapshot.pods["default/p"].pod_class, pod) == (wish,)


def test_a_pod_of_nobody_has_no_wish_to_be_spread() -> None:
    pod = builders.pod("p", labels=LABELS)
    assert spread_wishes(Snapshot.of([pod]).pods["default/p"].pod_class, pod) == ()


def test_a_burst_fills_equal_nodes_evenly() -> None:
    nodes = [builders.node(f"n{number}", cpu="10") for number in range(4)]
    found = shared(builders.pod("p", cpu="1"), 12, *nodes, least_allocated=1)
    assert found == [3, 3, 3, 3]


def test_a_burst_goes_where_one_pod_after_the_other_would_have_gone() -> None:
    objects = [
        builders.node("big", cpu="16"),
        builders.node("small", cpu="4"),
        builders.pod("there", on="big", cpu="4"),
    ]
    together = shared(builders.pod("p", cpu="1"), 6, *objects, least_allocated=1)
    alone, placed = [0, 0], list(objects)
    for number in range(6):
        best = of_first(builders.pod("p", cpu="1"), *placed, least_allocated=1)
        row = int(np.argmax(best))
        alone[row] += 1
        placed.append(builders.pod(f"p{number}", cpu="1", on=("big", "small")[row]))
    assert together == alone


@pytest.mark.parametrize("wanted", [1, 3, 50])
def test_no_row_gets_more_than_it_has_room_for(wanted: int) -> None:
    nodes = [builders.node("a", cpu="100"), builders.node("b", cpu="1")]
    found = shared(builders.pod("p"), wanted, *nodes, room=2, least_allocated=1)
    assert max(found) <= 2
    assert sum(found) == min(wanted, 4)

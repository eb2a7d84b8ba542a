"""Against every way to place every pod: nothing cheaper is left, and every plan can be carried out.

`make test` looks at few clusters; `TONNAGE_SEEDS=25` at a thousand.
"""

from typing import Any

import pytest

from tests.consolidation import brute_force, replay
from tests.consolidation.clusters import EXACT, WITHIN_THE_HOUR, RandomCluster, random_cluster
from tests.seeds import seeds
from tonnage.api import Cluster
from tonnage.consolidation.plan import ConsolidationPlan

PARTS = 8


def decided(cluster: RandomCluster, options: dict[str, Any] = EXACT) -> ConsolidationPlan:
    return Cluster(cluster.objects).consolidate({"consolidation": options})


def cost(plan: ConsolidationPlan) -> float:
    """What the nodes after the plan and its moves cost within the horizon of an hour."""
    return float(plan.cost.after) + float(plan.cost_of_moves)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_other_way_is_cheaper(part: int) -> None:
    missed = []
    for seed in range(part, seeds(40), PARTS):
        cluster = random_cluster(seed)
        found = cost(decided(cluster))
        best = brute_force.cheaper_than(cluster, found - 1e-5, hours=1.0)
        if best is not None:
            missed.append((seed, found, best))
    assert not missed


def test_where_moves_have_to_pay_back_within_an_hour_the_best_of_an_hour_is_found() -> None:
    for seed in range(seeds(40)):
        cluster = random_cluster(seed)
        exact, made = decided(cluster), decided(cluster, WITHIN_THE_HOUR)
        assert cost(made) == pytest.approx(cost(exact), abs=1e-5), seed
        assert all(step.pays_back_in <= 3600 for step in made.steps), seed


@pytest.mark.parametrize("part", range(PARTS))
def test_every_plan_can_be_carried_out(part: int) -> None:
    for seed in range(part, seeds(64), PARTS):
        cluster = random_cluster(seed)
        assert replay.violations(cluster.objects, decided(cluster)) == [], seed

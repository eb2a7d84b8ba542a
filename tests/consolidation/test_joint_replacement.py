"""What is bought instead is chosen over all groups together, and no bound is above the truth."""

import pytest

from tests.consolidation import brute_force
from tests.consolidation.clusters import EXACT, random_cluster
from tests.seeds import seeds
from tonnage.api import Cluster
from tonnage.consolidation import joint_replacement, lower_bound
from tonnage.consolidation.assignment import Assignment, Repacking
from tonnage.consolidation.problem import Item, ItemKind, NodeBin, Problem, TemplateBin
from tonnage.optimise import highs


def old_nodes(count: int, *, pods: int) -> Problem:
    """Old nodes with as many pods of one CPU each, and two sizes that could be bought."""
    kind = ItemKind(((0, 1),), 1.0, (True,) * count, (True, True))
    return Problem(
        kinds=(kind,),
        items=tuple(
            Item(f"p{node}-{pod}", 0, node, 0.0) for node in range(count) for pod in range(pods)
        ),
        bins=tuple(NodeBin(f"old{node}", "old", 1.0, (0,), may_go=True) for node in range(count)),
        templates=(TemplateBin("large", 1.0, (8,), 5), TemplateBin("small", 0.35, (3,), 5)),
        spare={"old": count},
        hours=24.0,
        cluster_room=10,
    )


def replaced(problem: Problem, new: list[int]) -> Assignment:
    """All old nodes gone, and their pods on nodes of these templates, the first filled first."""
    state = Assignment(problem)
    room = [problem.templates[one].free[0] for one in new]
    where, place = {}, 0
    for item in range(len(problem.items)):
        while not room[place]:
            place += 1
        room[place] -= 1
        where[item] = len(problem.bins) + place
    state.apply(Repacking(where, new, 0.0), closed=range(len(problem.bins)))
    return state


def bought(state: Assignment) -> list[int]:
    return sorted(state.template_of[number] for number in state.bins)


def test_what_is_bought_is_mixed_where_that_is_cheapest():
    problem = old_nodes(11, pods=1)
    bound = lower_bound.cost_per_hour(problem)
    state = joint_replacement.improved(replaced(problem, [0, 0]), bound=bound)
    assert bought(state) == [0, 1]
    assert sorted(map(len, state.members[len(problem.bins) :])) == [3, 8]
    assert bound <= 1.35


def test_what_is_at_the_best_is_left_as_it_is():
    problem = old_nodes(11, pods=1)
    state = replaced(problem, [0, 1])
    assert joint_replacement.improved(state, bound=1.0) is state


def test_without_a_solver_there_is_the_simple_bound_and_the_plan_as_it_was(monkeypatch):
    monkeypatch.setattr(highs, "installed", lambda: False)
    problem = old_nodes(11, pods=1)
    state = replaced(problem, [0, 0])
    assert joint_replacement.improved(state, bound=0.0) is state
    assert joint_replacement.cost_per_hour(problem) == 0.0
    assert lower_bound.cost_per_hour(problem) == pytest.approx(11 * 0.35 / 3)


@pytest.mark.parametrize("seed", range(seeds(12)))
def test_the_bound_is_never_above_the_cheapest_way(seed):
    cluster = random_cluster(seed)
    plan = Cluster(cluster.objects).consolidate({"consolidation": EXACT})
    bound = float(plan.cost.bound)
    assert bound <= float(plan.cost.after) + 1e-6
    # The bound is of nodes alone, so that it is held against ways whose moves cost nothing.
    assert brute_force.cheaper_than(cluster, bound - 1e-5, hours=1.0, free_moves=True) is None

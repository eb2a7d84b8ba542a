"""Ways to a cheaper packing: what they make holds the same items, within all limits."""

import numpy as np
import pytest

from tests.optimise import whole_model
from tests.optimise.problems import ANY, problem_of
from tests.seeds import seeds
from tonnage.optimise import division, integer_solution, solver
from tonnage.optimise.division import Division
from tonnage.optimise.effort import UNITS_PER_SECOND, Effort
from tonnage.optimise.ejection import Ejection
from tonnage.optimise.exchange import Exchange
from tonnage.optimise.improvement import Improvement
from tonnage.optimise.problem import BinType, EvenSpread, ItemClass, PackingProblem, Pattern


def effort() -> Effort:
    return Effort(UNITS_PER_SECOND)


def one_size(*items: ItemClass, room: int = 10) -> PackingProblem:
    small = BinType("small", (6,), 0.5, (ANY,) * len(items))
    return PackingProblem(items, [BinType("node", (room,), 1.0, (ANY,) * len(items)), small])


def ejection(problem: PackingProblem, bins: list[Pattern]) -> Ejection:
    return Ejection(problem, bins, rng=np.random.default_rng(0))


def test_an_item_goes_where_it_leaves_the_least_room():
    problem = one_size(ItemClass("a", 9, (2,)))
    packing = ejection(problem, [Pattern(0, (1,)), Pattern(0, (4,))])
    assert packing.place(np.array([1]), effort(), steps=1)
    assert packing.bins() == [Pattern(0, (1,)), Pattern(0, (5,))]


def test_an_item_without_room_drives_another_out_that_has_some_elsewhere():
    problem = one_size(ItemClass("large", 2, (6,)), ItemClass("small", 2, (4,)))
    packing = ejection(problem, [Pattern(0, (0, 2)), Pattern(0, (1, 0))])
    assert packing.place(np.array([1, 0]), effort(), steps=1)
    assert packing.bins() == [Pattern(0, (1, 1)), Pattern(0, (1, 1))]


def test_what_no_bin_has_room_for_finds_no_place():
    problem = one_size(ItemClass("a", 3, (6,)))
    packing = ejection(problem, [Pattern(0, (1,)), Pattern(0, (1,))])
    assert not packing.place(np.array([1]), effort(), steps=50)


def test_a_dear_bin_is_exchanged_for_a_cheaper_one_that_holds_its_items():
    problem = one_size(ItemClass("a", 4, (3,)))
    bins = [Pattern(0, (2,)), Pattern(0, (2,))]
    exchange = Exchange(problem, effort(), rng=np.random.default_rng(0))
    offer = exchange.offer(bins, np.array([0.6, 0.5]))
    assert offer is not None
    found = exchange.followed(offer, bins, [0, 1])
    assert found is not None
    assert sum(problem.prices[one.bin_type] for one in found) < 2.0
    assert not integer_solution.missing(problem, found).any()


def test_there_is_no_exchange_where_cheaper_bins_have_too_little_room():
    problem = one_size(ItemClass("a", 5, (2,)))
    exchange = Exchange(problem, effort(), rng=np.random.default_rng(0))
    assert exchange.offer([Pattern(1, (3,)), Pattern(1, (2,))], np.array([0.5, 0.3])) is None


def test_items_used_in_part_are_divided_into_whole_and_even_ones():
    problem = PackingProblem(
        [ItemClass("db", 7, (1,))],
        [BinType("a", (4,), 1.0, (ANY,)), BinType("b", (4,), 2.0, (ANY,))],
        spreads=[EvenSpread(0, (0, 1), (0, 0), max_skew=1)],
    )
    patterns = [Pattern(0, (4,)), Pattern(1, (3,))]
    assert division.as_relaxed(problem, patterns, np.array([0.95, 1.0])) == {
        (0, (0,)): 4,
        (0, (1,)): 3,
    }


@pytest.mark.parametrize("seed", range(seeds(24)))
def test_what_solves_a_division_solves_the_whole(seed):
    problem = problem_of(seed)
    held = division.as_relaxed(problem, [], np.zeros(0))
    divided = Division(problem, held)
    found = solver.solve(divided.problem, Effort(UNITS_PER_SECOND // 10))
    bins = [divided.outside(one) for one, times in found.patterns for _ in range(times)]
    assert all(problem.holds(one.bin_type, np.array(one.counts)) for one in bins)
    left = int(problem.counts.sum()) - sum(held.values()) + sum(found.left)
    if not sum(found.left):
        assert integer_solution.missing(problem, bins).sum() == left
    assert {divided.outside(divided.inside(one)) for one in bins} == set(bins)


@pytest.mark.parametrize("seed", range(seeds(24)))
def test_no_way_to_a_cheaper_packing_goes_below_the_optimum(seed):
    problem = problem_of(seed)
    left, price = whole_model.least(problem)
    packing = Improvement(problem, Effort(UNITS_PER_SECOND), seed=seed)
    relaxed = packing.relax()
    packing.dive()
    for _ in range(12):
        before = packing.cost
        assert packing.step(relaxed) == (packing.cost < before)
    assert packing.cost >= price + problem.penalty * left - 1e-6
    assert packing.cost_of(packing.best) == pytest.approx(packing.cost)
    for place, one in enumerate(problem.bins):
        assert one.most is None or sum(each.bin_type == place for each in packing.best) <= one.most
    for quota in problem.quotas:
        assert sum(quota.amounts[each.bin_type] for each in packing.best) <= quota.most + 1e-9

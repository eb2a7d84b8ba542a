"""Lower bounds and single bins against models of their own: never above the truth."""

import itertools
import random

import numpy as np
import pytest

from tests.optimise import whole_model
from tests.optimise.problems import problem_of
from tests.seeds import seeds
from tonnage.optimise import (
    column_generation,
    fractional_bins,
    integer_solution,
    knapsack,
    local_search,
    solver,
)
from tonnage.optimise.column_generation import Proof
from tonnage.optimise.effort import UNITS_PER_SECOND, Effort
from tonnage.optimise.knapsack import Knapsack
from tonnage.optimise.master import Master
from tonnage.optimise.neighbourhood import Neighbourhood
from tonnage.optimise.pricing_problem import PricingProblem
from tonnage.optimise.problem import (
    BinType,
    EvenSpread,
    ItemClass,
    PackingProblem,
    Pattern,
)

ANY = 10**6


@pytest.mark.parametrize("seed", range(seeds(12)))
def test_no_bound_is_above_the_optimum_of_a_model_of_its_own(seed, monkeypatch):
    monkeypatch.setattr(solver, "_FEW_PATTERNS", 0)
    problem = problem_of(seed)
    left, price = whole_model.least(problem)
    found = solver.solve(problem, Effort(UNITS_PER_SECOND // 4))
    assert sum(found.left) >= left
    if sum(found.left) == left:
        assert found.cost >= price - 1e-6
        # What is left out is for the solver to choose: its bound is for the others.
        assert left or found.bound <= price + 1e-6
    begin = fractional_bins.relax(problem, Effort(UNITS_PER_SECOND))
    assert begin is not None
    effort = Effort(UNITS_PER_SECOND)
    master, pricing = Master(problem, effort=effort), PricingProblem(problem, effort=effort)
    proof = Proof(problem, master, pricing, begin=begin)
    total = price + problem.penalty * left
    assert proof.bound <= total + 1e-6
    for _ in range(4):
        proof.round(effort)
        assert proof.bound <= total + 1e-6


@pytest.mark.parametrize("seed", range(seeds(24)))
def test_a_single_bin_is_worth_no_more_than_its_search_says(seed):
    rng = np.random.default_rng(seed)
    sack = Knapsack(
        values=rng.uniform(0.0, 1.0, size=4),
        demands=rng.integers(0, 6, size=(4, 2)).astype(np.float64),
        caps=rng.integers(0, 4, size=4),
        capacity=rng.integers(3, 14, size=2).astype(np.float64),
    )
    best = max(
        float(np.dot(counts, sack.values))
        for counts in itertools.product(*(range(cap + 1) for cap in sack.caps.tolist()))
        if (np.array(counts) @ sack.demands <= sack.capacity).all()
    )
    found = knapsack.best(sack, gap=0.0)
    assert best - 1e-9 <= found.at_most <= best + 1e-6
    for counts in found.counts:
        assert (counts @ sack.demands <= sack.capacity).all()
        assert (counts <= sack.caps).all()
    assert (found.counts @ sack.values).max(initial=0.0) == pytest.approx(best)


@pytest.mark.parametrize("seed", range(seeds(12)))
def test_the_bound_in_whole_bins_is_between_the_linear_one_and_the_optimum(seed):
    problem = problem_of(seed)
    left, price = whole_model.least(problem)
    effort = Effort(UNITS_PER_SECOND)
    master, pricing = Master(problem, effort=effort), PricingProblem(problem, effort=effort)
    begin = fractional_bins.relax(problem, effort)
    proof = Proof(problem, master, pricing, begin=begin)
    for _ in range(3):
        proof.round(effort)
        found = proof.whole.bound(effort)
        assert proof.bound * (1 - 1e-5) <= found <= price + problem.penalty * left + 1e-6


@pytest.mark.parametrize("seed", range(seeds(24)))
def test_ruling_out_whole_bins_raises_the_bound_and_never_above_the_optimum(seed):
    problem = problem_of(seed)
    left, price = whole_model.least(problem)
    effort = Effort(UNITS_PER_SECOND)
    master, pricing = Master(problem, effort=effort), PricingProblem(problem, effort=effort)
    proof = Proof(problem, master, pricing, begin=fractional_bins.relax(problem, effort))
    before = 0.0
    for _ in range(8):
        proof.round_in_whole_bins(effort)
        assert before <= proof.in_whole_bins <= price + problem.penalty * left + 1e-6
        before = proof.in_whole_bins
    assert before >= proof.bound * (1 - 1e-5)


def test_whole_bins_that_patterns_in_part_do_not_fit_into_are_ruled_out():
    problem = PackingProblem(
        [ItemClass("db", 6, (3,))],
        [BinType("large", (10,), 1.0, (2,)), BinType("small", (4,), 0.6, (1,))],
    )
    effort = Effort(UNITS_PER_SECOND)
    master, pricing = Master(problem, effort=effort), PricingProblem(problem, effort=effort)
    proof = Proof(problem, master, pricing, begin=None)
    while not proof.settled:
        proof.round_in_whole_bins(effort)
    assert proof.in_whole_bins == pytest.approx(3.0, rel=1e-5)


@pytest.mark.parametrize("seed", range(seeds(24)))
def test_the_lowest_domain_is_as_high_as_whole_items_allow(seed):
    rng = random.Random(seed)
    heights = tuple(rng.randint(0, 3) for _ in range(rng.randint(1, 3)))
    skew, number = rng.randint(1, 3), rng.randint(0, 7)
    floor = rng.choice((None, None, rng.randint(0, 3)))
    spread = EvenSpread(0, (0,), heights, max_skew=skew, floor=floor)
    levels = []
    for added in itertools.product(range(number + 1), repeat=len(heights)):
        final = [height + more for height, more in zip(heights, added, strict=True)]
        lowest = min(final if floor is None else [*final, floor])
        grown = [one for one, more in zip(final, added, strict=True) if more]
        if sum(added) == number and all(one <= lowest + skew for one in grown):
            levels.append(lowest)
    if levels:
        assert spread.least_level(number) <= min(levels)
        assert max(levels) <= spread.most_level(number)
    if len(set(heights)) == 1 and floor is None:
        assert (spread.least_level(number), spread.most_level(number)) == (min(levels), max(levels))
    assert spread.least_level(number) <= spread.least_level(max(number - 1, 0)) + 1


@pytest.mark.parametrize("seed", range(seeds(12)))
def test_what_is_filled_with_care_fits_and_is_worth_no_more_than_the_quick_bound(seed):
    problem = problem_of(seed)
    values = np.random.default_rng(seed).uniform(0.0, 1.0, problem.caps.shape)
    pricing = PricingProblem(problem, effort=Effort(UNITS_PER_SECOND))
    at_most = pricing.at_most(values)
    types, counts, worth = pricing.beam(values)
    for bin_type, content in zip(types.tolist(), counts, strict=True):
        assert problem.holds(bin_type, content)
    for bin_type in range(len(problem.bins)):
        best = pricing.best(bin_type, values[bin_type], gap=0.0).at_most
        assert best <= at_most[bin_type] + 1e-6
        assert worth[types == bin_type].max() >= 0.9 * best - 1e-6


@pytest.mark.parametrize("seed", range(seeds(12)))
def test_some_bins_are_filled_anew_within_all_limits(seed):
    problem = problem_of(seed)
    bins = [
        pattern
        for pattern, times in solver.solve(problem, Effort(20_000)).patterns
        for _ in range(times)
    ]
    for cut in range(len(bins)):
        effort = Effort(UNITS_PER_SECOND)
        found = Neighbourhood(problem, bins[:cut], bins[cut:]).refilled(effort)
        if found is None:
            continue
        assert all(problem.holds(one.bin_type, np.array(one.counts)) for one in found)
        kept = integer_solution.trimmed(problem, found)
        missing = integer_solution.missing
        assert missing(problem, kept).tolist() == missing(problem, bins).tolist()
        for place, one in enumerate(problem.bins):
            assert one.most is None or sum(each.bin_type == place for each in found) <= one.most
        for quota in problem.quotas:
            assert sum(quota.amounts[each.bin_type] for each in found) <= quota.most + 1e-9


def test_two_bins_are_filled_anew_as_one():
    problem = PackingProblem(
        [ItemClass("large", 1, (5,)), ItemClass("small", 4, (2,))],
        [BinType("node", (10,), 1.0, (ANY, ANY)), BinType("tiny", (4,), 0.3, (ANY, ANY))],
    )
    kept, gone = [Pattern(1, (0, 1))], [Pattern(0, (1, 1)), Pattern(0, (0, 2))]
    found = Neighbourhood(problem, kept, gone).refilled(Effort(UNITS_PER_SECOND))
    assert found is not None
    cost = sum(problem.prices[one.bin_type] for one in found)
    assert cost == pytest.approx(1.6)


def test_bins_that_cannot_be_bought_in_part_raise_the_bound():
    problem = PackingProblem(
        [ItemClass("db", 5, (1,))],
        [BinType("large", (4,), 1.0, (ANY,)), BinType("small", (1,), 0.4, (ANY,))],
    )
    effort = Effort(UNITS_PER_SECOND)
    master, pricing = Master(problem, effort=effort), PricingProblem(problem, effort=effort)
    proof = Proof(problem, master, pricing, begin=fractional_bins.relax(problem, effort))
    assert proof.bound == pytest.approx(1.25)
    assert proof.whole.bound(effort) == pytest.approx(1.4, rel=1e-5)


def test_items_are_moved_together_until_a_bin_is_spared():
    problem = PackingProblem(
        [ItemClass("large", 2, (5,)), ItemClass("small", 3, (2,))],
        [BinType("node", (10,), 1.0, (ANY, ANY)), BinType("tiny", (4,), 0.3, (ANY, ANY))],
    )
    bins = [Pattern(0, (1, 1)), Pattern(0, (1, 1)), Pattern(0, (0, 1))]
    found = local_search.improve(problem, bins)
    assert sorted(found) == [Pattern(0, (1, 2)), Pattern(0, (1, 1))][::-1]


def test_what_is_left_of_a_bin_goes_into_a_cheaper_type():
    problem = PackingProblem(
        [ItemClass("large", 1, (9,)), ItemClass("small", 2, (2,))],
        [BinType("node", (10,), 1.0, (ANY, ANY)), BinType("tiny", (4,), 0.3, (ANY, ANY))],
    )
    found = local_search.improve(problem, [Pattern(0, (1, 0)), Pattern(0, (0, 2))])
    assert sorted(found) == [Pattern(0, (1, 0)), Pattern(1, (0, 2))]


def test_items_of_a_spread_stay_in_their_domain():
    problem = PackingProblem(
        [ItemClass("db", 2, (1,))],
        [BinType("a", (4,), 1.0, (ANY,)), BinType("b", (4,), 1.0, (ANY,))],
        spreads=[EvenSpread(0, (0, 1), (0, 0), max_skew=1)],
    )
    bins = [Pattern(0, (1,)), Pattern(1, (1,))]
    assert sorted(local_search.improve(problem, bins)) == bins


def test_farley_says_nothing_where_a_bin_type_without_limit_is_worth_any_price():
    problem = PackingProblem([ItemClass("db", 2, (1,))], [BinType("a", (4,), 0.0, (ANY,))])
    effort = Effort(UNITS_PER_SECOND)
    master = Master(problem, effort=effort)
    master.add([Pattern(0, (1,))])
    duals = master.solve().duals
    assert column_generation.farley(problem, duals, np.array([1.0])) == 0.0

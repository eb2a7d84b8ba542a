"""The solver against brute force, and its own promises: bound, limits, quotas, spreads, start."""

import random

import pytest

from tests.optimise import brute_force
from tests.seeds import seeds
from tonnage.optimise import solver
from tonnage.optimise.effort import UNITS_PER_SECOND, Effort
from tonnage.optimise.problem import (
    BinQuota,
    BinType,
    EvenSpread,
    ItemClass,
    PackingProblem,
    PackingSolution,
    Pattern,
)

ANY = 10**6


def solved(problem: PackingProblem, *, seconds: float = 5.0) -> PackingSolution:
    return solver.solve(problem, Effort(int(seconds * UNITS_PER_SECOND)))


def of_slots(pods: int, *, slots: int = 4, price: float = 1.0, most: int | None = None):
    return PackingProblem(
        [ItemClass("db", pods, (1,))], [BinType("node", (slots,), price, (ANY,), most)]
    )


def small(seed: int) -> PackingProblem:
    """Up to three classes of pods with CPU and volumes, on up to three types of nodes."""
    rng = random.Random(seed)
    items = [
        ItemClass(f"c{n}", rng.randint(1, 3), (rng.randint(1, 5), rng.randint(0, 3)))
        for n in range(rng.randint(1, 3))
    ]
    bins = [
        BinType(
            f"t{n}",
            (rng.randint(4, 12), rng.randint(2, 6)),
            rng.choice((0.1, 0.2, 0.25, 0.4, 0.5)),
            tuple(rng.choice((0, 1, 2, ANY, ANY, ANY)) for _ in items),
            rng.choice((1, 2, None)),
        )
        for n in range(rng.randint(1, 3))
    ]
    return PackingProblem(items, bins)


def check(problem: PackingProblem, found: PackingSolution) -> None:
    """The solution holds what it says, in bins that may be used."""
    used = dict.fromkeys(range(len(problem.bins)), 0)
    held = [0] * len(problem.items)
    for pattern, times in found.patterns:
        used[pattern.bin_type] += times
        for item, count in enumerate(pattern.counts):
            held[item] += count * times
            assert count <= problem.bins[pattern.bin_type].caps[item]
        for resource, has in enumerate(problem.bins[pattern.bin_type].capacity):
            takes = zip(pattern.counts, problem.items, strict=True)
            assert sum(count * item.demand[resource] for count, item in takes) <= has
    for place, one in enumerate(problem.bins):
        assert one.most is None or used[place] <= one.most
    for place, kind in enumerate(problem.items):
        assert held[place] + found.left[place] == kind.number
    assert found.bound <= found.cost + 1e-9


@pytest.mark.parametrize("seed", range(seeds(40)))
def test_small_problems_are_solved_to_the_optimum(seed):
    problem = small(seed)
    found = solved(problem)
    check(problem, found)
    left, price = brute_force.least(problem)
    assert sum(found.left) == left
    assert found.cost == pytest.approx(price)


@pytest.mark.parametrize("seed", range(seeds(10)))
def test_the_bound_of_column_generation_is_never_above_the_optimum(seed, monkeypatch):
    monkeypatch.setattr(solver, "_FEW_PATTERNS", 0)
    problem = small(seed)
    found = solved(problem, seconds=1.0)
    check(problem, found)
    left, price = brute_force.least(problem)
    if sum(found.left) == left:
        assert found.bound <= price + 1e-6 <= found.cost + 2e-6


def test_nothing_to_pack_costs_nothing():
    found = solved(of_slots(0))
    assert (found.patterns, found.cost, found.bound, found.gap) == ((), 0.0, 0.0, 0.0)


def test_bins_of_one_price_are_counted_in_whole_ones():
    found = solved(of_slots(9, price=0.5))
    assert (found.cost, found.bound) == (1.5, 1.5)


def test_what_a_limit_leaves_no_room_for_is_left_out():
    found = solved(of_slots(9, most=2))
    assert (found.left, found.cost) == ((1,), 2.0)


def test_a_node_that_is_there_is_a_bin_that_costs_nothing():
    problem = PackingProblem(
        [ItemClass("db", 5, (1,))],
        [BinType("there", (3,), 0.0, (ANY,), 1), BinType("new", (2,), 1.0, (ANY,))],
    )
    assert solved(problem).cost == 1.0


def test_a_quota_holds_over_all_types():
    problem = PackingProblem(
        [ItemClass("db", 6, (1,))],
        [BinType("small", (1,), 0.1, (ANY,)), BinType("large", (3,), 1.0, (ANY,))],
        quotas=[BinQuota((1.0, 1.0), 4.0)],
    )
    found = solved(problem)
    assert found.left == (0,)
    assert found.cost == pytest.approx(1.3)


def test_items_are_spread_over_domains_though_one_is_cheaper():
    problem = PackingProblem(
        [ItemClass("db", 6, (1,))],
        [BinType("a", (6,), 0.1, (ANY,)), BinType("b", (6,), 1.0, (ANY,))],
        spreads=[EvenSpread(0, (0, 1), (0, 0), max_skew=1)],
    )
    found = solved(problem)
    assert sorted(pattern for pattern, _ in found.patterns) == [Pattern(0, (3,)), Pattern(1, (3,))]
    assert found.cost == found.bound == pytest.approx(1.1)


def test_a_domain_that_stays_low_holds_the_others_down():
    problem = PackingProblem(
        [ItemClass("db", 6, (1,))],
        [BinType("a", (6,), 0.1, (ANY,))],
        spreads=[EvenSpread(0, (0,), (1,), max_skew=2, floor=0)],
    )
    assert solved(problem).left == (5,)


def test_the_start_is_kept_when_there_is_no_effort_left():
    start = [Pattern(0, (1,))] * 3
    found = solver.solve(of_slots(3), Effort(0), start=start)
    assert sum(times for _, times in found.patterns) <= 3
    assert found.left == (0,)


def test_the_clock_ends_a_search_that_goes_on_for_too_long():
    found = solver.solve(large(), Effort(10**12, out_of_time=lambda: True))
    assert found.stopped


def test_the_same_work_gives_the_same_packing():
    one, other = (solver.solve(large(), Effort(UNITS_PER_SECOND // 2)) for _ in range(2))
    assert one == other


def test_a_large_problem_comes_near_to_its_bound():
    found = solver.solve(large(), Effort(UNITS_PER_SECOND))
    check(large(), found)
    assert found.left == (0,) * 20
    assert 0.0 <= found.gap < 0.05


def large() -> PackingProblem:
    rng = random.Random(7)
    items = [
        ItemClass(
            f"c{n}", 15, (rng.choice((250, 500, 1000, 1700)), rng.randint(1, 8), rng.randint(0, 3))
        )
        for n in range(20)
    ]
    sizes = ((4, 16, 0.2), (8, 32, 0.39), (16, 64, 0.79), (8, 16, 0.33))
    bins = [
        BinType(f"t{n}", (1000 * cpu - 200, memory - 1, 24), price, (ANY,) * 20)
        for n, (cpu, memory, price) in enumerate(sizes)
    ]
    return PackingProblem(items, bins)

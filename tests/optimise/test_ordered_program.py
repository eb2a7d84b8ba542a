"""Tied items in stages: in what order bins and items come so that every tie holds on the way."""

import pytest

from tonnage.optimise import ordered_program, placement_program
from tonnage.optimise.effort import UNITS_PER_SECOND, Effort
from tonnage.optimise.ordered_program import Stage
from tonnage.optimise.problem import BinType, ItemClass, PackingProblem
from tonnage.optimise.ties import OWN, SharedSpread, Ties

ANY = 99


def two_zones(*numbers: int, most: int = 2, size: int = 4) -> PackingProblem:
    """Items of size 1, and bins in a zone that is cheap and one that is dear."""
    items = [ItemClass(f"k{place}", number, (1,)) for place, number in enumerate(numbers)]
    caps = (ANY,) * len(numbers)
    bins = [BinType("a", (size,), 1.0, caps, most), BinType("b", (size,), 3.0, caps, most)]
    return PackingProblem(items, bins)


def staged(problem: PackingProblem, *spreads: SharedSpread) -> list[Stage]:
    ties, effort = Ties(spreads=spreads), Effort(UNITS_PER_SECOND)
    bold = placement_program.solve(problem, ties, effort)
    return ordered_program.solve(problem, ties, effort, bold=bold)


def cost(stages: list[Stage], problem: PackingProblem) -> float:
    places = {place for stage in stages for place in stage}
    return sum(problem.bins[place.bin_type].price for place in places)


def placed(stages: list[Stage], item: int) -> list[int]:
    """How many items of a class come in each stage."""
    return [sum(counts[item] for counts in stage.values()) for stage in stages]


def test_items_that_are_only_counted_come_after_those_that_they_would_keep_away():
    problem = two_zones(3, 4)
    stages = staged(problem, SharedSpread((0,), (0, 1), (0, 1), (0, 2), (True, True), 1))
    assert cost(stages, problem) == pytest.approx(2.0)
    assert (sum(placed(stages, 0)), sum(placed(stages, 1))) == (3, 4)
    last = max(stage for stage, count in enumerate(placed(stages, 0)) if count)
    assert sum(placed(stages, 1)[: last + 1]) <= 1


def test_a_bin_that_comes_later_is_not_among_the_lowest_before():
    hosts = SharedSpread((0,), (0,), (OWN, OWN), (), (), 1)
    problem = two_zones(5)
    stages = staged(problem, hosts)
    assert (cost(stages, problem), sum(placed(stages, 0))) == (2.0, 5)


def test_many_bins_and_classes_are_not_looked_at():
    zones = SharedSpread((0,), (0,), (0, 1), (0, 0), (True, True), 1)
    assert staged(two_zones(*[9] * 10, most=20), zones) == []

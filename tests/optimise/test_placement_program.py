"""Items that are tied to each other: what may be in one domain, and what no bins cost less than."""

import math

import pytest

from tonnage.optimise import placement_program
from tonnage.optimise.effort import UNITS_PER_SECOND, Effort
from tonnage.optimise.placement_program import Care
from tonnage.optimise.problem import BinType, ItemClass, PackingProblem, PackingSolution
from tonnage.optimise.ties import OWN, Company, KeptApart, SharedSpread, Ties

ANY = 99


def solved(problem: PackingProblem, *ties, care=placement_program.BOLD) -> PackingSolution:
    all_ties = Ties(
        spreads=tuple(one for one in ties if isinstance(one, SharedSpread)),
        apart=tuple(one for one in ties if isinstance(one, KeptApart)),
        company=tuple(one for one in ties if isinstance(one, Company)),
    )
    return placement_program.solve(problem, all_ties, Effort(UNITS_PER_SECOND), care=care)


def two_zones(*numbers: int, most: int = 9) -> PackingProblem:
    """Items of size 1, and bins of 4 in a zone that is cheap and one that is dear."""
    items = [ItemClass(f"k{place}", number, (1,)) for place, number in enumerate(numbers)]
    caps = (ANY,) * len(numbers)
    bins = [BinType("a", (4,), 1.0, caps, most), BinType("b", (4,), 3.0, caps, most)]
    return PackingProblem(items, bins)


def spread(limited, counted, *, heights=(0, 0), standing=(True, True), skew=1, least=1):
    return SharedSpread(limited, counted, (0, 1), heights, standing, skew, least)


def test_without_ties_the_cheapest_bins_are_used():
    found = solved(two_zones(5))
    assert (found.cost, found.bound, sum(found.left)) == (2.0, 2.0, 0)


def test_a_spread_counts_two_classes_together():
    # Four in each zone, whichever: with each class even by itself it would be the same.
    assert solved(two_zones(5, 3), spread((0, 1), (0, 1))).cost == 4.0


def test_one_class_may_be_in_one_zone_if_the_other_makes_up_for_it():
    problem = two_zones(4, 4)
    bins = [problem.bins[0]._replace(caps=(ANY, 0)), problem.bins[1]._replace(caps=(0, ANY))]
    found = solved(PackingProblem(problem.items, bins), spread((0, 1), (0, 1)))
    assert sum(found.left) == 0


def test_items_that_are_only_counted_may_come_last_unless_care_is_taken():
    tie = spread((0,), (0, 1), heights=(0, 2), standing=(True, True))
    problem = two_zones(3, 4, most=2)
    assert solved(problem, tie).cost == 2.0
    careful = solved(problem, tie, care=Care(all_counted=True))
    assert (sum(careful.left), careful.cost) == (0, 4.0)


def test_a_zone_that_nothing_is_in_yet_does_not_count_until_care_is_taken():
    tie = spread((0,), (0,), standing=(True, False))
    assert solved(two_zones(4), tie).cost == 1.0
    hosts = SharedSpread((0,), (0,), (OWN, OWN), (), (), 1)
    assert solved(two_zones(5), hosts).cost == 2.0


def test_with_too_few_domains_the_lowest_is_none():
    problem = two_zones(6)
    assert sum(solved(problem, spread((0,), (0,), least=3)).left) == 4
    fresh = spread((0,), (0,), standing=(False, False), least=2)
    # Both zones are needed, and neither may be far above the other.
    assert solved(problem, fresh).cost == 4.0


def test_the_last_item_in_a_domain_is_of_one_spread_or_the_other():
    first = spread((0,), (0, 1), standing=(True, False), heights=(1, 0), skew=2)
    second = spread((1,), (0, 1), standing=(False, False), skew=2, least=3)
    problem = PackingProblem(two_zones(4, 4).items, [BinType("b", (9,), 1.0, (ANY, ANY), 1)])
    here = [one._replace(domains=(1,)) for one in (first, second)]
    # Alone there may be three of one and two of the other; together no more than three.
    assert sum(solved(problem, *here[:1]).left) == 1
    assert sum(solved(problem, *here).left) == 5


def test_classes_that_keep_apart_share_no_bin_and_no_zone():
    problem = two_zones(2, 2)
    assert solved(problem, KeptApart(0, 1, (OWN, OWN))).cost == 2.0
    assert solved(problem, KeptApart(0, 1, (0, 1))).cost == 4.0
    assert sum(solved(problem, KeptApart(0, 0, (0, 0))).left) == 1


def test_items_go_where_those_they_seek_are():
    problem = two_zones(1, 2)
    only_b = [problem.bins[0]._replace(caps=(0, ANY)), problem.bins[1]]
    problem = PackingProblem(problem.items, only_b)
    tie = Company((1,), (0,), (0, 1), (False, False), starts=False)
    assert solved(problem, tie).cost == 3.0
    alone = Company((0,), (), (0, 1), (False, True), starts=False)
    assert solved(two_zones(2), alone).cost == 3.0


def test_the_first_of_those_that_seek_their_own_kind_starts_alone():
    problem = two_zones(6, most=1)
    tie = Company((0,), (0,), (0, 1), (False, False), starts=True)
    # Where the first is, all are.
    assert sum(solved(problem, tie).left) == 2
    assert sum(solved(problem, tie._replace(starts=False)).left) == 6


def test_the_bound_is_for_what_is_helped():
    problem = two_zones(9, most=1)
    left = PackingProblem(problem.items, problem.bins).counts - 4
    effort = Effort(UNITS_PER_SECOND)
    assert placement_program.bound(problem, Ties(), left, effort) == pytest.approx(1.0)
    assert placement_program.bound(problem, Ties(), left - 1, effort) == pytest.approx(4.0)


def test_few_bins_and_classes_are_looked_at_and_many_are_not():
    assert placement_program.is_small(two_zones(5, 5))
    many = BinType("many", (math.inf,), 1.0, (ANY,), None)
    assert not placement_program.is_small(PackingProblem([ItemClass("k", 9_999, (1,))], [many]))

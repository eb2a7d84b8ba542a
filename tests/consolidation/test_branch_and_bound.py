"""The search for places: what cannot be is seen before anything is tried."""

from tonnage.consolidation import branch_and_bound
from tonnage.consolidation.assignment import Assignment, Repacking
from tonnage.consolidation.problem import Item, ItemKind, NodeBin, Problem, TemplateBin


def nodes(free: list[int], pods: list[int], *, price: float = 1.0) -> Problem:
    """A node of 10 that goes, with these pods on it, and others with so much free."""
    sizes = sorted(set(pods))
    count = len(free) + 1
    kinds = tuple(ItemKind(((0, one),), one / 10, (True,) * count, (True,)) for one in sizes)
    return Problem(
        kinds=kinds,
        items=tuple(Item(f"p{n}", sizes.index(one), 0, 0.0) for n, one in enumerate(pods)),
        bins=(
            NodeBin("goes", "g", 1.0, (10 - sum(pods),), may_go=True),
            *(NodeBin(f"n{n}", "g", 1.0, (one,), may_go=True) for n, one in enumerate(free)),
        ),
        templates=(TemplateBin("g", price, (10,), 5),),
        spare={"g": count},
        hours=1.0,
        cluster_room=5,
    )


def searched(problem: Problem) -> tuple[Repacking | None, int]:
    items = range(len(problem.items))
    order = range(1, len(problem.bins))
    return branch_and_bound.cheapest(
        Assignment(problem), items, closed=(0,), below=1.0, steps=4000, order=order
    )


def test_crumbs_that_no_pod_fits_into_are_no_room() -> None:
    # 60 free in all, and none of it for a pod of 3.
    assert searched(nodes([2] * 30, [3, 3])) == (None, 1)


def test_room_for_too_few_is_seen_though_there_is_enough_in_all() -> None:
    # Each of these nodes takes one pod of 3, whatever it has free beside.
    assert searched(nodes([5, 5], [3, 3, 3])) == (None, 1)


def test_small_pods_do_not_hide_that_large_ones_have_no_place() -> None:
    # 14 free for 10, but 6 of it for 8.
    assert searched(nodes([6, 1, 1, 1, 1, 1, 1, 1, 1], [4, 4, 1, 1])) == (None, 1)


def test_what_is_short_is_bought_in_whole_nodes_where_that_is_cheaper() -> None:
    found, steps = searched(nodes([5, 5], [3, 3, 3], price=0.5))
    assert found is not None
    assert (found.new, found.cost) == ([0], 0.5)
    assert steps < 40


def test_a_place_that_has_to_be_looked_for_is_found() -> None:
    found, _ = searched(nodes([5, 4], [3, 2, 2, 2]))
    assert found is not None
    assert (found.new, sorted(found.where.values())) == ([], [1, 1, 2, 2])

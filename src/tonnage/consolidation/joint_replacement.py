"""Consolidation as a packing problem: a bound over everything, and the best nodes to buy.

The bound is of all pods that may move on all nodes that are there or could be bought, where a node
may be kept or bought in part (`tonnage.optimise`). Where a plan buys nodes and is not at the bound,
what it buys is chosen once more, all groups and kinds of pods together. The nodes that go stay the
same, so the moves cost what they cost before.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tonnage.consolidation.assignment import Assignment, Repacking
from tonnage.consolidation.problem import ItemKind, Problem
from tonnage.optimise import fractional_bins, highs, solver
from tonnage.optimise.column_generation import Proof
from tonnage.optimise.effort import Effort
from tonnage.optimise.master import Master
from tonnage.optimise.pricing_problem import PricingProblem
from tonnage.optimise.problem import BinQuota, BinType, ItemClass, PackingProblem, Pattern

_WORK = 500_000
"""Units of work for one choice: about half a second."""
_MOST_ENTRIES = 20_000
"""Kinds times nodes that differ up to which there is a linear program of them."""
_MOST_BINS = 60
"""Nodes with room that are packed together with new ones."""
_NEAR = 1e-3


class _NodeClass(NamedTuple):
    """Nodes that are as good as each other for the bound."""

    price: float
    capacity: tuple[float, ...]
    caps: tuple[int, ...]


def cost_per_hour(problem: Problem) -> float:
    """No nodes that carry all pods cost less; 0 where there is no solver or too much to look at."""
    if not highs.installed() or not problem.items:
        return 0.0
    packing = _everything(problem)
    if packing is None:
        return 0.0
    effort = Effort(_WORK)
    duals = fractional_bins.relax(packing, effort)
    if duals is None:
        return 0.0
    master = Master(packing, effort=effort)
    proof = Proof(packing, master, PricingProblem(packing, effort=effort), begin=duals)
    return proof.bound + sum(one.price for one in problem.bins if not one.may_go)


def _everything(problem: Problem) -> PackingProblem | None:
    """All pods that may move, on all nodes without them; nodes that stay are paid for already."""
    at_home: list[Counter[int]] = [Counter() for _ in problem.bins]
    for item in problem.items:
        at_home[item.home][item.kind] += 1
    kinds = range(len(problem.kinds))
    classes: Counter[_NodeClass] = Counter()
    for number, one in enumerate(problem.bins):
        room = [float(max(amount, 0)) for amount in one.free]
        for kind, count in at_home[number].items():
            for dimension, amount in problem.kinds[kind].needs:
                room[dimension] += count * amount
        caps = tuple(
            len(problem.items) if problem.kinds[kind].bins[number] else at_home[number][kind]
            for kind in kinds
        )
        price = one.price if one.may_go else 0.0
        classes[_NodeClass(price, tuple(room), caps)] += 1
        if len(classes) * max(len(kinds), 1) > _MOST_ENTRIES:
            return None
    bins = [
        BinType(str(place), one.capacity, one.price, one.caps, count)
        for place, (one, count) in enumerate(classes.items())
    ]
    return PackingProblem(
        _items(problem.kinds, Counter(item.kind for item in problem.items), _dimensions(problem)),
        [*bins, *_templates(problem, kinds)],
    )


def _dimensions(problem: Problem) -> int:
    return len(problem.bins[0].free) if problem.bins else 0


def _items(kinds: Sequence[ItemKind], numbers: Counter[int], dimensions: int) -> list[ItemClass]:
    found = []
    for number, kind in enumerate(kinds):
        demand = [0] * dimensions
        for dimension, amount in kind.needs:
            demand[dimension] += amount
        found.append(ItemClass(str(number), numbers[number], tuple(demand)))
    return found


def _templates(problem: Problem, kinds: Iterable[int]) -> list[BinType]:
    chosen = list(kinds)
    return [
        BinType(
            one.group,
            tuple(float(max(amount, 0)) for amount in one.free),
            one.price,
            tuple(
                len(problem.items) if problem.kinds[kind].templates[place] else 0 for kind in chosen
            ),
            max(one.room, 0),
        )
        for place, one in enumerate(problem.templates)
    ]


def improved(
    state: Assignment, *, bound: float, out_of_time: Callable[[], bool] = lambda: False
) -> Assignment:
    """The same nodes gone and cheaper ones bought for them, if there are such; else the same."""
    problem = state.problem
    closed = tuple(n for n in range(len(problem.bins)) if not state.open[n])
    bought = [state.template_of[n] for n in state.bins if state.template_of[n] >= 0]
    after = sum(map(state.price, state.bins))
    if not closed or not bought or not highs.installed() or after <= bound * (1 + _NEAR):
        return state
    fresh = Assignment(problem)
    items = sorted(item for number in closed for item in fresh.members[number])
    moved = sum(where != problem.items[item].home for item, where in enumerate(state.where))
    if moved != len(items):
        # Others made room as well: what they pay for is not known here.
        return state
    found = _repacked(fresh, items, set(closed), out_of_time)
    before = sum(problem.templates[one].price for one in bought) * problem.hours
    if found is None or found.cost - _moves(problem, items) >= before - 1e-9:
        return state
    fresh.apply(found, closed=closed)
    return fresh


def _moves(problem: Problem, items: Iterable[int]) -> float:
    return sum(problem.items[item].cost for item in items)


def _repacked(
    state: Assignment, items: Sequence[int], closed: set[int], out_of_time: Callable[[], bool]
) -> Repacking | None:
    """The items on new nodes and in the room there is, jointly."""
    problem = state.problem
    numbers = sorted({problem.items[item].kind for item in items})
    kinds = [problem.kinds[number] for number in numbers]
    waiting: dict[int, list[int]] = {number: [] for number in numbers}
    for item in items:
        waiting[problem.items[item].kind].append(item)
    there = [n for n in state.bins if n not in closed and any(kind.bins[n] for kind in kinds)]
    there = sorted(there, key=lambda n: -sum(state.free[n]))[:_MOST_BINS]
    bins = _templates(problem, numbers)
    bins += [
        BinType(
            problem.bins[n].name,
            tuple(float(max(amount, 0)) for amount in state.free[n]),
            0.0,
            tuple(len(items) if kind.bins[n] else 0 for kind in kinds),
            1,
        )
        for n in there
    ]
    counts = Counter({place: len(waiting[number]) for place, number in enumerate(numbers)})
    new_nodes = (1.0,) * len(problem.templates) + (0.0,) * len(there)
    packing = PackingProblem(
        _items(kinds, counts, _dimensions(problem)),
        bins,
        quotas=[BinQuota(new_nodes, float(max(problem.cluster_room, 0)))],
    )
    found = solver.solve(packing, Effort(_WORK, out_of_time=out_of_time))
    if any(found.left):
        return None
    filled = [pattern for pattern, times in found.patterns for _ in range(times)]
    where: dict[int, int] = {}
    new: list[int] = []
    for pattern in filled:
        if pattern.bin_type < len(problem.templates):
            target = len(problem.bins) + len(new)
            new.append(pattern.bin_type)
        else:
            target = there[pattern.bin_type - len(problem.templates)]
        where.update(_taken(pattern, numbers, waiting, target))
    prices = sum(problem.templates[one].price for one in new)
    return Repacking(where, new, prices * problem.hours + _moves(problem, items))


def _taken(
    pattern: Pattern, numbers: Sequence[int], waiting: dict[int, list[int]], target: int
) -> dict[int, int]:
    return {
        waiting[number].pop(): target
        for number, count in zip(numbers, pattern.counts, strict=True)
        for _ in range(count)
    }

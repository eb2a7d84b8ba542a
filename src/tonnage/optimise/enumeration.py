"""Every pattern worth having, where there are few: then the best packing can be proven."""

import math

from tonnage.optimise import highs
from tonnage.optimise.effort import Effort
from tonnage.optimise.master import Master
from tonnage.optimise.problem import PackingProblem, Pattern


def maximal_patterns(problem: PackingProblem, *, most: int) -> list[Pattern] | None:
    """Every pattern that nothing can be added to, for all bin types; `None` if they are more."""
    found: list[Pattern] = []
    for bin_type in range(len(problem.bins)):
        here = _of_type(problem, bin_type, most=most - len(found))
        if here is None:
            return None
        found += here
    return found


def _of_type(problem: PackingProblem, bin_type: int, *, most: int) -> list[Pattern] | None:
    demands = [item.demand for item in problem.items]
    caps = problem.caps[bin_type].tolist()
    items = [item for item, cap in enumerate(caps) if cap > 0]
    found: list[Pattern] = []
    steps = 0
    counts = [0] * len(demands)
    # Depth first over classes; what is left to look at is a stack of (place, room, count).
    stack: list[tuple[int, tuple[float, ...], tuple[int, ...]]] = [
        (0, problem.bins[bin_type].capacity, tuple(counts))
    ]
    while stack:
        place, room, held = stack.pop()
        steps += 1
        if len(found) > most or steps > 6 * most:
            return None
        if place == len(items):
            if any(held) and _is_maximal(room, held, items, demands, caps):
                found.append(Pattern(bin_type, held))
            continue
        item = items[place]
        demand = demands[item]
        fits = min(
            (
                int(left // takes)
                for left, takes in zip(room, demand, strict=True)
                if takes > 0 and left < math.inf
            ),
            default=caps[item],
        )
        most_here = min(fits, caps[item])
        # Of the last class as many as fit: with fewer nothing is maximal.
        least = most_here if place == len(items) - 1 else 0
        for number in range(least, most_here + 1):
            after = tuple(left - number * takes for left, takes in zip(room, demand, strict=True))
            stack.append((place + 1, after, (*held[:item], number, *held[item + 1 :])))
    return found if len(found) <= most else None


def _is_maximal(
    room: tuple[float, ...],
    held: tuple[int, ...],
    items: list[int],
    demands: list[tuple[int, ...]],
    caps: list[int],
) -> bool:
    return not any(
        held[item] < caps[item]
        and all(takes <= left for left, takes in zip(room, demands[item], strict=True))
        for item in items
    )


def solve(
    problem: PackingProblem,
    patterns: list[Pattern],
    effort: Effort,
    *,
    nodes: int,
    lean: bool = False,
) -> tuple[list[Pattern], float] | None:
    """The best use of the patterns, in whole bins, and a lower bound on any use of them."""
    model = highs.integer(gap=0.0, nodes=nodes, lean=lean)
    master = Master(problem, effort=effort, model=model)
    master.add(patterns)
    highs.make_integer(model, range(master.first + len(master.patterns)))
    found = highs.solve(model)
    effort.spend(5_000 + 80 * found.iterations)
    if not found.feasible:
        return None
    bins = [
        pattern
        for pattern, times in zip(master.patterns, found.columns[master.first :], strict=True)
        for _ in range(round(times))
    ]
    return bins, found.bound

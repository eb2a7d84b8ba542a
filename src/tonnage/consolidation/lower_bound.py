"""No plan costs less than this: what a plan is measured against.

Nodes that stay anyway are paid for. What the pods of the others request beside the room there is
on those that stay must be paid for at the best price of its kind, cut as small as you like. Where a
solver is installed, all resources and prices are looked at together (`joint_replacement`).
"""

from tonnage.consolidation import joint_replacement
from tonnage.consolidation.problem import Problem


def cost_per_hour(problem: Problem) -> float:
    """Of all nodes of the problem together."""
    fixed = sum(one.price for one in problem.bins if not one.may_go)
    demand: dict[int, int] = {}
    for item in problem.items:
        for dimension, amount in problem.kinds[item.kind].needs:
            demand[dimension] = demand.get(dimension, 0) + amount
    own: list[dict[int, int]] = [{} for _ in problem.bins]
    for item in problem.items:
        for dimension, amount in problem.kinds[item.kind].needs:
            own[item.home][dimension] = own[item.home].get(dimension, 0) + amount
    most = 0.0
    for dimension, amount in demand.items():
        left = amount - sum(max(one.free[dimension], 0) for one in problem.bins if not one.may_go)
        offers = [
            (one.price, one.free[dimension] + own[number].get(dimension, 0))
            for number, one in enumerate(problem.bins)
            if one.may_go
        ] + [(one.price, one.free[dimension]) for one in problem.templates if one.room > 0]
        best = min((price / room for price, room in offers if room > 0), default=0.0)
        most = max(most, left * best)
    simple = fixed + _kept_for_minimum(problem, most)
    return max(simple, joint_replacement.cost_per_hour(problem))


def _kept_for_minimum(problem: Problem, needed: float) -> float:
    """The same, and no less than the cheapest nodes that groups keep for their minimum."""
    prices: dict[str, list[float]] = {}
    for one in problem.bins:
        if one.may_go:
            prices.setdefault(one.group, []).append(one.price)
    kept = sum(
        sum(sorted(of_group)[: max(len(of_group) - problem.spare.get(group, 0), 0)])
        for group, of_group in prices.items()
    )
    return max(needed, kept)

"""The cheapest packing by one integer program that knows no patterns: a model of its own.

Every bin that could be used is a variable, and so is every number of items in it; only HiGHS is
shared with the solver. For small problems.
"""

import highspy

from tonnage.optimise.problem import PackingProblem


def least(problem: PackingProblem) -> tuple[int, float]:
    """The fewest items left out, and the least price with so few."""
    model = highspy.Highs()
    model.silent()
    model.setOptionValue("mip_rel_gap", 0.0)
    model.setOptionValue("mip_abs_gap", 1e-7)
    numbers = [item.number for item in problem.items]
    most = [
        sum(numbers) if one.most is None else min(one.most, sum(numbers)) for one in problem.bins
    ]
    places = [(kind, copy) for kind, count in enumerate(most) for copy in range(count)]
    used = {place: model.addBinary() for place in places}
    held = {
        (place, item): model.addIntegral(0, min(problem.bins[place[0]].caps[item], number))
        for place in places
        for item, number in enumerate(numbers)
    }
    out = [model.addIntegral(0, number) for number in numbers]
    for item, number in enumerate(numbers):
        model.addConstr(sum(held[place, item] for place in places) + out[item] == number)
    for place in places:
        one = problem.bins[place[0]]
        for resource, capacity in enumerate(one.capacity):
            takes = sum(
                item.demand[resource] * held[place, number]
                for number, item in enumerate(problem.items)
            )
            model.addConstr(takes <= capacity * used[place])
        for item, number in enumerate(numbers):
            model.addConstr(held[place, item] <= min(one.caps[item], number) * used[place])
        if place[1]:
            model.addConstr(used[place] <= used[place[0], place[1] - 1])
    for quota in problem.quotas:
        total = sum(quota.amounts[place[0]] * used[place] for place in places)
        model.addConstr(total <= quota.most)
    for spread in problem.spreads:
        levels = [
            height
            + sum(
                held[place, spread.item] for place in places if spread.domains[place[0]] == domain
            )
            for domain, height in enumerate(spread.heights)
        ]
        for one in levels:
            for other in levels:
                if one is not other:
                    model.addConstr(one - other <= spread.max_skew)
    price = sum(problem.bins[place[0]].price * used[place] for place in places)
    model.minimize(price + 1_000.0 * sum(out))
    left = round(sum(model.val(one) for one in out))
    return left, model.getObjectiveValue() - 1_000.0 * left

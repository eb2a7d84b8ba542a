"""The cheapest packing by trying everything, for problems small enough for that."""

import functools

from tonnage.optimise.problem import PackingProblem


def least(problem: PackingProblem) -> tuple[int, float]:
    """The fewest items left out, and the least price with so few: item by item, bin by bin."""
    caps = problem.caps.tolist()
    items = len(problem.items)

    def subsets(bin_type: int, left: tuple[int, ...]) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = [()]
        for item in range(items):
            most = min(left[item], caps[bin_type][item])
            found = [(*held, number) for held in found for number in range(most + 1)]
        capacity = problem.bins[bin_type].capacity
        return [
            held
            for held in found
            if any(held)
            and all(
                sum(n * item.demand[r] for n, item in zip(held, problem.items, strict=True)) <= has
                for r, has in enumerate(capacity)
            )
        ]

    @functools.cache
    def best(left: tuple[int, ...], bins: tuple[int, ...]) -> tuple[int, float]:
        """`bins` are how many of each type may still be used."""
        found = (sum(left), 0.0)
        if not any(left):
            return found
        for bin_type, most in enumerate(bins):
            if most <= 0:
                continue
            fewer = tuple(n - (place == bin_type) for place, n in enumerate(bins))
            for held in subsets(bin_type, left):
                rest = tuple(a - b for a, b in zip(left, held, strict=True))
                out, price = best(rest, fewer)
                found = min(found, (out, price + problem.bins[bin_type].price))
        return found

    total = int(problem.counts.sum())
    return best(
        tuple(problem.counts.tolist()),
        tuple(total if one.most is None else one.most for one in problem.bins),
    )

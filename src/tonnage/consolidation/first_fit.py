"""Places for many pods at once: large ones first, into the first bin with room."""

from collections.abc import Collection, Sequence

from tonnage.consolidation.assignment import Assignment, Repacking


def place(
    state: Assignment,
    moving: Sequence[int],
    *,
    closed: Collection[int],
    order: Sequence[int],
    templates: Sequence[int],
    below: float,
) -> Repacking | None:
    """Into open bins in the `order` given, then into new ones of these templates, the first that
    takes the pod; `None` if there is no place for one, or not for less than `below`.
    """
    items, kinds, hours = state.problem.items, state.kinds, state.problem.hours
    free: dict[int, list[int]] = {}
    new: list[int] = []
    first = len(state.free)
    where: dict[int, int] = {}
    cost = 0.0
    usable = [number for number in order if state.open[number] and number not in closed]
    resume: dict[int, int] = {}
    candidates: dict[int, list[int]] = {}
    room = [state.room(template) for template in range(len(state.problem.templates))]
    for item in sorted(moving, key=lambda one: -kinds[items[one].kind].size):
        one = items[item]
        kind = kinds[one.kind]
        known = candidates.get(one.kind)
        if known is None:
            known = [number for number in usable if state.suits(one.kind, number)]
            candidates[one.kind] = known
        position = resume.get(one.kind, 0)
        needs = kind.needs
        chosen = -1
        while position < len(known):
            there = free.get(known[position]) or state.free[known[position]]
            if all(there[dimension] >= amount for dimension, amount in needs):
                chosen = known[position]
                break
            position += 1
        resume[one.kind] = position
        if chosen < 0:
            for number, template in enumerate(new, first):
                there = free[number]
                if kind.templates[template] and all(
                    there[dimension] >= amount for dimension, amount in needs
                ):
                    chosen = number
                    break
        if chosen < 0:
            for template in templates:
                fresh = state.problem.templates[template]
                if (
                    kind.templates[template]
                    and room[template] > 0
                    and all(fresh.free[dimension] >= amount for dimension, amount in needs)
                ):
                    room[template] -= 1
                    chosen = first + len(new)
                    new.append(template)
                    free[chosen] = list(fresh.free)
                    cost += fresh.price * hours
                    break
            else:
                return None
        cost += state.move_cost(item, chosen)
        if cost >= below:
            return None
        there = free.get(chosen) or free.setdefault(chosen, list(state.free[chosen]))
        for dimension, amount in needs:
            there[dimension] -= amount
        where[item] = chosen
    return Repacking(where, new, cost) if _within(state, new) else None


def downsized(state: Assignment, placement: Repacking) -> Repacking:
    """The same with each new node of the cheapest template that holds what is on it."""
    templates, items, kinds = state.problem.templates, state.problem.items, state.kinds
    first = len(state.free)
    needs: list[dict[int, int]] = [{} for _ in placement.new]
    held: list[set[int]] = [set() for _ in placement.new]
    for item, number in placement.where.items():
        if number >= first:
            held[number - first].add(items[item].kind)
            for dimension, amount in kinds[items[item].kind].needs:
                known = needs[number - first]
                known[dimension] = known.get(dimension, 0) + amount
    new = list(placement.new)
    cost = placement.cost
    left = [state.room(template) - new.count(template) for template in range(len(templates))]
    for place, template in enumerate(new):
        for other, one in enumerate(templates):
            if (
                one.price < templates[new[place]].price
                and left[other] > 0
                and all(kinds[kind].templates[other] for kind in held[place])
                and all(one.free[where] >= amount for where, amount in needs[place].items())
            ):
                left[other] -= 1
                left[new[place]] += 1
                cost -= (templates[new[place]].price - one.price) * state.problem.hours
                new[place] = other
        assert template >= 0
    return Repacking(placement.where, new, cost)


def _within(state: Assignment, new: Sequence[int]) -> bool:
    return sum(state.bought) + len(new) <= state.problem.cluster_room

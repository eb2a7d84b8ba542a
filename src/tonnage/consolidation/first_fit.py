"""Places for many pods at once: large ones first, into the first bin with room."""

from collections.abc import Collection, Sequence

from tonnage.consolidation.assignment import Assignment, Repacking


class BinOrder:
    """Bins in the order in which they are tried, while no open one gains room.

    Remembers for each kind how many of the first bins are of no use to it for good, so that those
    who come later need not try them again.
    """

    def __init__(self, state: Assignment, bins: Sequence[int]) -> None:
        self._state = state
        self.bins = bins
        self._useless: dict[int, int] = {}

    def first(self, kind: int) -> int:
        """The position of the first bin that might take the kind, whoever is to close."""
        position = self._useless.get(kind, 0)
        state = self._state
        while position < len(self.bins):
            number = self.bins[position]
            if state.open[number] and state.suits(kind, number) and state.fits(kind, number):
                break
            position += 1
        self._useless[kind] = position
        return position


def place(
    state: Assignment,
    moving: Sequence[int],
    *,
    closed: Collection[int],
    order: BinOrder,
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
    bins, is_open = order.bins, state.open
    resume: dict[int, int] = {}
    resume_new: dict[int, int] = {}
    room = [state.room(template) for template in range(len(state.problem.templates))]
    for item in sorted(moving, key=lambda one: -kinds[items[one].kind].size):
        one = items[item]
        kind = kinds[one.kind]
        needs = kind.needs
        position = resume.get(one.kind)
        if position is None:
            position = order.first(one.kind)
        chosen = -1
        while position < len(bins):
            number = bins[position]
            if (
                is_open[number]
                and _has_room(free.get(number) or state.free[number], needs)
                and number not in closed
                and state.suits(one.kind, number)
            ):
                chosen = number
                break
            position += 1
        resume[one.kind] = position
        if chosen < 0:
            # Who was passed by once has not gained room since.
            at = resume_new.get(one.kind, 0)
            while at < len(new):
                if kind.templates[new[at]] and _has_room(free[first + at], needs):
                    chosen = first + at
                    break
                at += 1
            resume_new[one.kind] = at
        if chosen < 0:
            for template in templates:
                fresh = state.problem.templates[template]
                if kind.templates[template] and room[template] > 0 and _has_room(fresh.free, needs):
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


def _has_room(free: Sequence[int], needs: Sequence[tuple[int, int]]) -> bool:
    for dimension, amount in needs:  # noqa: SIM110 - the inmost loop: a generator costs double.
        if free[dimension] < amount:
            return False
    return True


def _within(state: Assignment, new: Sequence[int]) -> bool:
    return sum(state.bought) + len(new) <= state.problem.cluster_room

"""The cheapest places for pods: depth first, within a bound and a number of steps.

Pods that have to move come first, large ones before small ones. Pods that may stay come after
them and stay if they can: where one has to make room for another, that is found here too.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from tonnage.consolidation.assignment import Assignment, Repacking

_LITTLE = 1e-9


class _Shortage(NamedTuple):
    """What new bins have to bring: how much, and how much of it one of each template brings."""

    amount: int
    brought: tuple[int, ...]
    unit_price: float
    """The least that one of it costs."""
    bin_price: float
    """The least that a bin costs which brings any."""

    def least_cost(self, new: Sequence[int]) -> float:
        """No less than this has to be paid beside the new bins: whole ones, at that."""
        left = self.amount - sum(self.brought[template] for template in new)
        if left <= 0:
            return 0.0
        if not any(self.brought):
            return math.inf
        return max(left * self.unit_price, -(-left // max(self.brought)) * self.bin_price)


def cheapest(
    state: Assignment,
    moving: Sequence[int],
    *,
    closed: Collection[int],
    staying: Sequence[int] = (),
    below: float,
    steps: int,
    order: Sequence[int],
    with_room: dict[int, list[int]] | None = None,
) -> tuple[Repacking | None, int]:
    """Places for all items at less than `below`; `None` if there are none, or none was found.

    And how many steps that took.

    `moving` are items of bins that are `closed`; those `staying` may move as well. Open bins are
    tried in the `order` given. `with_room` remembers, while nothing is applied, which of them have
    room for one of a kind.
    """
    search = _Search(state, moving, staying, closed, order, below, steps)
    if with_room is not None and not staying:
        search.with_room = with_room
    search.run()
    return search.best, steps - search.left


class _Search:
    """Items are taken off for the search, and put back where they were when it is over."""

    def __init__(
        self,
        state: Assignment,
        moving: Sequence[int],
        staying: Sequence[int],
        closed: Collection[int],
        order: Sequence[int],
        below: float,
        steps: int,
    ) -> None:
        self._state = state
        items, kinds = state.problem.items, state.kinds

        def large_first(item: int) -> tuple[float, int, float]:
            one = items[item]
            return -kinds[one.kind].size, one.kind, one.cost

        self._items = [*sorted(moving, key=large_first), *sorted(staying, key=large_first)]
        self._must = len(moving)
        self._all = [number for number in order if state.open[number]]
        self._order = [number for number in self._all if number not in closed]
        self._position = {number: place for place, number in enumerate(self._order)}
        self._by_price = _by_price(state)
        self._closed = closed
        self._below = below
        self.left = steps
        self.best: Repacking | None = None
        self._chosen: list[int] = []
        self._new: list[int] = []
        self._free = state.free
        self._special = {state.where[item] for item in staying}
        self.with_room: dict[int, list[int]] = {}
        self._floor = sum(
            min(state.move_cost(item, state.problem.items[item].home), 0.0) for item in self._items
        )

    def run(self) -> None:
        state = self._state
        first = len(self._free)
        for item in self._items:
            self._put(item, state.where[item], 1)
        kinds = dict.fromkeys(state.problem.items[item].kind for item in self._items)
        self._suitable = {kind: self._bins_for(kind) for kind in kinds}
        self._short = self._shortages()
        self._to_buy = [self._still_to_buy()]
        try:
            self._descend(0, 0.0)
        finally:
            del self._free[first:]
            for item in self._items:
                self._put(item, state.where[item], -1)

    def _bins_for(self, kind: int) -> list[int]:
        """The bins that might take the kind: while all items are off, none has more room."""
        suits, needs = self._state.suits, self._state.kinds[kind].needs
        known = self.with_room.get(kind)
        if known is None:
            known = self.with_room[kind] = [
                number
                for number in self._all
                if self._has_room(needs, number) and suits(kind, number)
            ]
        # Bins that were closed for others had more room then.
        return [
            number
            for number in known
            if number not in self._closed and self._has_room(needs, number)
        ]

    def _shortages(self) -> list[_Shortage]:
        """Of what new bins have to bring some.

        Looked at for the items of at least one size each, of everything they need: what they come
        to, on bins that take one of them, and how many of that size there is room for.
        """
        state = self._state
        items, kinds = state.problem.items, state.kinds
        count: dict[int, int] = {}
        for item in self._items:
            count[items[item].kind] = count.get(items[item].kind, 0) + 1
        by_dimension: dict[int, list[tuple[int, int]]] = {}
        for kind in count:
            for dimension, amount in kinds[kind].needs:
                if amount > 0:
                    by_dimension.setdefault(dimension, []).append((amount, kind))
        found = []
        for dimension, needs in by_dimension.items():
            needs.sort(reverse=True)
            room = {number: max(self._free[number][dimension], 0) for number in self._special}
            amount = number = 0
            for position, (size, kind) in enumerate(needs):
                room.update((one, self._free[one][dimension]) for one in self._suitable[kind])
                amount += size * count[kind]
                number += count[kind]
                if position + 1 < len(needs) and needs[position + 1][0] == size:
                    continue
                short = amount - sum(room.values())
                if short > 0:
                    found.append(self._shortage(short, dimension, 1))
                short = number - sum(free // size for free in room.values())
                if short > 0:
                    found.append(self._shortage(short, dimension, size))
        return found

    def _shortage(self, short: int, dimension: int, size: int) -> _Shortage:
        templates, hours = self._state.problem.templates, self._state.problem.hours
        brought = tuple(max(one.free[dimension], 0) // size for one in templates)
        prices = [
            (one.price * hours, brings)
            for one, brings in zip(templates, brought, strict=True)
            if brings
        ]
        return _Shortage(
            short,
            brought,
            min((price / brings for price, brings in prices), default=math.inf),
            min((price for price, _ in prices), default=math.inf),
        )

    def _still_to_buy(self) -> float:
        """No less than this has to be paid for what is short beside the new bins."""
        return max((short.least_cost(self._new) for short in self._short), default=0.0)

    def _descend(self, depth: int, spent: float) -> None:
        if self.left <= 0:
            return
        self.left -= 1
        if spent + self._to_buy[-1] + self._floor >= self._below - _LITTLE:
            return
        if depth == len(self._items):
            if spent < self._below - _LITTLE:
                self._below = spent
                where = dict(zip(self._items, self._chosen, strict=True))
                self.best = Repacking(where, list(self._new), spent)
            return
        item = self._items[depth]
        for number, cost in self._choices(depth, item):
            template = -1
            if number < 0:
                template = -number - 1
                number = len(self._free)
                self._free.append(list(self._state.problem.templates[template].free))
                self._new.append(template)
                self._to_buy.append(self._still_to_buy())
            self._put(item, number, -1)
            self._chosen.append(number)
            self._descend(depth + 1, spent + cost)
            self._chosen.pop()
            self._put(item, number, 1)
            if template >= 0:
                self._new.pop()
                self._to_buy.pop()
                self._free.pop()
            if self.left <= 0:
                return

    def _choices(self, depth: int, item: int) -> Iterator[tuple[int, float]]:
        """Bins for the item, each with what it adds to the cost; a template is below zero."""
        state = self._state
        one = state.problem.items[item]
        kind = state.kinds[one.kind]
        first = len(state.template_of)
        after = self._after(depth, one.kind)
        seen: set[tuple[int, ...]] = set()
        stays = depth >= self._must
        if stays:
            home = state.where[item]
            if self._has_room(kind.needs, home):
                yield home, 0.0
        for number in self._suitable[one.kind]:
            position = self._position[number]
            if position < after or (stays and number == state.where[item]):
                continue
            if not self._has_room(kind.needs, number):
                continue
            cost = state.move_cost(item, number)
            if number not in self._special and number != one.home and not stays:
                same = (state.template_of[number], *self._free[number])
                if same in seen and position > after:
                    continue
                seen.add(same)
            yield number, cost
        away = state.move_cost(item, -1)
        known = len(self._order)
        seen_new: set[tuple[int, ...]] = set()
        for place, template in enumerate(self._new):
            number = first + place
            if known + place < after or not kind.templates[template]:
                continue
            same = (template, *self._free[number])
            if same in seen_new or not self._has_room(kind.needs, number):
                continue
            seen_new.add(same)
            yield number, away
        hours = state.problem.hours
        for template in self._by_price:
            if kind.templates[template] and self._may_buy(template):
                one_more = state.problem.templates[template]
                if all(one_more.free[where] >= amount for where, amount in kind.needs):
                    yield -template - 1, one_more.price * hours + away

    def _after(self, depth: int, kind: int) -> int:
        """Pods of one kind that have to move go in the order of the bins: it is all the same."""
        if not 0 < depth < self._must:
            return 0
        before = self._items[depth - 1]
        items = self._state.problem.items
        if items[before].kind != kind or items[before].cost != items[self._items[depth]].cost:
            return 0
        if (
            items[before].home not in self._closed
            or self._state.where[before] != items[before].home
        ):
            return 0
        if items[self._items[depth]].home not in self._closed:
            return 0
        number, first = self._chosen[-1], len(self._state.template_of)
        if number >= first:
            return len(self._order) + number - first
        return self._position[number]

    def _may_buy(self, template: int) -> bool:
        room = self._state.problem.templates[template].room - self._state.bought[template]
        cluster = self._state.problem.cluster_room - sum(self._state.bought) - len(self._new)
        return room > self._new.count(template) and cluster > 0

    def _has_room(self, needs: tuple[tuple[int, int], ...], number: int) -> bool:
        free = self._free[number]
        for dimension, amount in needs:  # noqa: SIM110 - the inmost loop: a generator costs double.
            if free[dimension] < amount:
                return False
        return True

    def _put(self, item: int, number: int, sign: int) -> None:
        free = self._free[number]
        for dimension, amount in self._state.kinds[self._state.problem.items[item].kind].needs:
            free[dimension] += sign * amount


def _by_price(state: Assignment) -> list[int]:
    templates = state.problem.templates
    return sorted(range(len(templates)), key=lambda number: templates[number].price)

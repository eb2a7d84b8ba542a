"""Which nodes go and which are bought: from cheap and coarse to dear and exact.

1. Nodes are emptied one after the other onto those that stay: who saves most for what it
   disturbs goes first.
2. Nodes that are left are replaced: those that cost most for what they carry, so many at once as
   is best, by nodes of each template.
3. Few nodes at a time are looked at exactly: which of them go, which pods elsewhere make room, and
   what is bought instead. In a small cluster these few are all there are.

Every step costs less than the one before it, so that it ends, and nothing goes round in circles.
"""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tonnage.consolidation import branch_and_bound, first_fit
from tonnage.consolidation.assignment import Assignment, Repacking
from tonnage.consolidation.first_fit import BinOrder
from tonnage.consolidation.problem import Problem

_ALL_AT_ONCE = 8
"""Nodes that may go up to which all sets of them are looked at."""
_AT_A_TIME = 3
"""Nodes of which all sets are looked at, where there are more."""
_ITEMS_AT_ONCE = 40
_STEPS = 4000
"""Places tried for one set of nodes."""
_STEPS_IN_ALL = 120_000
_ROUNDS = 200
_IN_VAIN = 24
"""Parts that are looked at without a gain before it is given up."""
_EMPTIEST = 8
"""Nodes that are looked at together most often."""
_LITTLE = 1e-9


class Gain(NamedTuple):
    """Bins that close, where their items go, and what is gained over the horizon."""

    value: float
    closed: tuple[int, ...]
    placement: Repacking


def solve(
    problem: Problem,
    out_of_time: Callable[[], bool] = lambda: False,
    *,
    in_parts: bool = True,
) -> Assignment:
    """The cheapest assignment that was found; without `in_parts` only the coarse steps are taken,
    unless the cluster is small."""
    state = Assignment(problem)
    search = _Search(state, out_of_time)
    going = [number for number in state.bins if state.may_go(number)]
    if len(going) <= _ALL_AT_ONCE and len(problem.items) <= _ITEMS_AT_ONCE:
        search.improve_exactly(going)
        return state
    search.empty_nodes()
    search.replace_nodes()
    if in_parts:
        search.improve_in_parts()
    return state


class _Search:
    def __init__(self, state: Assignment, out_of_time: Callable[[], bool]) -> None:
        self._state = state
        self._out_of_time = out_of_time
        self._steps = _STEPS_IN_ALL
        self._in_vain: set[tuple[int, ...]] = set()
        """Sets of nodes that cannot go, as everything is now."""

    def empty_nodes(self) -> None:
        """Close nodes whose pods find room on others, for as long as that gains anything."""
        state = self._state
        hours = state.problem.hours
        candidates = [number for number in state.bins if state.may_go(number)]
        candidates.sort(key=lambda number: self._cost(number) / max(state.price(number), _LITTLE))
        last = set(candidates)
        bins = self._fullest_first([number for number in state.bins if number not in last])
        order = BinOrder(state, [*bins, *reversed(candidates)])
        for number in candidates:
            if self._out_of_time():
                return
            if not state.may_go(number):
                continue
            found = first_fit.place(
                state,
                sorted(state.members[number]),
                closed=(number,),
                order=order,
                templates=(),
                below=state.price(number) * hours - _LITTLE,
            )
            if found is not None:
                state.apply(found, closed=(number,))

    def replace_nodes(self) -> None:
        """Replace so many of the nodes that cost most for what they carry, as is best."""
        for _ in range(_ROUNDS):
            best: Gain | None = None
            for gain in self._replacements():
                if best is None or gain.value > best.value:
                    best = gain
            if best is None or best.value <= _LITTLE or self._out_of_time():
                return
            self._state.apply(best.placement, closed=best.closed)

    def _replacements(self) -> Iterator[Gain]:
        state = self._state
        candidates = [number for number in state.bins if state.may_go(number)]
        groups = sorted({self._group(number) for number in candidates})
        fill = {
            number: self._carried(number) / max(state.price(number), _LITTLE)
            for number in candidates
        }
        everybody = sorted(candidates, key=lambda number: fill[number])
        orders = [everybody]
        if len(groups) > 1:
            orders += [
                [number for number in everybody if self._group(number) == group] for group in groups
            ]
        rest = BinOrder(state, self._fullest_first(state.bins))
        for order in orders:
            for count in _counts(len(order)):
                if self._out_of_time():
                    return
                closed = tuple(order[:count])
                if state.within_spare(closed):
                    yield from self._replaced(closed, rest)

    def _replaced(self, closed: Sequence[int], rest: BinOrder) -> Iterator[Gain]:
        """These nodes gone, with each template tried alone and the cheapest for each pod."""
        state = self._state
        hours = state.problem.hours
        price = sum(state.price(number) for number in closed) * hours
        items = sorted(item for number in closed for item in state.members[number])
        gone = frozenset(closed)
        templates = range(len(state.problem.templates))
        by_worth = sorted(templates, key=self._price_of_a_share)
        for choice in ([one] for one in templates):
            found = first_fit.place(
                state,
                items,
                closed=gone,
                order=rest,
                templates=[*choice, *(one for one in by_worth if one not in choice)],
                below=float("inf"),
            )
            if found is not None:
                found = first_fit.downsized(state, found)
                if price - found.cost > _LITTLE and self._saves_enough(closed, found):
                    yield Gain(price - found.cost, tuple(closed), found)

    def improve_exactly(self, candidates: Sequence[int]) -> None:
        """All sets of these nodes, those that could gain most first."""
        while (gain := self._best_of(candidates, stay=True)) is not None:
            self._state.apply(gain.placement, closed=gain.closed)
            self._in_vain = set()
            candidates = [number for number in self._state.bins if self._state.may_go(number)]

    def improve_in_parts(self) -> None:
        """Few nodes at a time: the emptiest with each other, then by chance, for a while."""
        rng = random.Random(0)
        state = self._state
        failed = 0
        candidates: list[int] = []
        order: list[int] = []
        with_room: dict[int, list[int]] = {}
        while failed < _IN_VAIN and self._steps > 0 and not self._out_of_time():
            if not failed:
                candidates = [number for number in state.bins if state.may_go(number)]
                candidates.sort(key=self._carried)
                order = self._fullest_first(state.bins)
                with_room = {}
                self._in_vain = set()
            if not candidates:
                return
            some = candidates if failed % 3 == 2 else candidates[:_EMPTIEST]
            part = sorted(rng.sample(some, min(_AT_A_TIME, len(some))))
            gain = self._best_of(part, stay=False, order=order, with_room=with_room)
            failed += 1
            if gain is not None:
                failed = 0
                state.apply(gain.placement, closed=gain.closed)

    def _best_of(
        self,
        candidates: Sequence[int],
        *,
        stay: bool,
        order: Sequence[int] | None = None,
        with_room: dict[int, list[int]] | None = None,
    ) -> Gain | None:
        state = self._state
        order = self._fullest_first(state.bins) if order is None else order
        best: Gain | None = None
        sets = [
            closed
            for size in range(1, len(candidates) + 1)
            for closed in itertools.combinations(candidates, size)
            if closed not in self._in_vain and state.within_spare(closed)
        ]
        hours = state.problem.hours
        prices = {closed: sum(map(state.price, closed)) * hours for closed in sets}
        at_most = {closed: prices[closed] - self._least_cost(closed) for closed in sets}
        sets.sort(key=lambda closed: -at_most[closed])
        for closed in sets:
            reached = best.value if best is not None else 0.0
            if at_most[closed] <= reached + _LITTLE:
                break
            items = [item for number in closed for item in state.members[number]]
            if self._steps <= 0 or self._out_of_time():
                break
            others = (
                [item for number in order if number not in closed for item in state.members[number]]
                if stay
                else []
            )
            found, steps = branch_and_bound.cheapest(
                state,
                items,
                closed=closed,
                staying=others,
                below=prices[closed] - reached,
                steps=_STEPS * (5 if stay else 1),
                order=order,
                with_room=with_room,
            )
            self._steps -= steps
            if found is not None and self._saves_enough(closed, found):
                best = Gain(prices[closed] - found.cost, closed, found)
            elif best is None:
                self._in_vain.add(closed)
        return best

    def _saves_enough(self, closed: Sequence[int], found: Repacking) -> bool:
        """Whether the share is saved that has to be, of nodes that were there from the start."""
        state = self._state
        there = sum(state.price(number) for number in closed if state.template_of[number] < 0)
        bought = sum(state.problem.templates[one].price for one in found.new)
        saving = sum(map(state.price, closed)) - bought
        return saving >= there * state.problem.least_share - _LITTLE

    def _least_cost(self, closed: Sequence[int]) -> float:
        """No less than this do the moves cost that bins need to be closed."""
        state = self._state
        return sum(
            state.problem.items[item].cost
            if state.problem.items[item].home == number
            else min(0.0, -state.problem.items[item].cost)
            for number in closed
            for item in state.members[number]
        )

    def _fullest_first(self, bins: Sequence[int]) -> list[int]:
        return sorted(bins, key=self._slack)

    def _slack(self, number: int) -> float:
        """The least free share of a bin."""
        whole = self._whole(number)
        free = self._state.free[number]
        return min(
            (
                have / all_of_it
                for have, all_of_it in zip(free, whole, strict=True)
                if all_of_it > 0
            ),
            default=0.0,
        )

    def _whole(self, number: int) -> list[int]:
        """What the bin has free of everything that could move."""
        state = self._state
        whole = list(state.free[number])
        for item in state.members[number]:
            for dimension, amount in state.kinds[state.problem.items[item].kind].needs:
                whole[dimension] += amount
        return whole

    def _carried(self, number: int) -> float:
        """What the pods of a bin come to, each by the largest share of a common node it takes."""
        items, kinds = self._state.problem.items, self._state.kinds
        return sum(kinds[items[item].kind].size for item in self._state.members[number])

    def _cost(self, number: int) -> float:
        return sum(self._state.problem.items[item].cost for item in self._state.members[number])

    def _group(self, number: int) -> str:
        template = self._state.template_of[number]
        problem = self._state.problem
        return problem.bins[number].group if template < 0 else problem.templates[template].group

    def _price_of_a_share(self, template: int) -> float:
        one = self._state.problem.templates[template]
        return one.price / max(one.free[0], 1)


def _counts(most: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, ... and all of them."""
    found = {most} if most else set()
    step = 1
    while step < most:
        found |= {step, min(step * 3 // 2, most)}
        step *= 2
    return sorted(found)

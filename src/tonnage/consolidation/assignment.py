"""Which pod is where, while a plan is in the making: counts are kept in step with places."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tonnage.consolidation.problem import Problem


class Repacking(NamedTuple):
    """Where items go: a bin that is there, or beyond those a new one, by its place in `new`."""

    where: dict[int, int]
    new: list[int]
    """The templates of the new bins."""
    cost: float
    """What the new bins and the moves cost over the horizon, less what moving back saves."""


class Assignment:
    """Bins beyond those of the problem are new; `free` never falls below zero."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.kinds = problem.kinds
        self.where = [item.home for item in problem.items]
        self.free = [list(one.free) for one in problem.bins]
        self.open = [True] * len(problem.bins)
        self.template_of = [-1] * len(problem.bins)
        self.members: list[set[int]] = [set() for _ in problem.bins]
        for number, item in enumerate(problem.items):
            self.members[item.home].add(number)
        self.bought = [0] * len(problem.templates)
        self._lost = dict.fromkeys(problem.spare, 0)

    def price(self, number: int) -> float:
        template = self.template_of[number]
        if template < 0:
            return self.problem.bins[number].price
        return self.problem.templates[template].price

    def may_go(self, number: int) -> bool:
        """Whether the bin is open and may be closed: a node of a group that can lose one."""
        if not self.open[number]:
            return False
        if self.template_of[number] >= 0:
            return True
        one = self.problem.bins[number]
        return one.may_go and self._lost.get(one.group, 0) < self.problem.spare.get(one.group, 0)

    def within_spare(self, bins: Iterable[int]) -> bool:
        """Whether all of them may go together."""
        more: dict[str, int] = {}
        for number in bins:
            if not self.may_go(number):
                return False
            if self.template_of[number] < 0:
                group = self.problem.bins[number].group
                more[group] = more.get(group, 0) + 1
        return all(
            self._lost[group] + count <= self.problem.spare[group] for group, count in more.items()
        )

    def room(self, template: int) -> int:
        """How many more nodes of a template may be bought."""
        left = self.problem.templates[template].room - self.bought[template]
        return min(left, self.problem.cluster_room - sum(self.bought))

    def suits(self, kind: int, number: int) -> bool:
        """Whether a bin would take the kind if there is room."""
        template = self.template_of[number]
        if template < 0:
            return self.kinds[kind].bins[number]
        return self.kinds[kind].templates[template]

    def fits(self, kind: int, number: int) -> bool:
        free = self.free[number]
        return all(free[dimension] >= amount for dimension, amount in self.kinds[kind].needs)

    def move_cost(self, item: int, number: int) -> float:
        """What it costs more that the item goes there instead of staying where it is now."""
        one = self.problem.items[item]
        return one.cost * ((number != one.home) - (self.where[item] != one.home))

    def move(self, item: int, number: int) -> None:
        before, needs = self.where[item], self.kinds[self.problem.items[item].kind].needs
        if before == number:
            return
        out, into = self.free[before], self.free[number]
        for dimension, amount in needs:
            out[dimension] += amount
            into[dimension] -= amount
        self.members[before].discard(item)
        self.members[number].add(item)
        self.where[item] = number

    def buy(self, template: int) -> int:
        """A new bin; gives its number."""
        self.free.append(list(self.problem.templates[template].free))
        self.open.append(True)
        self.template_of.append(template)
        self.members.append(set())
        self.bought[template] += 1
        return len(self.free) - 1

    def close(self, number: int) -> None:
        assert not self.members[number]
        self.open[number] = False
        self._count(number, 1)

    def reopen(self, number: int) -> None:
        self.open[number] = True
        self._count(number, -1)

    def _count(self, number: int, by: int) -> None:
        template = self.template_of[number]
        if template >= 0:
            self.bought[template] -= by
        else:
            self._lost[self.problem.bins[number].group] += by

    def apply(self, placement: Repacking, *, closed: Sequence[int]) -> None:
        """Carry out what was found: buy, move, close."""
        new = [self.buy(template) for template in placement.new]
        known = len(self.problem.bins)
        first = len(self.free) - len(new)
        for item, number in placement.where.items():
            self.move(item, number if number < first else new[number - first])
        assert first >= known
        for number in closed:
            self.close(number)

    @property
    def bins(self) -> list[int]:
        """The bins that are open."""
        return [number for number, is_open in enumerate(self.open) if is_open]

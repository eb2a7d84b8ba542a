"""Tied items placed in stages: what `placement_program` leaves to the order is settled here too.

At the beginning of a stage bins may come, and are used at once; in a stage items come that fit by
what is there when it ends. So the stages are an order in which it can be done, as far as the items
of one stage do not hinder each other. What is possible may be better than what is found: the bound
is that of `placement_program`.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from tonnage.optimise import highs
from tonnage.optimise.effort import Effort
from tonnage.optimise.placement_program import BOLD, BinPlace, PlacementProgram
from tonnage.optimise.problem import Counts, PackingProblem, PackingSolution
from tonnage.optimise.ties import OWN, SharedSpread, Ties

_MOST = 220
"""Bins times classes of items up to which they are looked at."""
_STAGES = 3
_FEW_STAGES = 2
"""How many there are to get as much as in any order, and to get as much as there is."""
_NODES = 60
_NEAR = 1e-6

Stage: TypeAlias = dict[BinPlace, tuple[int, ...]]
"""The items that come in a stage, by class, and where to."""


def solve(
    problem: PackingProblem, ties: Ties, effort: Effort, *, bold: PackingSolution
) -> list[Stage]:
    """Stages that are as good as the bold solution, or the best of fewer; none if it is too large.

    Whether something is as good is answered sooner than what is best.
    """
    new = sum(times for one, times in bold.patterns if problem.prices[one.bin_type] > 0)
    few = [min(most, new + 1.0) if price > 0 else most for most, price in _limits(problem)]
    if sum(few) * len(problem.items) > _MOST:
        return []
    problem = problem.with_most(few)
    program = _Ordered(problem, ties, _STAGES)
    program.be_as_good(sum(bold.left), bold.cost)
    return program.stages(effort) or _Ordered(problem, ties, _FEW_STAGES).stages(effort)


def bought(stages: Iterable[Stage], problem: PackingProblem) -> int:
    """How many bins come that have a price."""
    places = {place for stage in stages for place in stage}
    return sum(problem.prices[place.bin_type] > 0 for place in places)


def _limits(problem: PackingProblem) -> Iterable[tuple[float, float]]:
    most = np.minimum(problem.most, problem.counts.sum())
    return zip(most.tolist(), problem.prices.tolist(), strict=True)


class _Ordered(PlacementProgram):
    """The columns and rows of `placement_program`, and of each stage."""

    def __init__(self, problem: PackingProblem, ties: Ties, stages: int) -> None:
        super().__init__(problem, ties, BOLD)
        self._stages = range(stages)
        self._new = [one for one in self._places if problem.prices[one.bin_type] > 0]
        self._there = {one: self._in_stages(self._used[one], 1) for one in self._new}
        self._put = {
            key: self._in_stages(column, self._upper[column]) for key, column in self._held.items()
        }
        self._come_to_be_used()
        for spread in ties.spreads:
            by_domain = list(self._domains(spread.domains))
            for stage in self._stages:
                self._spread_in(stage, spread, by_domain)

    def _in_stages(self, column: int, upper: float) -> list[int]:
        """Columns for what there is after each stage, the last of which is there already."""
        found = [self._column(0.0, upper, integer=True) for _ in self._stages[1:]]
        for before, after in pairwise((*found, column)):
            self._at_least(0.0, {after: 1.0, before: -1.0})
        return [*found, column]

    def _come_to_be_used(self) -> None:
        """Items come when their bin is there, and a bin when an item does."""
        for (place, _), put in self._put.items():
            for present, held in zip(self._there.get(place, ()), put, strict=False):
                self._at_least(0.0, {present: self._upper[held], held: -1.0})
        for place in self._new:
            for stage, there in zip(self._stages, self._there[place], strict=True):
                items = self._after(stage, self._items, [place])
                self._at_least(0.0, {there: -1.0, **dict.fromkeys(items, 1.0)})
                if place.copy:
                    before = self._there[BinPlace(place.bin_type, place.copy - 1)]
                    self._at_least(0.0, {before[stage]: 1.0, there: -1.0})

    def _after(self, stage: int, items: Iterable[int], places: Iterable[BinPlace]) -> list[int]:
        """The columns of the items in the places after a stage; none before the first."""
        wanted = list(items)
        return [
            self._put[place, item][stage]
            for place in places
            for item in wanted
            if stage >= 0 and (place, item) in self._put
        ]

    def _spread_in(
        self, stage: int, spread: SharedSpread, by_domain: Sequence[tuple[int, list[BinPlace]]]
    ) -> None:
        """Where items of those limited come, no more are counted than the skew above the lowest."""
        places = {number: found for number, found in by_domain if number != OWN}
        standing = [
            (height, self._after(stage, spread.counted, places.get(number, ())))
            for number, height in enumerate(spread.heights)
            if spread.standing[number]
        ]
        total = float(sum(spread.heights) + self._problem.counts.sum())
        tops = [height + self._most(spread.counted, counted) for height, counted in standing]
        highest = min(tops, default=total)
        level = self._column(0.0, highest)
        for height, counted in standing:
            self._at_least(-float(height), {level: -1.0, **dict.fromkeys(counted, 1.0)})
        domains: dict[int, float] = {}
        for number, found in by_domain:
            height = 0 if number == OWN else spread.heights[number]
            counted = self._after(stage, spread.counted, found)
            if number == OWN or not spread.standing[number]:
                there = [self._there[one][stage] for one in found if one in self._there]
                for one in there:
                    row = {level: -1.0, one: -highest, **dict.fromkeys(counted, 1.0)}
                    self._at_least(-height - highest, row)
                domain = self._column(0.0, 1, integer=True)
                self._at_least(0.0, {domain: -1.0, **dict.fromkeys(there, 1.0)})
                domains[domain] = 1.0
            limited = self._after(stage, spread.limited, found)
            if limited:
                comes = self._column(0.0, 1, integer=True)
                grown = _grown(limited, self._after(stage - 1, spread.limited, found))
                self._at_least(0.0, {comes: self._most(spread.limited, limited), **grown})
                above = height + self._most(spread.counted, counted) - spread.max_skew
                row = {level: 1.0, comes: -above, **dict.fromkeys(counted, -1.0)}
                self._at_least(height - spread.max_skew - above, row)
        lacking = spread.least_domains - sum(spread.standing)
        if lacking > 0:
            enough = self._column(0.0, 1, integer=True)
            self._at_least(0.0, {enough: highest, level: -1.0})
            self._at_least(0.0, {enough: -float(lacking), **domains})

    def _most(self, items: Sequence[int], columns: Sequence[int]) -> float:
        room = sum(self._upper[one] for one in columns)
        return min(room, float(self._problem.counts[list(items)].sum()))

    def be_as_good(self, left: int, cost: float) -> None:
        """Leave out no more items in all, and cost no more; nothing else is asked for."""
        self._at_least(-float(left), dict.fromkeys(self._left, -1.0))
        prices = {column: -self._costs[column] for column in self._used.values()}
        self._at_least(-cost * (1 + _NEAR), prices)
        self._costs = [0.0] * len(self._costs)

    def stages(self, effort: Effort) -> list[Stage]:
        found = self.solve(effort, nodes=_NODES)
        return self._read(found) if found.feasible else []

    def _read(self, found: highs.Solved) -> list[Stage]:
        stages: list[Stage] = []
        before: dict[tuple[BinPlace, int], int] = {}
        for stage in self._stages:
            after = {key: round(found.columns[put[stage]]) for key, put in self._put.items()}
            coming: dict[BinPlace, Counts] = {}
            for (place, item), count in after.items():
                more = count - before.get((place, item), 0)
                if more:
                    nothing = np.zeros(len(self._items), dtype=np.int64)
                    coming.setdefault(place, nothing)[item] = more
            stages.append({place: tuple(counts.tolist()) for place, counts in coming.items()})
            before = after
        return stages


def _grown(after: Sequence[int], before: Sequence[int]) -> dict[int, float]:
    """The entries of a row that is lower by what came between."""
    return {**dict.fromkeys(after, -1.0), **dict.fromkeys(before, 1.0)}

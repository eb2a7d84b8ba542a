"""Every bin and every tie in one integer program: exact where bins are few.

Items of a packing problem may be tied (`ties`): a rule says where one may be by where others are.
The program has a variable for every bin that could be used and for the items of each class in it,
and of each tie what holds in the end in whatever order items and bins come: it allows more than
is allowed, never less, so that its bound holds. An order in which it can be done is for the caller.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tonnage.optimise import highs
from tonnage.optimise.effort import Effort
from tonnage.optimise.problem import Counts, Numbers, PackingProblem, PackingSolution, Pattern
from tonnage.optimise.ties import OWN, Company, Domains, KeptApart, SharedSpread, Ties

_MOST = 600
"""Bins times classes of items up to which all are looked at."""
_NODES = 2_000
_CAREFUL_NODES = 300
"""How far the search goes, and how far with care: that only gains something, it proves nothing."""
_NEAR = 1e-6


def is_small(problem: PackingProblem) -> bool:
    """Whether there are few enough bins and classes."""
    return _places(problem) * len(problem.items) <= _MOST


def _places(problem: PackingProblem) -> float:
    return float(np.minimum(problem.most, problem.counts.sum()).sum())


class Care(NamedTuple):
    """How much is left to the order in which things are done: by default everything.

    With `all_there`, no bin may be lower than the skew below others though it comes later. With
    `all_counted`, no item may come after those that it would have kept away.
    """

    all_there: bool = False
    all_counted: bool = False


BOLD = Care()


def solve(
    problem: PackingProblem, ties: Ties, effort: Effort, *, care: Care = BOLD
) -> PackingSolution:
    """The most items in the cheapest bins, and how cheap it can be with no more left out.

    With more `care` it is found in more orders, but the bound is only for what is as careful.
    """
    before = effort.done
    program = PlacementProgram(problem, ties, care)
    found = program.solve(effort, nodes=_NODES if care == BOLD else _CAREFUL_NODES)
    bins = program.bins(found.columns)
    held = np.array([one.counts for one in bins], dtype=np.int64).reshape(-1, len(problem.items))
    left = problem.counts - held.sum(axis=0)
    cost = _cost(problem, bins)
    bound = _proven(found, cost, without=problem.penalty * float(left.sum()))
    return PackingSolution(
        patterns=tuple(Counter(bins).items()),
        left=tuple(left.tolist()),
        cost=cost,
        bound=bound,
        work=effort.done - before,
    )


def bound(problem: PackingProblem, ties: Ties, left: Counts, effort: Effort) -> float:
    """What no packing costs less than that leaves out no more of each class."""
    program = PlacementProgram(problem, ties, BOLD)
    program.leave_no_more_than(left)
    found = program.solve(effort)
    return _proven(found, _cost(problem, program.bins(found.columns)))


def _cost(problem: PackingProblem, bins: Iterable[Pattern]) -> float:
    return sum(float(problem.prices[one.bin_type]) for one in bins)


def _proven(found: highs.Solved, cost: float, *, without: float = 0.0) -> float:
    """The bound on the cost: the cost itself where the search has ended, less where it has not."""
    if not found.feasible or not np.isfinite(found.bound):
        return 0.0
    bound = found.bound - without
    if bound >= cost - _NEAR * max(abs(found.value), 1.0):
        return cost
    return max(bound - _NEAR * abs(found.bound), 0.0)


class BinPlace(NamedTuple):
    bin_type: int
    copy: int


class _Top(NamedTuple):
    """What keeps a domain below the level of a spread: its row is at least `lower`."""

    spread: SharedSpread
    level: int
    places: tuple[BinPlace, ...]
    lower: float
    most: float


class PlacementProgram:
    """The columns and rows of a problem with its ties."""

    def __init__(self, problem: PackingProblem, ties: Ties, care: Care) -> None:
        self._problem = problem
        self._care = care
        self._costs: list[float] = []
        self._upper: list[float] = []
        self._integer: list[int] = []
        self._rows: list[tuple[float, dict[int, float]]] = []
        self._presences: dict[tuple[int, tuple[BinPlace, ...]], int] = {}
        counts = np.minimum(problem.most, problem.counts.sum()).astype(int).tolist()
        self._places = [
            BinPlace(bin_type, copy)
            for bin_type, count in enumerate(counts)
            for copy in range(count)
        ]
        self._items = range(len(problem.items))
        self._left = [self._column(problem.penalty, number) for number in problem.counts.tolist()]
        self._used = {
            place: self._column(float(problem.prices[place.bin_type]), 1, integer=True)
            for place in self._places
        }
        self._held = {
            (place, item): self._column(0.0, int(cap), integer=True)
            for place in self._places
            for item, cap in enumerate(problem.caps[place.bin_type].tolist())
            if cap
        }
        self._pack()
        self._tops: list[_Top] = []
        for spread in ties.spreads:
            self._spread(spread)
        for one, other in itertools.combinations(self._tops, 2):
            self._one_is_last(one, other)
        for apart in ties.apart:
            self._apart(apart)
        for company in ties.company:
            self._company(company)

    def _column(self, cost: float, upper: float, *, integer: bool = False) -> int:
        self._costs.append(cost)
        self._upper.append(upper)
        if integer:
            self._integer.append(len(self._costs) - 1)
        return len(self._costs) - 1

    def _at_least(self, lower: float, entries: Mapping[int, float]) -> None:
        self._rows.append((lower, dict(entries)))

    def _pack(self) -> None:
        """All items have a place or none, and bins hold what they have room for."""
        problem = self._problem
        for item, number in enumerate(problem.counts.tolist()):
            row = {self._left[item]: 1.0, **self._of([item], self._places)}
            self._at_least(number, row)
            self._at_least(-number, {column: -amount for column, amount in row.items()})
        for place in self._places:
            used = self._used[place]
            capacity = problem.capacities[place.bin_type]
            for resource in np.flatnonzero(np.isfinite(capacity)).tolist():
                scale = max(float(capacity[resource]), 1.0)
                row = {
                    self._held[place, item]: -float(problem.demands[item, resource]) / scale
                    for item in self._items
                    if (place, item) in self._held and problem.demands[item, resource]
                }
                if row:
                    self._at_least(0.0, {used: float(capacity[resource]) / scale, **row})
            for item in self._items:
                if (place, item) in self._held:
                    cap = float(problem.caps[place.bin_type, item])
                    self._at_least(0.0, {used: cap, self._held[place, item]: -1.0})
            if place.copy:
                before = self._used[BinPlace(place.bin_type, place.copy - 1)]
                self._at_least(0.0, {before: 1.0, used: -1.0})
        for quota in problem.quotas:
            row = {
                self._used[place]: -float(quota.amounts[place.bin_type]) for place in self._places
            }
            self._at_least(-float(quota.most), row)

    def _of(self, items: Iterable[int], places: Iterable[BinPlace]) -> dict[int, float]:
        """The columns of the items in the places, each once."""
        wanted = list(items)
        return {
            self._held[place, item]: 1.0
            for place in places
            for item in wanted
            if (place, item) in self._held
        }

    def _domains(self, domains: Domains) -> Iterator[tuple[int, list[BinPlace]]]:
        """The places of each domain; one that is a bin's own has the number `OWN`."""
        shared: dict[int, list[BinPlace]] = {}
        for place in self._places:
            domain = domains[place.bin_type]
            if domain == OWN:
                yield OWN, [place]
            elif domain is not None:
                shared.setdefault(domain, []).append(place)
        yield from shared.items()

    def _spread(self, spread: SharedSpread) -> None:
        by_domain = list(self._domains(spread.domains))
        standing = [number for number, stands in enumerate(spread.standing) if stands]
        is_enough = len(standing) >= spread.least_domains
        if not standing and is_enough and not self._care.all_there:
            # Whoever comes first is the lowest.
            return
        most = float(sum(spread.heights) + self._problem.counts.sum() + spread.max_skew)
        level = self._column(0.0, most)
        self._limit_level(level, spread, by_domain, most)
        if not is_enough:
            self._ask_for_domains(level, spread, by_domain, most)
        least = [spread.heights[number] for number in standing] if is_enough else [0]
        if self._care.all_there:
            least.append(0)
        top = min(least) + spread.max_skew
        free = set(spread.counted) - set(spread.limited)
        for number, places in by_domain:
            height = 0 if number == OWN else spread.heights[number]
            upper = spread.counted if self._care.all_counted else spread.limited
            held = self._of(upper, places)
            lower = float(height - spread.max_skew)
            row = {level: 1.0, **dict.fromkeys(held, -1.0)}
            if height > top or (self._care.all_counted and free):
                # It may be higher than that, as long as no item that is limited is there.
                for item in spread.limited:
                    if self._of([item], places):
                        present = self._presence(item, places)
                        self._at_least(lower - most, {**row, present: -most})
            elif held:
                self._at_least(lower, row)
                self._tops.append(_Top(spread, level, tuple(places), lower, most))

    def _one_is_last(self, one: _Top, other: _Top) -> None:
        """Of the items that two spreads limit in places they share, one is the last to come.

        All the others that its spread counts are there then, so that one row or the other holds.
        """
        shared = [place for place in one.places if place in other.places]
        too = self._counted_too(one.spread, other.spread, shared)
        other_too = self._counted_too(other.spread, one.spread, shared)
        if not too or not other_too:
            return
        first = self._column(0.0, 1, integer=True)
        held = dict.fromkeys({**self._of(one.spread.limited, one.places), **too}, -1.0)
        self._at_least(one.lower - one.most, {one.level: 1.0, first: -one.most, **held})
        held = dict.fromkeys({**self._of(other.spread.limited, other.places), **other_too}, -1.0)
        self._at_least(other.lower, {other.level: 1.0, first: other.most, **held})

    def _counted_too(
        self, one: SharedSpread, other: SharedSpread, places: Sequence[BinPlace]
    ) -> dict[int, float]:
        """Items that the other limits and this one only counts."""
        items = set(other.limited) & set(one.counted) - set(one.limited)
        return self._of(sorted(items), places)

    def _limit_level(
        self,
        level: int,
        spread: SharedSpread,
        by_domain: Sequence[tuple[int, list[BinPlace]]],
        most: float,
    ) -> None:
        """The level is no higher than any domain that the lowest is of."""
        places = {number: found for number, found in by_domain if number != OWN}
        for number, stands in enumerate(spread.standing):
            if stands:
                row = self._of(spread.counted, places.get(number, ()))
                self._at_least(-float(spread.heights[number]), {level: -1.0, **row})
        for number, found in by_domain if self._care.all_there else ():
            if number == OWN or not spread.standing[number]:
                held = {level: -1.0, **self._of(spread.counted, found)}
                for place in found:
                    self._at_least(-most, {**held, self._used[place]: -most})

    def _ask_for_domains(
        self,
        level: int,
        spread: SharedSpread,
        by_domain: Sequence[tuple[int, list[BinPlace]]],
        most: float,
    ) -> None:
        """The level is 0 until there are as many domains as there are to be, and of so many."""
        enough = self._column(0.0, 1, integer=True)
        self._at_least(0.0, {enough: most, level: -1.0})
        row = {enough: -float(spread.least_domains)}
        for number, found in by_domain:
            if number == OWN or not spread.standing[number]:
                there = self._column(0.0, 1, integer=True)
                self._at_least(0.0, {there: -1.0, **{self._used[one]: 1.0 for one in found}})
                held = self._of(spread.counted, found)
                height = 0 if number == OWN else spread.heights[number]
                self._at_least(-most - height, {level: -1.0, there: -most, **held})
                row[there] = 1.0
        self._at_least(-float(sum(spread.standing)), row)

    def _presence(self, item: int, places: Sequence[BinPlace]) -> int:
        """A column that is 1 where any of the items is in one of the places."""
        key = item, tuple(places)
        if key not in self._presences:
            found = self._presences[key] = self._column(0.0, 1, integer=True)
            held = self._of([item], places)
            for column in held:
                self._at_least(0.0, {found: self._upper[column], column: -1.0})
            most = min(sum(self._upper[one] for one in held), int(self._problem.counts[item]))
            self._at_least(0.0, {found: float(most), **dict.fromkeys(held, -1.0)})
        return self._presences[key]

    def _apart(self, apart: KeptApart) -> None:
        for _, places in self._domains(apart.domains):
            one = self._of([apart.one], places)
            other = self._of([apart.other], places)
            if apart.one == apart.other:
                self._at_least(-1.0, dict.fromkeys(one, -1.0))
            elif one and other:
                pair = [self._presence(item, places) for item in (apart.one, apart.other)]
                self._at_least(-1.0, dict.fromkeys(pair, -1.0))

    def _company(self, company: Company) -> None:
        others = [item for item in company.sought if item not in company.items]
        starting: list[int] = []
        for number, places in self._domains(company.domains):
            if number != OWN and company.there[number]:
                continue
            row = self._of(others, places)
            if company.starts:
                starting.append(self._column(0.0, 1, integer=True))
                row[starting[-1]] = 1.0
            for item in company.items:
                if self._of([item], places):
                    self._at_least(0.0, {self._presence(item, places): -1.0, **row})
        if starting:
            self._at_least(-1.0, dict.fromkeys(starting, -1.0))

    def leave_no_more_than(self, left: Counts) -> None:
        """Of each class so many may be left out, and at no price."""
        for column, number in zip(self._left, left.tolist(), strict=True):
            self._upper[column] = float(number)
            self._costs[column] = 0.0

    def solve(self, effort: Effort, *, nodes: int = _NODES) -> highs.Solved:
        model = highs.integer(gap=0.0, nodes=nodes)
        none = np.zeros((len(self._costs), 0))
        highs.add_columns(model, np.array(self._costs), none, np.array(self._upper))
        for lower, entries in self._rows:
            highs.add_row(model, lower, entries)
        highs.make_integer(model, self._integer)
        found = highs.solve(model)
        effort.spend(50_000 + 120 * found.iterations)
        return found

    def bins(self, columns: Numbers) -> list[Pattern]:
        counts: dict[BinPlace, Counter[int]] = {}
        for (place, item), column in self._held.items():
            if round(columns[column]):
                counts.setdefault(place, Counter())[item] += round(columns[column])
        return [
            Pattern(place.bin_type, tuple(held[item] for item in self._items))
            for place, held in counts.items()
        ]

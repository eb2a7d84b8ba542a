"""The restricted master: how often to use each known pattern, as a linear program.

Rows: every class of items is covered (or left out, at the penalty), no bin type is used more than
it may, quotas hold, and spreads are even. The duals of a solution are what one more item of a
class is worth in a bin of each type; patterns that are worth more than they cost are priced in.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tonnage.optimise import highs
from tonnage.optimise.effort import Effort
from tonnage.optimise.problem import Counts, EvenSpread, Numbers, PackingProblem, Pattern

if TYPE_CHECKING:
    from highspy import Highs


class Duals(NamedTuple):
    """What things are worth: an item by bin type and class, and the use of a bin by type.

    `items` are what it is worth that an item is not left out; `values`, in a bin, also have what
    spreads add or take away by domain. `rents` are what limits and quotas make a bin dearer.
    """

    items: Numbers
    values: Numbers
    rents: Numbers
    constant: float
    """What the right-hand sides of limits and quotas come to at these duals."""
    evenness: float
    """And those of spreads."""


class Relaxed(NamedTuple):
    """A solution of the linear program: how often each pattern is used, its value and duals."""

    amounts: Numbers
    value: float
    duals: Duals
    feasible: bool


class Master:
    """Keeps the linear program and the patterns that are its columns in step."""

    def __init__(
        self, problem: PackingProblem, *, effort: Effort, model: "Highs | None" = None
    ) -> None:
        self._problem = problem
        self._effort = effort
        self.patterns: list[Pattern] = []
        self._known: dict[Pattern, int] = {}
        self._held: dict[int, int] = {}
        self._spreads_by_item: dict[int, list[tuple[int, EvenSpread]]] = {}
        for number, spread in enumerate(problem.spreads):
            self._spreads_by_item.setdefault(spread.item, []).append((number, spread))
        self._limits = [bin_type for bin_type, most in enumerate(problem.most) if np.isfinite(most)]
        items = len(problem.items)
        self._limit_row = {t: items + place for place, t in enumerate(self._limits)}
        self._quota_row = items + len(self._limits)
        self._spread_row = self._quota_row + len(problem.quotas)
        self._highs = highs.linear() if model is None else model
        self.first = self._build(problem.counts)
        """The column of the first pattern."""
        self.rows = len(self._lower)

    def _build(self, counts: Counts) -> int:
        problem, inf = self._problem, highs.INFINITY
        lower = [float(count) for count in counts]
        upper = [inf] * len(counts)
        for bin_type in self._limits:
            lower.append(-inf)
            upper.append(float(problem.most[bin_type]))
        for quota in problem.quotas:
            lower.append(-inf)
            upper.append(float(quota.most))
        self._spread_rows: dict[tuple[int, int], int] = {}
        for number, spread in enumerate(problem.spreads):
            lowest, _ = self._levels(number)
            for domain, height in enumerate(spread.heights):
                # At least the lowest, and at most the skew above it: two rows. One that is higher
                # to begin with may stay so.
                self._spread_rows[number, domain] = len(lower)
                is_counted = spread.counted is None or spread.counted[domain]
                lower += [float(-height) if is_counted else -inf, -inf]
                upper += [inf, spread.max_skew - min(height, lowest + spread.max_skew)]
        # The lowest domain in whole items: no lower than that, unless some are left out.
        self._level_row = len(lower)
        for spread in problem.spreads:
            lower.append(float(spread.least_level(int(counts[spread.item]))))
            upper.append(inf)
            if self._is_elsewhere(spread):
                lower[-1] = -inf
        self._lower, self._upper = np.array(lower), np.array(upper)
        highs.add_rows(self._highs, lower, upper)
        # Left out, at the penalty.
        for item in range(len(counts)):
            spreads = self._spreads_by_item.get(item, ())
            levels = {self._level_row + number: 1.0 for number, _ in spreads}
            highs.add_column(self._highs, problem.penalty, {item: 1.0, **levels})
        added = len(counts)
        for number, spread in enumerate(problem.spreads):
            rows = [self._spread_rows[number, domain] for domain in range(len(spread.heights))]
            level = {row + side: -1.0 for row in rows for side in (0, 1)}
            level[self._level_row + number] = 1.0
            low, high = self._levels(number)
            highs.add_column(self._highs, 0.0, level, lower=low, upper=high)
            # A place in a pattern that stays empty.
            for row in rows:
                empty = {spread.item: -1.0, row: -1.0, row + 1: -1.0}
                highs.add_column(self._highs, 0.0, empty)
            added += 1 + len(rows)
        return added

    def _levels(self, spread: int) -> tuple[float, float]:
        """How low and how high the lowest domain of a spread may be in the end."""
        one = self._problem.spreads[spread]
        lowest = float(min(one.lowest, default=0))
        return lowest, float(one.most_level(int(self._problem.counts[one.item])))

    def _is_elsewhere(self, spread: EvenSpread) -> bool:
        """Whether items of the spread may be in no domain of it."""
        takes = self._problem.caps[:, spread.item] > 0
        return any(takes[place] for place, one in enumerate(spread.domains) if one is None)

    def add(self, patterns: Iterable[Pattern]) -> int:
        """Make columns of patterns that are none yet; how many were."""
        fresh = [
            one for one in dict.fromkeys(patterns) if one not in self._known and any(one.counts)
        ]
        for pattern in fresh:
            self._known[pattern] = len(self.patterns)
            self.patterns.append(pattern)
            price = float(self._problem.prices[pattern.bin_type])
            highs.add_column(self._highs, price, self.entries(pattern))
        return len(fresh)

    def place_of(self, pattern: Pattern) -> int:
        """The position of a pattern that was added."""
        return self._known[pattern]

    def entries(self, pattern: Pattern) -> dict[int, float]:
        """The pattern as a column: what it has in each row."""
        problem, bin_type = self._problem, pattern.bin_type
        found: dict[int, float] = {}
        if bin_type in self._limit_row:
            found[self._limit_row[bin_type]] = 1.0
        for place, quota in enumerate(problem.quotas):
            if quota.amounts[bin_type]:
                found[self._quota_row + place] = float(quota.amounts[bin_type])
        for item, count in enumerate(pattern.counts):
            if count:
                for row, amount in self.item_entries(bin_type, item).items():
                    found[row] = found.get(row, 0.0) + count * amount
        return found

    def item_entries(self, bin_type: int, item: int) -> dict[int, float]:
        """What one item in such a bin has in each row."""
        found = {item: 1.0}
        for number, domain in self._spreads_of(bin_type, item):
            row = self._spread_rows[number, domain]
            found[row] = found[row + 1] = 1.0
        return found

    def _spreads_of(self, bin_type: int, item: int) -> list[tuple[int, int]]:
        """Spreads of the item that know the bin's domain, with that domain."""
        return [
            (number, domain)
            for number, spread in self._spreads_by_item.get(item, ())
            if (domain := spread.domains[bin_type]) is not None
        ]

    def solve(self) -> Relaxed:
        """The best use of the patterns there are."""
        found = highs.solve(self._highs)
        self._effort.spend(1_000 + (32 + 0.012 * len(self.patterns)) * found.iterations)
        duals = self.duals(found.rows)
        return Relaxed(found.columns[self.first :], found.value, duals, found.feasible)

    def duals(self, rows: Numbers) -> Duals:
        """What the values of the rows say."""
        problem = self._problem
        items = np.maximum(rows[: len(problem.items)], 0.0)
        values = np.repeat(items[None, :], len(problem.bins), axis=0)
        rents = np.zeros(len(problem.bins))
        constant = evenness = 0.0
        for bin_type, row in self._limit_row.items():
            rents[bin_type] -= rows[row]
            constant += rows[row] * self._upper[row]
        for place, quota in enumerate(problem.quotas):
            row = self._quota_row + place
            rents -= rows[row] * np.array(quota.amounts)
            constant += rows[row] * self._upper[row]
        for number, spread in enumerate(problem.spreads):
            by_domain = []
            total = 0.0
            for domain in range(len(spread.heights)):
                row = self._spread_rows[number, domain]
                low, high = max(float(rows[row]), 0.0), min(float(rows[row + 1]), 0.0)
                by_domain.append(low + high)
                total += low + high
                evenness += (low * self._lower[row] if low else 0.0) + high * self._upper[row + 1]
            # An item that is left out may make the lowest one lower.
            row = self._level_row + number
            if np.isfinite(self._lower[row]) and rows[row] > 0:
                total -= float(rows[row])
                items[spread.item] += rows[row]
                wanted = float(problem.counts[spread.item])
                evenness += float(rows[row]) * (self._lower[row] - wanted)
            evenness += min(total * level for level in self._levels(number))
            for bin_type, where in enumerate(spread.domains):
                if where is not None:
                    values[bin_type, spread.item] += by_domain[where]
        return Duals(items, np.maximum(values, 0.0), np.maximum(rents, 0.0), constant, evenness)

    def hold(self, bins: Mapping[int, int]) -> None:
        """Use patterns, by position, at least so often; all others as often as is worth it."""
        changed = [place for place in self._held if place not in bins]
        changed += [place for place, times in bins.items() if self._held.get(place) != times]
        self._held = dict(bins)
        lower = [float(bins.get(place, 0)) for place in changed]
        highs.change_columns(self._highs, [self.first + place for place in changed], lower)

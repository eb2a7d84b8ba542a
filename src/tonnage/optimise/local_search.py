"""Bins made empty, or small enough for a cheaper type, by moving what is in them to others.

Items go where they leave the least room; one that finds none may drive another out that does. Items
of a spread stay in their domain, so that no spread is less even for it.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from tonnage.optimise.problem import Counts, Numbers, PackingProblem, Pattern

_IN_VAIN = 60
"""Bins in a row that nothing is gained with, after which fuller ones are left alone."""


def improve(problem: PackingProblem, bins: Sequence[Pattern]) -> list[Pattern]:
    """The same items in bins that cost no more."""
    packing = _Packing(problem, bins)
    packing.improve()
    return packing.bins()


class _Packing:
    """Bins with their content and the room they have left, as columns."""

    def __init__(self, problem: PackingProblem, bins: Sequence[Pattern]) -> None:
        self._problem = problem
        self._types = np.array([one.bin_type for one in bins], dtype=np.int64)
        counts = [one.counts for one in bins]
        self._counts = np.array(counts, dtype=np.int64).reshape(len(bins), len(problem.items))
        self._left = problem.capacities[self._types] - self._counts @ problem.demands
        self._open = np.ones(len(bins), dtype=np.bool_)
        finite = np.where(np.isfinite(problem.capacities), problem.capacities, 0.0)
        self._scale = 1.0 / np.maximum(finite.max(axis=0, initial=1.0), 1.0)
        # Large items first: they find the fewest places.
        self._sizes = problem.demands @ self._scale
        self._by_price = np.argsort(problem.prices, kind="stable").tolist()
        self._domain = self._domains()

    def _domains(self) -> dict[int, Counts]:
        """For items with a spread: where each bin type is, by all of its spreads."""
        found: dict[int, Counts] = {}
        for spread in self._problem.spreads:
            where = np.array([-1 if one is None else one for one in spread.domains])
            before = found.get(spread.item)
            found[spread.item] = where if before is None else before * 1_000 + where
        return found

    def bins(self) -> list[Pattern]:
        return [
            Pattern(int(self._types[place]), tuple(self._counts[place].tolist()))
            for place in np.flatnonzero(self._open).tolist()
        ]

    def improve(self) -> None:
        """Go through the bins, those with the least in them for their price first."""
        prices = self._problem.prices[self._types]
        worth = (self._counts @ self._sizes) / np.maximum(prices, 1e-9)
        in_vain = 0
        for place in np.argsort(worth, kind="stable").tolist():
            if prices[place] > 0:
                in_vain = 0 if self._reduce(place) else in_vain + 1
            if in_vain >= _IN_VAIN:
                break

    def _reduce(self, place: int) -> bool:
        """Move as much as possible out of a bin; keep it so if a cheaper one takes the rest."""
        before = self._counts.copy(), self._left.copy()
        self._open[place] = False
        rest = self._counts[place].copy()
        for item in sorted(np.flatnonzero(rest).tolist(), key=lambda i: -self._sizes[i]):
            rest[item] -= self._place(item, int(rest[item]), int(self._types[place]))
            while rest[item] and self._force(item, int(self._types[place])):
                rest[item] -= 1
        if not rest.any():
            return True
        cheaper = self._cheaper(rest, int(self._types[place]))
        self._open[place] = True
        if cheaper is None:
            self._counts, self._left = before
            return False
        self._types[place] = cheaper
        self._counts[place] = rest
        self._left[place] = self._problem.capacities[cheaper] - rest @ self._problem.demands
        return True

    def _room(self, item: int, home: int) -> Counts:
        """How many more of a class each bin takes."""
        demand = self._problem.demands[item]
        takes = np.flatnonzero(demand)
        room = self._problem.caps[self._types, item] - self._counts[:, item]
        if len(takes):
            fits = np.floor(self._left[:, takes] / demand[takes]).min(axis=1)
            room = np.minimum(room, np.minimum(fits, 1e9).astype(np.int64))
        return np.where(self._allowed(item, home), np.maximum(room, 0), 0)

    def _allowed(self, item: int, home: int) -> np.ndarray:
        domain = self._domain.get(item)
        if domain is None:
            return self._open
        return self._open & (domain[self._types] == domain[home])

    def _place(self, item: int, number: int, home: int) -> int:
        """Put items where they leave the least; how many found a place."""
        room = self._room(item, home)
        places = np.flatnonzero(room)
        left = number
        for place in places[np.argsort(self._spare(places), kind="stable")].tolist():
            if not left:
                break
            moved = min(left, int(room[place]))
            self._move(item, moved, place)
            left -= moved
        return number - left

    def _spare(self, places: Counts) -> Numbers:
        left = self._left[places]
        return np.where(np.isfinite(left), left, 0.0) @ self._scale

    def _move(self, item: int, number: int, place: int) -> None:
        self._counts[place, item] += number
        self._left[place] -= number * self._problem.demands[item]

    def _force(self, item: int, home: int) -> bool:
        """Put an item in the place of a smaller one that fits elsewhere."""
        problem = self._problem
        demand = problem.demands[item]
        fitting = self._allowed(item, home) & (
            self._counts[:, item] < problem.caps[self._types, item]
        )
        if not fitting.any():
            return False
        smaller = np.flatnonzero((self._sizes < self._sizes[item]) & self._counts.any(axis=0))
        for other in smaller[np.argsort(-self._sizes[smaller], kind="stable")].tolist():
            freed = self._left + problem.demands[other]
            out = fitting & (self._counts[:, other] > 0) & (freed >= demand).all(axis=1)
            for place in np.flatnonzero(out)[:1].tolist():
                room = self._room(other, int(self._types[place]))
                room[place] = 0
                elsewhere = np.flatnonzero(room)
                if len(elsewhere):
                    target = elsewhere[int(self._spare(elsewhere).argmin())]
                    self._move(other, -1, place)
                    self._move(item, 1, place)
                    self._move(other, 1, int(target))
                    return True
        return False

    def _cheaper(self, held: Counts, bin_type: int) -> int | None:
        """The cheapest type that takes the items, is where they are, and may be used once more."""
        problem = self._problem
        used = np.bincount(self._types[self._open], minlength=len(problem.bins))
        for other in self._by_price:
            if problem.prices[other] >= problem.prices[bin_type]:
                return None
            if (
                used[other] < problem.most[other]
                and problem.holds(other, held)
                and self._same_domain(np.flatnonzero(held).tolist(), other, bin_type)
                and all(one.amounts[other] <= one.amounts[bin_type] for one in problem.quotas)
            ):
                return int(other)
        return None

    def _same_domain(self, items: Iterable[int], one: int, other: int) -> bool:
        return all(
            self._domain[item][one] == self._domain[item][other]
            for item in items
            if item in self._domain
        )

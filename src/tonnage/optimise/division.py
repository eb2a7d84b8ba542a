"""A problem without spreads: it is settled how many items of each class go into which domain.

Whatever solves it solves the problem it was made of. Items of a class in different domains are
different classes here.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from tonnage.optimise.problem import BinType, EvenSpread, Numbers, PackingProblem, Pattern

Home: TypeAlias = tuple[int | None, ...]
"""A domain of each spread of a class, or none."""
Part: TypeAlias = tuple[int, Home]
"""A class of items, and where they are."""


class Division:
    """The problem of items that are settled by part, beside bins that are `kept`.

    What these use is taken off limits and quotas.
    """

    def __init__(
        self, whole: PackingProblem, held: Mapping[Part, int], *, kept: Sequence[Pattern] = ()
    ) -> None:
        self._whole = whole
        self._parts = sorted((part for part, number in held.items() if number), key=str)
        items = [whole.items[item]._replace(number=held[item, at]) for item, at in self._parts]
        used = Counter(one.bin_type for one in kept)
        bins = [self._bin(place, one, used[place]) for place, one in enumerate(whole.bins)]
        quotas = [
            one._replace(most=one.most - sum(one.amounts[place] * n for place, n in used.items()))
            for one in whole.quotas
        ]
        self.problem = PackingProblem(items, bins, quotas=quotas)

    def _bin(self, place: int, one: BinType, used: int) -> BinType:
        caps = [
            one.caps[item] if self._whole.home(item, place) == at else 0 for item, at in self._parts
        ]
        most = None if one.most is None else one.most - used
        return one._replace(caps=tuple(caps), most=most)

    def inside(self, one: Pattern) -> Pattern:
        """A pattern of the whole problem, as far as its items are here."""
        counts = [
            one.counts[item] if self._whole.home(item, one.bin_type) == at else 0
            for item, at in self._parts
        ]
        return Pattern(one.bin_type, tuple(counts))

    def outside(self, one: Pattern) -> Pattern:
        counts = [0] * len(self._whole.items)
        for (item, _), count in zip(self._parts, one.counts, strict=True):
            counts[item] += count
        return Pattern(one.bin_type, tuple(counts))


def as_packed(problem: PackingProblem, bins: Sequence[Pattern]) -> dict[Part, int]:
    """Where the items in these bins are."""
    return {
        part: round(number) for part, number in _used(problem, bins, np.ones(len(bins))).items()
    }


def as_relaxed(
    problem: PackingProblem, patterns: Sequence[Pattern], amounts: Numbers
) -> dict[Part, int]:
    """Where patterns that are used in part have the items, in whole ones and evenly enough."""
    chosen = np.flatnonzero(amounts > 0)
    wanted = _used(problem, [patterns[at] for at in chosen.tolist()], amounts[chosen])
    held: dict[Part, int] = {}
    for item, kind in enumerate(problem.items):
        spreads = [one for one in problem.spreads if one.item == item]
        taking = np.flatnonzero(problem.caps[:, item]).tolist()
        homes = sorted({problem.home(item, bin_type) for bin_type in taking}, key=str)
        levels = [list(one.heights) for one in spreads]
        for _ in range(kind.number):
            even = [home for home in homes if _stays_even(spreads, levels, home)]
            if not even:
                break
            home = max(even, key=lambda at: wanted[item, at] - held.get((item, at), 0))
            held[item, home] = held.get((item, home), 0) + 1
            for domain, level in zip(home, levels, strict=True):
                if domain is not None:
                    level[domain] += 1
    return held


def _used(
    problem: PackingProblem, patterns: Sequence[Pattern], amounts: Numbers
) -> "Counter[Part]":
    found: Counter[Part] = Counter()
    for one, amount in zip(patterns, amounts.tolist(), strict=True):
        for item in np.flatnonzero(one.counts).tolist():
            found[item, problem.home(item, one.bin_type)] += amount * one.counts[item]
    return found


def _stays_even(spreads: Sequence[EvenSpread], levels: Sequence[Sequence[int]], home: Home) -> bool:
    return all(
        domain is None or level[domain] < one.lowest_of(level) + one.max_skew
        for one, level, domain in zip(spreads, levels, home, strict=True)
    )

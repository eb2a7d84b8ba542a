"""Tied items placed in every order there is, for problems small enough for that."""

import random
from collections.abc import Iterator
from typing import TypeAlias

from tonnage.optimise.problem import BinType, ItemClass, PackingProblem
from tonnage.optimise.ties import OWN, Company, Domains, KeptApart, SharedSpread, Ties

State: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]
"""The bins that are there, by type, and how many items of each class are in them."""

_ANY = 99
_ZONES = 2


def least(problem: PackingProblem, ties: Ties) -> tuple[tuple[int, float], tuple[int, ...]]:
    """The fewest items left out and the least price with so few; and the items left, by class."""
    none = (0,) * len(problem.items)
    start = tuple((place, none) for place, one in enumerate(problem.bins) if not one.price)
    known, waiting = {start}, [start]
    found = []
    while waiting:
        state = waiting.pop()
        held = [sum(counts[item] for _, counts in state) for item in range(len(none))]
        left = tuple(one.number - count for one, count in zip(problem.items, held, strict=True))
        price = sum(problem.bins[kind].price for kind, counts in state if any(counts))
        found.append(((sum(left), price), left))
        new = {tuple(sorted(one)) for one in _next(problem, ties, state, left)} - known
        known |= new
        waiting += new
    return min(found)


def _next(
    problem: PackingProblem, ties: Ties, state: State, left: tuple[int, ...]
) -> Iterator[State]:
    """What one bin or one item more makes of it."""
    none = (0,) * len(problem.items)
    for kind, one in enumerate(problem.bins):
        if one.price and sum(other == kind for other, _ in state) < (one.most or 0):
            yield (*state, (kind, none))
    for place, (kind, counts) in enumerate(state):
        for item, number in enumerate(left):
            more = tuple(count + (other == item) for other, count in enumerate(counts))
            if number and _has_room(problem, kind, more) and _may_come(ties, state, place, item):
                yield (*state[:place], (kind, more), *state[place + 1 :])


def _has_room(problem: PackingProblem, kind: int, counts: tuple[int, ...]) -> bool:
    size = sum(n * item.demand[0] for n, item in zip(counts, problem.items, strict=True))
    caps = zip(counts, problem.bins[kind].caps, strict=True)
    return size <= problem.bins[kind].capacity[0] and all(n <= cap for n, cap in caps)


def _domain(domains: Domains, state: State, place: int) -> tuple[str, int] | None:
    value = domains[state[place][0]]
    if value is None:
        return None
    return ("own", place) if value == OWN else ("shared", value)


def _may_come(ties: Ties, state: State, place: int, item: int) -> bool:
    return (
        all(_is_even(one, state, place) for one in ties.spreads if item in one.limited)
        and all(_is_apart(one, state, place, item) for one in ties.apart)
        and all(_has_company(one, state, place) for one in ties.company if item in one.items)
    )


def _is_even(spread: SharedSpread, state: State, place: int) -> bool:
    heights = {
        ("shared", value): spread.heights[value]
        for value, stands in enumerate(spread.standing)
        if stands
    }
    for other, (_, counts) in enumerate(state):
        domain = _domain(spread.domains, state, other)
        if domain is not None:
            shared = spread.heights[domain[1]] if domain[0] == "shared" else 0
            heights.setdefault(domain, shared)
            heights[domain] += sum(counts[item] for item in spread.counted)
    mine = _domain(spread.domains, state, place)
    lowest = min(heights.values(), default=0) if len(heights) >= spread.least_domains else 0
    return mine is None or heights[mine] + 1 - lowest <= spread.max_skew


def _is_apart(apart: KeptApart, state: State, place: int, item: int) -> bool:
    if item not in (apart.one, apart.other):
        return True
    avoided = apart.other if item == apart.one else apart.one
    mine = _domain(apart.domains, state, place)
    return mine is None or not any(
        counts[avoided] and _domain(apart.domains, state, other) == mine
        for other, (_, counts) in enumerate(state)
    )


def _has_company(company: Company, state: State, place: int) -> bool:
    mine = _domain(company.domains, state, place)
    if mine is None:
        return True
    if mine[0] == "shared" and company.there[mine[1]]:
        return True
    having = [
        _domain(company.domains, state, other)
        for other, (_, counts) in enumerate(state)
        if any(counts[item] for item in company.sought)
    ]
    return mine in having or (company.starts and not having)


def tied_problem(seed: int) -> tuple[PackingProblem, Ties]:
    """Up to three classes, and up to four bins in two zones; some are there, most are bought."""
    rng = random.Random(seed)
    kinds = rng.randint(2, 3)
    items = [
        ItemClass(f"k{kind}", rng.randint(1, 3 if kinds == 2 else 2), (rng.choice((1, 1, 2)),))
        for kind in range(kinds)
    ]
    zones = [rng.randrange(_ZONES) for _ in range(rng.randint(2, 3))]
    there = rng.randrange(len(zones)) if rng.random() < 0.5 else None
    bins, left = [], 4 - (there is not None)
    for number, _ in enumerate(zones):
        size = rng.randint(2, 5)
        most = 1 if number == there else min(rng.randint(1, 2), left)
        left -= most if number != there else 0
        price = 0.0 if number == there else rng.choice((1.0, 1.0, 2.0))
        bins.append(BinType(f"b{number}", (size,), price, (_ANY,) * kinds, max(most, 0)))
    hosts = tuple(_ZONES if number == there else OWN for number, _ in enumerate(zones))
    stands = [rng.random() < 0.6 for _ in range(_ZONES)]
    if there is not None:
        stands[zones[there]] = True
    places = _Places(tuple(zones), hosts, tuple(stands), is_there=there is not None)
    spreads = tuple(_spread(rng, kinds, places) for _ in range(rng.randint(1, 3)))
    apart: tuple[KeptApart, ...] = ()
    if rng.random() < 0.2:
        one, other = sorted((rng.randrange(kinds), rng.randrange(kinds)))
        apart = (KeptApart(one, other, rng.choice((places.zones, places.hosts))),)
    return PackingProblem(items, bins), Ties(spreads=spreads, apart=apart)


class _Places:
    def __init__(
        self, zones: Domains, hosts: Domains, standing: tuple[bool, ...], *, is_there: bool
    ) -> None:
        self.zones = zones
        self.hosts = hosts
        self.standing = {
            zones: (*standing, False),
            hosts: (False,) * _ZONES + (is_there,),
        }


def _spread(rng: random.Random, kinds: int, places: _Places) -> SharedSpread:
    domains = rng.choice((places.zones, places.hosts))
    standing = places.standing[domains]
    limited = sorted(rng.sample(range(kinds), rng.randint(1, kinds - 1)))
    counted = sorted({*limited, *rng.sample(range(kinds), rng.randint(0, kinds))})
    return SharedSpread(
        limited=tuple(limited),
        counted=tuple(counted),
        domains=domains,
        heights=tuple(rng.choice((0, 0, 1, 2)) if stands else 0 for stands in standing),
        standing=standing,
        max_skew=rng.choice((1, 1, 2)),
        least_domains=rng.choice((1, 1, 1, 2, 3)),
    )

"""What ties items to each other: who is counted together, who keeps apart, and who seeks whom.

All of it is about domains, which are sets of bins. `Domains` has the domain of each bin type by
number: `OWN` where every bin of the type is a domain by itself, `None` where its bins are in none.
"""

from typing import NamedTuple, TypeAlias

Domains: TypeAlias = tuple[int | None, ...]

OWN = -1


class SharedSpread(NamedTuple):
    """No item of those `limited` goes where more are `counted` than the skew above the lowest.

    `heights` is what each domain has to begin with, `standing` whether the lowest is of it too
    though nothing is put there. With fewer than `least_domains` the lowest is taken to be 0.
    """

    limited: tuple[int, ...]
    counted: tuple[int, ...]
    domains: Domains
    heights: tuple[int, ...]
    standing: tuple[bool, ...]
    max_skew: int
    least_domains: int = 1


class KeptApart(NamedTuple):
    """Two classes of items of which no domain has both; of one with itself none has two."""

    one: int
    other: int
    domains: Domains


class Company(NamedTuple):
    """Items that go only where an item of those `sought` is, or was: `there`, by domain.

    If it `starts`, nothing that is sought is anywhere yet, and the first item may go without.
    """

    items: tuple[int, ...]
    sought: tuple[int, ...]
    domains: Domains
    there: tuple[bool, ...]
    starts: bool


class Ties(NamedTuple):
    spreads: tuple[SharedSpread, ...] = ()
    apart: tuple[KeptApart, ...] = ()
    company: tuple[Company, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.spreads or self.apart or self.company)

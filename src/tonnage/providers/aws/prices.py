"""What an hour of an instance type costs: the operator's numbers, else a small dated table.

List prices differ by region and contract. The table is of one region and says so; elsewhere
nothing is known rather than something wrong.
"""

from collections.abc import Mapping
from functools import cache
from importlib import resources

import msgspec


class PriceTable(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """US dollars per hour, Linux, on demand."""

    source: str
    date: str
    region: str
    prices: dict[str, float]


@cache
def bundled() -> PriceTable:
    data = resources.files("tonnage.providers.aws").joinpath("data/prices.json").read_bytes()
    return msgspec.json.decode(data, type=PriceTable)


def price(instance_type: str, *, region: str, given: Mapping[str, float]) -> float | None:
    """The operator's price of the type; without any of theirs, that of the table for its region."""
    if given:
        return given.get(instance_type)
    table = bundled()
    return table.prices.get(instance_type) if region == table.region else None

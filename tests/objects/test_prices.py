"""Prices as people write them: what is one, and what is said of what is none."""

import math

import pytest

from tonnage.objects import prices
from tonnage.providers.aws.prices import bundled


@pytest.mark.parametrize(
    ("written", "amount"),
    [("0.504", 0.504), (2, 2.0), (0.1, 0.1), ("500m", 0.5), ("999999999", 999999999.0)],
)
def test_a_price_is_a_number_above_zero(written: object, amount: float) -> None:
    assert prices.amount(written) == amount
    assert prices.complaint(written) == ""


@pytest.mark.parametrize(
    ("written", "found"),
    [
        (0, "0"),
        ("0", '"0"'),
        ("-1", '"-1"'),
        (-0.5, "-0.5"),
        ("0.9 EUR", '"0.9 EUR"'),
        ("$1", '"$1"'),
        ("cheap", '"cheap"'),
        ("", '""'),
        ("NaN", '"NaN"'),
        (math.nan, "a number out of range"),
        (math.inf, "a number out of range"),
        (10**9, "1000000000"),
        ("1e999", '"1e999"'),
        (True, "true"),
        ([1], "a list"),
        ({"USD": 1}, "a mapping"),
    ],
)
def test_anything_else_is_none_and_is_named(written: object, found: str) -> None:
    assert prices.amount(written) is None
    assert prices.complaint(written) == (
        "expected a price of an hour, above 0 and below 1,000,000,000, without a currency,"
        f" found {found}; not used"
    )


def test_no_price_is_nothing_to_complain_of() -> None:
    assert prices.amount(None) is None
    assert prices.complaint(None) == ""


def test_all_prices_of_the_table_can_be_used() -> None:
    assert not list(filter(None, map(prices.complaint, bundled().prices.values())))

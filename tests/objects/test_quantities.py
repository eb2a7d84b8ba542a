from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.objects import quantities
from tonnage.objects.quantities import LARGEST, QuantityError

DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", Fraction(0)),
        ("12", Fraction(12)),
        ("+12", Fraction(12)),
        ("-12", Fraction(-12)),
        ("007", Fraction(7)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("1.G", Fraction(10**9)),
        ("500m", Fraction(1, 2)),
        ("7u", Fraction(7, 10**6)),
        ("7n", Fraction(7, 10**9)),
        ("1.5Gi", Fraction(3 * 2**29)),
        (".5Ki", Fraction(512)),
        ("1E", Fraction(10**18)),
        ("1E3", Fraction(1000)),
        ("1e3", Fraction(1000)),
        ("1e+3", Fraction(1000)),
        ("1e-3", Fraction(1, 1000)),
        ("12e6", Fraction(12_000_000)),
        (" 1Gi ", Fraction(2**30)),
        (4, Fraction(4)),
        (0.1, Fraction(1, 10)),
        (1e22, Fraction(10**22)),
    ],
)
def test_a_quantity_has_an_exact_value(text, amount):
    assert quantities.exact(text) == amount


@pytest.mark.parametrize("text", ["-", "+", ".", "Ki", "m", "e3", "E"])
def test_missing_digits_read_as_zero(text):
    assert quantities.exact(text) == 0


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "abc", "1 Gi", "1gi", "1K", "1ki", "1e", "1ee3", "1e3x", "1.2.3", "--1", "1+3"),
        *("1mi", "1iK", "1Gi2", "Ei", "Pi", "e-10", "1_000", "\u0663", float("nan"), float("inf")),
    ],
)
def test_what_is_not_a_quantity_is_refused(text):
    with pytest.raises(QuantityError):
        quantities.exact(text)


def test_a_refusal_names_the_text_and_the_suffix():
    with pytest.raises(QuantityError, match=r"quantity '10Gb': expected a number"):
        quantities.value("10Gb")
    with pytest.raises(QuantityError, match=r"quantity '10K': unknown suffix 'K', expected one of"):
        quantities.value("10K")


@pytest.mark.parametrize(
    ("text", "nanos"),
    [("0.1n", 1), ("1.1n", 2), ("1e-10", 1), ("-0.1n", -1), ("1.0000000001", 10**9 + 1)],
)
def test_what_is_finer_than_a_nano_is_rounded_away_from_zero(text, nanos):
    assert quantities.exact(text) == Fraction(nanos, 10**9)


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("1", 1, 1000),
        ("1n", 1, 1),
        ("0.1m", 1, 1),
        ("100m", 1, 100),
        ("1.0001", 2, 1001),
        ("1.5Ki", 1536, 1_536_000),
        ("-1.5", -2, -1500),
        ("-0.1m", -1, -1),
    ],
)
def test_integers_are_rounded_away_from_zero(text, value, milli):
    assert (quantities.value(text), quantities.milli(text)) == (value, milli)


@pytest.mark.parametrize("text", ["10E", "8Ei", "1e30", "9223372036854775808", "1e999999999"])
def test_integers_saturate_at_64_bits(text):
    assert quantities.value(text) == quantities.milli(text) == LARGEST
    assert quantities.value("-" + text) == -LARGEST


def test_binary_amounts_are_capped_before_they_are_compared():
    assert quantities.exact("100Ei") == quantities.exact("8Ei") == LARGEST


def test_an_absurdly_small_exponent_is_still_something():
    assert quantities.value("1e-999999999") == 1


@pytest.mark.parametrize("text", ["1" * 5000, "1e" + "9" * 5000, "1" * 5000 + "x"])
def test_absurdly_long_text_is_refused_quickly(text):
    with pytest.raises(QuantityError, match=r"^quantity '1.{50,70}\.\.\.: "):
        quantities.value(text)


@pytest.mark.parametrize(
    ("amount", "binary", "text"),
    [
        (16 * 2**30, True, "16Gi"),
        (16 * 2**30, False, "17179869184"),
        (65009012 * 2**10, True, "65009012Ki"),
        (1023, True, "1023"),
        (1000, True, "1k"),
        (1024, True, "1Ki"),
        (-2048, True, "-2Ki"),
        (0, True, "0"),
        (0, False, "0"),
        (110, False, "110"),
        (25_000, False, "25k"),
    ],
)
def test_rendering_is_short_and_exact(amount, binary, text):
    assert quantities.render(amount, binary=binary) == text


@pytest.mark.parametrize(
    ("milli", "text"),
    [(0, "0"), (1, "1m"), (500, "500m"), (1500, "1500m"), (2000, "2"), (4_000_000, "4k")],
)
def test_thousandths_are_rendered_like_cpu(milli, text):
    assert quantities.render_milli(milli) == text


@given(st.integers(-(10**6), 10**6), st.sampled_from(sorted(DECIMAL | BINARY)))
def test_a_suffix_multiplies(number, suffix):
    amount = number * (DECIMAL | BINARY)[suffix]
    assert quantities.value(f"{number}{suffix}") == max(-LARGEST, min(amount, LARGEST))


@given(st.integers(-LARGEST, LARGEST), st.booleans())
def test_rendering_an_integer_can_be_read_back(number, binary):
    assert quantities.value(quantities.render(number, binary=binary)) == number


@given(st.integers(-LARGEST, LARGEST))
def test_rendering_thousandths_can_be_read_back(number):
    assert quantities.milli(quantities.render_milli(number)) == number


@given(st.floats(-1e15, 1e15), st.floats(-1e15, 1e15))
def test_readings_keep_the_order(a, b):
    low, high = sorted((a, b))
    assert quantities.value(low) <= quantities.value(high)
    assert quantities.milli(low) <= quantities.milli(high)


@given(st.decimals(-(10**9), 10**9, places=6))
def test_rounding_moves_by_less_than_one(number):
    amount = quantities.exact(f"{number:f}")
    assert amount == Fraction(number)
    assert 0 <= abs(quantities.value(f"{number:f}")) - abs(amount) < 1


@given(st.text("0123456789.+-eEinumkKMGTP", max_size=8))
def test_any_text_is_read_or_refused(text):
    try:
        quantities.exact(text)
    except QuantityError:
        return
    assert quantities.value(text) == quantities.round_up(quantities.exact(text))

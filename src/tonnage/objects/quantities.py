"""Resource quantities: from `500m`, `16Gi` or `1e3` to numbers, and back to text for people.

Sums and comparisons are exact (`exact`); the scheduler's integers are made at the very end
(`value`, `milli`, `round_up`). The same few strings recur millions of times, so all
readings are cached.
"""

import re
from fractions import Fraction
from functools import lru_cache

from tonnage.objects.meta import Quantity

LARGEST = 2**63 - 1
"""No integer made here is larger in magnitude; upstream wraps around or gives 0 instead."""


class QuantityError(ValueError):
    """The text is not a quantity."""


@lru_cache(maxsize=1 << 16)
def value(q: Quantity) -> int:
    """Whole units, rounded away from zero."""
    return round_up(exact(q))


@lru_cache(maxsize=1 << 16)
def milli(q: Quantity) -> int:
    """Thousandths, rounded away from zero."""
    return round_up(exact(q) * 1000)


@lru_cache(maxsize=1 << 14)
def exact(q: Quantity) -> Fraction:
    """The amount itself; what is finer than a nano is rounded away from zero.

    Digits may be missing (`Ki` is zero), as an API server has it.
    """
    text = q.strip() if isinstance(q, str) else repr(q)
    form = _FORM.fullmatch(text) if 0 < len(text) <= _LONGEST else None
    if form is None:
        raise _malformed(q, "expected a number with an optional suffix, such as 500m, 2 or 16Gi")
    sign, whole, fraction, suffix = form.groups(default="")
    unit = _unit(suffix)
    if unit is None:
        raise _malformed(q, f"unknown suffix {suffix!r}, expected one of {_SUFFIX_NAMES}")
    if not whole + fraction and (unit < _NANO or suffix in ("Pi", "Ei")):
        # The one place where upstream does look whether there are digits at all.
        raise _malformed(q, "no digits")
    amount = Fraction(int(whole + fraction or "0"), 10 ** len(fraction)) * unit
    if amount.denominator > 1:
        amount = _ceiling(amount / _NANO) * _NANO
    if suffix.endswith("i"):
        amount = min(amount, Fraction(LARGEST))
    return -amount if sign == "-" else amount


def share(text: str) -> float | None:
    """A number from 0 to 1, if it is one."""
    try:
        part = float(text)
    except ValueError:
        return None
    return part if 0 <= part <= 1 else None


def round_up(amount: Fraction) -> int:
    """The next integer away from zero, within 64 bits."""
    magnitude = min(_ceiling(abs(amount)), LARGEST)
    return -magnitude if amount < 0 else magnitude


def render(value: int, *, binary: bool) -> str:
    """The shortest exact text, as `kubectl` prints it: 17179869184 is `16Gi` or `17179869184`."""
    if binary and abs(value) >= 1024:
        return _shortest(value, 1024, suffixes=("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
    return _shortest(value, 1000, suffixes=_THOUSANDS[1:])


def render_milli(milli: int) -> str:
    """The shortest exact text of thousandths: 500 is `500m`, 2000 is `2`."""
    return _shortest(milli, 1000, suffixes=_THOUSANDS)


_FORM = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[+-]?[0-9]*+)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
_LONGEST = 400
# Enough to be out of every range after 400 digits, and small enough to compute with.
_LARGEST_EXPONENT = 1000

_NANO = Fraction(1, 10**9)
_THOUSANDS = ("m", "", "k", "M", "G", "T", "P", "E")
_UNITS: dict[str, Fraction] = {
    "n": _NANO,
    "u": _NANO * 1000,
    **{suffix: Fraction(1000) ** (power - 1) for power, suffix in enumerate(_THOUSANDS)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
_SUFFIX_NAMES = " ".join(suffix for suffix in _UNITS if suffix)


def _unit(suffix: str) -> Fraction | None:
    unit = _UNITS.get(suffix)
    if unit is None and (exponent := _EXPONENT.fullmatch(suffix)):
        power = int(exponent[1])
        unit = Fraction(10) ** max(-_LARGEST_EXPONENT, min(power, _LARGEST_EXPONENT))
    return unit


def _ceiling(amount: Fraction) -> int:
    return -(-amount.numerator // amount.denominator)


def _shortest(amount: int, base: int, *, suffixes: tuple[str, ...]) -> str:
    if amount == 0:
        return "0"
    power = 0
    while amount % base == 0 and power < len(suffixes) - 1:
        amount //= base
        power += 1
    return f"{amount}{suffixes[power]}"


def _malformed(q: Quantity, why: str) -> QuantityError:
    shown = repr(q)
    return QuantityError(f"quantity {shown if len(shown) <= 60 else shown[:57] + '...'}: {why}")

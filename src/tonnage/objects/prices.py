"""What an hour of a node costs, as people and providers say it: a number above 0, no currency.

A price that cannot be used is never the end of a plan: it is named, and whatever it stands for has
no price.
"""

from tonnage.objects import quantities
from tonnage.objects.validation import describe

HIGHEST = 10**9
_EXPECTED = f"a price of an hour, above 0 and below {HIGHEST:,}, without a currency"


def amount(written: object) -> float | None:
    """The price; `None` if there is none or it cannot be used."""
    if isinstance(written, bool) or not isinstance(written, str | int | float):
        return None
    try:
        found = float(quantities.exact(written))
    except (ValueError, OverflowError):  # a QuantityError, or digits beyond all measure
        return None
    return found if 0 < found < HIGHEST else None


def complaint(written: object) -> str:
    """What is wrong with a price, in words; nothing if it is good, or there is none."""
    if written is None or amount(written) is not None:
        return ""
    return f"expected {_EXPECTED}, found {describe(written)}; not used"

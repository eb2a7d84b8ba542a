"""Durations as Go writes them, because upstream's annotations and flags do."""

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = rf"([0-9]+\.?[0-9]*|\.[0-9]+)({'|'.join(_UNITS)})"

PATTERN = f"^({_PART})+$"
"""What a duration looks like, for a JSON schema."""


def seconds(text: str) -> float | None:
    """The seconds of a duration such as 90s or 1m30s; `None` if it is none."""
    if re.fullmatch(f"({_PART})+", text) is None:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text))

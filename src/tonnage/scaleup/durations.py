"""Durations as Go writes them, because upstream's annotations and flags do."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float | None:
    """The seconds of a duration such as 90s or 1m30s; `None` if it is none."""
    total, number, rest = 0.0, "", text
    while rest:
        unit = next((one for one in _UNITS if rest.startswith(one) and number), None)
        if unit is not None:
            total += float(number) * _UNITS[unit]
            number, rest = "", rest[len(unit) :]
        elif rest[0].isdigit() or (rest[0] == "." and "." not in number):
            number, rest = number + rest[0], rest[1:]
        else:
            return None
    return total if text and not number else None

"""Times on the command line: `90s`, `5m`, `1h30m`, or a number of seconds."""

import click


class Duration(click.ParamType[float]):
    """Seconds, written as a Go duration or a number."""

    name = "DURATION"

    def __init__(self, *, least: float = 0.0) -> None:
        self._least = least

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds = _seconds(value) if isinstance(value, str) else float(value)
        if seconds is None:
            self.fail(f"{value!r}: expected a duration such as 90s, 5m or 1h30m", param, ctx)
        if seconds < self._least:
            self.fail(f"{value!r}: expected {self._least:g}s or more", param, ctx)
        return seconds


def _seconds(text: str) -> float | None:
    from tonnage.objects import durations

    try:
        return float(text)
    except ValueError:
        return durations.seconds(text)

"""Windows of time: a cron line for their beginning, and how long they are.

{start: "0 1 * * *", lasts: 4h, timeZone: Europe/Berlin}
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from tonnage.errors import InputError
from tonnage.objects import durations
from tonnage.objects.meta import Record

_LONGEST = 7 * 86_400.0
_MINUTE = timedelta(minutes=1)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[str, int, int, Sequence[str]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)


class CronWindow(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Opens at every moment that `start` names, as cron does, and closes so many seconds later."""

    start: str
    lasts: float | str
    """Seconds, or a Go duration such as 4h."""
    time_zone: str = "UTC"

    def check(self, field: str) -> None:
        """`InputError` if no such window can be."""
        try:
            parsed(self.start)
        except ValueError as error:
            raise InputError(f"`{field}`: start: {self.start!r}: {error}") from None
        if not 60 <= self.seconds <= _LONGEST:
            raise InputError(f"`{field}`: lasts: {self.lasts}: expected 60 to {_LONGEST:g} s")
        try:
            _zone(self.time_zone)
        except (KeyError, ValueError):  # a ZoneInfoNotFoundError is a KeyError
            raise InputError(
                f"`{field}`: timeZone: {self.time_zone!r}: expected a name such as Europe/Berlin"
            ) from None

    @property
    def seconds(self) -> float:
        """How long it is; 0 if that cannot be read."""
        if isinstance(self.lasts, str):
            return durations.seconds(self.lasts) or 0.0
        return self.lasts

    def is_open(self, now: float) -> bool:
        return _is_open(self, int(now // 60))


class Line:
    """A cron line: does it name a minute?"""

    def __init__(self, fields: Sequence[frozenset[int]], *, either_day: bool) -> None:
        self._minutes, self._hours, self._days, self._months, self._weekdays = fields
        self._either_day = either_day

    def names(self, moment: datetime) -> bool:
        if moment.minute not in self._minutes or moment.hour not in self._hours:
            return False
        if moment.month not in self._months:
            return False
        day = moment.day in self._days
        weekday = moment.isoweekday() % 7 in self._weekdays
        return (day or weekday) if self._either_day else (day and weekday)


@lru_cache(maxsize=256)
def parsed(text: str) -> Line:
    """Read the five fields of cron; `ValueError` says what is wrong."""
    parts = text.lower().split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"expected five fields as cron has them, found {len(parts)}")
    fields = [_numbers(part, *field) for part, field in zip(parts, _FIELDS, strict=True)]
    # If both days are restricted, cron is content with either of them.
    either_day = not parts[2].startswith("*") and not parts[4].startswith("*")
    fields[4] = frozenset(day % 7 for day in fields[4])
    return Line(fields, either_day=either_day)


def _numbers(text: str, name: str, least: int, most: int, words: Sequence[str]) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        if slash and not (step.isdecimal() and int(step)):
            raise ValueError(f"{name}: {part!r}: expected a step such as */5")
        if span == "*":
            low, high = least, most
        else:
            match = re.fullmatch(r"(\w+)(?:-(\w+))?", span)
            if match is None:
                raise ValueError(f"{name}: {part!r}: expected a number, a range or *")
            low = _number(match[1], name, least, words)
            high = _number(match[2], name, least, words) if match[2] else low
            if slash and not match[2]:
                high = most
        if not least <= low <= high <= most:
            raise ValueError(f"{name}: {part!r}: expected {least} to {most}")
        found.update(range(low, high + 1, int(step) if slash else 1))
    return frozenset(found)


def _number(text: str, name: str, least: int, words: Sequence[str]) -> int:
    if text in words:
        return words.index(text) + least
    if not text.isdecimal():
        raise ValueError(f"{name}: {text!r}: expected a number")
    return int(text)


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    # Slow to load, and few windows are of another zone.
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


@lru_cache(maxsize=256)
def _is_open(window: CronWindow, minute: int) -> bool:
    """Whether a beginning lies less than the window's length ago; minutes are those of UTC."""
    line, zone = parsed(window.start), _zone(window.time_zone)
    moment = datetime.fromtimestamp(minute * 60, UTC)
    for _ in range(int(-(-window.seconds // 60))):
        if line.names(moment.astimezone(zone)):
            return True
        moment -= _MINUTE
    return False

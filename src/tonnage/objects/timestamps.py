"""RFC 3339 times, as every Kubernetes object writes them, to and from seconds since 1970."""

import re
from datetime import UTC, datetime
from functools import lru_cache

_FORM = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)


class TimestampError(ValueError):
    """The text is not an RFC 3339 time."""


@lru_cache(maxsize=1024)
def rfc3339(moment: datetime | float) -> str:
    """The time in UTC, whole seconds; a number is seconds since 1970."""
    if not isinstance(moment, datetime):
        moment = datetime.fromtimestamp(moment, UTC)
    return moment.astimezone(UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"


def moment(text: str | None) -> float | None:
    """Seconds since 1970; what cannot be read is as good as not there."""
    try:
        return parse(text) if text else None
    except TimestampError:
        return None


@lru_cache(maxsize=1 << 16)
def parse(text: str) -> float:
    """Seconds since 1970-01-01T00:00:00Z; what is finer than a microsecond is dropped."""
    if _FORM.fullmatch(text):
        try:
            return datetime.fromisoformat(text.upper()).timestamp()
        except ValueError:
            pass  # a month 13, an hour 25: of the form, and no time all the same
    raise TimestampError(
        f"{text!r} is not a time; expected RFC 3339 with a zone, such as 2026-01-31T12:00:00Z"
    )

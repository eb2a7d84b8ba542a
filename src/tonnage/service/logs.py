"""Logs for an operator who was not there: one line for each event, with its fields.

Code logs with the standard library, `log.info("nodes asked for", extra={"group": ...})`; how a line
looks is decided here, once. Much of what is logged was chosen by others (names in a cluster, what
a client sent), so no line is longer than `LONGEST_LINE` and no event comes more often than the
`RateLimit` lets it.
"""

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, TypeAlias

import msgspec

from tonnage.objects import printable

Form: TypeAlias = Literal["json", "text"]

LONGEST_LINE = 16 * 2**10
"""Characters; a line of JSON that would be longer keeps its message and no fields."""
LONGEST_VALUE = 2 * 2**10
"""Characters of one field, and of a message."""
_LONGEST_TRACEBACK = 8 * 2**10
_BURST = 100
_PER_SECOND = 10.0
_MOST_EVENTS = 1000
"""Different events that are told apart; messages of libraries could be of any number."""

_ORDINARY = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def set_up(*, form: Form = "json", level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send all logs of the process to one stream, standard error by default."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(RateLimit())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # A line for every probe and scrape says nothing.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


class RateLimit(logging.Filter):
    """Lets a hundred lines of the same event through at once, and ten a second after that.

    The first line that comes through again says in `suppressed` how many did not.
    """

    def __init__(self) -> None:
        super().__init__()
        self._events: dict[tuple[str, str], _Allowance] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        key = (record.name, str(record.msg)[:LONGEST_VALUE])
        if key not in self._events and len(self._events) >= _MOST_EVENTS:
            key = ("", "")
        allowance = self._events.setdefault(key, _Allowance(record.created))
        passed = max(0.0, record.created - allowance.at)
        allowance.at = record.created
        allowance.lines = min(_BURST, allowance.lines + passed * _PER_SECOND)
        if allowance.lines < 1:
            allowance.suppressed += 1
            return False
        allowance.lines -= 1
        if allowance.suppressed:
            record.__dict__["suppressed"] = allowance.suppressed
            allowance.suppressed = 0
        return True


class _Allowance:
    """How many lines of an event may still come, as of a moment."""

    __slots__ = ("at", "lines", "suppressed")

    def __init__(self, at: float) -> None:
        self.at = at
        self.lines: float = _BURST
        self.suppressed = 0


class JsonFormatter(logging.Formatter):
    """One JSON object for each line: time, level, logger, message, then the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        head: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _shortened(record.getMessage()),
        }
        fields = {name: _bounded(value) for name, value in _fields(record).items()}
        if record.exc_info:
            fields["traceback"] = _end_of(self.formatException(record.exc_info))
        line = _json({**head, **fields})
        if len(line) > LONGEST_LINE:
            line = _json({**head, "left_out": _shortened(", ".join(fields))})
        return line


class TextFormatter(logging.Formatter):
    """The same for people: the fields as key=value at the end of the line."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_line(value)}" for name, value in _fields(record).items())
        head = f"{_time(record)} {record.levelname.lower()} {_line(record.getMessage())}{fields}"
        head = _shortened(head, to=LONGEST_LINE)
        if not record.exc_info:
            return head
        return f"{head}\n{_end_of(self.formatException(record.exc_info))}"


def _line(value: object) -> str:
    """A value that stays on its line, whoever chose it."""
    text = _shortened(str(value))
    return text if text.isprintable() else _json(text)


def _bounded(value: object) -> object:
    """The value as it is, or the beginning of what it looks like."""
    if isinstance(value, int | float | bool | None):
        return value
    if isinstance(value, str):
        return _shortened(value)
    shown = _json(value)
    return value if len(shown) <= LONGEST_VALUE else _shortened(shown)


def _shortened(text: str, *, to: int = LONGEST_VALUE) -> str:
    left_out = len(text) - to
    return text if left_out <= 0 else f"{text[:to]}... ({left_out} characters more)"


def _end_of(traceback: str) -> str:
    """Where it was raised is at the end."""
    left_out = len(traceback) - _LONGEST_TRACEBACK
    return traceback if left_out <= 0 else f"... {traceback[left_out:]}"


def _json(value: object) -> str:
    return printable.escape_json(msgspec.json.encode(value, enc_hook=str).decode())


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in record.__dict__.items() if name not in _ORDINARY}


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

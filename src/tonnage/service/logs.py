"""Logs for an operator who was not there: one line for each event, with its fields.

Code logs with the standard library, `log.info("nodes asked for", extra={"group": ...})`; how a line
looks is decided here, once.
"""

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, TypeAlias

import msgspec

Form: TypeAlias = Literal["json", "text"]

_ORDINARY = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def set_up(*, form: Form = "json", level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send all logs of the process to one stream, standard error by default."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # A line for every probe and scrape says nothing.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


class JsonFormatter(logging.Formatter):
    """One JSON object for each line: time, level, logger, message, then the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class TextFormatter(logging.Formatter):
    """The same for people: the fields as key=value at the end of the line."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_line(value)}" for name, value in _fields(record).items())
        head = f"{_time(record)} {record.levelname.lower()} {_line(record.getMessage())}{fields}"
        return f"{head}\n{self.formatException(record.exc_info)}" if record.exc_info else head


def _line(value: object) -> str:
    """A value that stays on its line, whoever chose it."""
    text = str(value)
    return text if text.isprintable() else msgspec.json.encode(text).decode()


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in record.__dict__.items() if name not in _ORDINARY}


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

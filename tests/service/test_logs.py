"""Lines of the log: one for each event, with its fields, bounded in length and in number."""

import io
import logging
from pathlib import Path

import msgspec
import pytest

from tonnage.service import logs


def logged(form: logs.Form, *, error: bool = False) -> str:
    record = logging.makeLogRecord(
        {"name": "tonnage", "levelno": logging.INFO, "levelname": "INFO", "msg": "nodes asked for"}
    )
    record.__dict__.update({"group": "g", "path": Path("x")})
    if error:
        try:
            raise ValueError("odd")
        except ValueError as caught:
            record.exc_info = (ValueError, caught, caught.__traceback__)
    formatter = logs.JsonFormatter() if form == "json" else logs.TextFormatter()
    return formatter.format(record)


def test_a_line_of_json_has_the_events_own_fields() -> None:
    line = msgspec.json.decode(logged("json"))
    assert (line["message"], line["level"], line["group"]) == ("nodes asked for", "info", "g")
    assert line["path"] == "x"


def test_a_traceback_stays_on_the_line() -> None:
    text = logged("json", error=True)
    assert "\n" not in text
    assert "ValueError: odd" in msgspec.json.decode(text)["traceback"]


def test_a_line_of_text_ends_with_the_fields() -> None:
    assert logged("text").endswith("info nodes asked for group=g path=x")


def test_a_text_of_several_lines_stays_on_one() -> None:
    record = logging.makeLogRecord({"msg": "oh\nno", "levelname": "INFO", "why": "a\nb", "n": 3})
    line = logs.TextFormatter().format(record)
    assert line.endswith(r' info "oh\nno" why="a\nb" n=3')


def test_all_logs_go_to_one_stream() -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    try:
        logs.set_up(form="json", level="warning", stream=stream)
        logging.getLogger("a").info("quiet")
        logging.getLogger("a").warning("loud")
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    assert [msgspec.json.decode(line)["message"] for line in stream.getvalue().splitlines()] == [
        "loud"
    ]


# What others chose

LONG = "x" * 700_000
CHOSEN = {
    "a text": LONG,
    "a list": ["cpu"] * 25_000,
    "a mapping": {f"example.com/resource-{number}": "1" for number in range(25_000)},
    "an object": Path(LONG),
}


def a_record(message: str = "no node fits", **fields: object) -> logging.LogRecord:
    record = logging.makeLogRecord({"msg": message, "levelname": "INFO", "name": "tonnage"})
    record.__dict__.update({"created": 0.0, **fields})
    return record


@pytest.mark.parametrize("formatter", [logs.JsonFormatter(), logs.TextFormatter()])
@pytest.mark.parametrize("chosen", CHOSEN.values(), ids=CHOSEN)
def test_a_field_of_any_size_makes_no_long_line(
    formatter: logging.Formatter, chosen: object
) -> None:
    line = formatter.format(a_record(why=chosen))
    assert len(line) < 2 * logs.LONGEST_VALUE
    assert "characters more)" in line


@pytest.mark.parametrize("formatter", [logs.JsonFormatter(), logs.TextFormatter()])
def test_neither_do_many_fields_or_a_long_message(formatter: logging.Formatter) -> None:
    fields = {f"field_{number}": "y" * 1000 for number in range(1000)}
    line = formatter.format(a_record(LONG, **fields))
    assert len(line) < logs.LONGEST_LINE + 100


def test_a_shortened_line_of_json_is_still_json() -> None:
    fields = {f"field_{number}": "y" * 1000 for number in range(1000)}
    line = msgspec.json.decode(logs.JsonFormatter().format(a_record(**fields)))
    assert (line["message"], line["left_out"][:8]) == ("no node fits", "field_0,")


def test_a_long_traceback_keeps_its_end() -> None:
    try:
        raise ValueError(LONG + " the end")
    except ValueError as error:
        record = a_record()
        record.exc_info = (ValueError, error, error.__traceback__)
    line = msgspec.json.decode(logs.JsonFormatter().format(record))
    assert (len(line["traceback"]) < 10_000, line["traceback"][-7:]) == (True, "the end")


def test_an_event_that_comes_without_end_is_told_at_a_rate_and_the_rest_counted() -> None:
    limit = logs.RateLimit()
    flood = [a_record(created=number * 40 / 75_000) for number in range(75_000)]
    told = [record for record in flood if limit.filter(record)]
    suppressed = sum(record.__dict__.get("suppressed", 0) for record in told)
    assert 400 < len(told) < 600
    assert suppressed > 74_000


def test_other_events_are_told_meanwhile() -> None:
    limit = logs.RateLimit()
    for _ in range(1000):
        limit.filter(a_record())
    assert limit.filter(a_record("nodes asked for"))


def test_events_of_any_number_are_told_at_a_rate_too() -> None:
    limit = logs.RateLimit()
    told = sum(limit.filter(a_record(f"event {number}")) for number in range(10_000))
    assert told < 1200

"""Windows that allow scale-down: when they are open, and for what."""

from datetime import UTC, datetime

import pytest

from tonnage.autoscaler.scaledown import windows
from tonnage.autoscaler.scaledown.windows import REASONS, Window
from tonnage.errors import InputError
from tonnage.groups import cron_windows


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


NIGHT = Window(start="0 1 * * *", lasts=4 * 3600)


@pytest.mark.parametrize(
    ("moment", "is_open"),
    [
        ("2026-03-01T00:59:59", False),
        ("2026-03-01T01:00:00", True),
        ("2026-03-01T04:59:59", True),
        ("2026-03-01T05:00:00", False),
    ],
)
def test_a_window_is_open_from_its_start_for_as_long_as_it_lasts(
    moment: str, is_open: bool
) -> None:
    assert NIGHT.is_open(at(moment)) is is_open


def test_a_window_may_last_over_midnight() -> None:
    assert Window(start="0 22 * * *", lasts=6 * 3600).is_open(at("2026-03-02T03:30:00"))


def test_hours_are_those_of_the_time_zone() -> None:
    berlin = Window(start="0 1 * * *", lasts=3600, time_zone="Europe/Berlin")
    assert [berlin.is_open(at(f"2026-07-01T{hour}:30:00")) for hour in ("00", "23")] == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("start", "moment", "named"),
    [
        ("*/15 * * * *", "2026-03-01T10:45:00", True),
        ("*/15 * * * *", "2026-03-01T10:50:00", False),
        ("0 9-17/4 * * mon-fri", "2026-03-02T13:00:00", True),
        ("0 9 * * 1", "2026-03-01T09:00:00", False),
        ("0 9 * * 7", "2026-03-01T09:00:00", True),
        ("0 9 1 jan,mar *", "2026-03-01T09:00:00", True),
        ("0 9 15 * sun", "2026-03-01T09:00:00", True),
    ],
)
def test_lines_are_read_as_cron_does(start: str, moment: str, named: bool) -> None:
    assert cron_windows.parsed(start).names(datetime.fromisoformat(moment)) is named


def test_without_windows_everything_is_allowed() -> None:
    assert windows.allowed((), now=0.0) == set(REASONS)


def test_a_reason_that_no_window_speaks_of_is_allowed_at_any_time() -> None:
    only = Window(start="0 1 * * *", lasts=3600, reasons=("underutilized",))
    allowed = windows.allowed((only,), now=at("2026-03-01T12:00:00"))
    assert allowed == {"empty", "unready", "consolidation"}


def test_one_open_window_is_enough() -> None:
    noon = Window(start="0 12 * * *", lasts=3600)
    assert windows.allowed((NIGHT, noon), now=at("2026-03-01T12:00:00")) == set(REASONS)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window(start="0 1 * *", lasts=3600), "start: '0 1 [*] [*]': expected five fields"),
        (Window(start="0 25 * * *", lasts=3600), "hour: '25': expected 0 to 23"),
        (Window(start="0 1 * * nonday", lasts=3600), "day of week: 'nonday': expected a number"),
        (Window(start="*/0 1 * * *", lasts=3600), "minute: '[*]/0': expected a step"),
        (Window(start="0 1 * * *", lasts=5), "lasts: 5: expected 60 to"),
        (Window(start="0 1 * * *", lasts=3600, time_zone="Mars"), "timeZone: 'Mars': expected"),
    ],
)
def test_what_is_wrong_is_named(window: Window, expected: str) -> None:
    with pytest.raises(InputError, match=f"scaleDownWindows.0.`: .*{expected}"):
        window.check("scaleDownWindows[0]")

"""How numbers are written and compared."""

from math import inf

import msgspec
import pytest

from tests.report.timelines import timeline
from tonnage.report import figures
from tonnage.report.figures import FIGURES
from tonnage.report.timeline import Spread, Summary


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0s"),
        (0.25, "250ms"),
        (1.0, "1s"),
        (12.34, "12.3s"),
        (59.96, "1m00s"),
        (245.0, "4m05s"),
        (3600.0, "1h00m"),
        (90_000.0, "1d01h"),
    ],
)
def test_durations_have_two_parts_at_most(seconds: float, shown: str) -> None:
    assert figures.duration(seconds) == shown


def test_a_moment_after_a_day_says_which_day() -> None:
    assert figures.moment(90_061.0) == "1d 01:01:01"


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [(3, 3, "="), (3, 5, "+2"), (5, 3, "-2"), (None, 3, "-"), (3, inf, "-")],
)
def test_a_change_is_what_the_second_run_has_more(
    first: float | None, second: float | None, shown: str
) -> None:
    assert figures.change(first, second, "count") == shown


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [(0.024, 0.006, "-0.01"), (0.501, 0.504, "="), (1.0, 2.5, "+1.50")],
)
def test_a_change_adds_up_with_the_numbers_beside_it(
    first: float, second: float, shown: str
) -> None:
    assert figures.change(first, second, "cost") == shown


def test_a_difference_that_cannot_be_seen_makes_no_run_better() -> None:
    pending = next(one for one in FIGURES if one.key == "podHoursPending")
    runs = [
        msgspec.structs.replace(timeline(), summary=Summary(pod_hours_pending=hours))
        for hours in (0.051, 0.052)
    ]
    assert figures.better(pending, runs) is None


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (2**30, "1"), (3 * 2**29, "1.5"), (2**40, "1,024")]
)
def test_bytes_are_written_as_gib(count: int, text: str) -> None:
    assert figures.gibibytes(count) == text


def test_fewer_stuck_pods_are_better() -> None:
    stuck = next(one for one in FIGURES if one.key == "stuckAtEnd")
    assert figures.better(stuck, [timeline(stuck=4), timeline(stuck=0)]) == 1


def test_never_running_is_worse_than_running_late() -> None:
    late = next(one for one in FIGURES if one.key == "timeToRunningP99")
    never = msgspec.structs.replace(
        timeline(), summary=Summary(time_to_running=Spread(count=12, waiting=9))
    )
    assert figures.better(late, [timeline(), never]) == 0
    assert figures.shown(late.of(never.summary), late.unit) == "never"


def test_fewer_nodes_are_neither_better_nor_worse() -> None:
    bought = next(one for one in FIGURES if one.key == "nodesBought")
    assert figures.better(bought, [timeline(), timeline(stuck=1)]) is None


def test_a_comparison_has_every_figure_of_both_runs() -> None:
    both = figures.compared([timeline(label="a"), timeline(label="b", stuck=2)])
    by_name = {one.figure: (one.first, one.second) for one in both.differences}
    assert by_name["stuckAtEnd"] == (0, 2)
    assert len(by_name) == len(FIGURES)

"""The benchmarks run, at their smallest size. How long they take is not tested."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.__main__ import BENCHMARKS
from benchmarks.measurement import Row, shown, table

REPOSITORY = Path(__file__).resolve().parent.parent


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_quick_run_gives_figures(name: str) -> None:
    ran = run(name, "--quick", "--json")
    assert ran.returncode == 0, ran.stderr
    rows = [msgspec.json.decode(line, type=Row) for line in ran.stdout.splitlines()]
    assert rows
    assert all(row.benchmark == name and row.value > 0 for row in rows)


def test_an_unknown_benchmark_is_wrong_usage() -> None:
    ran = run("nonsense")
    assert (ran.returncode, "no benchmark 'nonsense'" in ran.stderr) == (2, True)


def test_a_missed_aim_shows() -> None:
    row = Row(benchmark="b", case="c", work="w", value=3.0, aim=2.0)
    assert "missed < 2 s" in table([row])


def test_what_was_scaled_up_shows() -> None:
    row = Row(benchmark="b", case="c", work="w", value=2.0, plain=8.0, plain_scale=4)
    assert table([row]).splitlines()[1].split()[-4:] == ["~8", "s", "4", "x"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2.5, "s", "2.50 s"),
        (0.01234, "s", "12.3 ms"),
        (0.00000567, "s", "5.67 us"),
        (1_234_567_890, "B", "1,235 MB"),
    ],
)
def test_figures_have_three_digits(value: float, unit: str, text: str) -> None:
    assert shown(value, unit) == text

"""Results as they come, taken up again after a kill, and what fails beside them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Written
from tests.cli.planning import cluster
from tests.sweep.sweeping import NOW, in_file, run
from tonnage.sweep.answers import Answer, PreparedSweep
from tonnage.sweep.variants import Variant

GRID = ("--vary=max-size=g:0..19", "--vary=price=g:0.1..1.0..0.1")
VARIANTS = 200


@pytest.fixture
def file(written: Written) -> str:
    return written(*cluster(pods=3))


def swept(file: str, results: Path, *more: str, grid: tuple[str, ...] = GRID) -> int:
    ended = run("-f", file, *grid, NOW, f"--results={results}", "-o", "none", *more)
    return ended.exit_code


def test_a_sweep_that_is_killed_is_taken_up_again_with_nothing_twice_and_nothing_lost(
    file: str, tmp_path: Path
) -> None:
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    command = [sys.executable, "-m", "tonnage", "sweep", "-f", file, *GRID, NOW]
    with subprocess.Popen(
        [*command, "-j2", "-o", "jsonl", f"--results={cut}"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        for _ in range(40):
            process.stdout.readline()
        process.kill()
        process.stdout.read()  # until all its workers are gone, too
    before = in_file(cut)
    assert 0 < len(before) < VARIANTS
    with cut.open("ab") as half:
        half.write(b'{"position":199,"vari')
    assert swept(file, cut, "--resume", "-j1") == 0
    assert swept(file, whole, "-j1") == 0  # and one process gives the same as two
    assert [one["position"] for one in in_file(cut)] == list(range(VARIANTS))
    assert cut.read_bytes() == whole.read_bytes()


def test_what_is_done_is_not_done_again(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "results.jsonl"
    swept(file, results, "-j1", grid=GRID[1:])
    before = results.read_bytes()
    monkeypatch.setattr(PreparedSweep, "answer", None)
    assert swept(file, results, "--resume", "-j1", grid=GRID[1:]) == 0
    assert results.read_bytes() == before


def test_results_are_not_overwritten_unless_told(file: str, tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    swept(file, results, "-j1", grid=GRID[1:])
    ended = run("-f", file, *GRID[1:], NOW, f"--results={results}")
    assert (ended.exit_code, "give --resume" in ended.stderr) == (2, True)


def test_results_of_another_sweep_are_not_taken_up(file: str, tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    swept(file, results, "-j1", grid=GRID[1:])
    ended = run("-f", file, GRID[0], NOW, f"--results={results}", "--resume")
    assert (ended.exit_code, "results of another sweep" in ended.stderr) == (2, True)


def test_who_resumes_without_a_time_asks_about_the_time_it_began_with(
    file: str, tmp_path: Path
) -> None:
    results = tmp_path / "results.jsonl"
    arguments = ["-f", file, *GRID[1:], f"--results={results}", "-j1", "-o", "none"]
    assert run(*arguments).exit_code == 0
    assert run(*arguments, "--resume").exit_code == 0


_POISONED = """
import os, signal
from tonnage.cli import main
from tonnage.sweep.answers import PreparedSweep
answer = PreparedSweep.answer
def poisoned(self, variant):
    if variant.position == 77:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer(self, variant)
PreparedSweep.answer = poisoned
main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers do not inherit the poison")
def test_a_variant_that_kills_its_worker_is_one_line_of_error_and_the_others_go_on(
    file: str, tmp_path: Path
) -> None:
    results = tmp_path / "results.jsonl"
    arguments = ["-f", file, "--vary=max-size=g:0..99", NOW, f"--results={results}", "-j2"]
    # In a process of its own: beside threads of other tests workers would not be forked.
    ended = subprocess.run([sys.executable, "-c", _POISONED, "sweep", *arguments, "-o", "none"])
    assert ended.returncode == 3
    found = in_file(results)
    assert [one["position"] for one in found] == list(range(100))
    (failed,) = (one for one in found if "error" in one)
    assert failed["variant"] == "max-size=g:77"
    assert failed["error"].startswith("the worker process ended in the middle of it")


def test_a_fault_in_one_variant_is_one_line_of_error(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = PreparedSweep.answer

    def faulty(self: PreparedSweep, variant: Variant) -> Answer:
        if not variant.position:
            raise KeyError("a\nfault")
        return answer(self, variant)

    monkeypatch.setattr(PreparedSweep, "answer", faulty)
    ended = run("-f", file, "--vary=max-size=g:0..3", "-j1")
    assert ended.exit_code == 3
    assert ended.stderr.endswith("ends with code 3: 1 variant failed\n")
    assert "KeyError: 'a\\nfault'" in ended.stdout

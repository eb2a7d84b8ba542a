"""Work over processes of this machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tonnage import engine
from tonnage.engine import FunctionTask, WorkerLostError
from tonnage.engine.processes import ProcessEngine


def double(number: int) -> int:
    return 2 * number


def fail_at_seven(number: int) -> int:
    if number == 7:
        raise ValueError("seven")
    return number


def die_at_seven(number: int) -> int:
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


class Once:
    """Work whose process is killed once, at the number three."""

    def __init__(self, folder: Path) -> None:
        self._killed = folder / "killed"

    def __call__(self, number: int) -> int:
        if number == 3 and not self._killed.exists():
            self._killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return 2 * number


class Prepared:
    """A task that says in which process it was prepared."""

    key = "test-processes"

    def prepare(self) -> int:
        return os.getpid()

    def answer(self, prepared: int, question: int) -> tuple[int, int]:  # noqa: ARG002
        return prepared, os.getpid()


def ordered(work: Callable[[int], int], numbers: Iterator[int], *, workers: int) -> Iterator[int]:
    return engine.ordered(ProcessEngine(workers), FunctionTask(work), numbers)


def test_pieces_are_taken_only_as_fast_as_answers_are_taken() -> None:
    taken = 0

    def counting() -> Iterator[int]:
        nonlocal taken
        for number in range(1000):
            taken += 1
            yield number

    answers = engine.ordered(ProcessEngine(2), FunctionTask(double), counting())
    with closing(answers):
        assert [next(answers) for _ in range(3)] == [0, 2, 4]
    assert taken < 20


def test_what_work_raises_is_raised_in_its_turn() -> None:
    given: list[int] = []
    with pytest.raises(ValueError, match="seven"):
        given.extend(ordered(fail_at_seven, iter(range(20)), workers=3))
    assert given == list(range(7))


def test_what_the_pieces_raise_is_raised_after_what_came_before() -> None:
    def cut_off() -> Iterator[int]:
        yield from range(5)
        raise OSError("cut off")

    given: list[int] = []
    with pytest.raises(OSError, match="cut off"):
        given.extend(ordered(double, cut_off(), workers=2))
    assert given == [0, 2, 4, 6, 8]


def test_a_worker_that_is_lost_loses_nothing(tmp_path: Path) -> None:
    assert list(ordered(Once(tmp_path), iter(range(12)), workers=2)) == list(range(0, 24, 2))


def test_a_piece_that_kills_its_worker_fails_alone() -> None:
    found = engine.outcomes(ProcessEngine(2), FunctionTask(die_at_seven), iter(range(12)))
    outcomes = {one.position: one for one in found}
    assert sorted(outcomes) == list(range(12))
    assert [at for at, one in outcomes.items() if one.error is not None] == [7]
    assert isinstance(outcomes[7].error, WorkerLostError)


def test_in_order_a_piece_that_kills_its_worker_is_an_error_and_no_wait() -> None:
    given: list[int] = []
    with pytest.raises(WorkerLostError, match="ended in the middle of it"):
        given.extend(ordered(die_at_seven, iter(range(12)), workers=2))
    assert given == list(range(0, 14, 2))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes do not inherit")
def test_what_is_prepared_is_prepared_once_and_inherited() -> None:
    answers = list(engine.ordered(ProcessEngine(2), Prepared(), iter(range(8))))
    assert {prepared for prepared, _ in answers} == {os.getpid()}
    assert os.getpid() not in {worker for _, worker in answers}


def test_workers_end_when_their_parent_is_killed() -> None:
    code = """
import os, signal
from tonnage import engine
from tonnage.engine.processes import ProcessEngine
parent = os.getpid()
def kill_parent(number):
    # By its own id: who is orphaned already would hit somebody else.
    os.kill(parent, signal.SIGKILL)
    return number
list(engine.ordered(ProcessEngine(2), engine.FunctionTask(kill_parent), iter(range(1))))
"""
    # Its output ends only when nobody is left to write any.
    ended = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=10)
    assert ended.returncode == -signal.SIGKILL

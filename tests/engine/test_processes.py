"""Work over processes of this machine, beyond `tests/contracts/engine.py`."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contracts.engine_work import die_at_seven
from tonnage import engine
from tonnage.engine import FunctionTask, WorkerLostError
from tonnage.engine.processes import ProcessEngine

_LOCK = threading.Lock()


def lock_is_free(_: int) -> bool:
    return _LOCK.acquire(blocking=False)


class Once:
    """Work whose process is killed once, at the number three."""

    def __init__(self, folder: Path) -> None:
        self._killed = folder / "killed"

    def __call__(self, number: int) -> int:
        if number == 3 and not self._killed.exists():
            self._killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return 2 * number


def test_a_worker_that_is_lost_loses_nothing(tmp_path: Path) -> None:
    answers = engine.ordered(ProcessEngine(2), FunctionTask(Once(tmp_path)), iter(range(12)))
    assert list(answers) == list(range(0, 24, 2))


def test_in_order_a_piece_that_kills_its_worker_is_an_error_and_no_wait() -> None:
    given: list[tuple[int, int]] = []
    answers = engine.ordered(ProcessEngine(2), FunctionTask(die_at_seven), iter(range(12)))
    with pytest.raises(WorkerLostError, match="ended in the middle of it"):
        given.extend(answers)
    assert [answer for answer, _ in given] == list(range(0, 14, 2))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes do not inherit")
def test_what_is_prepared_is_prepared_once_and_inherited() -> None:
    code = """
import os
from tonnage import engine
from tonnage.engine.processes import ProcessEngine
class Prepared:
    key = "test-processes"
    def prepare(self):
        return os.getpid()
    def answer(self, prepared, question):
        return prepared, os.getpid()
answers = list(engine.ordered(ProcessEngine(2), Prepared(), iter(range(8))))
assert {prepared for prepared, _ in answers} == {os.getpid()}
assert os.getpid() not in {worker for _, worker in answers}
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_lock_that_another_thread_holds_is_free_in_a_worker() -> None:
    with ThreadPoolExecutor(1) as other:
        other.submit(_LOCK.acquire).result()
        answers = engine.ordered(ProcessEngine(1), FunctionTask(lock_is_free), iter([1]))
        assert list(answers) == [True]
        _LOCK.release()


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

"""The engine of this machine: processes, by concurrent.futures.

Where forking is sound, workers inherit what the task prepares: it is decoded once, in the parent,
and shared by all as memory that nobody has written to. Elsewhere each worker prepares it anew.
"""

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import connection
from multiprocessing.context import BaseContext
from typing import Any, TypeVar

from tonnage.engine import tasks
from tonnage.engine.tasks import Submit, Task

Q = TypeVar("Q")
A = TypeVar("A")


class ProcessEngine:
    """So many processes, which live as long as a context of `opened`."""

    tries_alone = 2

    def __init__(self, workers: int) -> None:
        self.workers = workers

    @contextmanager
    def opened(self, task: Task[Q, A], *, workers: int | None = None) -> Iterator[Submit[Q, A]]:
        context = _context()
        forks = context.get_start_method() == "fork"
        if forks:
            tasks.prepared(task)
            # The collector would write to every object, and so copy it into every worker.
            gc.freeze()
        pool = ProcessPoolExecutor(
            workers or self.workers, mp_context=context, initializer=_begin, initargs=(task,)
        )
        try:
            yield Submit(pool, _answered)
        except BaseException:
            _stop(pool)
            raise
        else:
            pool.shutdown(wait=True, cancel_futures=True)
        finally:
            if forks:
                gc.unfreeze()

    def is_lost(self, error: BaseException) -> bool:
        return isinstance(error, BrokenExecutor)


def available() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


_task: Task[Any, Any] | None = None
"""Of a worker: what it does. It comes with the process, not with each piece."""


def _begin(task: Task[Any, Any]) -> None:
    """What a worker does first."""
    global _task
    _task = task
    # Ctrl-C goes to the whole group; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _answered(question: Any) -> Any:
    assert _task is not None
    return tasks.answered(_task, question)


def _end_with_parent() -> None:
    """A worker whose parent is gone has nobody to answer, however the parent died."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _stop(pool: ProcessPoolExecutor) -> None:
    """End at once, also those that are in the middle of something."""
    # Public only from Python 3.14 on (`terminate_workers`).
    workers = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join()


def _context() -> BaseContext:
    """Forking where that is sound: workers then need not load all packages once more.

    Beside other threads, as in a notebook, it is not: a lock that one of them holds is never
    released in the worker.
    """
    alone = sys.platform == "linux" and threading.active_count() == 1
    return multiprocessing.get_context("fork" if alone else "spawn")

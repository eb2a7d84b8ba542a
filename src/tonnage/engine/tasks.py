"""What is done to each piece of work, and who does it."""

import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from tonnage.errors import TonnageError

Q = TypeVar("Q")
A = TypeVar("A")
Q_contra = TypeVar("Q_contra", contravariant=True)
A_co = TypeVar("A_co", covariant=True)


class WorkerLostError(TonnageError):
    """A worker process ended in the middle of a piece, again and again."""


class Task(Protocol[Q_contra, A_co]):
    """Work on pieces. It is picklable, and so are the pieces and what comes of them.

    `key` is the same for tasks that prepare the same.
    """

    @property
    def key(self) -> str: ...

    def prepare(self) -> Any:
        """What every piece needs; made once in each process, and inherited where that forks."""

    def answer(self, prepared: Any, question: Q_contra) -> A_co:
        """The work itself. In a process it is never called twice at the same time."""


class FunctionTask(Generic[Q, A]):
    """A function of a module that needs nothing prepared."""

    def __init__(self, work: Callable[[Q], A]) -> None:
        self._work = work

    @property
    def key(self) -> str:
        return ""

    def prepare(self) -> None:
        return None

    def answer(self, prepared: None, question: Q) -> A:  # noqa: ARG002
        return self._work(question)


class Outcome(NamedTuple, Generic[A]):
    """What came of a piece: an answer, or what was raised instead."""

    position: int
    answer: A | None
    error: Exception | None


class Engine(Protocol):
    """Somewhere to work. `workers` is how many pieces it works on at the same time."""

    @property
    def workers(self) -> int: ...

    @property
    def tries_alone(self) -> int:
        """How often a piece that lost its worker is tried again with nobody beside it."""

    def opened(
        self, task: Task[Q, A], *, workers: int | None = None
    ) -> AbstractContextManager["Submit[Q, A]"]:
        """Workers that are ready for the task, and gone with the context."""

    def is_lost(self, error: BaseException) -> bool:
        """Whether an error means that the worker went, and not that the work failed."""


class Submit(NamedTuple, Generic[Q, A]):
    """Where pieces are handed in: an executor, and what it is to call with each."""

    executor: Executor
    call: Callable[[Q], A]


_prepared: dict[str, Any] = {}
_one_at_a_time = threading.RLock()


def prepared(task: Task[Q, A]) -> Any:
    """What the task prepares, kept for as long as the process lives or `forget` says."""
    if not task.key:
        return task.prepare()
    with _one_at_a_time:
        if task.key not in _prepared:
            _prepared[task.key] = task.prepare()
        return _prepared[task.key]


def offer(task: Task[Q, A], value: Any) -> None:
    """Hand over what the task would prepare, for who has it already."""
    _prepared[task.key] = value


def forget(key: str) -> None:
    _prepared.pop(key, None)


def answered(task: Task[Q, A], question: Q) -> A:
    """Work on a piece in this process. Threads wait for each other: what is prepared is shared."""
    with _one_at_a_time:
        try:
            return task.answer(prepared(task), question)
        except Exception as error:
            if not isinstance(error, TonnageError):
                error.add_note("in a worker process:\n" + traceback.format_exc())
            raise

"""Pieces in, outcomes out, whatever the engine. A worker that is lost loses nothing.

Pieces are taken only as fast as they are worked on. When a worker is lost, the pieces that were
under way are done again one by one with a worker to themselves, so that the one that kills its
worker is found, and only that one fails.
"""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import closing
from typing import Generic, NamedTuple, TypeVar

from tonnage.engine.tasks import Engine, Outcome, Task, WorkerLostError
from tonnage.errors import TonnageError

Q = TypeVar("Q")
A = TypeVar("A")

_PIECES_PER_WORKER = 2
_WINDOW_PER_WORKER = 4


def outcomes(
    engine: Engine,
    task: Task[Q, A],
    pieces: Iterator[Q],
    *,
    has_room: Callable[[], bool] = lambda: True,
) -> Generator[Outcome[A], None, None]:
    """What comes of every piece, as it comes; its position says which one it was.

    While `has_room` says no, no further piece is taken. What `pieces` raises is raised when all
    pieces before it are done.
    """
    run = _Run(engine, task, pieces, has_room)
    while not run.over:
        yield from run.until_lost()
        yield from run.lost_alone()


def ordered(engine: Engine, task: Task[Q, A], pieces: Iterator[Q]) -> Generator[A, None, None]:
    """Answers in the order of the pieces. What work raises is raised here, in its turn."""
    early: dict[int, Outcome[A]] = {}
    taken = given = 0

    def counted() -> Iterator[Q]:
        nonlocal taken
        for piece in pieces:
            taken += 1
            yield piece

    def has_room() -> bool:
        return taken - given < _WINDOW_PER_WORKER * engine.workers

    with closing(outcomes(engine, task, counted(), has_room=has_room)) as found:
        failure: Exception | None = None
        while True:
            try:
                outcome = next(found, None)
            except Exception as error:
                outcome, failure = None, error
            if outcome is not None:
                early[outcome.position] = outcome
            while given in early:
                done = early.pop(given)
                if done.error is not None:
                    raise done.error
                given += 1
                yield done.answer  # type: ignore[misc]
            if outcome is None:
                if failure is not None:
                    raise failure
                return


class _Piece(NamedTuple, Generic[Q]):
    position: int
    question: Q


class _Run(Generic[Q, A]):
    """Every piece that was taken is in flight, lost, or has its outcome."""

    def __init__(
        self, engine: Engine, task: Task[Q, A], pieces: Iterator[Q], has_room: Callable[[], bool]
    ) -> None:
        self._engine = engine
        self._task = task
        self._pieces = enumerate(pieces)
        self._has_room = has_room
        self._exhausted = False
        self._failure: Exception | None = None
        self._flying: dict[Future[A], _Piece[Q]] = {}
        self._lost: list[_Piece[Q]] = []

    @property
    def over(self) -> bool:
        done = self._exhausted and not self._lost
        if done and self._failure is not None:
            raise self._failure
        return done

    def until_lost(self) -> Generator[Outcome[A], None, None]:
        """Outcomes until all is done, or until workers were lost."""
        with self._engine.opened(self._task) as submit:
            try:
                while not self._lost:
                    self._hand_out(submit.executor.submit, submit.call)
                    if not self._flying:
                        return
                    done, _ = wait(self._flying, return_when=FIRST_COMPLETED)
                    yield from self._landed(done)
                # A broken pool fails all that it had; what was done in time counts.
                done, _ = wait(self._flying)
                yield from self._landed(done)
            finally:
                for future in self._flying:
                    future.cancel()

    def lost_alone(self) -> Generator[Outcome[A], None, None]:
        """The lost pieces once more, one by one."""
        lost, self._lost = self._lost, []
        for piece in sorted(lost):
            yield self._alone(piece)

    def _alone(self, piece: _Piece[Q]) -> Outcome[A]:
        for _ in range(self._engine.tries_alone):
            with self._engine.opened(self._task, workers=1) as submit:
                try:
                    answer = submit.executor.submit(submit.call, piece.question).result()
                    return Outcome(piece.position, answer, None)
                except Exception as error:
                    if not self._engine.is_lost(error):
                        return Outcome(piece.position, None, error)
        return Outcome(piece.position, None, _lost_for_good())

    def _hand_out(
        self, submit: Callable[[Callable[[Q], A], Q], Future[A]], call: Callable[[Q], A]
    ) -> None:
        most = _PIECES_PER_WORKER * self._engine.workers
        while not self._exhausted and len(self._flying) < most and self._has_room():
            try:
                piece = _Piece(*next(self._pieces))
            except StopIteration:
                self._exhausted = True
                return
            except Exception as error:
                # What came before it is answered first.
                self._exhausted, self._failure = True, error
                return
            try:
                self._flying[submit(call, piece.question)] = piece
            except Exception as error:
                if not self._engine.is_lost(error):
                    raise
                self._lost.append(piece)
                return

    def _landed(self, done: set[Future[A]]) -> Iterator[Outcome[A]]:
        for future in done:
            piece = self._flying.pop(future)
            try:
                answer = future.result()
            except CancelledError:
                raise TonnageError(
                    "the engine stopped in the middle: its scheduler is gone, or was told to"
                ) from None
            except Exception as error:
                if self._engine.is_lost(error):
                    self._lost.append(piece)
                else:
                    yield Outcome(piece.position, None, error)
            else:
                yield Outcome(piece.position, answer, None)


def _lost_for_good() -> WorkerLostError:
    return WorkerLostError(
        "the worker process ended in the middle of it, each time it was tried; perhaps for want"
        " of memory"
    )

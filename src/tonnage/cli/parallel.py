"""Work spread over processes, answers in the order of the questions, memory bounded.

Each worker has a pipe and at most one piece of work, so nothing can wait for itself; answers
that come early wait in a window of a few pieces. A worker whose parent is gone reads the end of
its pipe and ends, however the parent died.
"""

import multiprocessing
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from tonnage.errors import TonnageError

Q = TypeVar("Q")
A = TypeVar("A")

_PIECES_PER_WORKER = 4


def ordered(work: Callable[[Q], A], pieces: Iterator[Q], *, jobs: int) -> Generator[A, None, None]:
    """`work` on every piece in `jobs` processes; answers in the order of the pieces.

    Pieces are taken only as fast as they are worked on. `work` and everything it takes and
    gives must be picklable. What it raises is raised here, in its turn.
    """
    pool = _Pool(work, jobs)
    try:
        yield from pool.answers(pieces, window=_PIECES_PER_WORKER * jobs)
    finally:
        pool.stop()


class _Pool(Generic[Q, A]):
    """`busy` workers have exactly one piece each; the others wait for one."""

    def __init__(self, work: Callable[[Q], A], jobs: int) -> None:
        context = _context()
        self._idle: list[Connection] = []
        self._busy: dict[Connection, int] = {}
        self._processes: dict[Connection, BaseProcess] = {}
        for _ in range(jobs):
            ours, theirs = context.Pipe()
            # A forked child has copies of all our ends; kept open they would hide our death.
            forked = context.get_start_method() == "fork"
            copies = [*self._processes, ours] if forked else []
            process = context.Process(  # type: ignore[attr-defined]
                target=_serve, args=(work, theirs, copies), daemon=True
            )
            process.start()
            theirs.close()
            self._processes[ours] = process
            self._idle.append(ours)

    def answers(self, pieces: Iterator[Q], *, window: int) -> Iterator[A]:
        early: dict[int, tuple[A | None, BaseException | None]] = {}
        handed_out = given = 0
        end: Exception | None = None
        while True:
            while self._idle and end is None and handed_out - given < window:
                try:
                    piece = next(pieces)
                except Exception as reason:
                    # Even if it is a failure: what came before it is answered first.
                    end = reason
                    break
                self._hand_out(piece, handed_out)
                handed_out += 1
            while given in early:
                answer, error = early.pop(given)
                if error is not None:
                    raise error
                given += 1
                yield answer  # type: ignore[misc]
            if end is not None and given == handed_out:
                if isinstance(end, StopIteration):
                    return
                raise end
            for worker in _readable(self._busy):
                early[self._busy.pop(worker)] = self._received(worker)
                self._idle.append(worker)

    def stop(self) -> None:
        """End all workers: at once those that are in the middle of something."""
        for worker, process in self._processes.items():
            if worker in self._busy:
                process.terminate()
            worker.close()
        for process in self._processes.values():
            process.join()

    def _hand_out(self, piece: Q, position: int) -> None:
        worker = self._idle.pop()
        try:
            worker.send(piece)
        except OSError:
            raise self._death_of(worker) from None
        self._busy[worker] = position

    def _received(self, worker: Connection) -> tuple[A | None, BaseException | None]:
        try:
            received: tuple[A | None, BaseException | None] = worker.recv()
        except (EOFError, OSError):
            raise self._death_of(worker) from None
        return received

    def _death_of(self, worker: Connection) -> TonnageError:
        process = self._processes[worker]
        process.join()
        code = process.exitcode or 0
        how = signal.Signals(-code).name if code < 0 else f"code {code}"
        return TonnageError(
            f"a worker process ended with {how}, perhaps for want of memory; "
            "--jobs 1 needs the least"
        )


def _readable(workers: Collection[Connection]) -> list[Connection]:
    """Wait until one of them has something to say."""
    ready = connection.wait(list(workers))
    return [one for one in ready if isinstance(one, Connection)]


def _serve(work: Callable[[Any], Any], pipe: Connection, copies: Sequence[Connection]) -> None:
    """What a worker does: answer what comes through the pipe until it is closed."""
    for copy in copies:
        copy.close()
    # Ctrl-C goes to the whole group; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            piece = pipe.recv()
        except EOFError:
            return
        try:
            answer, error = work(piece), None
        except Exception as caught:
            answer, error = None, caught
            caught.add_note("in a worker process:\n" + traceback.format_exc())
        try:
            pipe.send((answer, error))
        except BrokenPipeError:
            return


def _context() -> BaseContext:
    """Forking where that is sound: workers then need not load all packages once more."""
    return multiprocessing.get_context("fork" if sys.platform == "linux" else None)

"""Batches of scenarios: one line in, one line out, in order, over all cores.

What is asked of a scenario is the command's business; here is the rest: reading, spreading
over processes, what a bad line means, progress.
"""

import functools
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import click
import msgspec

from tonnage import engine, files
from tonnage.cli import console
from tonnage.cli.engines import EngineChoice
from tonnage.engine import FunctionTask, WorkerLostError
from tonnage.errors import InputError, TonnageError
from tonnage.objects import codec, printable

Answer: TypeAlias = Callable[[files.Loaded], dict[str, Any]]
"""What a command says of one scenario: fields of its line. A function of a module, so that
worker processes find it."""

_LINES_PER_PIECE = 16
_BYTES_PER_PIECE = 1 << 19
_PROGRESS_EVERY = 0.2  # seconds

lenient_option = click.option(
    "--lenient",
    is_flag=True,
    help="Answer a scenario that cannot be used with its error, and go on.",
)


def run(path: str, answer: Answer, *, chosen: EngineChoice, lenient: bool) -> None:
    """Answer every scenario of a batch on standard output.

    The first line that cannot be used is an `InputError`, when everything before it is
    printed; leniently, it is answered with its error.
    """
    out = sys.stdout.buffer
    name = "standard input" if path == "-" else path
    lines = files.read_lines(path)
    progress = _Progress()
    work = functools.partial(_answer_piece, answer=answer, name=name, lenient=lenient)
    failed = 0
    with closing(_answered(work, lines, chosen)) as answered:
        for piece in answered:
            out.write(piece.text)
            if chosen.is_here:
                out.flush()
            progress.advance(piece.answers)
            failed += piece.failed
            if piece.error:
                out.flush()
                progress.finish()
                raise InputError(piece.error)
    progress.finish()
    if failed:
        console.warn(f"scenarios that could not be used: {failed:,}")


class _Piece(NamedTuple):
    """The answers to some lines; `error` says why there are no more."""

    text: bytes
    answers: int
    failed: int
    error: str


_Lines: TypeAlias = list[tuple[int, bytes]]


def _answered(
    work: Callable[[_Lines], _Piece], lines: Iterator[tuple[int, bytes]], chosen: EngineChoice
) -> Generator[_Piece, None, None]:
    if chosen.is_here:
        with codec.collector_lazy():
            for line in lines:
                yield work([line])
        return
    pieces = _pieces(lines)
    first = next(pieces, None)
    if first is None:
        return
    everything = chain((first,), pieces)
    if chosen.is_local and not _is_full(first):
        # That was all: too little to be worth the processes.
        yield from map(work, everything)
        return
    task = FunctionTask(functools.partial(_in_worker, work))
    with chosen.opened() as workers:
        try:
            yield from engine.ordered(workers, task, everything)
        except WorkerLostError as error:
            raise TonnageError(f"{error}; --jobs 1 needs the least") from error


def _pieces(lines: Iterator[tuple[int, bytes]]) -> Iterator[_Lines]:
    """Lines in portions that keep a worker busy for a while and cost little to send.

    When the lines fail, those before the failure are still a piece.
    """
    piece: _Lines = []
    failure: InputError | None = None
    try:
        for line in lines:
            piece.append(line)
            if _is_full(piece):
                yield piece
                piece = []
    except InputError as error:
        failure = error
    if piece:
        yield piece
    if failure is not None:
        raise failure


def _is_full(piece: _Lines) -> bool:
    return len(piece) >= _LINES_PER_PIECE or sum(len(line) for _, line in piece) >= _BYTES_PER_PIECE


def _in_worker(work: Callable[[_Lines], _Piece], lines: _Lines) -> _Piece:
    with codec.collector_lazy():
        return work(lines)


def _answer_piece(lines: _Lines, *, answer: Answer, name: str, lenient: bool) -> _Piece:
    answers: list[bytes] = []
    failed = 0
    for number, line in lines:
        try:
            loaded = files.decode_scenario(line)
            document = {"scenario": loaded.name, **answer(loaded)}
        except InputError as error:
            scenario = _name_of(line)
            if not lenient:
                where = f"{name}: line {number}" + (f": scenario {scenario}" if scenario else "")
                return _Piece(b"".join(answers), len(answers), 0, f"{where}: {error}")
            document = {"scenario": scenario, "error": f"line {number}: {error}"}
            failed += 1
        text = printable.escape_json(msgspec.json.encode(document).decode())
        answers.append(text.encode() + b"\n")
    return _Piece(b"".join(answers), len(answers), failed, "")


class _Metadata(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


def _name_of(line: bytes) -> str | None:
    """The name of a scenario that may be broken otherwise."""
    try:
        return msgspec.json.decode(line, type=_Named).metadata.name or None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


class _Progress:
    """How many scenarios are answered, on standard error if that is a terminal."""

    def __init__(self) -> None:
        # Answers that go to the same terminal are progress enough.
        self._shown = sys.stderr.isatty() and not sys.stdout.isatty()
        self._started = self._said = time.monotonic()
        self._count = 0

    def advance(self, count: int) -> None:
        self._count += count
        now = time.monotonic()
        if self._shown and now - self._said >= _PROGRESS_EVERY:
            self._said = now
            self._say()

    def finish(self) -> None:
        if self._shown and self._said != self._started:
            self._say()
            console.echo(err=True)

    def _say(self) -> None:
        rate = self._count / max(time.monotonic() - self._started, 1e-9)
        console.progress(f"{self._count:,} scenarios, {rate:,.0f}/s")

"""`tonnage batch verdicts`, `plan` and `scale-down`: one line in, one line out, over all cores.

Commands come first, with what they ask of a scenario; then the rest: reading, spreading over
processes, what a bad line means, progress.
"""

import functools
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import click
import msgspec

from tonnage import engine, files
from tonnage.api import plan_documents
from tonnage.cli import console, documents, engines, plan_settings
from tonnage.cli.engines import EngineChoice
from tonnage.engine import FunctionTask, WorkerLostError
from tonnage.errors import InputError, TonnageError
from tonnage.files import Loaded, ScenarioOptions
from tonnage.objects import codec, printable
from tonnage.rules import features, pipeline
from tonnage.snapshot.snapshot import Snapshot

lenient_option = click.option(
    "--lenient",
    is_flag=True,
    help="Answer a scenario that cannot be used with its error, and go on.",
)


@click.command()
@click.argument("path", metavar="FILE")
@plan_settings.takes_settings
@lenient_option
@engines.options
def plan(
    path: str, settings: dict[str, object], lenient: bool, chosen: engines.EngineChoice
) -> None:
    """Say which node groups to grow for the pending pods, for each scenario.

    FILE has one Scenario per line, plain or gzip; - is standard input. One line is printed for
    each, in order: {"scenario": NAME, "plan": {...}}. Options of a Scenario are the base; flags
    go before them, for all scenarios alike. Answers are about the given objects alone: nothing is
    assumed beside them.

    \b
    Examples:
      tonnage batch plan scenarios.jsonl.gz > plans.jsonl
      tonnage batch plan scenarios.jsonl --expander least-nodes --time-budget 5
      zcat scenarios.jsonl.gz | head -20 | tonnage batch plan - --lenient
    """
    run(path, functools.partial(plan_of, settings=settings), chosen=chosen, lenient=lenient)


@click.command("scale-down")
@click.argument("path", metavar="FILE")
@plan_settings.takes_settings
@lenient_option
@engines.options
def scale_down(
    path: str, settings: dict[str, object], lenient: bool, chosen: engines.EngineChoice
) -> None:
    """Say which nodes can go, where their pods land, and why the others stay.

    FILE has one Scenario per line, plain or gzip; - is standard input. One line is printed for
    each, in order: {"scenario": NAME, "plan": {...}}. Options of a Scenario are the base; flags
    go before them, for all scenarios alike. Times and delays that nobody gives are 0: a file has
    no past. The option now is the moment of the question.

    \b
    Examples:
      tonnage batch scale-down scenarios.jsonl.gz > scaledown.jsonl
      tonnage batch scale-down scenarios.jsonl --option scaleDownUtilizationThreshold=0.7
    """
    answer = functools.partial(scale_down_of, settings=settings)
    run(path, answer, chosen=chosen, lenient=lenient)


def plan_of(loaded: Loaded, settings: Mapping[str, object]) -> dict[str, Any]:
    """The plan of one scenario."""
    return {"plan": plan_documents.plan(plan_settings.cluster_of(loaded, settings).decide())}


def scale_down_of(loaded: Loaded, settings: Mapping[str, object]) -> dict[str, Any]:
    """The scale-down plan of one scenario."""
    return {"plan": plan_settings.cluster_of(loaded, settings).scale_down()}


@click.command()
@click.argument("path", metavar="FILE")
@lenient_option
@engines.options
def verdicts(path: str, lenient: bool, chosen: engines.EngineChoice) -> None:
    """Say what becomes of every pending pod on every node, for each scenario.

    FILE has one Scenario per line, plain or gzip; - is standard input. One line is printed for
    each, in order: {"scenario": NAME, "verdicts": [{"pod", "node", "phase", "plugin", "code",
    "reasons"}]}. A node that fits has the code Success, no phase and no plugin. Answers are
    about the given objects alone: nothing is assumed beside them.

    \b
    Examples:
      tonnage batch verdicts scenarios.jsonl.gz > verdicts.jsonl
      zcat scenarios.jsonl.gz | head -20 | tonnage batch verdicts -
      tonnage batch verdicts scenarios.jsonl --lenient --jobs 1
    """
    run(path, verdicts_of, chosen=chosen, lenient=lenient)


def verdicts_of(loaded: Loaded) -> dict[str, Any]:
    """The verdicts of one scenario, each pending pod alone against the cluster as it is."""
    settings = loaded.scenario or ScenarioOptions()
    asked = features.of_version(settings.kubernetes_version, settings.feature_gates)
    snapshot = Snapshot.of(loaded.objects, version=asked.version)
    pending = sorted(snapshot.pending_pods(), key=lambda record: record.order)
    return {
        "verdicts": [
            documents.verdict(one)
            for record in pending
            for one in pipeline.evaluate(snapshot, record, asked)
        ]
    }


Answer: TypeAlias = Callable[[files.Loaded], dict[str, Any]]
"""What a command says of one scenario: fields of its line. A function of a module, so that
worker processes find it."""

_LINES_PER_PIECE = 16
_BYTES_PER_PIECE = 1 << 19
_PROGRESS_EVERY = 0.2  # seconds


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

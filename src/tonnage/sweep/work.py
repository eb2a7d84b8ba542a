"""The task that an engine runs, and the run itself: numbers of variants in, lines out."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

from tonnage import engine
from tonnage.engine import Engine, WorkerLostError, tasks
from tonnage.errors import TonnageError
from tonnage.objects import codec
from tonnage.sweep import bundle as bundles
from tonnage.sweep.answers import PreparedSweep
from tonnage.sweep.bundle import SweepBundle
from tonnage.sweep.results import Result
from tonnage.sweep.variants import Variant

Positions: TypeAlias = tuple[int, ...]

MOST_IN_PIECE = 32
_PIECES_PER_WORKER = 16
"""Small enough that workers end together, large enough that a piece is worth its sending."""


class SweepTask:
    """Variants by their numbers. A process makes of the bundle what it needs, once."""

    def __init__(self, bundle: SweepBundle, *, digest: str) -> None:
        self._digest = digest
        self._bundle: SweepBundle | None = bundle
        tasks.offer(self, PreparedSweep(bundle))

    @property
    def key(self) -> str:
        return self._digest

    @cached_property
    def _packed(self) -> bytes:
        assert self._bundle is not None
        return bundles.packed(self._bundle)

    def __getstate__(self) -> dict[str, object]:
        """What another machine gets: bytes, and not the objects."""
        return {"_digest": self._digest, "_bundle": None, "_packed": self._packed}

    def prepare(self) -> PreparedSweep:
        return PreparedSweep(bundles.unpacked(self._packed))

    def answer(self, prepared: PreparedSweep, question: Positions) -> list[Result]:
        with codec.collector_lazy():
            return [_result(prepared, position) for position in question]


def run(
    workers: Engine,
    task: SweepTask,
    prepared: PreparedSweep,
    positions: Sequence[int],
) -> Iterator[list[Result]]:
    """Results as they come, a piece at a time; every variant has exactly one.

    A piece that loses its worker for good is taken apart, so that one variant fails and not all
    that were beside it.
    """
    pieces = _pieces(positions, _piece_size(prepared, len(positions), workers.workers))
    broken: list[int] = []
    handed: list[Positions] = []

    def noted(source: Iterator[Positions]) -> Iterator[Positions]:
        for piece in source:
            handed.append(piece)
            yield piece

    for outcome in engine.outcomes(workers, task, noted(pieces)):
        piece = handed[outcome.position]
        if outcome.answer is not None:
            yield outcome.answer
        elif isinstance(outcome.error, WorkerLostError) and len(piece) > 1:
            broken += piece
        else:
            yield [_failed(prepared, one, outcome.error) for one in piece]
    for alone in engine.outcomes(workers, task, iter([(one,) for one in broken])):
        if alone.answer is not None:
            yield alone.answer
        else:
            yield [_failed(prepared, broken[alone.position], alone.error)]


def run_here(prepared: PreparedSweep, positions: Sequence[int]) -> Iterator[list[Result]]:
    """The same in this process, one by one."""
    for position in positions:
        with codec.collector_lazy():
            yield [_result(prepared, position)]


def _piece_size(prepared: PreparedSweep, count: int, workers: int) -> int:
    if prepared.definition.ask in ("simulate", "explore"):
        return 1  # each takes seconds
    return max(1, min(MOST_IN_PIECE, count // (workers * _PIECES_PER_WORKER)))


def _pieces(positions: Sequence[int], size: int) -> Iterator[Positions]:
    for start in range(0, len(positions), size):
        yield tuple(positions[start : start + size])


def _result(prepared: PreparedSweep, position: int) -> Result:
    variant = prepared.space.variant(position)
    try:
        return _line(prepared, variant, prepared.answer(variant))
    except TonnageError as error:
        return _line(prepared, variant, {"error": _in_one_line(error)})
    except Exception as error:
        # A fault of ours in one variant is no reason to lose the others.
        return _line(prepared, variant, {"error": f"{type(error).__name__}: {_in_one_line(error)}"})


def _line(prepared: PreparedSweep, variant: Variant, answer: dict[str, object]) -> Result:
    name = prepared.definition.clusters[variant.cluster]
    values = {label: _number(value) for label, value in variant.values.items()}
    return Result(
        position=variant.position,
        variant=variant.name,
        cluster=name,
        values=values,
        **answer,  # type: ignore[arg-type]
    )


def _failed(prepared: PreparedSweep, position: int, error: Exception | None) -> Result:
    variant = prepared.space.variant(position)
    return _line(prepared, variant, {"error": _in_one_line(error)})


def _in_one_line(error: Exception | None) -> str:
    return " ".join(str(error).split())


def _number(text: str) -> str | float:
    """A value as a number where it is one, so that tables and plots have it as such."""
    try:
        number = float(text)
    except ValueError:
        return text
    if number != number or number in (float("inf"), float("-inf")):
        return text
    return int(number) if number.is_integer() and "." not in text else number

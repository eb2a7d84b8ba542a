"""How figures are taken and shown.

Times are CPU time of the process: everything measured here runs in one thread and waits for
nothing, and what else the machine is doing should not count.
"""

import gc
import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One figure: the work it took, the aim, and the same work done plainly where that exists.

    Times are in seconds, memory is in bytes. `plain_scale` says how many times over the plain
    side, measured on a sample, was counted to come to the whole.
    """

    benchmark: str
    case: str
    work: str
    value: float
    unit: Literal["s", "B"] = "s"
    p99: float | None = None
    aim: float | None = None
    plain: float | None = None
    plain_scale: float = 1.0

    @property
    def ratio(self) -> float | None:
        return self.plain / self.value if self.plain is not None and self.value else None


class Times(NamedTuple):
    median: float
    p99: float


def each(actions: Iterable[Callable[[], object]]) -> Times:
    """How long the actions take, one by one."""
    taken = []
    for action in actions:
        started = time.process_time()
        action()
        taken.append(time.process_time() - started)
    return spread(taken)


def repeated(action: Callable[[], object], times: int) -> Times:
    """How long the same action takes again and again, warm."""
    action()
    return each([action] * times)


def once(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def spread(taken: Sequence[float]) -> Times:
    ordered = sorted(taken)
    return Times(ordered[len(ordered) // 2], ordered[math.ceil(len(ordered) * 0.99) - 1])


class Memory(NamedTuple):
    """Of this process, in bytes."""

    held: int
    peak: int


def memory() -> Memory:
    gc.collect()
    figures = {}
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in ("VmRSS", "VmHWM"):
            figures[name] = int(rest.split()[0]) * 1024
    return Memory(figures["VmRSS"], figures["VmHWM"])


HEADINGS = ("BENCHMARK", "CASE", "WORK", "MEASURED", "P99", "AIM", "PLAIN PYTHON", "RATIO")
_LEFT = 3  # columns of words; the rest are figures


def table(rows: Iterable[Row]) -> str:
    """Rows for people, aligned."""
    cells = [HEADINGS, *map(_cells, rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < _LEFT else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )


def _cells(row: Row) -> tuple[str, ...]:
    missed = row.aim is not None and row.value > row.aim
    return (
        row.benchmark,
        row.case,
        row.work,
        shown(row.value, row.unit),
        "" if row.p99 is None else shown(row.p99, row.unit),
        "" if row.aim is None else f"{'missed ' if missed else ''}< {shown(row.aim, row.unit)}",
        "" if row.plain is None else shown(row.plain, row.unit, estimated=row.plain_scale != 1),
        "" if row.ratio is None else f"{_rounded(row.ratio)} x",
    )


def shown(value: float, unit: str, *, estimated: bool = False) -> str:
    """`1.23 s`, `456 us` or `789 MB`; `~` before what was scaled up from a sample."""
    if unit == "B":
        text = f"{_rounded(value / 1e6)} MB"
    elif value >= 1:
        text = f"{_rounded(value)} s"
    elif value >= 1e-3:
        text = f"{_rounded(value * 1e3)} ms"
    else:
        text = f"{_rounded(value * 1e6)} us"
    return f"~{text}" if estimated else text


def _rounded(value: float) -> str:
    """Three digits are enough."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}".removesuffix(".00")

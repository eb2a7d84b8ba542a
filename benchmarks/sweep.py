"""Sweeps: what a variant of a cluster takes, beside `tonnage plan` called once for each.

Times are of the processor, with several processes of all of them together; how fast it went on the
clock, beside whatever else the machine had to do, is in the work.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

from benchmarks import plans
from benchmarks.context import Context
from benchmarks.measurement import Row, each
from tonnage.engine import Engine, tasks
from tonnage.engine.processes import ProcessEngine
from tonnage.files import Loaded, scenario_writer
from tonnage.sweep import bundle as bundles
from tonnage.sweep import work
from tonnage.sweep.answers import PreparedSweep
from tonnage.sweep.bundle import SweepBundle
from tonnage.sweep.definition import Definition
from tonnage.sweep.work import SweepTask

NAME = "sweep"
_DRIVER = plans.DRIVER
_GRID = (f"limit={_DRIVER}:16..25..3", "max-size=g0:0..24", "price=g1:0.1..1.0..0.1")
_PLAIN_CALLS = 3


def run(context: Context) -> Iterator[Row]:
    nodes, waiting = (20, 20) if context.quick else (300, 200)
    loaded = Loaded(objects=plans.stateful(nodes, 10, sets=10, pods=waiting, groups=4))
    cluster = f"{nodes:,} nodes, {nodes * 10:,} running and {waiting} waiting pods"
    plain = _plain(loaded)
    for case, grid, count in (
        ("sizes and prices differ", _GRID[1:], 20 if context.quick else 250),
        ("limits differ too", _GRID, 20 if context.quick else 1000),
        ("every cluster is another", (f"limit={_DRIVER}:1..200",), 5 if context.quick else 40),
    ):
        task, prepared = _prepared(loaded, grid)
        positions = range(len(prepared.space))[:count]
        answer = each(partial(task.answer, prepared, (at,)) for at in positions)
        yield Row(
            benchmark=NAME,
            case=f"{case}, a variant",
            work=f"{cluster}; beside tonnage plan for each",
            value=answer.median,
            p99=answer.p99,
            plain=plain,
        )
    task, prepared = _prepared(loaded, _GRID)
    count = 40 if context.quick else 400
    names = ["2 processes"] if context.quick else ["1 process", "2 processes", "2 workers of Dask"]
    for name in names:
        number = int(name.split()[0])
        with _dask(number) if "Dask" in name else _processes(number) as (workers, processor):
            # Workers import and decode once; that is not part of what a variant takes.
            list(work.run(workers, task, prepared, range(2)))
            began, started = processor(), time.perf_counter()
            answered = sum(map(len, work.run(workers, task, prepared, range(count))))
            taken, seconds = processor() - began, time.perf_counter() - started
        rate = f"{answered / seconds:,.0f} a second on the clock, {os.cpu_count()} cores"
        yield Row(
            benchmark=NAME,
            case=f"{name}, a variant",
            work=f"{answered:,} variants, {rate}, load {os.getloadavg()[0]:.0f}",
            value=taken / answered,
            plain=plain,
        )


def _prepared(loaded: Loaded, grid: tuple[str, ...]) -> tuple[SweepTask, PreparedSweep]:
    definition = Definition(name=NAME, ask="plan", clusters=("medium",), grid=grid)
    bundle = SweepBundle(definition, (loaded,), {})
    task = SweepTask(bundle, digest=bundles.digest(bundle.lines()))
    prepared: PreparedSweep = tasks.prepared(task)
    return task, prepared


def _plain(loaded: Loaded) -> float:
    """Seconds of processor of one call, imports and reading among them."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cluster.json")
        file.write_bytes(b"".join(scenario_writer.pieces(loaded, name="medium", taken_at="")))
        what_if = f"--what-if=limit={_DRIVER}:20"
        command = [sys.executable, "-m", "tonnage", "plan", "-f", str(file), what_if, "-o", "json"]
        taken = []
        for _ in range(_PLAIN_CALLS):
            before = os.times()
            subprocess.run(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
            )
            after = os.times()
            taken.append(
                after.children_user
                + after.children_system
                - before.children_user
                - before.children_system
            )
    return min(taken)


Opened: TypeAlias = tuple[Engine, Callable[[], float]]
"""An engine, and what it has taken of the processor until now, workers and all."""


@contextmanager
def _processes(jobs: int) -> Iterator[Opened]:
    def processor() -> float:
        times = os.times()
        return times.user + times.system + times.children_user + times.children_system

    yield ProcessEngine(jobs), processor


@contextmanager
def _dask(workers: int) -> Iterator[Opened]:
    import psutil  # type: ignore[import-untyped]
    from distributed import LocalCluster

    from tonnage import engine

    with (
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=workers, threads_per_worker=1, dashboard_address=None, memory_limit=None
        ) as cluster,
        engine.engine_of(
            cluster.scheduler_address.replace("tcp://", "dask://"), jobs=1
        ) as connected,
    ):

        def processor() -> float:
            here = psutil.Process()
            found = [one.cpu_times() for one in (here, *here.children(recursive=True))]
            return float(sum(one.user + one.system for one in found))

        yield connected, processor

"""The autoscaler as it is deployed: until it knows a large cluster, and how quick it is then.

An API server of ours in one process, the autoscaler in another, HTTP between them.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from benchmarks.clusters import FULL, QUICK, Size
from benchmarks.context import Context
from benchmarks.live_plain import Plain
from benchmarks.live_process import Measured, Work
from benchmarks.live_server import PAGED
from benchmarks.measurement import Row, spread

T = TypeVar("T")

NAME = "live"
SMALLER = Size(1_000, 20_000)


def run(context: Context) -> Iterator[Row]:
    for size in (QUICK,) if context.quick else (SMALLER, FULL):
        yield from _rows(context, size)


def _rows(context: Context, size: Size) -> Iterator[Row]:
    work = Work(
        rounds=context.times(100), events=context.times(30_000), decisions=context.times(40)
    )
    with _server(size) as url:
        plain = _measured("benchmarks.live_plain", Plain, url)
        paged = _live(url, PAGED, Work(rounds=0, events=0, decisions=0))
        found = _live(url, "", work)
    everything = f"{found.nodes:,} nodes, {found.pods:,} pods"
    yield from _starts("pages", everything, paged, plain)
    yield from _starts("stream", everything, found, plain)
    yield Row(
        benchmark=NAME,
        case="one watch event taken in",
        work=f"{found.events:,} events, {found.events / found.events_time:,.0f} a second",
        value=found.events_cpu / found.events,
        plain=plain.cpu / plain.objects,
    )
    quiet, latency = spread(found.quiet), spread(found.latencies)
    yield Row(
        benchmark=NAME,
        case="round when nothing changed",
        work=everything,
        value=quiet.median,
        p99=quiet.p99,
        aim=0.02,
        plain=found.rebuild,
    )
    yield Row(
        benchmark=NAME,
        case="round after a node changed",
        work=everything,
        value=spread(found.looked).median,
        plain=found.rebuild,
    )
    yield Row(
        benchmark=NAME,
        case="pod's event to request",
        work=f"{everything}, {len(found.latencies)} times",
        value=latency.median,
        p99=latency.p99,
        aim=1.0,
        plain=latency.median + found.rebuild,
    )


def _starts(how: str, everything: str, found: Measured, plain: Plain) -> Iterator[Row]:
    yield Row(
        benchmark=NAME,
        case=f"cold start by {how}, on the clock",
        work=everything,
        value=found.synced,
    )
    yield Row(
        benchmark=NAME,
        case=f"cold start by {how}",
        work=everything,
        value=found.synced_cpu,
        plain=plain.cpu * plain.scale,
        plain_scale=plain.scale,
    )
    yield Row(
        benchmark=NAME,
        case=f"resident after {how}",
        work=f"{everything}, peak {found.resident.peak / 1e6:,.0f} MB",
        value=found.resident.held,
        unit="B",
        plain=plain.resident * plain.scale,
        plain_scale=plain.scale,
    )


@contextmanager
def _server(size: Size) -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.live_server", *map(str, size)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.stdin.close()


def _live(url: str, path: str, work: Work) -> Measured:
    return _measured(
        "benchmarks.live_process", Measured, url, path, msgspec.json.encode(work).decode()
    )


def _measured(module: str, report: type[T], *arguments: str) -> T:
    command = [sys.executable, "-m", module, *arguments]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(ran.stdout, type=report)

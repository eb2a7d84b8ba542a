"""A large live cluster for half an hour: the API and `tonnage run` as processes, churn, chaos.

`TONNAGE_SOAK_MINUTES` says for how long there is churn, `TONNAGE_SOAK_NODES` how large the cluster
is. In the first half the API server is killed, the API server stands still, and the autoscaler is
killed, one after the other; in the second half nothing is done but churn, and memory is compared.
"""

import asyncio
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks import soak_process
from benchmarks.clusters import FULL, QUICK, SEED, LargeCluster, Size, items_of
from benchmarks.context import Context
from benchmarks.measurement import Row, spread
from benchmarks.soak_churn import Churn, ChurnReport
from benchmarks.soak_process import SoakProcess

NAME = "soak"
SETTINGS: dict[str, object] = {
    "scaleDownEnabled": True,
    "scaleDownUnneededTime": "30s",
    "scaleDownDelayAfterAdd": "10s",
}
_MINUTES = float(os.environ.get("TONNAGE_SOAK_MINUTES", "30"))
_PODS_PER_NODE = FULL.pods // FULL.nodes
_STANDSTILL = 20.0
_SETTLING = 300.0
"""Seconds until everything that was bought has to be given back."""


class Moment(NamedTuple):
    at: float
    processor: float
    resident: int


class Soak(msgspec.Struct, kw_only=True):
    """Figures of one run, in seconds and bytes."""

    size: Size
    cold_start: float
    cold_start_cpu: float
    at_rest: float
    """Seconds of processor per second when nothing happens."""
    rounds: dict[str, float]
    """The mean of each part of a round during churn."""
    half: Moment
    end: Moment
    largest: int
    api_resident: int
    minutes: float
    churn: ChurnReport


def run(context: Context) -> Iterator[Row]:
    nodes = int(os.environ.get("TONNAGE_SOAK_NODES", FULL.nodes))
    size = QUICK if context.quick else Size(nodes, nodes * _PODS_PER_NODE)
    with tempfile.TemporaryDirectory() as directory:
        soak = played(size, Path(directory), minutes=0.5 if context.quick else _MINUTES)
    yield from _rows(soak)


def played(size: Size, directory: Path, *, minutes: float) -> Soak:
    cluster = LargeCluster(size)
    api, url, kubeconfig = soak_process.embedded_api(cluster, directory)
    autoscaler, address = soak_process.autoscaler(cluster, directory, kubeconfig, SETTINGS)
    try:
        _say(f"the API has {size.nodes:,} nodes after {api.start():.0f} s")
        cold = autoscaler.start()
        cold_cpu = autoscaler.processor
        _say(f"tonnage run is ready after {cold:.1f} s")
        resting = _at_rest(autoscaler, 3.0 if minutes < 1 else 60.0)
        return asyncio.run(
            _churned(cluster, api, url, autoscaler, address, minutes, (cold, cold_cpu, resting))
        )
    finally:
        autoscaler.kill()
        api.kill()


async def _churned(
    cluster: LargeCluster,
    api: SoakProcess,
    url: str,
    autoscaler: SoakProcess,
    address: str,
    minutes: float,
    start: tuple[float, float, float],
) -> Soak:
    churn = Churn(url, seed=SEED, changes_per_second=20)
    playing = asyncio.ensure_future(churn.run(_others(cluster)))
    chaos = (
        ("the API server is killed", _restart(api)),
        (f"the API server stands still for {_STANDSTILL:.0f} s", _stand_still(api)),
        ("tonnage run is killed", _restart(autoscaler)),
    )
    pause = minutes * 60 / 2 / (len(chaos) + 1)
    try:
        for what, act in chaos:
            await _wait(pause, playing)
            _say(what)
            await act
            churn.disturbed = time.monotonic()
        await _wait(pause, playing)
        half, before = _moment(autoscaler), soak_process.metrics(address)
        largest = half.resident
        until = time.monotonic() + minutes * 60 / 2
        while time.monotonic() < until:
            await _wait(min(10.0, pause), playing)
            largest = max(largest, autoscaler.resident)
        end, after = _moment(autoscaler), soak_process.metrics(address)
        churn.finish()
        _say("no more pods come; waiting until every node is given back")
        until = time.monotonic() + _SETTLING
        while not churn.settled and time.monotonic() < until:
            await _wait(0.5, playing)
        if not churn.settled:
            churn.report.wrong.append("not all nodes were given back")
    finally:
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
    return Soak(
        size=cluster.size,
        cold_start=start[0],
        cold_start_cpu=start[1],
        at_rest=start[2],
        rounds=_means(before, after),
        half=half,
        end=end,
        largest=largest,
        api_resident=api.resident,
        minutes=minutes,
        churn=churn.report,
    )


def _rows(soak: Soak) -> Iterator[Row]:
    everything = f"{soak.size.nodes:,} nodes, {soak.size.pods:,} pods"
    churn = soak.churn
    yield Row(
        benchmark=NAME, case="cold start, on the clock", work=everything, value=soak.cold_start
    )
    yield Row(benchmark=NAME, case="cold start", work=everything, value=soak.cold_start_cpu)
    yield Row(
        benchmark=NAME, case="processor in a minute at rest", work=everything,
        value=soak.at_rest * 60,
    )  # fmt: skip
    latency = spread(churn.latencies or [math.inf])
    yield Row(
        benchmark=NAME,
        case="pod to node object",
        work=f"{everything}, {len(churn.latencies)} times",
        value=latency.median,
        p99=latency.p99,
    )
    for name, mean in sorted(soak.rounds.items()):
        yield Row(benchmark=NAME, case=f"round, {name}", work=everything, value=mean)
    yield Row(
        benchmark=NAME,
        case="processor in a minute of churn",
        work=f"{churn.changes:,} other changes, {churn.pods:,} pods in all",
        value=60 * (soak.end.processor - soak.half.processor) / (soak.end.at - soak.half.at),
    )
    yield Row(
        benchmark=NAME,
        case="resident at the end",
        work=f"after half of the time {soak.half.resident / 1e6:,.0f} MB,"
        f" at most {soak.largest / 1e6:,.0f} MB",
        value=soak.end.resident,
        unit="B",
        plain=soak.api_resident,
    )
    yield Row(
        benchmark=NAME,
        case=f"wrong actions: {len(churn.wrong)}",
        work=f"{churn.bought:,} nodes bought, {churn.removed:,} given back, 3 interruptions",
        value=soak.minutes * 60,
    )
    for wrong in churn.wrong:
        _say(f"wrong: {wrong}")


def _others(cluster: LargeCluster) -> list[tuple[str, str]]:
    """Pods whose status changes all the time."""
    pods = [page for page in cluster.pages() if page.kind.kind == "Pod"]
    names = [_name(bytes(item)) for page in pods for item in items_of(page)]
    return random.Random(SEED).sample(names, min(len(names), 2_000))


def _name(item: bytes) -> tuple[str, str]:
    meta = msgspec.json.decode(item)["metadata"]
    return meta["namespace"], meta["name"]


async def _restart(process: SoakProcess) -> None:
    process.kill()
    await asyncio.to_thread(process.start)


async def _stand_still(process: SoakProcess) -> None:
    with process.held_up():
        await asyncio.sleep(_STANDSTILL)


async def _wait(seconds: float, playing: "asyncio.Future[None]") -> None:
    """So long, unless playing has failed."""
    done, _ = await asyncio.wait([playing], timeout=seconds)
    if done:
        playing.result()


def _at_rest(process: SoakProcess, seconds: float) -> float:
    # What comes late, such as kinds that are only watched once they are wanted, is not rest.
    time.sleep(seconds / 2)
    before = process.processor
    time.sleep(seconds)
    return (process.processor - before) / seconds


def _moment(process: SoakProcess) -> Moment:
    return Moment(time.monotonic(), process.processor, process.resident)


def _means(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """The mean time of each part of the loop between two readings."""
    found = {}
    name = "cluster_autoscaler_function_duration_seconds"
    for key, count in after.items():
        if key.startswith(f"{name}_count"):
            labels = key.removeprefix(f"{name}_count")
            times = count - before.get(key, 0.0)
            total = after[f"{name}_sum{labels}"] - before.get(f"{name}_sum{labels}", 0.0)
            if times:
                found[labels.split('"')[1]] = total / times
    return found


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)

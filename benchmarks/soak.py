"""A large live cluster under churn and chaos: the embedded API and `tonnage run` as processes.

`--minutes` says for how long there is churn, `--nodes` how large the cluster is.
"""

import asyncio
import json
import math
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import soak_live, soak_process
from benchmarks.clusters import FULL, QUICK, SEED, LargeCluster, Size, items_of
from benchmarks.context import Context
from benchmarks.measurement import Row, spread
from benchmarks.soak_churn import Churn, ChurnPace
from benchmarks.soak_live import SETTINGS, Soak, say
from benchmarks.soak_process import SoakedAutoscaler
from tonnage.clock import SystemClock
from tonnage.cluster.config import Access, Endpoint
from tonnage.cluster.http import HttpTransport

NAME = "soak"
MINUTES = 10.0
PODS_PER_NODE = FULL.pods // FULL.nodes
_SAMPLE = 20
"""Every so many objects are read plainly."""


def run(context: Context) -> Iterator[Row]:
    nodes = context.nodes or (QUICK if context.quick else FULL).nodes
    size = Size(nodes, nodes * PODS_PER_NODE)
    cluster = LargeCluster(size)
    directory = Path(tempfile.mkdtemp(prefix="tonnage-soak-"))
    soak = _played(cluster, directory, minutes=context.minutes or (1 if context.quick else MINUTES))
    yield from rows(NAME, soak, plain_start=plain_reading(cluster))
    clear(directory, soak)


def _played(cluster: LargeCluster, directory: Path, *, minutes: float) -> Soak:
    api, url, kubeconfig = soak_process.embedded_api(cluster, directory)
    autoscaler = SoakedAutoscaler(cluster, directory, kubeconfig, SETTINGS)

    async def churned() -> Soak:
        access = Access(endpoint=Endpoint(server=url))
        transport = HttpTransport(access, clock=SystemClock(), environ={})
        churn = Churn(
            transport,
            clock=SystemClock(),
            seed=SEED,
            others=soak_live.others_of(cluster),
            pace=ChurnPace(),
        )
        try:
            return await soak_live.churned(
                cluster.size, churn, api, autoscaler, start, minutes=minutes
            )
        finally:
            await transport.close()

    try:
        say(f"the API has {cluster.size.nodes:,} nodes after {api.start():.0f} s")
        start = soak_live.started(autoscaler, rest=10.0 if minutes < 5 else 60.0)
        return asyncio.run(churned())
    finally:
        autoscaler.kill()
        api.kill()


def clear(directory: Path, soak: Soak) -> None:
    """Leave logs behind only if something was wrong."""
    if soak.churn.wrong:
        say(f"logs are in {directory}")
    else:
        shutil.rmtree(directory)


def plain_reading(cluster: LargeCluster) -> float:
    """Seconds of processor to read all objects into dictionaries with the standard library."""
    taken = 0.0
    for page in cluster.pages():
        texts = [bytes(item) for item in items_of(page)[::_SAMPLE]]
        began = time.process_time()
        for text in texts:
            json.loads(text)
        taken += time.process_time() - began
    return taken * _SAMPLE


def rows(name: str, soak: Soak, *, plain_start: float) -> Iterator[Row]:
    everything = f"{soak.size.nodes:,} nodes, {soak.size.pods:,} pods"
    churn = soak.churn

    def row(case: str, value: float, *, work: str = everything, plain: float | None = None) -> Row:
        return Row(benchmark=name, case=case, work=work, value=value, plain=plain)

    yield row("cold start, on the clock", soak.cold_start)
    yield Row(
        benchmark=name,
        case="cold start",
        work=everything,
        value=soak.cold_start_cpu,
        plain=plain_start,
        plain_scale=_SAMPLE,
    )
    yield row("processor in a minute at rest", soak.at_rest * 60)
    latency = spread(churn.latencies or [math.inf])
    yield Row(
        benchmark=name,
        case="pod to node object",
        work=f"{everything}, {len(churn.latencies)} times",
        value=latency.median,
        p99=latency.p99,
    )
    for part, mean in sorted(soak.quiet.items()):
        yield row(f"at rest, {part}", mean, plain=soak.cold_start_cpu if part == "main" else None)
    for part, mean in sorted(soak.rounds.items()):
        yield row(f"in churn, {part}", mean)
    yield row(
        "processor in a minute of churn",
        60 * (soak.end.processor - soak.half.processor) / (soak.end.at - soak.half.at),
        work=f"{churn.changes:,} other changes, {churn.pods:,} pods in all",
    )
    yield Row(
        benchmark=name,
        case="resident at the end",
        work=f"after half of the time {soak.half.resident / 1e6:,.0f} MB,"
        f" at most {soak.largest / 1e6:,.0f} MB",
        value=soak.end.resident,
        unit="B",
        plain=soak.api_resident,
    )
    yield row(
        f"wrong actions: {len(churn.wrong)}",
        soak.minutes * 60,
        work=f"{churn.bought:,} nodes bought, {churn.removed:,} given back,"
        f" {soak.interruptions} interruptions",
    )
    for wrong in churn.wrong:
        say(f"wrong: {wrong}")

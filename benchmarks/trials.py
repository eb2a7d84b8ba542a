"""What if: a thousand pods placed in a trial, and all of it taken back."""

import random
from collections.abc import Iterator

import numpy as np

from benchmarks.clusters import SEED
from benchmarks.context import Context
from benchmarks.measurement import Row, once, spread
from benchmarks.questions import NAMESPACE
from benchmarks.workloads import GP3
from tonnage.objects.pods import Pod
from tonnage.rules import pipeline
from tonnage.snapshot.snapshot import PodRecord
from tonnage.testing import builders, reference

NAME = "trial"
PLACEMENTS = 1_000
_PLAIN_PLACEMENTS = 50


def run(context: Context) -> Iterator[Row]:
    snapshot = context.snapshot
    pods = _pods(PLACEMENTS)
    records = [snapshot.record_of(pod) for pod in pods]
    targets = _targets(context, records[0])
    used = [column.data.copy() for column in snapshot.columns.used]
    known = set(snapshot.pods)

    def what_if() -> None:
        with snapshot.trial():
            for record, node in zip(records, targets, strict=True):
                snapshot.place(record, node)

    taken = spread([once(what_if) for _ in range(context.times(20))])
    assert all(
        np.array_equal(before, column.data)
        for before, column in zip(used, snapshot.columns.used, strict=True)
    ), "a trial that was reverted left traces"
    assert set(snapshot.pods) == known, "a trial that was reverted left pods"
    yield Row(
        benchmark=NAME,
        case="place, revert",
        work=f"{PLACEMENTS:,} pods with a claim each, {context.size.nodes:,} nodes",
        value=taken.median,
        p99=taken.p99,
        plain=_plain(context, pods[:_PLAIN_PLACEMENTS]),
        plain_scale=context.sample_scale * PLACEMENTS / _PLAIN_PLACEMENTS,
    )


def _pods(count: int) -> list[Pod]:
    """The replicas of a StatefulSet, each with an unbound claim of its own."""
    return [
        builders.pod(
            f"what-if-{number}", namespace=NAMESPACE, cpu="250m", pvcs=[f"what-if-{number}"]
        )
        for number in range(count)
    ]


def _targets(context: Context, record: PodRecord) -> list[str]:
    snapshot = context.snapshot
    claims = [
        builders.pvc(f"what-if-{number}", namespace=NAMESPACE, storage_class=GP3)
        for number in range(PLACEMENTS)
    ]
    for claim in claims:
        snapshot.put_claim(claim)
    fits = pipeline.evaluate(snapshot, record, context.features).fits
    names = [node.name for node in snapshot.ordered_nodes() if fits[node.row]]
    assert names, "the pods fit nowhere, there is nothing to measure"
    rng = random.Random(SEED)
    return [rng.choice(names) for _ in range(PLACEMENTS)]


def _plain(context: Context, pods: list[Pod]) -> float:
    """The same on lists: no journal, so every pod is looked for and taken out again."""
    cluster = reference.ReferenceCluster(context.sample)
    nodes = list(cluster.nodes)

    def what_if() -> None:
        for number, pod in enumerate(pods):
            cluster.place(pod, nodes[number % len(nodes)], assume_volumes=False)
        for pod in pods:
            cluster.remove(pod)

    return once(what_if) * context.sample_scale * PLACEMENTS / len(pods)

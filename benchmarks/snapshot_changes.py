"""One pod comes or goes: what a watch event costs the standing snapshot."""

import itertools
import random
from collections.abc import Iterator
from functools import partial

from benchmarks.clusters import SEED, items_of
from benchmarks.context import Context
from benchmarks.measurement import Row, Times, each
from tonnage.objects import codec, kinds
from tonnage.objects.pods import Pod
from tonnage.rules import pipeline
from tonnage.testing import reference

NAME = "changes"
POD = kinds.of(Pod())
_AIM = 30e-6


def run(context: Context) -> Iterator[Row]:
    # Spread and affinity keep counters; a pod that comes has to find those it counts in.
    for question in context.questions:
        record = context.snapshot.record_of(question.pod)
        pipeline.evaluate(context.snapshot, record, context.features)
    nodes, everything = context.size
    plain_removed, plain_added = _plain(context)
    for case, pods in _samples(context).items():
        removed, added = _measured(context, pods)
        for what, times, plain in (
            ("added", added, plain_added),
            ("removed", removed, plain_removed),
        ):
            yield Row(
                benchmark=NAME,
                case=f"pod {case} {what}",
                work=f"1 pod of {everything:,}, {nodes:,} nodes",
                value=times.median,
                p99=times.p99,
                aim=_AIM,
                plain=plain * context.sample_scale,
                plain_scale=context.sample_scale,
            )


def _samples(context: Context) -> dict[str, list[bytes]]:
    """Running pods without and with volumes, as JSON, from all over the cluster and in no order."""
    found: dict[str, list[bytes]] = {"without volumes": [], "with volumes": []}
    pages = (page for page in context.cluster.pages() if page.kind is POD)
    for page in itertools.islice(pages, 0, None, 5):
        for raw in items_of(page):
            claims = b"persistentVolumeClaim" in bytes(raw)
            found["with volumes" if claims else "without volumes"].append(bytes(raw))
    rng = random.Random(SEED)
    count = context.times(5_000)
    return {case: rng.sample(pods, min(count, len(pods))) for case, pods in found.items()}


def _measured(context: Context, pods: list[bytes]) -> tuple[Times, Times]:
    """Times of taking all of them out, and of putting them in again, freshly decoded."""
    snapshot = context.snapshot
    removed = each(partial(snapshot.apply, "DELETED", codec.decode(pod, POD)) for pod in pods)
    added = each(partial(snapshot.apply, "ADDED", codec.decode(pod, POD)) for pod in pods)
    return removed, added


def _plain(context: Context) -> tuple[float, float]:
    """Median seconds to remove and to place on the sample, which keeps nothing but lists."""
    cluster = reference.ReferenceCluster(context.sample)
    some = list(cluster.running())[::10]
    removed = each([partial(cluster.remove, pod) for pod in some])
    added = each(
        [partial(cluster.place, pod, pod.spec.node_name, assume_volumes=False) for pod in some]
    )
    return removed.median, added.median

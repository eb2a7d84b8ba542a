"""Would this pod fit? One pod against every node, on a standing snapshot."""

import time
from collections.abc import Callable, Iterator

from benchmarks.context import Context
from benchmarks.measurement import Row, repeated
from benchmarks.questions import Question
from tonnage.rules import pipeline
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing import reference

NAME = "verdicts"
_AIM = 2e-3


def run(context: Context) -> Iterator[Row]:
    plain_cluster = reference.ReferenceCluster(context.sample)
    small = Snapshot.of(context.sample)
    nodes = f"1 pod, {len(context.cluster.nodes):,} nodes"
    for question in context.questions:
        plain = _plain(plain_cluster, question, small, context) * context.sample_scale
        for what, times, answer in _answers(context, question):
            measured = repeated(answer, context.times(times))
            yield Row(
                benchmark=NAME,
                case=f"{question.name}: {what}",
                work=nodes,
                value=measured.median,
                p99=measured.p99,
                aim=None if what == "a record per node" else _AIM,
                plain=plain,
                plain_scale=context.sample_scale,
            )


def _answers(
    context: Context, question: Question
) -> Iterator[tuple[str, int, Callable[[], object]]]:
    snapshot, features = context.snapshot, context.features
    record = snapshot.record_of(question.pod)

    def ask() -> pipeline.Verdicts:
        return pipeline.evaluate(snapshot, record, features)

    yield "where it fits", 400, lambda: ask().fits
    yield "and all reasons", 400, lambda: ask().refusals()
    yield "a record per node", 50, lambda: list(ask())


def _plain(
    cluster: reference.ReferenceCluster, question: Question, small: Snapshot, context: Context
) -> float:
    """Seconds for the sample, node by node; and a check that both sides did the same work."""
    started = time.process_time()
    expected = reference.verdicts(cluster, question.pod)
    taken = time.process_time() - started
    record = small.record_of(question.pod)
    found = pipeline.evaluate(small, record, context.features)
    for ours, theirs in zip(found, expected, strict=True):
        same = (ours.node, str(ours.code), tuple(ours.texts)) == (
            theirs.node,
            theirs.code,
            theirs.reasons,
        )
        if not same:
            raise AssertionError(f"{question.name}: {ours} is not {theirs}")
    return taken

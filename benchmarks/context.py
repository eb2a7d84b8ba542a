"""What benchmarks share: the cluster, a snapshot of it, and a sample for the plain side."""

import gc
from collections.abc import Iterator
from functools import cached_property

from benchmarks.clusters import FULL, QUICK, LargeCluster, Size, decode
from benchmarks.questions import Question, questions
from tonnage.objects.codec import collector_paused
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import CSINode
from tonnage.rules import features
from tonnage.snapshot.snapshot import Snapshot

_PLAIN_NODES = 40


class Context:
    """One run: everything in it is made once, when first needed."""

    def __init__(
        self, *, quick: bool, minutes: float | None = None, nodes: int | None = None
    ) -> None:
        """`minutes` and `nodes` are for those that play a cluster for as long as one likes."""
        self.quick = quick
        self.minutes = minutes
        self.nodes = nodes
        self.features = features.of_version()

    @property
    def size(self) -> Size:
        return QUICK if self.quick else FULL

    def times(self, usual: int) -> int:
        """How often to repeat, fewer times when in a hurry."""
        return max(3, usual // 10) if self.quick else usual

    @cached_property
    def cluster(self) -> LargeCluster:
        cluster = LargeCluster(self.size)
        # What the made-up cluster is made from is not to burden the collector later on.
        gc.freeze()
        return cluster

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        return questions()

    @property
    def snapshot(self) -> Snapshot:
        """The cluster with the claims of all questions; the objects themselves are not kept."""
        return self._loaded[0]

    @property
    def sample(self) -> list[KubeObject]:
        """Some of the nodes with their pods, and everything else there is.

        The plain side goes through nodes one by one, so a part of them takes a part of the time.
        """
        return self._loaded[1]

    @property
    def sample_scale(self) -> float:
        """How many samples make the whole cluster."""
        return len(self.cluster.nodes) / min(_PLAIN_NODES, len(self.cluster.nodes))

    @cached_property
    def _loaded(self) -> tuple[Snapshot, list[KubeObject]]:
        nodes = self.cluster.nodes
        step = max(1, len(nodes) // _PLAIN_NODES)
        near = {node.name for node in nodes[::step][:_PLAIN_NODES]}
        snapshot, sample = Snapshot(), []
        with collector_paused():
            for one in self._objects():
                snapshot.apply("ADDED", one)
                if _is_near(one, near):
                    sample.append(one)
        # As any process should that lives long with so much: once through all of it, then
        # never again. Otherwise the first collections fall into whatever is measured next.
        gc.collect()
        gc.freeze()
        return snapshot, sample

    def _objects(self) -> Iterator[KubeObject]:
        for page in self.cluster.pages():
            yield from decode(page)
        for question in self.questions:
            yield from question.objects


def _is_near(one: KubeObject, nodes: set[str]) -> bool:
    match one:
        case Node() | CSINode():
            return one.metadata.name in nodes
        case Pod():
            return one.spec.node_name in nodes
        case _:
            return True

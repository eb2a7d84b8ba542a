"""Random changes to a snapshot: what a watch may bring, and what a planner may imagine.

A script is a list of steps, each an act and a number that decides its details, so that a failing
script can be made shorter and still means the same.
"""

import random
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from tests.clusters import random_cluster
from tests.snapshot.dumping import Dump, differences, exact, told_waiting
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.rules import features
from tonnage.rules.features import Features
from tonnage.snapshot import imagined
from tonnage.snapshot.imagined import Footprint, TemplateRow
from tonnage.snapshot.journal import Trial
from tonnage.snapshot.snapshot import Snapshot

DRIVER = "ebs.csi.aws.com"
Step: TypeAlias = tuple[str, int]


def lean(examples: int) -> settings:
    """The same examples in every run, and no more than that."""
    return settings(max_examples=examples, derandomize=True, deadline=None, database=None)


seeds = st.integers(0, 50_000)
numbers = st.integers(0, 9_999)


@lru_cache(maxsize=64)
def cluster_of(seed: int) -> tuple[tuple[Any, ...], Features]:
    """Objects of a random cluster, and the features to look at them with."""
    made = random_cluster(seed)
    return made.objects, features.of_version("", made.gates)


def name_of(one: Any) -> tuple[type, str, str]:
    return type(one), one.metadata.namespace, one.metadata.name


def mixed(seed: int) -> list[Any]:
    """Objects of two clusters. Many have the same names: each is the other's later state."""
    return [*cluster_of(seed)[0], *cluster_of(seed + 1)[0]]


def lived_through(seed: int, changes: int) -> tuple[Snapshot, list[Any]]:
    """A snapshot that took random changes one by one, and the objects that were left."""
    chance = random.Random(seed)
    _, gates = cluster_of(seed)
    pool = mixed(seed)
    snapshot = Snapshot()
    left: dict[tuple[type, str, str], Any] = {}
    for _ in range(changes):
        one = chance.choice(pool)
        if chance.random() < 0.3:
            snapshot.apply("DELETED", one)
            left.pop(name_of(one), None)
        else:
            snapshot.apply("MODIFIED" if name_of(one) in left else "ADDED", one)
            left[name_of(one)] = one
        if chance.random() < 0.03:
            # Answers are kept, and must be brought up to date by later changes.
            told_waiting(snapshot, gates)
    return snapshot, list(left.values())


ACTS = (
    "put",
    "put",
    "put",
    "drop",
    "drop",
    "drop_node",
    "place",
    "hold",
    "template",
    "copies",
    "ask",
    "try_on",
    "revert",
    "keep",
)
scripts = st.lists(st.tuples(st.sampled_from(ACTS), numbers), min_size=8, max_size=40)


class Imagination:
    """Plays a script on a snapshot, and sees to it that every trial leads back to its beginning."""

    def __init__(self, snapshot: Snapshot, pool: Sequence[Any], gates: Features) -> None:
        self._snapshot = snapshot
        self._pool = pool
        self._gates = gates
        self._before: list[tuple[Dump, Trial]] = []
        self._templates: list[tuple[int, TemplateRow]] = []
        self._made = 0

    def play(self, script: Iterable[Step]) -> None:
        """Everything in the script, inside one trial."""
        self._try_on(0)
        for act, number in script:
            getattr(self, f"_{act}")(number)
        while self._before:
            self._back()

    def _put(self, number: int) -> None:
        self._snapshot.apply("MODIFIED", self._pool[number % len(self._pool)])

    def _drop(self, number: int) -> None:
        self._snapshot.apply("DELETED", self._pool[number % len(self._pool)])

    def _drop_node(self, number: int) -> None:
        nodes = sorted(self._snapshot.nodes)
        if nodes:
            self._snapshot.drop_node(nodes[number % len(nodes)])

    def _place(self, number: int) -> None:
        waiting = sorted(self._snapshot.pending_pods(), key=lambda record: record.key)
        nodes = sorted(self._snapshot.nodes)
        if waiting and nodes:
            record = waiting[number % len(waiting)]
            self._snapshot.place(record, nodes[number // 7 % len(nodes)])

    def _hold(self, number: int) -> None:
        pods = sorted(self._snapshot.pods)
        nodes = sorted(self._snapshot.nodes)
        if pods and nodes:
            record = self._snapshot.pods[pods[number % len(pods)]]
            chosen = random.Random(number).sample(nodes, 1 + number % len(nodes))
            rows = np.array([self._snapshot.nodes[name].row for name in chosen], dtype=np.intp)
            counts = np.arange(1, len(rows) + 1, dtype=np.int64)
            imagined.place(
                self._snapshot, Footprint(record.pod_class, {DRIVER: number % 3}), rows, counts
            )

    def _template(self, number: int) -> None:
        nodes = [one for one in self._pool if isinstance(one, Node)]
        pods = [one for one in self._pool if isinstance(one, Pod)]
        node = nodes[number % len(nodes)]
        starting = [(pods[number % len(pods)], {DRIVER: 1}), (pods[number // 7 % len(pods)], {})]
        csinode = self._snapshot.csinodes.get(node.metadata.name)
        template = imagined.add_template(self._snapshot, node, csinode, starting)
        self._templates.append((len(self._before), template))

    def _copies(self, number: int) -> None:
        if self._templates:
            names = [f"copy-{self._made + place}" for place in range(1 + number % 70)]
            self._made += len(names)
            imagined.add_copies(self._snapshot, self._templates[-1][1], names)

    def _ask(self, number: int) -> None:  # noqa: ARG002
        told_waiting(self._snapshot, self._gates)

    def _try_on(self, number: int) -> None:  # noqa: ARG002
        self._before.append((exact(self._snapshot), self._snapshot.trial()))
        self._before[-1][1].__enter__()

    def _revert(self, number: int) -> None:  # noqa: ARG002
        if len(self._before) > 1:
            self._back()

    def _back(self) -> None:
        before, trial = self._before.pop()
        trial.__exit__(None, None, None)
        assert differences(before, exact(self._snapshot)) == {}
        self._templates = [one for one in self._templates if one[0] <= len(self._before)]

    def _keep(self, number: int) -> None:  # noqa: ARG002
        if len(self._before) > 1:
            before = exact(self._snapshot)
            _, trial = self._before.pop()
            trial.keep()
            trial.__exit__(None, None, None)
            self._templates = [(min(at, len(self._before)), one) for at, one in self._templates]
            assert differences(before, exact(self._snapshot)) == {}

"""Several attempts at one plan: who goes first decides who is left out, and first fit never looks
ahead.

Most attempts learn from those before them: as many pods as were left out go first. They also differ
in which node takes a pod: one way is to fill the node that the fewest kinds of pods could use, and
so to keep the others for those that have no choice. It ends when there is nothing left to gain, or
when enough work was done. Chance is seeded, so that the same question has the same answer.
"""

import enum
import itertools
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from tonnage.rules import pipeline
from tonnage.rules.features import Features
from tonnage.scaleup import orders
from tonnage.scaleup.candidates import Candidates
from tonnage.scaleup.plan import Bounds
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.scaleup.purchases import Purchases
from tonnage.scaleup.request import Request
from tonnage.snapshot.rows import RowIndex
from tonnage.snapshot.snapshot import Snapshot

_MOST = 12
_MOST_IN_VAIN = 8
_MOST_TO_SAVE_NODES = 6
_WORK = 15_000
"""Groups of pods, or pods where they go one by one, times node groups: of all attempts together."""


class RowOrder(enum.Enum):
    """Which of the nodes that take a pod takes it."""

    FIRST = enum.auto()
    LEAST_WANTED = enum.auto()
    SHUFFLED = enum.auto()


class Attempt(msgspec.Struct, frozen=True):
    """A way to go about it. The groups are the pending ones, some of them in two parts."""

    groups: Sequence[PodGroup]
    existing_order: orders.ExistingOrder
    rows: RowOrder
    rng: random.Random

    def arrange(self, rows: Sequence[int], snapshot: Snapshot, features: Features) -> RowIndex:
        """The rows in the order in which they are filled."""
        found = np.array(rows, dtype=np.intp)
        if self.rows is RowOrder.SHUFFLED:
            self.rng.shuffle(shuffled := list(rows))
            found = np.array(shuffled, dtype=np.intp)
        elif self.rows is RowOrder.LEAST_WANTED:
            wanted = np.zeros(len(rows), dtype=np.int64)
            for group in self.groups:
                wanted += pipeline.evaluate(snapshot, group.sample, features).fits[found]
            found = found[np.argsort(wanted, kind="stable")]
        return found


class Unlucky(msgspec.Struct, frozen=True):
    """How many pods of which groups, named by the id of what they hold, another attempt may help.

    Or they are helped, and it is tried `to_save_nodes`.
    """

    pods: Mapping[int, int]
    to_save_nodes: bool = False


def left_out(left: Iterable[PodGroup], candidates: Candidates, skipped: Collection[str]) -> Unlucky:
    """Pods that are left out and might not be: a node was there or for sale that they fitted on."""
    for_sale = [
        one.position
        for one in candidates
        if one.group.max_size > one.group.target and one.name not in skipped
    ]
    found: Counter[int] = Counter()
    for group in left:
        fitted = group.interacting or candidates.fitted_a_node(group)
        if fitted or candidates.ever_fit(group)[for_sale].any():
            found[id(group.footprint)] += group.size
    return Unlucky(found)


def on_new_nodes(
    pending: Iterable[PodGroup], purchases: Purchases, candidates: Candidates, bounds: Bounds
) -> Unlucky:
    """Pods on new nodes, if fewer might do: by better packing, or better use of those there are."""
    placed = purchases.placed
    may_be_fewer = len(purchases.rows) > bounds.nodes or any(
        candidates.fitted_a_node(group) for group in pending if placed[id(group.footprint)]
    )
    return Unlucky(placed if may_be_fewer else {}, to_save_nodes=True)


class _Way(msgspec.Struct, frozen=True):
    existing_order: orders.ExistingOrder
    rows: RowOrder
    learns: bool = True


_WAYS = (
    _Way(orders.as_they_came, RowOrder.FIRST),
    _Way(orders.as_they_came, RowOrder.LEAST_WANTED),
    _Way(orders.smallest_first, RowOrder.FIRST, learns=False),
    _Way(orders.largest_first, RowOrder.FIRST, learns=False),
    _Way(orders.as_they_came, RowOrder.SHUFFLED),
    _Way(orders.smallest_first, RowOrder.LEAST_WANTED),
    _Way(orders.as_they_came, RowOrder.SHUFFLED),
    _Way(orders.largest_first, RowOrder.LEAST_WANTED),
)
_AGAIN = _WAYS[4:]


class Attempts:
    """Gives one attempt after the other, each with what was learned from those before it."""

    def __init__(self, request: Request, *, most: int | None = None) -> None:
        self._pending = request.pending
        self._seed = request.options.random_seed
        self._first: dict[int, int] = {}
        self._since: dict[int, int] = {}
        questions = sum(group.size if group.interacting else 1 for group in self._pending)
        self._most = min(most or _MOST, max(_WORK // max(questions * len(request.groups), 1), 1))
        self._made = 0
        self._in_vain = 0
        self._clock = itertools.count(1)

    def __iter__(self) -> Iterator[Attempt]:
        while self._made < self._most and self._in_vain < _MOST_IN_VAIN:
            number, self._made = self._made, self._made + 1
            way = _WAYS[number] if number < len(_WAYS) else _AGAIN[number % len(_AGAIN)]
            rng = random.Random(f"{self._seed}-{number}" if number else self._seed)
            groups = list(self._parts() if way.learns else self._pending)
            if way.rows is RowOrder.SHUFFLED:
                rng.shuffle(groups)
            yield Attempt(groups, way.existing_order, way.rows, rng)

    def put_first(self, unlucky: Unlucky, *, better: bool) -> None:
        """From now on so many more pods of these groups go first.

        `better` says whether the attempt that teaches this was better than all before it.
        """
        self._in_vain = 0 if better else self._in_vain + 1
        if unlucky.to_save_nodes:
            self._most = min(self._most, _MOST_TO_SAVE_NODES)
        # Of those that are left out together, now the most of a kind go first, now the fewest.
        pods = unlucky.pods
        ordered = sorted(pods, key=pods.__getitem__, reverse=self._made % 2 == 0)
        for held in ordered:
            self._first[held] = self._first.get(held, 0) + pods[held]
            self._since[held] = next(self._clock)

    def _parts(self) -> Iterator[PodGroup]:
        for group in self._pending:
            first = min(self._first.get(id(group.footprint), 0), group.size)
            if first:
                yield group.part(slice(first), rank=-self._since[id(group.footprint)])
            if first < group.size:
                yield group.part(slice(first, None), rank=group.rank)

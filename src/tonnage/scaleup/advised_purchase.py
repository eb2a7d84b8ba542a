"""A purchase that was thought out elsewhere, made as far as the rules allow.

Advice says how many pods of which kind go on which node. Every pod is put there by the rules like
any other; who is refused is helped afterwards as if there had been no advice.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tonnage.rules import pipeline, registry
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask
from tonnage.scaleup import balancing, costly_pods, placement, refusals
from tonnage.scaleup.attempts import Attempt
from tonnage.scaleup.budget import Budget
from tonnage.scaleup.candidates import Candidates
from tonnage.scaleup.plan_builder import PlanBuilder
from tonnage.scaleup.pod_groups import Placed, PodGroup
from tonnage.scaleup.request import Request
from tonnage.snapshot import imagined
from tonnage.snapshot.rows import Ints
from tonnage.snapshot.snapshot import Snapshot

_TRIES = 3


class AdvisedNode(NamedTuple):
    """A node to buy, and how many pods of each kind it is for, by the id of what one holds."""

    group: str
    pods: Mapping[int, int]


class Advice(NamedTuple):
    """Nodes to buy, and what to put on nodes that are there."""

    new: Sequence[AdvisedNode]
    existing: Mapping[str, Mapping[int, int]]


class AdvisedPlanBuilder(PlanBuilder):
    """Makes a plan that follows advice, and does as others do with whatever the advice leaves."""

    def __init__(self, request: Request, attempt: Attempt, advice: Advice, *, reason: str) -> None:
        super().__init__(request, attempt)
        self._advice = advice
        self._reason = reason
        self._advised = False

    @property
    def candidates(self) -> Candidates:
        return self._candidates

    @property
    def budget(self) -> Budget:
        return self._budget

    @property
    def has_daemons(self) -> bool:
        return any(refusals.is_daemon(group.sample) for group in self._left)

    @property
    def lacks_room(self) -> bool:
        """Whether there is none for something that is to be kept ready."""
        return bool(self._without_room)

    def prepare(self) -> None:
        """Have all in the snapshot that a problem is read off; nothing is placed or bought."""
        self._begin()

    def rows_with_room(self, groups: Sequence[PodGroup]) -> list[int]:
        """Nodes that are there, or coming, and could take one of the pods."""
        rows = placement.rows_there(self._snapshot, self._options)
        found = np.zeros(len(rows), dtype=np.bool_)
        for group in groups:
            verdicts = pipeline.evaluate(self._snapshot, group.sample, self._features)
            skewed = bool(group.sample.pod_class.spread or group.sample.pod_class.affinity)
            # Where others are put may still let it in.
            found |= rows if skewed else verdicts.fits
        return np.flatnonzero(rows & found).tolist()

    def follow(self, advice: Advice) -> None:
        """Place what the advice has for nodes that are there."""
        known = self._snapshot.nodes
        targets: dict[int, dict[int, int]] = {}
        for name, pods in advice.existing.items():
            if name in known:
                for held, count in pods.items():
                    targets.setdefault(held, {})[known[name].row] = count
        if targets:
            stop = self._is_out_of_time
            fits, self._left = fill(self._snapshot, self._left, self._features, targets, stop=stop)
            self._purchases.add_without_buying(fits)

    def _fit_existing(self) -> None:
        self.follow(self._advice)
        super()._fit_existing()

    def _buy_for_all(self, *, late: str = costly_pods.TIME_OVER) -> None:
        if not self._advised:
            self._advised = True
            nodes = self._balanced_advice(list(self._advice.new))
            most = self._options.max_nodes_per_scale_up or len(nodes) or 1
            for first in range(0, len(nodes), most):
                self._buy_advised(nodes[first : first + most])
        super()._buy_for_all(late=late)

    def _buy_advised(self, nodes: list[AdvisedNode]) -> None:
        """Buy the nodes that are allowed and come to be used, in one step."""
        nodes = self._within_budget(nodes)
        for _ in range(_TRIES):
            if not nodes or self._is_out_of_time():
                return
            with self._snapshot.trial() as trial:
                rows = [self._add(nodes, place) for place in range(len(nodes))]
                placed, left = self._fill(nodes, rows)
                used = {one.row for one in placed}
                if used == set(rows):
                    self._book(nodes, rows, placed, left)
                    trial.keep()
                    return
            nodes = [node for node, row in zip(nodes, rows, strict=True) if row in used]

    def _book(
        self,
        nodes: Sequence[AdvisedNode],
        rows: Sequence[int],
        placed: Sequence[Placed],
        left: list[PodGroup],
    ) -> None:
        by_group: dict[str, list[int]] = {}
        for node, row in zip(nodes, rows, strict=True):
            by_group.setdefault(node.group, []).append(row)
        chosen = max(by_group, key=lambda name: len(by_group[name]))
        self._record(self._candidates[chosen], by_group, placed, left, self._reason)

    def _add(self, nodes: Sequence[AdvisedNode], place: int) -> int:
        """A row for one of the nodes; its number counts those of its group before it."""
        name = nodes[place].group
        before = sum(node.group == name for node in nodes[:place])
        first = self._purchases.count(name) + before + 1
        names = imagined.free_names(self._snapshot, f"{name}-new-", 1, first=first)
        return imagined.add_copies(self._snapshot, self._candidates[name].row, names).start

    def _fill(
        self, nodes: Sequence[AdvisedNode], rows: Sequence[int]
    ) -> tuple[list[Placed], list[PodGroup]]:
        targets: dict[int, dict[int, int]] = {}
        for node, row in zip(nodes, rows, strict=True):
            for held, count in node.pods.items():
                targets.setdefault(held, {})[row] = count
        stop = self._is_out_of_time
        placed, left = fill(self._snapshot, self._left, self._features, targets, stop=stop)
        # Whoever was refused a place may find another on these nodes.
        wanted = [group for group in left if id(group.footprint) in targets]
        more, still = self._place(wanted, list(rows))
        return placed + more, [group for group in left if group not in wanted] + still

    def _within_budget(self, nodes: Sequence[AdvisedNode]) -> list[AdvisedNode]:
        """The nodes that may be bought, one after the other."""
        taken: Counter[str] = Counter()
        left = list(self._budget.left())
        found = []
        for node in nodes:
            candidate = self._candidates.get(node.group)
            if candidate is None or node.group in self._request.skipped:
                continue
            size = self._budget.size_of(candidate.template)
            room = self._budget.group_room(candidate.group) - taken[node.group]
            if room > 0 and all(takes <= has for takes, has in zip(size, left, strict=True)):
                taken[node.group] += 1
                left = [has - takes for takes, has in zip(size, left, strict=True)]
                found.append(node)
        return found

    def _balanced_advice(self, nodes: list[AdvisedNode]) -> list[AdvisedNode]:
        """The nodes shared out between groups that are alike, where their pods fit there too."""
        kinds = {id(group.footprint): group for group in self._left}
        done: set[str] = set()
        for name in list(dict.fromkeys(node.group for node in nodes)):
            candidate = self._candidates[name]
            alike = [
                one
                for one in (candidate, *self._candidates.similar(candidate))
                if one.name not in self._request.skipped
                and one.name not in done
                and not one.group.all_or_nothing
            ]
            done.update(one.name for one in alike)
            mine = {one.name for one in alike}
            pods = {held for node in nodes if node.group in mine for held in node.pods}
            fits = [
                one.name
                for one in alike
                if all(
                    self._candidates.fits(kinds[held])[one.position]
                    for held in pods
                    if held in kinds
                )
            ]
            if len(fits) < 2 or name not in fits:
                continue
            shared = [place for place, node in enumerate(nodes) if node.group in fits]
            sizes = [
                (one.name, self._budget.target(one.group), one.group.max_size)
                for one in alike
                if one.name in fits
            ]
            deltas = balancing.distribute(sizes, len(shared))
            if sum(deltas.values()) == len(shared):
                owners = [group for group, delta in deltas.items() for _ in range(delta)]
                for place, group in zip(shared, owners, strict=True):
                    nodes[place] = nodes[place]._replace(group=group)
        return nodes


def fill(
    snapshot: Snapshot,
    groups: Sequence[PodGroup],
    features: Features,
    targets: Mapping[int, Mapping[int, int]],
    *,
    stop: Callable[[], bool],
) -> tuple[list[Placed], list[PodGroup]]:
    """Put so many pods of each kind on each row, as far as the rules let them.

    `targets` has the number by kind (the id of what a pod of it holds) and row. Pods that mind
    others are tried again as long as somebody finds a place. Gives the fits and the groups left.
    """
    wanted = {held: dict(rows) for held, rows in targets.items()}
    fits: list[Placed] = []
    left = list(groups)
    while not stop():
        progress = False
        after: list[PodGroup] = []
        for group in left:
            rows = wanted.get(id(group.footprint), {})
            found = _put(snapshot, group, features, rows) if rows else []
            for one in found:
                rows[one.row] -= len(one.pods)
                if rows[one.row] <= 0:
                    del rows[one.row]
            taken = sum(len(one.pods) for one in found)
            progress = progress or taken > 0
            fits += found
            if taken < group.size:
                after.append(group.without(taken) if taken else group)
        left = after
        if not progress:
            break
    return fits, left


def _put(
    snapshot: Snapshot, group: PodGroup, features: Features, wanted: Mapping[int, int]
) -> list[Placed]:
    rows = np.array(sorted(wanted), dtype=np.intp)
    targets: Ints = np.array([wanted[row] for row in rows.tolist()], dtype=np.int64)
    fitting = pipeline.evaluate(snapshot, group.sample, features).fits[rows]
    if not fitting.any():
        return []
    if group.tracked:
        row = int(rows[fitting.argmax()])
        registry.place(Ask(snapshot, group.sample, features), row)
        return [Placed(group, (group.sample,), row)]
    if group.interacting:
        return _put_one_by_one(snapshot, group, features, rows, targets)
    room = registry.room(snapshot, group.footprint, rows, features)
    wanted_room = np.where(fitting, np.minimum(room, targets), 0)
    return placement.fill(snapshot, group, wanted_room, rows, features)


def _put_one_by_one(
    snapshot: Snapshot, group: PodGroup, features: Features, rows: Ints, targets: Ints
) -> list[Placed]:
    """Each pod where most of its kind are still to go, of the rows that take it now."""
    placed = []
    left = targets.copy()
    for pod in group.members:
        fitting = pipeline.evaluate(snapshot, group.sample, features).fits[rows] & (left > 0)
        if not fitting.any():
            break
        place = int(np.where(fitting, left, 0).argmax())
        left[place] -= 1
        imagined.place(snapshot, group.footprint, rows[[place]], np.ones(1, dtype=np.int64))
        placed.append(Placed(group, (pod,), int(rows[place])))
    return placed

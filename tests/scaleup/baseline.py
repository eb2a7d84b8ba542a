"""What cluster-autoscaler's own way would come to: its loop, run again and again, by chance.

Slow and simple: pod by pod and filter by filter, in random order, as upstream goes about it: room
on the nodes there are first, then the expander's choice among first-fit estimates of every group,
until nothing more is bought. Upstream's order of pods, groups and ties is random, so that the best
of several runs is what a plan is held against.
"""

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tonnage.objects.labels import HOSTNAME
from tonnage.rules import pipeline, registry
from tonnage.rules.framework import Ask
from tonnage.scaleup import balancing, expanders, option_estimates, orders, refusals
from tonnage.scaleup.budget import Budget
from tonnage.scaleup.candidates import Candidate, Candidates
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.scaleup.request import Request
from tonnage.snapshot import imagined
from tonnage.snapshot.rows import Bools

_ONE = np.ones(1, dtype=np.int64)


class Worth(NamedTuple):
    """What a run came to. The better one is greater."""

    helped: int
    fewer_nodes: int

    @property
    def nodes(self) -> int:
        return -self.fewer_nodes


def best(request: Request, *, runs: int, seed: int = 0) -> Worth:
    """The best of several runs. The snapshot is left as it was."""
    return max(run(request, random.Random(f"{seed}-{number}")) for number in range(runs))


def run(request: Request, rng: random.Random) -> Worth:
    """One run, to the end."""
    with request.snapshot.trial():
        return _Run(request, rng).run()


class _Estimate(NamedTuple):
    """Which pods an estimate puts where: on a new node by its number, or on a row there is."""

    candidate: Candidate
    nodes: int
    placed: list[tuple[PodGroup, int | None, int]]

    def option(self) -> expanders.Option:
        pods = [pod for pod, _, _ in self.placed]
        return option_estimates.option(
            self.candidate,
            nodes=self.nodes,
            pods=len(pods),
            cpu=sum(pod.requests("cpu") for pod in pods),
            memory=sum(pod.requests("memory") for pod in pods),
        )


class _Run:
    """Keeps the snapshot and the pods that still wait in step."""

    def __init__(self, request: Request, rng: random.Random) -> None:
        self._request = request
        self._rng = rng
        self._snapshot = request.snapshot
        self._options = request.options
        self._pods = [
            PodGroup([member], group.footprint, tracked=group.tracked)
            for group in request.pending
            for member in group.members
        ]
        self._candidates = Candidates(
            request.snapshot, request.groups, request.templates, request.options, request.features
        )
        self._cursor = 0
        self._helped = 0
        self._nodes = 0

    def run(self) -> Worth:
        records = self._snapshot.nodes.values()
        self._budget = Budget(self._options, (record.node for record in records))
        self._expander = expanders.chain(
            self._options.expander,
            rng=self._rng,
            priorities=self._options.priorities,
            cluster_size=len(records),
        )
        while True:
            before = (self._helped, self._nodes)
            self._fit_on_nodes()
            self._scale_up()
            if before == (self._helped, self._nodes):
                return Worth(self._helped, -self._nodes)

    def _fit_on_nodes(self) -> None:
        """Every pod on the next node that takes it, the highest priority first."""
        self._rng.shuffle(self._pods)
        self._pods.sort(key=lambda pod: -pod.sample.pod_class.priority)
        left = []
        for pod in self._pods:
            rows = np.flatnonzero(self._fits(pod) & self._open()).tolist()
            if rows:
                row = next((row for row in rows if row >= self._cursor), rows[0])
                self._cursor = row + 1
                self._place(pod, row)
                self._helped += 1
            else:
                left.append(pod)
        self._pods = left

    def _scale_up(self) -> None:
        pods = [pod for pod in self._pods if not refusals.is_daemon(pod.sample)]
        estimates = {}
        for candidate in self._candidates:
            if (limit := self._limit(candidate)) > 0:
                found = self._estimate(candidate, pods, limit)
                if found.nodes:
                    estimates[candidate.name] = found
        chosen = self._expander.choose([one.option() for one in estimates.values()])
        if chosen is not None:
            self._carry_out(estimates[chosen.group])

    def _limit(self, candidate: Candidate) -> int:
        group = candidate.group
        room = self._budget.group_room(group)
        if group.id in self._request.skipped or room <= 0:
            return 0
        cluster = self._budget.cluster_room(candidate.template)
        if group.all_or_nothing:
            return room if cluster >= room else 0
        room += sum(
            self._budget.group_room(other.group) for other in self._candidates.similar(candidate)
        )
        return min(room, cluster, self._options.max_nodes_per_scale_up or room)

    def _estimate(self, candidate: Candidate, pods: Sequence[PodGroup], limit: int) -> _Estimate:
        fitting = [pod for pod in pods if self._candidates.fits(pod)[candidate.position]]
        self._rng.shuffle(fitting)
        with self._snapshot.trial():
            order = orders.by_size(fitting, self._candidates.shares(candidate))
            placed = list(self._pack(candidate, order, limit))
        used = sorted({number for _, number, _ in placed if number is not None})
        names = {number: index for index, number in enumerate(used)}
        nodes = len(used)
        if candidate.group.all_or_nothing and nodes:
            nodes = self._budget.group_room(candidate.group)
        return _Estimate(
            candidate,
            nodes,
            [(pod, None if number is None else names[number], row) for pod, number, row in placed],
        )

    def _pack(
        self, candidate: Candidate, pods: Sequence[PodGroup], limit: int
    ) -> Iterable[tuple[PodGroup, int | None, int]]:
        """First fit, with upstream's habits: a further pod is tried on the last node alone."""
        rows: list[int] = []
        empty: set[int] = set()
        for pod in pods:
            fits = self._fits(pod)
            row = next((row for row in rows if fits[row]), None)
            if row is None and limit > 0 and _spreads_over_hosts(pod):
                others = np.flatnonzero(fits & self._open()).tolist()
                if rows and others:
                    self._place(pod, others[0])
                    yield pod, None, others[0]
                    continue
            if row is None and len(rows) < limit and not (rows and rows[-1] in empty):
                name = f"{candidate.name}-estimate-{len(rows)}"
                row = imagined.add_copies(self._snapshot, candidate.row, [name]).start
                rows.append(row)
                empty.add(row)
                if not self._fits(pod)[row]:
                    row = None
            if row is not None:
                self._place(pod, row)
                empty.discard(row)
                yield pod, rows.index(row), row

    def _carry_out(self, chosen: _Estimate) -> None:
        candidate = chosen.candidate
        deltas = self._balanced(chosen)
        for name, delta in deltas.items():
            one = self._candidates[name]
            self._budget.take(one.group, one.template, delta)
        self._nodes += sum(deltas.values())
        self._rng.shuffle(self._pods)
        rows = {
            name: imagined.add_copies(
                self._snapshot,
                self._candidates[name].row,
                imagined.free_names(self._snapshot, f"{name}-new-", delta),
            )
            for name, delta in deltas.items()
        }
        if set(deltas) != {candidate.name}:
            return  # The next round finds places for them.
        done = set()
        for pod, number, row in chosen.placed:
            where = row if number is None else rows[candidate.name].start + number
            if self._fits(pod)[where]:
                self._place(pod, where)
                self._helped += 1
                done.add(id(pod))
        self._pods = [pod for pod in self._pods if id(pod) not in done]

    def _balanced(self, chosen: _Estimate) -> dict[str, int]:
        candidate = chosen.candidate
        whole = {candidate.name: chosen.nodes}
        if candidate.group.all_or_nothing:
            return whole
        partners = [
            other
            for other in self._candidates.similar(candidate)
            if other.name not in self._request.skipped
            and not other.group.all_or_nothing
            and all(self._candidates.fits(pod)[other.position] for pod, _, _ in chosen.placed)
        ]
        sizes = [
            (one.name, self._budget.target(one.group), one.group.max_size)
            for one in (candidate, *partners)
        ]
        return balancing.distribute(sizes, chosen.nodes) if partners else whole

    def _fits(self, pod: PodGroup) -> Bools:
        return pipeline.evaluate(self._snapshot, pod.sample, self._request.features).fits

    def _open(self) -> Bools:
        """Rows of nodes that are there and take pods."""
        size = self._snapshot.table.size
        return (
            self._snapshot.table.alive.data[:size]
            & ~self._snapshot.columns.unschedulable.data[:size]
        )

    def _place(self, pod: PodGroup, row: int) -> None:
        if pod.tracked:
            registry.place(Ask(self._snapshot, pod.sample, self._request.features), row)
        else:
            imagined.place(self._snapshot, pod.footprint, np.array([row]), _ONE)


def _spreads_over_hosts(pod: PodGroup) -> bool:
    return any(one.topology_key == HOSTNAME for one in pod.sample.pod_class.spread)

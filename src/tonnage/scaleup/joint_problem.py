"""A purchase as a packing problem: pods in classes, node groups as types of bins.

What rules say of pods together is beside it as ties (`pod_ties`). Both leave out what numbers
cannot say (storage that nodes share, in what order pods come): they allow more than is allowed, so
their bounds hold, and who is refused a place in truth is found when the purchase is made
(`advised_purchase`).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tonnage.objects import quantities
from tonnage.optimise.ordered_program import Stage
from tonnage.optimise.placement_program import BinPlace
from tonnage.optimise.problem import (
    BinQuota,
    BinType,
    EvenSpread,
    ItemClass,
    PackingProblem,
    PackingSolution,
    Pattern,
)
from tonnage.optimise.ties import OWN, SharedSpread, Ties
from tonnage.rules import pipeline, pod_topology_spread, registry
from tonnage.rules.causes import Cause
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask, Code
from tonnage.scaleup import pod_ties
from tonnage.scaleup.advised_purchase import Advice, AdvisedNode
from tonnage.scaleup.budget import Budget
from tonnage.scaleup.candidates import Candidate, Candidates
from tonnage.scaleup.ordered_purchase import AdvisedPlace, AdvisedStage
from tonnage.scaleup.plan import Plan
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.scaleup.pod_ties import BinRows
from tonnage.snapshot.rows import Bools, Ints
from tonnage.snapshot.slots import UNLIMITED
from tonnage.snapshot.snapshot import Snapshot

MOST_EXISTING = 40
"""Nodes with room up to which they are packed together with new ones."""

_ANY = 1_000_000
_MAY_END = frozenset({Cause.SPREAD_SKEW, Cause.POD_AFFINITY_UNMET})
"""Why pods are refused that others may let in later."""


class JointProblem(NamedTuple):
    """The problem, and what its numbers stand for.

    Items are the `groups` of pods, each named by the id of what a member holds; the first bins are
    nodes of the `candidates`, the others the `existing` nodes. `ties` are what rules say of items
    together, beyond what the problem itself has. `whole` says that nothing that could
    be bought is left out of it, so that its bound holds for every plan.
    """

    problem: PackingProblem
    ties: Ties
    groups: Sequence[PodGroup]
    candidates: Sequence[Candidate]
    existing: Sequence[str]
    whole: bool

    def advice(self, found: PackingSolution) -> Advice:
        """What to put where, in the words of the planner."""
        new: list[AdvisedNode] = []
        existing: dict[str, Mapping[int, int]] = {}
        for pattern, times in found.patterns:
            held = self._held(pattern.counts)
            if pattern.bin_type < len(self.candidates):
                name = self.candidates[pattern.bin_type].name
                new += [AdvisedNode(name, held)] * times
            else:
                existing[self.existing[pattern.bin_type - len(self.candidates)]] = held
        return Advice(tuple(new), existing)

    def stages(self, found: Sequence[Stage]) -> list[AdvisedStage]:
        """What to put where one after the other."""
        return [
            {self._place(place): self._held(counts) for place, counts in stage.items()}
            for stage in found
        ]

    def _place(self, place: BinPlace) -> AdvisedPlace:
        new = len(self.candidates)
        if place.bin_type < new:
            return self.candidates[place.bin_type].name, place.copy
        return self.existing[place.bin_type - new], None

    def _held(self, counts: Sequence[int]) -> dict[int, int]:
        """Pods of each kind by the id of what one holds."""
        numbers = zip(self.groups, counts, strict=True)
        return {id(group.footprint): count for group, count in numbers if count}

    def patterns(self, plan: Plan) -> list[Pattern] | None:
        """The plan as patterns; `None` if it uses what the problem does not have."""
        item_of = {pod.key: item for item, group in enumerate(self.groups) for pod in group.members}
        bin_of = {one.name: place for place, one in enumerate(self.candidates)}
        for place, name in enumerate(self.existing, len(self.candidates)):
            bin_of[f"node/{name}"] = place
        filled: list[tuple[str, Iterable[str]]] = [
            (one.group, node.pods) for one in plan.scale_ups for node in one.nodes
        ]
        if self.existing:
            there: dict[str, list[str]] = {}
            for one in plan.all_on_existing:
                there.setdefault(f"node/{one.node}", []).append(one.pod)
            filled += there.items()
        found = []
        for name, pods in filled:
            counts = Counter(item_of.get(pod, -1) for pod in pods)
            pattern = tuple(counts[item] for item in range(len(self.groups)))
            if name not in bin_of or counts[-1]:
                return None
            if not self.problem.holds(bin_of[name], np.array(pattern)):
                return None
            found.append(Pattern(bin_of[name], pattern))
        return found


class Prices(NamedTuple):
    """What nodes cost: by group, or 1 each where none has a price that can be used."""

    by_group: Mapping[str, float]
    counted: bool
    """Whether nodes are counted, for want of prices."""

    def of(self, bought: Mapping[str, int]) -> tuple[int, float]:
        """Nodes without a price, and what the others cost together."""
        without = sum(count for name, count in bought.items() if name not in self.by_group)
        known = (self.by_group.get(name, 0.0) * count for name, count in bought.items())
        return without, sum(known)


def prices(candidates: Iterable[Candidate]) -> tuple[Prices, list[str]]:
    """The prices to go by, and what is to be said about groups that have none."""
    by_group = {one.name: one.group.price_per_hour for one in candidates}
    found = {name: price for name, price in by_group.items() if price is not None}
    if not found:
        notes = ["least-cost: no node group has a price; nodes are counted instead"]
        return Prices(dict.fromkeys(by_group, 1.0), counted=True), notes
    notes = [
        f"least-cost: node group {name} has no price and is not used while another has one"
        for name in by_group
        if name not in found
    ]
    return Prices(found, counted=False), notes


class ProblemBuilder:
    """Reads a problem off the snapshot, in which the templates of the candidates are rows."""

    def __init__(
        self,
        snapshot: Snapshot,
        candidates: Candidates,
        features: Features,
        *,
        budget: Budget,
        prices: Prices,
        skipped: Collection[str],
        preferred: Mapping[str, float],
    ) -> None:
        self._snapshot = snapshot
        self._features = features
        self._all = candidates
        self._budget = budget
        self._prices = prices
        buyable = [
            one
            for one in candidates
            if one.name not in skipped
            and budget.group_room(one.group) > 0
            and budget.cluster_room(one.template) > 0
        ]
        self._candidates = [
            one for one in buyable if not one.group.all_or_nothing and one.name in prices.by_group
        ]
        self._preferred = preferred
        self._whole = len(self._candidates) == len(buyable) and not preferred

    def build(self, groups: Sequence[PodGroup], existing: Sequence[int]) -> JointProblem:
        """The problem of these pods on new nodes, and on the rows given."""
        rows = np.array([*(one.row.row for one in self._candidates), *existing], dtype=np.intp)
        caps_of = [(group, self._allowed(group, groups, rows)) for group in groups]
        # Nobody can help those that no node takes.
        caps_of = [(group, caps) for group, caps in caps_of if caps.any()]
        groups = [group for group, _ in caps_of]
        allowed = np.array([caps for _, caps in caps_of]).reshape(len(groups), len(rows))
        names = sorted({name for group in groups for name in self._amounts(group)})
        capacity = self._capacity(rows, names)
        bins = []
        for place, one in enumerate(self._candidates):
            bins.append(
                BinType(
                    one.name,
                    tuple(capacity[place]),
                    self._prices.by_group[one.name],
                    tuple(allowed[:, place].tolist()),
                    self._budget.group_room(one.group),
                )
            )
        for place, row in enumerate(existing, len(self._candidates)):
            caps = tuple(allowed[:, place].tolist())
            bins.append(BinType(self._snapshot.name_of(row), tuple(capacity[place]), 0.0, caps, 1))
        items = []
        for group in groups:
            amounts = self._amounts(group)
            demand = tuple(amounts.get(name, 0) for name in names)
            items.append(ItemClass(group.sample.key, group.size, demand))
        ties = pod_ties.read(
            BinRows(self._snapshot, self._features, self._candidates, rows), groups
        )
        spreads = [
            _even_spread(one, allowed[one.limited[0]] > 0)
            for one in ties.spreads
            if _is_even(one) and any(one.standing)
        ]
        return JointProblem(
            PackingProblem(items, bins, quotas=self._quotas(items, len(existing)), spreads=spreads),
            ties,
            groups,
            self._candidates,
            [self._snapshot.name_of(row) for row in existing],
            self._whole,
        )

    def _amounts(self, group: PodGroup) -> dict[str, int]:
        return {**self._all.amounts(group), "pods": 1}

    def _capacity(self, rows: Ints, names: Sequence[str]) -> list[list[float]]:
        """What the rows have left of each resource, infinite where nothing limits it."""
        found = np.full((len(rows), len(names)), np.inf)
        column = {name: place for place, name in enumerate(names)}
        for measure in registry.measures(self._snapshot, rows, self._features):
            place = column.get(measure.resource)
            if place is not None:
                left = np.maximum(measure.capacity - measure.used, 0)
                limited = measure.capacity != UNLIMITED
                found[limited, place] = np.minimum(found[limited, place], left[limited])
        return found.tolist()

    def _allowed(self, group: PodGroup, groups: Sequence[PodGroup], rows: Ints) -> Ints:
        """How many of the pods each row may take, by rules and room for them alone."""
        verdicts = pipeline.evaluate(self._snapshot, group.sample, self._features)
        fits = verdicts.codes[rows] == Code.SUCCESS
        for place in np.flatnonzero(~fits).tolist():
            fits[place] = self._may_come(verdicts, int(rows[place]))
        room = registry.room(self._snapshot, group.footprint, rows, self._features)
        if group.tracked:
            # What its volumes take depends on the node.
            room = np.where(fits, 1, 0)
        most = np.where(fits, np.minimum(room, _ANY), 0)
        if not most.any():
            return most
        new = slice(len(self._candidates))
        alone = self._all.alone_on_node(group)
        if alone is not None:
            positions = [one.position for one in self._candidates]
            most[new] = np.where(alone[positions], np.minimum(most[new], 1), most[new])
        most[new] = np.minimum(most[new], self._on_one_host(group, groups))
        return self._by_priority(most)

    def _may_come(self, verdicts: pipeline.Verdicts, row: int) -> bool:
        """Whether a refusal may end with where others are put."""
        reasons = verdicts.at(row, "").reasons
        return bool(reasons) and all(one.cause in _MAY_END for one in reasons)

    def _by_priority(self, most: Ints) -> Ints:
        """Only the groups that the operator put highest, of those that take the pods."""
        if not self._preferred:
            return most
        scores = np.array([self._preferred[one.name] for one in self._candidates])
        taking = most[: len(scores)] > 0
        if not taking.any():
            return most
        dropped = np.zeros(len(most), dtype=np.bool_)
        dropped[: len(scores)] = scores > scores[taking].min()
        return np.where(dropped, 0, most)

    def _on_one_host(self, group: PodGroup, groups: Sequence[PodGroup]) -> int:
        """How many a spread over hosts allows on a new one: some host stays lower than others."""
        most = _ANY
        ask = Ask(self._snapshot, group.sample, self._features)
        for constraint in group.sample.pod_class.spread:
            scope = pod_ties.counted(ask, constraint)
            if (
                scope is None
                or not scope.covers(group.sample.pod_class)
                or not all(constraint.topology_key in one.row.host_keys for one in self._candidates)
            ):
                continue
            domains = pod_topology_spread.count(ask, constraint)
            alive = np.flatnonzero(self._snapshot.table.alive.data[: ask.size])
            alive = alive[domains.registered[domains.of_row[alive]]]
            if not len(alive):
                continue
            heights = domains.counts[domains.of_row[alive]]
            for other in groups:
                if scope.covers(other.sample.pod_class):
                    room = registry.room(self._snapshot, other.footprint, alive, self._features)
                    heights = heights + np.minimum(room, other.size)
            most = min(most, constraint.max_skew + int(heights.min()))
        return most

    def _quotas(self, items: Sequence[ItemClass], existing: int) -> list[BinQuota]:
        """Totals of the cluster that could be reached at all: with a node for every pod."""
        nothing, pods = (0.0,) * existing, sum(item.number for item in items)
        sizes = [
            (
                1.0,
                float(quantities.value(one.template.node.status.capacity.get("cpu", 0))),
                float(quantities.value(one.template.node.status.capacity.get("memory", 0))),
            )
            for one in self._candidates
        ]
        return [
            BinQuota((*(size[place] for size in sizes), *nothing), float(most))
            for place, most in enumerate(self._budget.left())
            if pods * max((size[place] for size in sizes), default=0.0) > most
        ]


def _is_even(spread: SharedSpread) -> bool:
    """Whether pods of one kind are spread over shared domains, and nobody else is counted."""
    return (
        spread.limited == spread.counted and len(spread.limited) == 1 and OWN not in spread.domains
    )


def _even_spread(spread: SharedSpread, takes: Bools) -> EvenSpread:
    """The same among the domains of bins that take the items; others stay as they are."""
    taking = {
        one for one, is_taking in zip(spread.domains, takes.tolist(), strict=True) if is_taking
    }
    values = sorted(one for one in taking if one is not None)
    number = {value: place for place, value in enumerate(values)}
    elsewhere = [
        height
        for value, (height, stands) in enumerate(zip(spread.heights, spread.standing, strict=True))
        if stands and value not in number
    ]
    return EvenSpread(
        spread.limited[0],
        tuple(None if one is None else number.get(one) for one in spread.domains),
        tuple(spread.heights[value] for value in values),
        spread.max_skew,
        floor=min(elsewhere, default=None),
        counted=tuple(spread.standing[value] for value in values),
    )

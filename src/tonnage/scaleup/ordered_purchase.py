"""A purchase that was thought out with all rules between pods: nothing is put anywhere else first.

Where pods mind each other, one that takes a place meant for another may keep out many. So nodes
are bought in an order, all at once or one after the other, every pod goes where it is meant to as
soon as the rules let it, and only then whoever is left is helped as others are.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from tonnage.objects.labels import HOSTNAME
from tonnage.scaleup import costly_pods, placement
from tonnage.scaleup.advised_purchase import Advice, AdvisedNode, AdvisedPlanBuilder, fill
from tonnage.scaleup.attempts import Attempt
from tonnage.scaleup.plan_builder import PlanBuilder
from tonnage.scaleup.pod_groups import Placed, PodGroup
from tonnage.scaleup.request import Request

AdvisedPlace: TypeAlias = tuple[str, int | None]
"""A node that is there, by name, or one of a group by its number among those bought."""
AdvisedStage: TypeAlias = Mapping[AdvisedPlace, Mapping[int, int]]
"""How many pods of each kind come, and where to; nodes that no stage before has are bought."""


class OrderedPlanBuilder(AdvisedPlanBuilder):
    """Follows advice to the letter as far as the rules allow, so many nodes at a time."""

    def __init__(
        self, request: Request, attempt: Attempt, advice: Advice, *, reason: str, at_once: int
    ) -> None:
        super().__init__(request, attempt, advice, reason=reason)
        self._at_once = min(at_once, request.options.max_nodes_per_scale_up or at_once)
        self._targets: dict[int, dict[int, int]] = {}
        """By kind and row: pods that are still to be put there."""

    def _fit_existing(self) -> None:
        rows = placement.rows_there(self._snapshot, self._options)
        self._existing = np.flatnonzero(rows).tolist()
        known = self._snapshot.nodes
        for name, pods in self._advice.existing.items():
            if name in known:
                self._aim(known[name].row, pods)
        placed, self._left = self._hit(self._left)
        self._purchases.add_without_buying(placed)

    def _buy_for_all(self, *, late: str = costly_pods.TIME_OVER) -> None:
        if not self._advised:
            waiting = self._within_budget(self._advice.new)
            waiting.sort(key=self._spread_pods, reverse=True)
            while waiting and not self._is_out_of_time():
                first = self._buy_first(waiting)
                if first is None:
                    break
                del waiting[first : first + self._at_once]
            self._advised = True
            PlanBuilder._fit_existing(self)
        super()._buy_for_all(late=late)

    def _spread_pods(self, node: AdvisedNode) -> tuple[int, int]:
        """Pods that are spread over hosts, and over anything, that the node is for."""
        found = [0, 0]
        for group in self._left:
            keys = [one.topology_key for one in group.sample.pod_class.spread]
            count = node.pods.get(id(group.footprint), 0)
            found[0] += count * (HOSTNAME in keys)
            found[1] += count * bool(keys)
        return found[0], found[1]

    def _buy_first(self, waiting: Sequence[AdvisedNode]) -> int | None:
        """Buy the first nodes that all come to be used; gives where they begin."""
        for first in range(0, len(waiting), self._at_once):
            if self._buy_together(waiting[first : first + self._at_once]):
                return first
        return None

    def _buy_together(self, nodes: Sequence[AdvisedNode]) -> list[int]:
        """Buy the nodes if all come to be used; gives their rows, or none."""
        before = self._targets
        with self._snapshot.trial() as trial:
            rows = [self._add(nodes, place) for place in range(len(nodes))]
            for node, row in zip(nodes, rows, strict=True):
                self._aim(row, node.pods)
            placed, left = self._hit(self._left)
            if set(rows) <= {one.row for one in placed}:
                self._book(nodes, rows, placed, left)
                trial.keep()
                return rows
        self._targets = before
        return []

    def _aim(self, row: int, pods: Mapping[int, int]) -> None:
        for held, count in pods.items():
            before = self._targets.get(held, {})
            self._targets = {
                **self._targets,
                held: {**before, row: before.get(row, 0) + count},
            }

    def _hit(self, groups: list[PodGroup]) -> tuple[list[Placed], list[PodGroup]]:
        """Put pods where they are meant to go; those that may not yet are tried again later."""
        stop = self._is_out_of_time
        # Whoever minds how many others are there goes before those.
        groups = sorted(groups, key=lambda one: -len(one.sample.pod_class.spread))
        placed, left = fill(self._snapshot, groups, self._features, self._targets, stop=stop)
        hit: Counter[tuple[int, int]] = Counter()
        for one in placed:
            hit[id(one.group.footprint), one.row] += len(one.pods)
        self._targets = {
            held: {row: more for row, count in rows.items() if (more := count - hit[held, row]) > 0}
            for held, rows in self._targets.items()
        }
        return placed, left

    def _use_up(
        self, left: list[PodGroup], bought: list[int]
    ) -> tuple[list[Placed], list[PodGroup]]:
        return super()._use_up(left, bought) if self._advised else ([], left)


class StagedPlanBuilder(OrderedPlanBuilder):
    """Follows advice, then stage by stage: nodes are bought, and pods go where the stage says."""

    def __init__(
        self,
        request: Request,
        attempt: Attempt,
        advice: Advice,
        stages: Sequence[AdvisedStage],
        *,
        reason: str,
    ) -> None:
        most = sum(len(one) for one in stages) or 1
        super().__init__(request, attempt, advice, reason=reason, at_once=most)
        self._stages = list(stages)
        self._rows: dict[AdvisedPlace, int] = {}

    def _fit_existing(self) -> None:
        super()._fit_existing()
        self._rows = {(one, None): node.row for one, node in self._snapshot.nodes.items()}
        while self._stages and not self._new(self._stages[0]):
            self._follow_stage(self._stages.pop(0))

    def _buy_for_all(self, *, late: str = costly_pods.TIME_OVER) -> None:
        while self._stages and not self._is_out_of_time():
            self._follow_stage(self._stages.pop(0))
        super()._buy_for_all(late=late)

    def _new(self, stage: AdvisedStage) -> list[AdvisedPlace]:
        return [one for one in stage if one not in self._rows and one[1] is not None]

    def _follow_stage(self, stage: AdvisedStage) -> None:
        new = self._new(stage)
        for place, pods in stage.items():
            if place in self._rows:
                self._aim(self._rows[place], pods)
        for first in range(0, len(new), self._at_once):
            places = new[first : first + self._at_once]
            nodes = [AdvisedNode(place[0], stage[place]) for place in places]
            if len(self._within_budget(nodes)) == len(nodes):
                self._rows |= zip(places, self._buy_together(nodes), strict=False)
        placed, self._left = self._hit(self._left)
        self._purchases.add_without_buying(placed)

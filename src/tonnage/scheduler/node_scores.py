"""Which of the nodes a pod fits on is the better one: scores of 0 to 100, for all rows at once.

Scores are asked not only for one pod, but for the second, third and so on of its class on the
same node, so that a burst of equal pods is shared out in one go.
"""

import numpy as np
import numpy.typing as npt

from tonnage.objects import selectors
from tonnage.objects.labels import HOSTNAME, ZONE
from tonnage.objects.meta import LabelSelector
from tonnage.objects.pods import Pod, TopologySpreadConstraint
from tonnage.rules import pod_topology_spread, registry
from tonnage.rules.framework import Ask
from tonnage.scheduler.config import Weights
from tonnage.snapshot.classes import PodClass
from tonnage.snapshot.labels import ABSENT
from tonnage.snapshot.nodes import CPU, MEMORY, PODS
from tonnage.snapshot.rows import Bools, Ints
from tonnage.snapshot.slots import UNLIMITED

Floats = npt.NDArray[np.float64]

BEST = 100.0


def spread_wishes(pod_class: PodClass, pod: Pod) -> tuple[TopologySpreadConstraint, ...]:
    """What the pod would like to be spread over.

    Replicas that say nothing at all of spreading would like to be on different nodes and zones,
    among the pods with the same labels.
    """
    asked = pod.spec.topology_spread_constraints
    if not asked and pod_class.labels and pod.metadata.controller is not None:
        alike = LabelSelector(match_labels=pod_class.labels)
        return tuple(
            TopologySpreadConstraint(max_skew=1, topology_key=key, label_selector=alike)
            for key in (HOSTNAME, ZONE)
        )
    return tuple(
        one
        for one in asked
        if one.when_unsatisfiable == "ScheduleAnyway"
        and (one.label_selector is None or selectors.is_valid(one.label_selector))
    )


class Scores:
    """The scores of pods like one on some rows; of all of them, for the nth more on each row."""

    def __init__(
        self,
        ask: Ask,
        wishes: tuple[TopologySpreadConstraint, ...],
        weights: Weights,
        *,
        rows: Ints,
    ) -> None:
        self._rows = rows
        self._weights = weights
        columns = ask.snapshot.columns
        requests = {**ask.pod_class.requests, "pods": 1}
        self._shares: list[tuple[Floats, float, Floats]] = []
        """Of cpu, memory and pods: what is used, what one pod adds, and what there is."""
        for resource, name in ((CPU, "cpu"), (MEMORY, "memory"), (PODS, "pods")):
            self._shares.append(
                (
                    columns.used[resource].data[rows].astype(np.float64),
                    float(requests.get(name, 0)),
                    np.maximum(columns.allocatable[resource].data[rows], 1).astype(np.float64),
                )
            )
        self._needs = list(registry.needs(ask)) if weights.free_slots else []
        self._wishes = [_Spread(ask, wish, rows) for wish in wishes]
        self.zonal = any(wish.topology_key != HOSTNAME for wish in wishes)

    def of(self, depth: int) -> Floats:
        """A line for the first pod more on each row, one for the second, and so on."""
        nth = np.arange(depth, dtype=np.float64)[:, np.newaxis]
        used = [(taken + (nth + 1.0) * more) / most for taken, more, most in self._shares]
        weights = self._weights
        free = np.mean([1.0 - np.minimum(one, 1.0) for one in used], axis=0)
        uneven = np.abs(np.minimum(used[0], 1.0) - np.minimum(used[1], 1.0))
        total: Floats = weights.least_allocated * BEST * free
        total = total + weights.balanced_allocation * (BEST - BEST / 2 * uneven)
        if self._needs:
            total = total + weights.free_slots * BEST * self._free_slots(nth)
        for wish in self._wishes:
            total = total + weights.topology_spread / len(self._wishes) * wish.of(nth)
        return total

    def _free_slots(self, nth: Floats) -> Floats:
        """The part of its slots that would be free, of the driver that has the least."""
        least = np.ones((len(nth), len(self._rows)))
        for need in self._needs:
            limit = need.limit[self._rows]
            taken = need.taken[self._rows] + need.wanted[self._rows] * (nth + 1.0)
            most = np.maximum(limit, 1).astype(np.float64)
            free = np.where(limit == UNLIMITED, 1.0, 1.0 - np.minimum(taken / most, 1.0))
            least = np.minimum(least, free)
        return least


class _Spread:
    """One wish to be spread: the fewer pods alike in a row's domain, the better."""

    def __init__(self, ask: Ask, constraint: TopologySpreadConstraint, rows: Ints) -> None:
        domains = pod_topology_spread.count(ask, constraint)
        own = domains.of_row[rows]
        self._labelled: Bools = own != ABSENT
        self._there = domains.counts[own].astype(np.float64)
        self._grows = constraint.topology_key == HOSTNAME and domains.self_match

    def of(self, nth: Floats) -> Floats:
        there = self._there + nth if self._grows else self._there + 0.0 * nth
        most = float(there[:, self._labelled].max(initial=0.0))
        fewest = float(there[:, self._labelled].min(initial=most))
        if most == 0.0:
            return np.where(self._labelled, BEST, 0.0) + 0.0 * nth
        return np.where(self._labelled, BEST * (most + fewest - there) / most, 0.0)


def share_out(scores: Scores, room: Ints, wanted: int, rng: np.random.Generator) -> Ints:
    """How many pods go on each of the rows, the best place first; `room` is the most a row takes.

    A score that would rise with the number of pods on a row counts as if it did not: what is
    left is exactly what taking the best row for one pod after the other comes to.
    """
    feasible = int((room > 0).sum())
    depth = min(int(room.max(initial=0)), 2 * -(-wanted // feasible)) if feasible else 0
    if depth == 0:
        return np.zeros(len(room), dtype=np.int64)
    table = np.minimum.accumulate(scores.of(depth), axis=0)
    # Among equals chance decides, or the first nodes of the list would always be the fullest.
    table = table + 1e-6 * rng.random(len(room))
    table[np.arange(depth)[:, np.newaxis] >= room] = -np.inf
    flat = table.ravel()
    count = min(wanted, int(np.isfinite(flat).sum()))
    best = np.array([int(flat.argmax())]) if count == 1 else np.argpartition(flat, -count)[-count:]
    return np.bincount(best % len(room), minlength=len(room)).astype(np.int64)

"""Who has to go so that a more important pod fits: as few as possible, the least important first.

Many nodes are tried at once. All pods less important than the newcomer leave them in thought, and
come back one by one, the most important first and those whose disruption budget would be broken
before all others; who then no longer fits beside the newcomer is a victim.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tonnage.objects import selectors
from tonnage.objects.pods import Pod
from tonnage.objects.workloads import PodDisruptionBudget
from tonnage.rules import pipeline
from tonnage.rules.features import Features
from tonnage.rules.framework import Code
from tonnage.snapshot.rows import Bools, Ints
from tonnage.snapshot.snapshot import PodRecord, Snapshot

NEVER = "Never"
NOT_ELIGIBLE_NEVER = "not eligible due to preemptionPolicy=Never."
NOT_ELIGIBLE_TERMINATING = "not eligible due to a terminating pod on the nominated node."

_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_NO_VICTIMS = "No preemption victims found for incoming pod"
_AT_ONCE = 100
"""Nodes that are tried together; if none of them helps, the next ones are."""


class Victims(NamedTuple):
    """Pods whose going lets the newcomer on their node, and how many of them break a budget."""

    node: str
    pods: tuple[PodRecord, ...]
    violations: int


class _Candidate(NamedTuple):
    """A node with its less important pods, in the order in which they may come back."""

    node: str
    row: int
    lower: tuple[PodRecord, ...]
    violating: frozenset[str]


class Search:
    """Finds victims for one pod; the snapshot is as before when it is done."""

    def __init__(
        self,
        snapshot: Snapshot,
        features: Features,
        *,
        pod_of: Callable[[str], Pod | None],
        budgets: Iterable[PodDisruptionBudget],
        rng: np.random.Generator,
    ) -> None:
        self._snapshot = snapshot
        self._features = features
        self._pod_of = pod_of
        self._budgets = [budget for budget in budgets if _selects_anything(budget)]
        self._rng = rng

    def find(self, newcomer: PodRecord, codes: Ints, alive: Bools) -> Victims | None:
        """The best node to free, of those where the going of pods can help at all."""
        rows = np.flatnonzero(alive & (codes == Code.UNSCHEDULABLE))
        rows = np.roll(rows, int(self._rng.integers(len(rows)))) if len(rows) else rows
        tried: list[_Candidate] = []
        for row in rows.tolist():
            candidate = self._candidate(newcomer, row)
            if candidate.lower:
                tried.append(candidate)
            if len(tried) == _AT_ONCE:
                found = self._among(newcomer, tried)
                if found is not None:
                    return found
                tried = []
        return self._among(newcomer, tried) if tried else None

    def _candidate(self, newcomer: PodRecord, row: int) -> _Candidate:
        name = self._snapshot.name_of(row)
        priority = newcomer.pod_class.priority
        lower = [one for one in self._snapshot.pods_on(name) if one.pod_class.priority < priority]
        lower.sort(key=self._importance)
        violating = self._violating(lower) if lower and self._budgets else frozenset()
        ordered = sorted(lower, key=lambda one: one.key not in violating)
        return _Candidate(name, row, tuple(ordered), violating)

    def _importance(self, record: PodRecord) -> tuple[int, str, str]:
        """Smaller for pods that matter more: by priority, then who has run longer."""
        return (-record.pod_class.priority, self._started(record), record.key)

    def _started(self, record: PodRecord) -> str:
        pod = self._pod_of(record.key)
        return (pod.status.start_time if pod is not None else None) or "9999"

    def _violating(self, lower: Sequence[PodRecord]) -> frozenset[str]:
        """Those whose going would take a budget below what it allows, if all went in this order."""
        left = {id(one): one.status.disruptions_allowed for one in self._budgets}
        found = set()
        for record in lower:
            for budget in self._budgets:
                if _covers(budget, record):
                    left[id(budget)] -= 1
                    if left[id(budget)] < 0:
                        found.add(record.key)
        return frozenset(found)

    def _among(self, newcomer: PodRecord, candidates: list[_Candidate]) -> Victims | None:
        found = self._victims(newcomer, candidates)
        found.sort(key=self._newest, reverse=True)
        for victims in sorted(found, key=_badness):
            if self._suffices(newcomer, victims):
                return victims
        return None

    def _victims(self, newcomer: PodRecord, candidates: list[_Candidate]) -> list[Victims]:
        snapshot = self._snapshot
        with snapshot.trial():
            for candidate in candidates:
                for record in candidate.lower:
                    snapshot.drop_pod(record.meta.namespace, record.meta.name)
            fits = self._fits(newcomer)
            going: dict[str, list[PodRecord]] = {
                candidate.node: [] for candidate in candidates if fits[candidate.row]
            }
            helped = [candidate for candidate in candidates if candidate.node in going]
            for turn in range(max((len(one.lower) for one in helped), default=0)):
                back = [one for one in helped if turn < len(one.lower)]
                for candidate in back:
                    snapshot.place(candidate.lower[turn], candidate.node)
                fits = self._fits(newcomer)
                for candidate in back:
                    if not fits[candidate.row]:
                        record = candidate.lower[turn]
                        snapshot.drop_pod(record.meta.namespace, record.meta.name)
                        going[candidate.node].append(record)
        return [
            Victims(one.node, tuple(pods), sum(pod.key in one.violating for pod in pods))
            for one in helped
            if (pods := going[one.node])
        ]

    def _fits(self, newcomer: PodRecord) -> Bools:
        return pipeline.evaluate(self._snapshot, newcomer, self._features).fits

    def _suffices(self, newcomer: PodRecord, victims: Victims) -> bool:
        """The nodes were tried together; this one alone may not do."""
        with self._snapshot.trial():
            for record in victims.pods:
                self._snapshot.drop_pod(record.meta.namespace, record.meta.name)
            return bool(self._fits(newcomer)[self._snapshot.nodes[victims.node].row])

    def _newest(self, victims: Victims) -> tuple[str, str]:
        """When the first of the most important victims started."""
        highest = max(pod.pod_class.priority for pod in victims.pods)
        started = (self._started(pod) for pod in victims.pods if pod.pod_class.priority == highest)
        return (min(started), victims.node)


def _badness(victims: Victims) -> tuple[int, int, int, int]:
    """Broken budgets, the highest priority, all priorities, how many."""
    priorities = [pod.pod_class.priority for pod in victims.pods]
    lifted = sum(priority + 2**31 for priority in priorities)
    return (victims.violations, max(priorities), lifted, len(priorities))


def fruitless(codes: Ints, alive: Bools) -> str:
    """What is said when nobody's going would help."""
    counts: Counter[str] = Counter()
    counts[_NOT_HELPFUL] = int((alive & (codes != Code.UNSCHEDULABLE)).sum())
    counts[_NO_VICTIMS] = int((alive & (codes == Code.UNSCHEDULABLE)).sum())
    told = ", ".join(sorted(f"{count} {text}" for text, count in counts.items() if count))
    return f"0/{int(alive.sum())} nodes are available: {told}."


def _selects_anything(budget: PodDisruptionBudget) -> bool:
    """A budget without a selector, or with an empty or bad one, covers no pod here, as upstream."""
    selector = budget.spec.selector
    return (
        selector is not None
        and bool(selector.match_labels or selector.match_expressions)
        and selectors.is_valid(selector)
    )


def _covers(budget: PodDisruptionBudget, record: PodRecord) -> bool:
    return budget.metadata.namespace == record.meta.namespace and selectors.matches(
        budget.spec.selector, record.meta.labels
    )

"""Gangs are helped whole or not at all: none is bound in part, and no node is bought for a part.

Only what is certain is said: a gang is hopeless if it has too few pods, or if all nodes that there
could ever be have too few slots for it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tonnage.embedded.apiserver.store import Occurrence, Stored
from tonnage.simulation.checks import places
from tonnage.simulation.checks.context import CheckContext, node_of, was_bound
from tonnage.simulation.checks.places import PlaceCheck, PodDemand
from tonnage.simulation.random_gangs import LABEL

IN_PART = "a part of a gang was bound"
HAS_A_PLACE = "a gang with a place for each of its pods is pending"
COULD_BE_HELPED = "a gang that could be helped is pending"

STILL_COMING = "a gang is not helped at the end, and machines are still on their way"

_BINDING = 130.0
"""Seconds that binding may take, and more: as long one of the others may yet fail."""


class _GangState(NamedTuple):
    """What a gang has and lacks."""

    name: str
    lacks: int
    waiting: list[PodDemand]


class GangCheck:
    """Follows the pods of gangs: those with a node, and those that the scheduler has decided on."""

    def __init__(self, context: CheckContext, places_: PlaceCheck) -> None:
        self._context = context
        self._accounts = context.accounts
        self._findings = context.findings
        self._pods = context.store.built_in("pods")
        self._gangs = context.store.collections["scheduling.x-k8s.io", "v1alpha1", "podgroups"]
        self._places = places_
        self._decided_at: dict[tuple[str, str], float] = {}
        """When a pod of a gang, by its name, was last on a node or decided on."""

    def changed(self, kind: str, occurrence: Occurrence) -> None:
        if next(iter(self._gangs.within()), None) is None:
            return
        now = self._accounts.now
        for key in self._context.assumed():
            pod = self._context.pod(key)
            if pod is not None and (gang := gang_of(pod)):
                self._decided_at[gang, key] = now
        if kind != "pods" or not (gang := gang_of(occurrence.subject)):
            return
        if node_of(occurrence.before) or node_of(occurrence.after):
            self._decided_at[gang, occurrence.subject.key] = now
        if was_bound(occurrence):
            self._check_binding(gang, occurrence.subject)

    def hopeless(self, wishes: Iterable[PodDemand]) -> set[str]:
        """Gangs that cannot be whole, whatever is bought."""
        return {
            gang.name
            for gang in self._states(wishes)
            if len(gang.waiting) < gang.lacks or self._most(gang) < gang.lacks
        }

    def at_the_end(self, *, settled: float) -> None:
        """When trouble is long over: a gang that is sure of its places has them."""
        wishes = self._places.wishes()
        for gang in self._states(wishes):
            since = max((self._accounts.pods[one.key].since for one in gang.waiting), default=0.0)
            if len(gang.waiting) < gang.lacks or self._accounts.now - since < settled:
                continue
            if any(one.promised for one in gang.waiting):
                continue
            if places.are_sure(gang.waiting, wishes, self._places.now()):
                self._findings.violated(HAS_A_PLACE, gang.name)
            elif places.are_sure(gang.waiting, wishes, self._places.in_all("modest")):
                if self._places.is_busy(settled):
                    self._findings.excuse(STILL_COMING)
                else:
                    self._findings.violated(COULD_BE_HELPED, gang.name)

    def _check_binding(self, gang: str, pod: Stored) -> None:
        minimum, since = self._minimum(gang), self._accounts.now - _BINDING
        together = [
            key for (name, key), at in self._decided_at.items() if name == gang and at >= since
        ]
        running = {one.key for one in self._pods.within() if gang_of(one) == gang and node_of(one)}
        found = len({*together, *running})
        if found < minimum:
            what = f"{pod.name}, one of {found}, and {minimum} have to run at once"
            self._findings.violated(IN_PART, what)

    def _states(self, wishes: Iterable[PodDemand]) -> Iterator[_GangState]:
        waiting: dict[str, list[PodDemand]] = {}
        sent: Counter[str] = Counter()
        for wish in wishes:
            if wish.gang and wish.promised:
                sent[wish.gang] += 1
            elif wish.gang:
                waiting.setdefault(wish.gang, []).append(wish)
        running = Counter(
            gang_of(pod) for pod in self._pods.within() if node_of(pod) and not pod.deleting
        )
        for name, some in waiting.items():
            lacks = max(self._minimum(name) - running[name] - sent[name], 0)
            yield _GangState(name, lacks, some)

    def _minimum(self, gang: str) -> int:
        found = self._gangs.get("default", gang)
        return int(found.tree["spec"]["minMember"]) if found is not None else 0

    def _most(self, gang: _GangState) -> float:
        """Places for pods of the gang at most, on nodes that are there, coming, or to be had."""
        (one, *_) = gang.waiting
        found = sum(room.times(one) for room in self._places.in_all("generous"))
        return math.inf if one.reachable else found


def gang_of(pod: Stored) -> str:
    """The gang of a pod, if it is of one."""
    return str((pod.meta.get("labels") or {}).get(LABEL, ""))

"""Gangs in the scheduler: all that a gang needs get a node at once, or none of its pods does.

Whose turn it is brings the whole gang along. Its pods are placed one after the other; if too few
find a node, what was assumed is taken back before anybody is bound.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from tonnage.objects.phrases import counted
from tonnage.rules.framework import Code
from tonnage.scaleup import gangs
from tonnage.scaleup.gangs import Gang
from tonnage.scheduler.placer import PlacedPod, Placer, RefusedPod
from tonnage.scheduler.scheduler_cache import SchedulerCache
from tonnage.service import pod_groups
from tonnage.service.wanted_kinds import WantedKinds
from tonnage.snapshot.snapshot import PodRecord

GANG_SCHEDULING = "GangScheduling"
"""kube-scheduler's name of the plugin that holds a gang back."""


class PodsInTurn(NamedTuple):
    """Pods that go one by one, whole gangs, and pods of gangs of which more is known soon."""

    single: list[PodRecord]
    gangs: list[Gang]
    not_known_yet: list[PodRecord]


class GangPlacer:
    """Decides for gangs; `held` are the pods that wait for the others of theirs."""

    def __init__(
        self,
        world: SchedulerCache,
        kinds: WantedKinds,
        *,
        is_ours: Callable[[PodRecord], bool],
    ) -> None:
        self._world = world
        self.kinds = kinds
        self._is_ours = is_ours
        self.held: set[str] = set()

    def in_turn(self, records: list[PodRecord], *, now: float) -> PodsInTurn:
        """Sort pods whose turn it is; gangs bring those of their pods along that have no node."""
        if not any(record.gang for record in records):
            return PodsInTurn(records, [], [])
        known = pod_groups.known(self.kinds, records)
        later = [one for one in records if one.gang and one.gang.api_group in known.not_synced]
        names = {one.key for one in later}
        found = gangs.of_pods(
            self._world.snapshot,
            [one for one in records if one.key not in names],
            self._world.snapshot.pending_pods(),
            pod_groups=known.groups,
            unread=known.unread,
            may_count=lambda one: not one.pod_class.gates and self._is_ours(one),
            now=now,
        )
        return PodsInTurn(list(found.single), list(found.gangs), later)

    def decide(self, found: Iterable[Gang], placer: Placer) -> Iterator[PlacedPod | RefusedPod]:
        """What becomes of the pods of each gang."""
        for gang in found:
            keys = {record.key for record in gang.members}
            outcomes = [] if gang.problem else list(placer.decide(gang.members))
            placed = [one for one in outcomes if isinstance(one, PlacedPod)]
            if placed and len(placed) >= gang.lacks:
                self.held -= keys
                yield from outcomes
                continue
            for one in reversed(placed):
                self._world.forget(one.record, one.volumes)
            self.held |= keys
            refusals = [one for one in outcomes if isinstance(one, RefusedPod)]
            yield from self._refuse(gang, len(placed), refusals)

    def _refuse(self, gang: Gang, placed: int, refusals: list[RefusedPod]) -> Iterator[RefusedPod]:
        """Every pod hears of the gang, and of what keeps the first of its pods off nodes."""
        snapshot = self._world.snapshot
        why = gang.problem or (
            f"{counted(gang.lacks)} have to run at once, and there is room for {placed}"
        )
        text = f"0/{len(snapshot.nodes)} nodes are available: gang {gang.name}: {why}."
        size = snapshot.table.size
        codes = np.full(size, Code.UNSCHEDULABLE, dtype=np.int64)
        alive = snapshot.table.alive.data[:size].copy()
        by = frozenset((GANG_SCHEDULING,)).union(*(one.by for one in refusals))
        if refusals:
            text = f"{text} {refusals[0].text}"
        for member in gang.members:
            record = snapshot.pods.get(member.key, member)
            yield RefusedPod(record, text, by, False, codes, alive)

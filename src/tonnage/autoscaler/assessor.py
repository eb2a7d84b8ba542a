"""What the cluster looks like before anything is decided; looked at anew only if something changed.

Templates and readiness come from every node there is, so they are kept for as long as nothing that
they come from has moved, and no node has come of age. When nodes were last seen is renewed all the
same, as if one had looked.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.provider_state import ProviderState
from tonnage.autoscaler.report import SlotCount
from tonnage.autoscaler.room_observer import RoomObserver
from tonnage.autoscaler.world import ClusterView
from tonnage.groups import births, limit_lessons
from tonnage.groups import memory as memories
from tonnage.groups.headroom import KeptRoom
from tonnage.groups.inputs import Inputs
from tonnage.groups.limit_lessons import CEILING, Lesson
from tonnage.groups.memory import TemplateMemory
from tonnage.groups.model import Group
from tonnage.groups.options import policy_of
from tonnage.groups.provisioning_requests import RequestedRoom
from tonnage.groups.readiness import Readiness
from tonnage.groups.registry import ScaleRequest
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSINode
from tonnage.rules.features import Features
from tonnage.scaleup import assessment
from tonnage.scaleup.assessment import Assessment
from tonnage.service import pod_groups
from tonnage.service.pod_groups import KnownPodGroups
from tonnage.service.wanted_kinds import WantedKinds
from tonnage.snapshot.slots import UNLIMITED
from tonnage.snapshot.snapshot import Snapshot

IntArray: TypeAlias = npt.NDArray[np.int64]

_AT_LEAST_EVERY = 60.0
"""Seconds after which to look again, if another look may find something else."""

_LONGEST = 600.0
"""Seconds after which to look again in any case."""


class Assessor:
    """`memory` is what was ever seen of groups; `registered` the ids and names of all nodes."""

    def __init__(self, world: ClusterView, *, kinds: WantedKinds, now: Callable[[], float]) -> None:
        self._kinds = kinds
        self.gangs = KnownPodGroups()
        """What was known of PodGroups at the last look."""
        self._world = world
        self._observer = RoomObserver(world, now=now)
        self.memory = TemplateMemory()
        self.registered: frozenset[str] = frozenset()
        self._known: dict[frozenset[str], Assessment] = {}
        """The looks that still hold, by the drivers they were for."""
        self._known_from: tuple[int, list[Group], AutoscalerConfig] | None = None
        self._known_until = 0.0
        self._same_until = 0.0
        """When another look finds something else by the passing of time alone."""
        self._daemons_from = 0
        self._lessons_from: tuple[Lesson, ...] = ()
        self._seen_at = 0.0
        self._there: frozenset[str] | None = None
        """The nodes that the last look at all of them has found."""
        self._there_from: tuple[int, float] = (-1, 0.0)
        """Of which revision these are, and when they were looked at."""
        self._rows: dict[str, tuple[tuple[str, ...], IntArray]] = {}
        self._rows_from: tuple[Snapshot, int] | None = None

    def look(
        self,
        provided: ProviderState,
        *,
        config: AutoscalerConfig,
        features: Features,
        now: float,
        blind: bool,
        headroom: tuple[KeptRoom, ...] = (),
        requested: tuple[RequestedRoom, ...] = (),
    ) -> Assessment:
        """Look at what is known; `blind` leaves out the pods whose volumes cannot be judged."""
        world = self._world
        come_from = (
            world.revision,
            [_whatever_size(group) for group in provided.groups],
            config,
        )
        if come_from != self._known_from or now >= self._known_until:
            self._learn(config, now)
            self._known_until = now + _AT_LEAST_EVERY
            if come_from == self._known_from and self._is_as_seen(now):
                self.memory = memories.seen_again(self.memory, then=self._seen_at, now=now)
                self._seen_at = now
            else:
                self._known, self._known_from = {}, come_from
                self._same_until = now + _LONGEST
                self._daemons_from = world.daemon_revision
                self._lessons_from = self.memory.lessons
        self.memory = self._observer.renewed(self.memory)
        self._note_births(now)
        unplaced = [one for one in world.unplaced() if not (blind and one.volumes)]
        self.gangs = known_groups = pod_groups.known(self._kinds, unplaced)
        world.pod_groups = known_groups.groups
        inputs = Inputs(
            cluster=world.state(),
            groups=tuple(provided.groups),
            memory=self.memory,
            pending=tuple(
                one.key
                for one in unplaced
                if one.gang is None or one.gang.api_group not in known_groups.not_synced
            ),
            unread_gangs=tuple(sorted(known_groups.unread)),
            options=config,
            features=features,
            now=now,
            live=True,
            headroom=headroom,
            requested=requested,
            requests_answered=config.provisioning_requests,
            released=dict(self._observer.released),
        )
        found = assessment.assess(inputs, known=self._known.values())
        before = self._known.get(found.wanted)
        self._known[found.wanted] = found
        if before is None:
            self._note(found)
        return found

    def note_starts(
        self, readiness: Readiness, requests: Mapping[str, ScaleRequest], *, now: float
    ) -> None:
        """Remember how long nodes took that have come up since the last look."""
        self.memory = self._observer.with_starts(self.memory, readiness, requests, now=now)

    @property
    def holds_until(self) -> float:
        """When to look again, though nothing has changed."""
        return self._known_until

    @property
    def unread(self) -> frozenset[str]:
        """The names of nodes that are there and could not be read even once."""
        cache = self._world.cache(Node)
        return frozenset(name for _, name in cache.problems if cache.get(name) is None)

    def _note(self, found: Assessment) -> None:
        """Remember what a look at everything has shown, and how long it holds."""
        self.memory = found.templates.memory
        self._seen_at = found.inputs.now
        nodes = found.inputs.nodes
        ids = {node.spec.provider_id for node in nodes.values() if node.spec.provider_id}
        self.registered = frozenset(nodes.keys() | ids)
        # A node that is coming up turns unready by the passing of time alone.
        deadlines = (node.deadline for node in found.readiness.nodes.values())
        passing = [deadline for deadline in deadlines if deadline is not None]
        self._known_until = min(self._known_until, *passing, math.inf)
        self._same_until = min(self._same_until, *passing, *_moments(found), math.inf)

    def slots(self, groups: list[Group]) -> Mapping[tuple[str, str], SlotCount]:
        """Slots taken and free of every driver, by group."""
        snapshot = self._world.snapshot
        counts: dict[tuple[str, str], SlotCount] = {}
        for group in groups:
            rows = self._rows_of(group)
            for driver in snapshot.slots.drivers() if len(rows) else ():
                limit, taken = driver.limit.data[rows], snapshot.slots.taken(driver)[rows]
                listed = driver.listed.data[rows]
                if not listed.any() and not taken.any():
                    continue
                known = limit != UNLIMITED
                counts[group.id, driver.name] = SlotCount(
                    used=int(taken.sum()),
                    limit=int(limit[known].sum()),
                    free=int(np.maximum(limit[known] - taken[known], 0).sum()),
                    unlimited_nodes=int((listed & ~known).sum()),
                )
        return counts

    def recall(self, lessons: tuple[Lesson, ...]) -> None:
        """Take these for all that was learned: an operator had some forgotten."""
        self.memory = msgspec.structs.replace(self.memory, lessons=lessons)

    def _is_as_seen(self, now: float) -> bool:
        """Whether another look would find the same, unless something that counts has changed."""
        return (
            now < self._same_until
            and self._world.daemon_revision == self._daemons_from
            and limit_lessons.say_the_same(self._lessons_from, self.memory.lessons)
        )

    def _note_births(self, now: float) -> None:
        """Remember when nodes came whose creation time cannot be true."""
        revision, then = self._there_from
        self._there_from = self._world.revision, now
        if revision == self._world.revision:
            return
        nodes = self._world.cache(Node)
        before = self.memory.births
        found = births.noted(before, nodes, then=then, there=self._there, now=now)
        self._there = frozenset(map(births.key, nodes))
        if found != before:
            self.memory = msgspec.structs.replace(self.memory, births=found)

    def _learn(self, config: AutoscalerConfig, now: float) -> None:
        lessons = self.memory.lessons
        # Only refusals teach a ceiling, and what is attached can only prove one wrong.
        teach = self._world.volumes_are_refused or any(lesson.kind == CEILING for lesson in lessons)
        self.recall(
            limit_lessons.renewed(
                lessons,
                nodes=self._world.cache(Node),
                csinodes=self._world.cache(CSINode),
                attachments=self._world.snapshot.attachments.values() if teach else (),
                policy=policy_of(config, live=True),
                now=now,
                max_age=config.learned_limits_max_age,
            )
        )

    def _rows_of(self, group: Group) -> IntArray:
        """Where the group's nodes are in the snapshot."""
        snapshot, revision = self._world.snapshot, self._world.revision
        if self._rows_from != (snapshot, revision):
            self._rows_from, self._rows = (snapshot, revision), {}
        known = self._rows.get(group.id)
        if known is None or known[0] != group.nodes:
            found = [snapshot.nodes[name].row for name in group.nodes if name in snapshot.nodes]
            known = self._rows[group.id] = group.nodes, np.array(found, dtype=np.int64)
        return known[1]


def _moments(found: Assessment) -> Iterator[float]:
    """When nodes come of age, and drivers that are gone are no longer missed."""
    inputs = found.inputs
    now, timeout = inputs.now, inputs.policy.driver_registration_timeout
    for state in inputs.states.values():
        yield from (one for one in state.comes_of_age(timeout) if one >= now)
    for group in found.templates.memory.groups.values():
        # A driver that is not seen any more is missed for a while, which may be reckoned from the
        # last time that others were seen.
        for driver in group.drivers.values():
            end = driver.seen + timeout
            if driver.seen < now:
                yield from (one for one in (end, end + _AT_LEAST_EVERY) if one >= now)


def _whatever_size(group: Group) -> Group:
    """The group as templates see it: how many are wanted is nothing to them."""
    return msgspec.structs.replace(group, target=0)

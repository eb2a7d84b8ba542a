"""The controller: it looks, compares, writes, and looks again when there is news or in time."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Self

import msgspec

from tonnage.capacity import node_kinds
from tonnage.capacity.changes import Create, Delete, Patch, Replace, Step, changes, name_of
from tonnage.capacity.desired import (
    CapacityInputs,
    CapacityProblem,
    Desired,
    Rules,
    desired,
    is_ours,
    opted_in,
)
from tonnage.capacity.report import CapacityMetrics, ReportedProblem, SyncReport, published, told
from tonnage.capacity.sources import GroupSource
from tonnage.capacity.step_writer import Rate, StepOutcome, StepWriter
from tonnage.clock import Clock
from tonnage.cluster.cache import Cache
from tonnage.cluster.client import Client
from tonnage.cluster.events import Recorder, Severity
from tonnage.cluster.watch_events import Change, EventType
from tonnage.errors import TonnageError
from tonnage.groups.model import TEMPLATE_NODE_LABEL, Group
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSIDriver, CSIStorageCapacity, StorageClass

RESTORED = "CapacityTemplateRestored"
FAILED = "CapacityTemplateFailed"

_log = logging.getLogger(__name__)


class Caches(NamedTuple):
    """What is looked at; whoever runs the controller keeps them like the server."""

    classes: Cache[StorageClass]
    nodes: Cache[Node]
    drivers: Cache[CSIDriver]
    capacities: Cache[CSIStorageCapacity]

    @classmethod
    def of(cls, cache: Callable[[type[Any]], Cache[Any]]) -> Self:
        return cls(cache(StorageClass), cache(Node), cache(CSIDriver), cache(CSIStorageCapacity))


class SyncPace(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds: between looks without news, between looks at node groups, to gather news."""

    resync: float = 300.0
    groups: float = 10.0
    gather: float = 1.0


class Syncer:
    """Publishes what is desired. It keeps nothing that a restart would miss."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        groups: GroupSource,
        *,
        rules: Rules,
        clock: Clock,
        rng: random.Random,
        metrics: CapacityMetrics | None = None,
        recorder: Recorder | None = None,
        leading: Callable[[], bool] = lambda: True,
        rate: Rate | None = None,
        pace: SyncPace | None = None,
        dry_run: bool = False,
    ) -> None:
        self._caches = caches
        self._source = groups
        self._rules = rules
        self._clock = clock
        self._metrics = metrics or CapacityMetrics()
        self._recorder = recorder
        self._pace = pace or SyncPace()
        self._dry_run = dry_run
        self._writer = StepWriter(
            client, clock=clock, rng=rng, rate=rate, leading=leading, counted=self._metrics.wrote
        )
        self._groups: tuple[Group, ...] | None = None
        self._groups_problem = ""
        self._news = asyncio.Event()
        self._told: frozenset[ReportedProblem] = frozenset()
        self._published: dict[str, CSIStorageCapacity] = {}
        self.report: SyncReport | None = None
        on_classes(caches.classes, rules, self.wake)
        on_nodes(caches.nodes, rules, self.wake)
        on_objects(caches.capacities, rules, self.wake)
        caches.capacities.subscribe(self._heard)

    def wake(self) -> None:
        """There is news: look soon."""
        self._news.set()

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            await self._wait_for_caches()
            await self.once()
            await self._pause()

    async def once(self) -> SyncReport | None:
        """One look, and what follows from it; None if too little is known to act."""
        started = self._clock.monotonic()
        self._news.clear()
        await self._ask_for_groups()
        if self._groups is None or self.unsynced():
            return None
        world = self._look(self._groups)
        wanted = desired(world, self._rules)
        there = {
            capacity.metadata.name: capacity
            for capacity in world.capacities
            if capacity.metadata.namespace == self._rules.namespace
        }
        found = changes(wanted, there, self._rules)
        outcomes = await self._carry_out(found.steps)
        self._tell_of_writes(outcomes, wanted, world)
        problems = (*wanted.problems, *found.problems)
        self._tell_of_problems(problems)
        self.report = SyncReport(
            at=self._clock.now().timestamp(),
            objects=published(wanted),
            steps=dict(Counter(type(outcome.step).__name__.lower() for outcome in outcomes)),
            failing=self._writer.failing(),
            problems=tuple(told(problem) for problem in problems),
        )
        self._metrics.synced(self.report, seconds=self._clock.monotonic() - started)
        return self.report

    def unsynced(self) -> list[str]:
        """Kinds of which too little is known to act on: what is only unheard of must not go."""
        return [cache.resource.kind for cache in self._caches if cache.stale]

    @property
    def groups_problem(self) -> str:
        """Why the node groups are not known, or not as they are now."""
        return self._groups_problem

    async def _wait_for_caches(self) -> None:
        while self.unsynced():
            await self._clock.sleep(0.5)

    async def _pause(self) -> None:
        """Until there is news, a failure is due again, or it is time for a look anyway."""
        look_at = self._clock.monotonic() + self._pace.resync
        if self.report is None:
            look_at = self._clock.monotonic() + self._pace.groups
        retry = self._writer.retry_in
        if retry is not None:
            look_at = min(look_at, self._clock.monotonic() + retry)
        while not self._news.is_set():
            left = look_at - self._clock.monotonic()
            if left <= 0:
                return
            try:
                async with self._clock.timeout(min(left, self._pace.groups)):
                    await self._news.wait()
            except TimeoutError:
                if await self._ask_for_groups():
                    return
        await self._clock.sleep(self._pace.gather)

    async def _ask_for_groups(self) -> bool:
        """Whether there are other node groups than before; if nobody tells, the last ones stay."""
        try:
            found = await self._source()
        except TonnageError as error:
            if str(error) != self._groups_problem:
                self._groups_problem = str(error)
                _log.error("node groups not read", extra={"error": self._groups_problem})
            return False
        self._groups_problem = found.problem
        before, self._groups = self._groups, tuple(found.groups)
        return before is None or _facts(before) != _facts(self._groups)

    def _look(self, groups: tuple[Group, ...]) -> CapacityInputs:
        ours: list[CSIStorageCapacity] = []
        others: list[CSIStorageCapacity] = []
        for capacity in self._caches.capacities:
            here = capacity.metadata.namespace == self._rules.namespace
            (ours if here else others).append(capacity)
        return CapacityInputs(
            classes=tuple(self._caches.classes),
            nodes=tuple(self._caches.nodes),
            node_groups=groups,
            drivers=tuple(self._caches.drivers),
            capacities=(*self._writer.applied(ours).values(), *others),
        )

    async def _carry_out(self, steps: list[Step]) -> list[StepOutcome]:
        if not self._dry_run:
            return await self._writer.carry_out(steps)
        for step in steps:
            extra = {"object": name_of(step), "step": type(step).__name__.lower()}
            _log.info("would write object", extra=extra)
        return []

    def _heard(self, change: Change[CSIStorageCapacity]) -> None:
        if change.object.metadata.namespace == self._rules.namespace:
            self._writer.told(change)

    def _tell_of_writes(
        self, outcomes: list[StepOutcome], wanted: Desired, world: CapacityInputs
    ) -> None:
        classes = {storage_class.metadata.name: storage_class for storage_class in world.classes}
        for outcome in outcomes:
            step, name = outcome.step, name_of(outcome.step)
            if isinstance(step, Delete):
                if not outcome.error:
                    self._published.pop(name, None)
                continue
            about = classes.get(step.object.storage_class_name)
            if outcome.error and about is not None:
                self._event(about, FAILED, f"{name}: {outcome.error}", warning=True)
            elif about is not None and self._published.get(name) == step.object:
                self._event(about, RESTORED, _restored(step), warning=False)
        failing = self._writer.failing()
        for name, entry in wanted.entries.items():
            if name not in failing and not self._dry_run:
                self._published[name] = entry.object

    def _tell_of_problems(self, problems: Sequence[CapacityProblem]) -> None:
        now = frozenset(told(problem) for problem in problems)
        for problem in problems:
            if told(problem) in self._told:
                continue
            _log.warning(
                problem.message,
                extra={"reason": problem.reason.value, "about": told(problem).about},
            )
            if problem.about is not None:
                self._event(problem.about, problem.reason.value, problem.message, warning=True)
        self._told = now

    def _event(
        self, about: StorageClass | Node, reason: str, message: str, *, warning: bool
    ) -> None:
        if self._recorder is not None and not self._dry_run:
            severity = Severity.WARNING if warning else Severity.NORMAL
            self._recorder.record(about, reason=reason, message=message, severity=severity)


def _restored(step: Create | Patch | Replace) -> str:
    name = step.object.metadata.name
    if isinstance(step, Create):
        return f"{name} was deleted by somebody else and is there again"
    return f"{name} was changed by somebody else and is as it was"


def _facts(groups: Sequence[Group]) -> list[object]:
    return [(group.id, group.provider_template) for group in groups]


def on_classes(cache: Cache[StorageClass], rules: Rules, wake: Callable[[], None]) -> None:
    """Opting in or out, and what is asked for."""

    def facts(one: StorageClass) -> Hashable:
        if not opted_in(one, rules.convention):
            return None
        return one.provisioner, one.metadata.annotations[rules.convention.annotation]

    _wake_on(cache, facts, wake)


def on_nodes(cache: Cache[Node], rules: Rules, wake: Callable[[], None]) -> None:
    """Nodes that come to a group or leave it, be it by a label."""

    def facts(one: Node) -> Hashable:
        labels = one.metadata.labels
        groups = node_kinds.keys_of(labels, rules.groupings)
        return (groups, TEMPLATE_NODE_LABEL in labels) if groups else None

    _wake_on(cache, facts, wake)


def on_objects(cache: Cache[CSIStorageCapacity], rules: Rules, wake: Callable[[], None]) -> None:
    """Whatever happens to an object of ours, or took its name."""

    def facts(one: CSIStorageCapacity) -> Hashable:
        return one.metadata.resource_version if is_ours(one, rules) else None

    _wake_on(cache, facts, wake)


def _wake_on(cache: Cache[Any], facts: Callable[[Any], Hashable], wake: Callable[[], None]) -> None:
    """Wake when the facts of an object are others than before; None is as if it were not there."""

    def take(change: Change[Any]) -> None:
        gone = change.type is EventType.DELETED
        before = facts(change.before) if change.before is not None else None
        if before != (None if gone else facts(change.object)):
            wake()

    cache.subscribe(take)

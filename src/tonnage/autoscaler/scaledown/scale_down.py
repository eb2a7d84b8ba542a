"""A round of scale-down: decide, taint softly, begin to remove what has been unneeded for long."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Self

from tonnage.autoscaler.actuator import EventReason
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.consolidation.consolidator import ConsolidationRound, Consolidator
from tonnage.autoscaler.consolidation.relocator import Relocator
from tonnage.autoscaler.consolidation.surges import Surges
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.autoscaler.report import Done
from tonnage.autoscaler.scaledown import decision, windows
from tonnage.autoscaler.scaledown.decision import Decider
from tonnage.autoscaler.scaledown.evictions import Evictor
from tonnage.autoscaler.scaledown.metrics import NO_DELAY, RemovalMetrics
from tonnage.autoscaler.scaledown.places import HeldPlaces
from tonnage.autoscaler.scaledown.removals import NodeRemoval, RemovalMemory
from tonnage.autoscaler.scaledown.remover import NodeRemover
from tonnage.autoscaler.scaledown.report import ScaleDownReport
from tonnage.autoscaler.scaledown.situation import Buying, Situation
from tonnage.autoscaler.scaledown.soft_taints import SoftTaints
from tonnage.autoscaler.scaledown.taints import NodeChanger
from tonnage.autoscaler.scaledown.windows import REASONS, Reason
from tonnage.autoscaler.scaledown.workloads import Workloads
from tonnage.groups.model import Group
from tonnage.groups.readiness import UNREADY
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.workloads import StatefulSet
from tonnage.scaledown.codes import NODE_REASONS, KeepCode
from tonnage.scaledown.plan import Action, NodeDecision, ScaleDownPlan
from tonnage.scaledown.state import CoolDowns, ScaleDownState
from tonnage.scaleup.assessment import Assessment
from tonnage.snapshot.reservations import Reservation, Source

NEEDED_AGAIN = "node_became_needed_again"

_log = logging.getLogger(__name__)

_PLACED_WITHIN = 120.0
"""Seconds in which a pod that has a place should get it."""

_KNOWN_WITHIN = 60.0
"""Seconds for caches to fill when there is to be only one round."""

_TIMERS = frozenset(
    NODE_REASONS[code].upstream
    for code in (KeepCode.NOT_LONG_ENOUGH, KeepCode.NOT_UNREADY_LONG_ENOUGH)
)
"""Reasons that are no delay: every node has to wait so long."""


class ScaleDown:
    """Knows since when nodes are unneeded and which are going; all else is looked up anew."""

    def __init__(
        self,
        context: AutoscalingContext,
        *,
        removed: Callable[[str, int], None],
        buy: Buying,
    ) -> None:
        """`buy` asks for the nodes of a plan, as scale-up does."""
        self._context = context
        self._world = context.world
        self._clock = context.clock
        self._now = context.now
        self._metrics = metrics = RemovalMetrics(context.metrics.registry)
        self._workloads = Workloads(
            context.client, context.world, clock=context.clock, rng=random.Random(0)
        )
        context.world.stateful_sets = self._workloads.cache(StatefulSet)
        self._decider = Decider(context, self._workloads, moving=self._moving)
        self._buy = buy
        self._watching: asyncio.Task[None] | None = None
        self._unneeded: dict[str, float] = {}
        self._added: dict[str, float] = {}
        self._delays: dict[str, str] = {}
        self._podless_since: float | None = None
        self.report = ScaleDownReport()
        self._places = HeldPlaces(context)
        changer = NodeChanger(context)
        self._soft_taints = SoftTaints(context, changer)
        self._surges = Surges(context, self._workloads, metrics)
        evictor = Evictor(context, self._workloads, metrics, self._surges)
        self._remover = NodeRemover(
            context,
            evictor,
            changer,
            metrics,
            objection=self._decider.objection,
            moving=self._places.hold,
            delay_reason=lambda node: self._delays.get(node, NO_DELAY),
            removed=removed,
        )
        self._relocator = Relocator(
            context, evictor, changer, hold=self._places.hold, taken=self._moving
        )
        self._consolidator = Consolidator(context, self._relocator)

    @property
    def memory(self) -> RemovalMemory:
        """What has to survive a restart."""
        return RemovalMemory(
            unneeded=dict(sorted(self._unneeded.items())),
            cool_downs=self._cool_downs,
            removals=dict(sorted(self._remover.removals.items())),
            nominated=dict(sorted(self._places.nominated.items())),
            consolidation=self._consolidator.memory,
            surges=dict(sorted(self._surges.under_way.items())),
        )

    def restore(self, memory: RemovalMemory) -> None:
        self._unneeded = dict(memory.unneeded)
        self._added = dict(memory.cool_downs.added)
        self._remover.restore(memory)
        self._places.restore(memory.nominated)
        self._consolidator.restore(memory.consolidation)
        self._surges.under_way = dict(memory.surges)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all work at its next step; what is written down can be gone on with."""
        await self._relocator.stop()
        await self._remover.stop()
        await self._places.stop()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
            self._watching = None

    async def ready(self, config: AutoscalerConfig) -> None:
        """Wait until all is known that a decision needs, for who decides only once."""
        if not config.scale_down_enabled:
            return
        self._watch()
        end = self._clock.monotonic() + _KNOWN_WITHIN
        while self._workloads.hold() and self._clock.monotonic() < end:
            await self._clock.sleep(0.1)

    def beside(self, assessed: Assessment) -> Assessment:
        """What was assessed, with the places of pods that are moving taken."""
        return assessed.beside(self._moving())

    def _moving(self, but: str = "") -> Iterator[Reservation]:
        """The places of pods that are moving, but for those of one node."""
        removals = self._remover.removals.values()
        return self._places.taken(one for one in removals if one.node != but)

    async def round(self, situation: Situation, config: AutoscalerConfig) -> tuple[str, ...]:
        """Decide, and begin what is to be done; what was begun before goes on beside.

        What could not be done is told.
        """
        if situation.plan is not None:
            now = self._now()
            self._added.update({one.group: now for one in situation.plan.scale_ups})
        ours = {name for group in situation.provided.groups for name in group.nodes}
        machines = situation.provided.machines.values()
        leaving = {one.name for some in machines for one in some if one.deleting}
        await self._places.expire()
        self._surges.enabled = config.consolidation.surge_single_replicas
        await self._surges.attend(self._remover.removals)
        if config.scale_down_enabled:
            self._watch()
            await self._remover.attend(config, ours=ours, leaving=leaving)
            self.report = await self._decided(situation, config, ours)
        else:
            await self._remover.attend(config, ours=(), leaving=leaving)
            await self._forget(config)
            await self._consolidator.forget()
            self.report = ScaleDownReport(removals=dict(self._remover.removals))
        return self.report.problems

    def done(self) -> tuple[Done, ...]:
        """What was asked of the provider since this was last asked."""
        done, self._remover.done = tuple(self._remover.done), []
        return done

    async def _decided(
        self, situation: Situation, config: AutoscalerConfig, ours: set[str]
    ) -> ScaleDownReport:
        hold = (
            situation.blocked
            or self._workloads.hold(detaching=bool(config.volume_detach_timeout))
            or self._podless(config)
        )
        report = ScaleDownReport(
            enabled=True,
            held=hold,
            unneeded=dict(self._unneeded),
            removals=dict(self._remover.removals),
            last_failure=self._remover.last_failure,
        )
        if hold:
            return report
        now = self._now()
        self._load_candidates(config, ours, now=now)
        try:
            plan, state = await self._decider.decide(
                situation.assessed, self._state(), config=config
            )
        except Exception as error:
            # What was bought stands, and nothing goes; the next round decides anew.
            _log.exception("scale-down not decided")
            failed = f"scale-down not decided: {type(error).__name__}: {error}"
            return report._replace(held=failed, problems=(failed,))
        self._note(plan, state, now=now)
        problem = await self._soft_taints.update(
            self._unneeded.keys() - self._remover.removals.keys(), config, ours=ours, now=now
        )
        allowed = windows.allowed(config.scale_down_windows, now=now)
        if not self._is_busy(situation):
            groups = {group.id: group for group in situation.provided.groups}
            self._begin(plan, situation.assessed, groups, config, allowed, now=now)
        await self._consolidate(situation, config, allowed)
        self._metrics.take(plan, unneeded=len(self._unneeded), going=len(self._remover.removals))
        return report._replace(
            plan=plan,
            unneeded=dict(self._unneeded),
            removals=dict(self._remover.removals),
            closed=tuple(reason for reason in REASONS if reason not in allowed),
            problems=tuple(filter(None, (problem, self._places.problem))),
            consolidation=self._consolidator.report,
            recorded=self._consolidator.recorded,
        )

    async def _consolidate(
        self, situation: Situation, config: AutoscalerConfig, allowed: frozenset[Reason]
    ) -> None:
        """Replace nodes by cheaper or fewer ones, beside what is idle anyway."""
        if not config.consolidation.enabled:
            await self._consolidator.forget()
            return
        # Pods of a plan that moves them could take room that is booked.
        booked = any(room.booked for room in situation.assessed.inputs.requested)
        found = await self._consolidator.round(
            ConsolidationRound(
                config=config,
                now=self._now(),
                inputs=self._decider.inputs(situation.assessed, self._state()),
                groups={group.id: group for group in situation.provided.groups},
                allowed=allowed,
                busy=booked or self._is_busy(situation),
                unsettled=self._workloads.unsettled(),
                buy=lambda plan: self._buy(plan, situation.provided, config, now=self._now()),
                objects=self._objects,
                coming=tuple(self._places.coming(self._remover.removals.values())),
            )
        )
        for removal in found:
            if removal.node not in self._remover.removals:
                self._remover.start([removal], config)

    def _objects(self) -> list[KubeObject]:
        """All that is known; the world's own have the StatefulSets."""
        more = self._workloads.objects()
        return [*self._world.objects(), *(one for one in more if not isinstance(one, StatefulSet))]

    def _is_busy(self, situation: Situation) -> bool:
        """Whether nothing new may begin: nodes are bought, or pods about to get their place.

        A pod that has had a place for long and does not get it holds up nobody.
        """
        plan = situation.plan
        # Their nodes stay in any case; others wait for them only while pods wait for a place.
        being_bound = bool(situation.assessed.pending) and any(
            situation.assessed.reservations.of(Source.SELECTED_NODE)
        )
        if plan is None:
            return being_bound
        placed = self._world.decided_on(one.pod for one in plan.fit_on_existing)
        return bool(
            plan.scale_ups or being_bound or any(seconds < _PLACED_WITHIN for seconds in placed)
        )

    def _podless(self, config: AutoscalerConfig) -> str:
        """No pod is known in all of the cluster: that it is so is believed only after a while."""
        if len(self._world.cache(Pod)):
            self._podless_since = None
            return ""
        now = self._clock.monotonic()
        if self._podless_since is None:
            self._podless_since = now
        if now - self._podless_since < config.max_node_provision_time:
            return "no pod is known"
        return ""

    def _begin(
        self,
        plan: ScaleDownPlan,
        assessed: Assessment,
        groups: dict[str, Group],
        config: AutoscalerConfig,
        allowed: frozenset[Reason],
        *,
        now: float,
    ) -> None:
        """Begin the first wave, as far as others that are under way leave room for it."""
        there = self._world.cache(Node)
        going = [one for one in plan.going if one.group in groups and there.get(one.node)]
        if not going:
            return
        first = min(map(decision.begins, going))
        running = self._remover.removals.values()
        room = config.max_scale_down_parallelism - len(running)
        drains = config.max_drain_parallelism - sum(one.drain for one in running)
        if self._soft_taints.unfinished:
            drains = 0
        unsettled = self._workloads.unsettled()
        beginning = [one for one in going if decision.begins(one) == first]
        for unit in decision.units(beginning, groups):
            removals = [self._removal(one, assessed, groups, now=now) for one in unit]
            draining = sum(removal.drain for removal in removals)
            # Where all have to go or none, the first may go beyond what is allowed at once.
            fits = len(unit) <= room or (removals[0].whole_group and not running)
            if not fits or draining > max(drains, draining if removals[0].whole_group else 0):
                continue
            if any(removal.reason not in allowed for removal in removals):
                continue
            # Others of its StatefulSet are not ready: a pod may not be evicted yet.
            if any(self._world.any_owned_by(removal.moves, unsettled) for removal in removals):
                continue
            room -= len(unit)
            drains -= draining
            self._tell_start(unit)
            if self._context.actuator.dry_run:
                _log.info("would remove nodes", extra={"nodes": [one.node for one in unit]})
            else:
                self._remover.start(removals, config)

    def _removal(
        self, one: NodeDecision, assessed: Assessment, groups: dict[str, Group], *, now: float
    ) -> NodeRemoval:
        node = self._world.node(one.node)
        assert node is not None
        assert one.group is not None
        state = assessed.readiness.nodes.get(one.node)
        reason: Reason = "empty" if one.action is Action.DELETE else "underutilized"
        if state is not None and state.state == UNREADY:
            reason = "unready"
        return NodeRemoval(
            node=one.node,
            uid=node.metadata.uid,
            group=one.group,
            reason=reason,
            drain=one.action is Action.DRAIN,
            since=self._unneeded.get(one.node, now),
            started=now,
            at=now,
            moves={move.pod: move.to for move in one.moves},
            waves={move.pod: move.wave for move in one.moves},
            saves=one.saves,
            whole_group=groups[one.group].all_or_nothing,
        )

    def _tell_start(self, unit: Sequence[NodeDecision]) -> None:
        for one in unit:
            empty = one.action is Action.DELETE
            reason = EventReason.SCALE_DOWN_EMPTY if empty else EventReason.SCALE_DOWN
            self._context.tell(reason, decision.beginning(one))

    def _note(self, plan: ScaleDownPlan, state: ScaleDownState, *, now: float) -> None:
        """Remember what was decided, and why what could have gone stays meanwhile."""
        going = self._remover.removals.keys()
        for name, since in self._unneeded.items():
            if name in state.unneeded or name in going:
                continue
            if self._world.node(name) is not None:
                self._metrics.needed_again(seconds=now - since, delay_reason=NEEDED_AGAIN)
        self._unneeded = dict(state.unneeded)
        self._delays = {
            **{
                name: why
                for name, why in self._delays.items()
                if name in self._unneeded or name in going
            },
            **{
                node.node: node.reason
                for node in plan.nodes
                if node.node in self._unneeded and node.reason and node.reason not in _TIMERS
            },
        }

    def _state(self) -> ScaleDownState:
        return ScaleDownState(
            unneeded=dict(self._unneeded),
            removing={
                name: Action.DRAIN if one.drain else Action.DELETE
                for name, one in self._remover.removals.items()
            },
            cool_downs=self._cool_downs,
            pays_back=self._consolidator.memory.pays_back,
        )

    @property
    def _cool_downs(self) -> CoolDowns:
        return CoolDowns(
            added=dict(sorted(self._added.items())),
            deleted=dict(sorted(self._remover.deleted.items())),
            failed=dict(sorted(self._remover.failed.items())),
        )

    def _load_candidates(self, config: AutoscalerConfig, ours: set[str], *, now: float) -> None:
        """What soft taints tell of nodes that nothing is remembered of."""
        if config.node_deletion_candidate_ttl and not self._unneeded:
            found = self._soft_taints.since(ours)
            oldest = now - config.node_deletion_candidate_ttl
            self._unneeded = {name: at for name, at in found.items() if oldest <= at <= now}

    async def _forget(self, config: AutoscalerConfig) -> None:
        """Scale-down was turned off: what is left of it goes, soft taints first."""
        if self._unneeded:
            await self._soft_taints.update((), config, ours=self._unneeded.keys(), now=self._now())
            if not self._soft_taints.since(self._unneeded.keys()):
                self._unneeded = {}

    def _watch(self) -> None:
        if self._watching is None or self._watching.done():
            self._watching = asyncio.ensure_future(self._workloads.mirror.run())

"""A round of consolidation: decide, buy what is needed first, and say which nodes go now.

A step without purchases is begun at once, wave by wave: the next round decides anew. For a step
with purchases its nodes are remembered, and go when the new ones are ready, each to be looked at
once more by then.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from tonnage.autoscaler.actuator import EventReason
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.consolidation import preparation
from tonnage.autoscaler.consolidation.memory import (
    ConsolidationMemory,
    PodRelocation,
    StepUnderWay,
)
from tonnage.autoscaler.consolidation.metrics import ConsolidationMetrics
from tonnage.autoscaler.consolidation.preparation import StepPreparation
from tonnage.autoscaler.consolidation.recordings import (
    ConsolidationRecorder,
    RecordedConsolidation,
)
from tonnage.autoscaler.consolidation.relocator import Relocator
from tonnage.autoscaler.consolidation.report import ConsolidationDocument
from tonnage.autoscaler.consolidation.volume_times import VolumeTimes
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.autoscaler.scaledown.coming_pods import ComingPod
from tonnage.autoscaler.scaledown.removals import NodeRemoval
from tonnage.autoscaler.scaledown.windows import Reason
from tonnage.consolidation import decision
from tonnage.consolidation.decision import ConsolidationQuestion
from tonnage.consolidation.plan import ConsolidationPlan, ConsolidationStep, PodMove
from tonnage.consolidation.state import ConsolidationState
from tonnage.groups.model import Group
from tonnage.groups.readiness import READY, Readiness
from tonnage.objects.kinds import KubeObject
from tonnage.objects.phrases import counted, listed
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.plan import Action
from tonnage.scaleup.plan import GroupDelta, Plan, Step

_log = logging.getLogger(__name__)

_IDLE = 300.0
"""Seconds for which nothing is worth replacing while no pod and no node changes: some nodes are
only too young, or have yet to pay back."""


class ConsolidationRound(NamedTuple):
    """What a round is told: the inputs of scale-down, the groups, and what may be done now."""

    config: AutoscalerConfig
    now: float
    inputs: ScaleDownInputs
    groups: Mapping[str, Group]
    allowed: Collection[Reason]
    busy: bool
    unsettled: frozenset[str]
    """Sets of replicas that are not all ready."""
    buy: Callable[[Plan], Awaitable[bool]]
    objects: Callable[[], Sequence[KubeObject]]
    """All that is known of the cluster, for who wants to decide the same elsewhere."""
    coming: Sequence[ComingPod] = ()
    """The pods for which places are taken in the inputs."""

    @property
    def readiness(self) -> Readiness:
        return self.inputs.assessed.readiness


class Consolidator:
    """Knows what is under way and what has yet to pay back; all else is decided anew."""

    def __init__(self, context: AutoscalingContext, relocator: Relocator) -> None:
        self._context = context
        self._world = context.world
        self._relocator = relocator
        self._metrics = ConsolidationMetrics(context.metrics.registry)
        self._times = VolumeTimes(context.world, now=context.now)
        self._recorder = ConsolidationRecorder(context.clock)
        self._under_way: StepUnderWay | None = None
        self._worth_since: dict[str, float] = {}
        self._pays_back: dict[str, float] = {}
        self._next = 0.0
        self._idle_basis = 0
        self._idle_until = 0.0
        """What nothing was worth replacing for, and until when that is believed."""
        self.report = ConsolidationDocument()

    @property
    def memory(self) -> ConsolidationMemory:
        """What has to survive a restart."""
        return ConsolidationMemory(
            under_way=self._under_way,
            worth_since=dict(sorted(self._worth_since.items())),
            pays_back=dict(sorted(self._pays_back.items())),
            volume_seconds=self._times.seconds,
        )

    @property
    def recorded(self) -> Collection[RecordedConsolidation]:
        """The newest decisions with what they came from."""
        return self._recorder.last if self.report.plan is not None else ()

    def restore(self, memory: ConsolidationMemory) -> None:
        self._under_way = memory.under_way
        self._worth_since = dict(memory.worth_since)
        self._pays_back = dict(memory.pays_back)
        self._times.restore(memory.volume_seconds)

    async def forget(self) -> None:
        """It is turned off: what was begun is left to scale-down."""
        if self._under_way is not None:
            await self._relocator.stop()
        await self._relocator.attend()
        self._under_way, self._worth_since = None, {}
        self.report = ConsolidationDocument()

    async def round(self, asked: ConsolidationRound) -> list[NodeRemoval]:
        """The nodes that go now, each with the places of its pods."""
        self._pays_back = {
            name: until for name, until in self._pays_back.items() if until > asked.now
        }
        await self._relocator.attend()
        try:
            return await self._decided(asked)
        except Exception as error:
            # What is under way stays so; the next round decides anew.
            _log.exception("consolidation not decided")
            failed = f"consolidation not decided: {type(error).__name__}: {error}"
            self.report = msgspec.structs.replace(self.report, enabled=True, held=failed)
            return []

    async def _decided(self, asked: ConsolidationRound) -> list[NodeRemoval]:
        now = asked.now
        held = "pods wait for nodes, or nodes are on their way" if asked.busy else ""
        if self._under_way is not None:
            self.report = msgspec.structs.replace(
                self.report, enabled=True, under_way=self._under_way, held=held
            )
            return [] if held or now < self._next else await self._go_on(asked)
        upcoming = asked.inputs.inputs.upcoming or {}
        if not held and any(upcoming.values()):
            held = "nodes are on their way"
        if held or now < self._next:
            self.report = msgspec.structs.replace(
                self.report, enabled=True, held=held, under_way=None
            )
            return []
        self._next = now + asked.config.consolidation.interval
        basis = self._basis(asked.config)
        if basis == self._idle_basis and now < self._idle_until:
            return []
        plan = await self._decide(asked)
        if not plan.steps:
            self._idle_basis, self._idle_until = basis, now + _IDLE
        self._metrics.take(plan)
        going = {node.node for node in plan.going}
        self._worth_since = {name: self._worth_since.get(name, now) for name in sorted(going)}
        self.report = ConsolidationDocument(enabled=True, plan=plan)
        return await self._begin(plan, asked)

    def _basis(self, config: AutoscalerConfig) -> int:
        """Another number when a pod or a node is another one, or the settings are."""
        snapshot = self._world.snapshot
        records = (*snapshot.pods.values(), *snapshot.nodes.values())
        return hash((id(config), *map(id, records)))

    async def _begin(self, plan: ConsolidationPlan, asked: ConsolidationRound) -> list[NodeRemoval]:
        """Begin all steps that need nothing first, or else the first that does."""
        removals: list[NodeRemoval] = []
        preparing: list[StepPreparation] = []
        for number, step in enumerate(plan.steps, 1):
            why = self._why_not_yet(step, asked)
            first = preparation.of(plan, number, self._world.pod)
            if why:
                self.report = msgspec.structs.replace(self.report, held=why)
            elif first is not None:
                preparing.append(first)
            else:
                found = self._first_wave(plan, asked, nodes=step.nodes)
                removals += self._start(step, found, asked.now)
        if not removals and preparing:
            await self._prepare(preparing[0], asked)
        return removals

    def _why_not_yet(self, step: ConsolidationStep, asked: ConsolidationRound) -> str:
        settle = asked.config.consolidation.settle_time
        if any(asked.now - self._worth_since[name] < settle for name in step.nodes):
            return "what is worth replacing has yet to be so for a while"
        reason: Reason = "consolidation" if step.moves else "empty"
        if reason not in asked.allowed:
            return f"no window is open for {reason}"
        return ""

    def _first_wave(
        self, plan: ConsolidationPlan, asked: ConsolidationRound, *, nodes: Collection[str]
    ) -> list[NodeRemoval]:
        """Removals that begin now: of the first wave, and of no set that is not whole."""
        moves: dict[str, list[PodMove]] = {}
        for move in plan.moves:
            moves.setdefault(move.source, []).append(move)
        found = []
        for one in plan.going:
            own = moves.get(one.node, [])
            begins = min((move.wave for move in own), default=one.wave or 1)
            node = self._world.node(one.node)
            if one.node not in nodes or begins != 1 or node is None or one.group is None:
                continue
            if self._world.any_owned_by((move.pod for move in own), asked.unsettled):
                continue
            found.append(
                NodeRemoval(
                    node=one.node,
                    uid=node.metadata.uid,
                    group=one.group,
                    reason="empty" if one.action is Action.DELETE else "consolidation",
                    drain=one.action is Action.DRAIN,
                    since=self._worth_since.get(one.node, asked.now),
                    started=asked.now,
                    at=asked.now,
                    moves={move.pod: move.to for move in own},
                    waves={move.pod: move.wave for move in own},
                    saves=one.saves,
                )
            )
        return found

    def _start(
        self, step: ConsolidationStep, removals: list[NodeRemoval], now: float
    ) -> list[NodeRemoval]:
        """Tell of removals that begin, and remember until when their moves have paid back."""
        for removal in removals:
            for target in removal.moves.values():
                self._carries(target, until=now + step.pays_back_in)
            self._tell(
                f"Consolidation: removing node {removal.node}, saves {removal.saves or '1 node'} an"
                f" hour, pods to reschedule: {','.join(removal.moves) or 'none'}"
            )
        if removals and self._under_way is None:
            # What was prepared is counted when it has ended.
            share = len(removals) / max(len(step.nodes), 1)
            self._metrics.begun(float(step.saves_per_hour) * share, removed=len(removals))
        if self._context.actuator.dry_run and removals:
            _log.info("would replace nodes", extra={"nodes": [one.node for one in removals]})
            return []
        return removals

    def _carries(self, node: str, *, until: float) -> None:
        """The node has to carry what was moved to it, or was bought, at least until then."""
        self._pays_back[node] = max(self._pays_back.get(node, 0.0), until)

    async def _prepare(self, first: StepPreparation, asked: ConsolidationRound) -> None:
        """Ask for what a step needs, spare nodes included, and remember for whom."""
        step, bought = first.step, first.bought
        self._tell(first.told)
        if bought and not await self._buy(step, bought, asked):
            return
        if self._context.actuator.dry_run:
            return
        self._under_way = StepUnderWay(
            nodes=step.nodes,
            bought=bought,
            known=tuple(sorted(name for group in bought for name in asked.groups[group].nodes)),
            since=asked.now,
            until=asked.now + 2 * asked.config.max_node_provision_time,
            saves_per_hour=float(step.saves_per_hour),
            pays_back_in=step.pays_back_in,
            relocations=first.relocations,
            planned=first.planned,
            spares=first.spares,
        )
        self.report = msgspec.structs.replace(self.report, under_way=self._under_way)

    async def _buy(
        self, step: ConsolidationStep, bought: Mapping[str, int], asked: ConsolidationRound
    ) -> bool:
        names = listed(list(step.nodes))
        reason = f"consolidation: replaces {names}, saves {step.saves_per_hour} an hour"
        deltas = tuple(GroupDelta(group=group, delta=count) for group, count in bought.items())
        made = Plan(steps=(Step(chosen=deltas[0].group, scale_ups=deltas, pods=(), reason=reason),))
        return await asked.buy(made)

    async def _go_on(self, asked: ConsolidationRound) -> list[NodeRemoval]:
        """Let the nodes of a step go, once what was bought for them is there."""
        step, now = self._under_way, asked.now
        assert step is not None
        removing = asked.inputs.state.removing
        left = [name for name in step.going if self._world.node(name) is not None]
        if not left:
            self._tell(
                f"Consolidation: {counted(len(step.nodes), 'node')} replaced,"
                f" {step.saves_per_hour:g} an hour saved"
            )
            self._metrics.begun(
                step.saves_per_hour, removed=len(step.nodes), bought=sum(step.bought.values())
            )
            self._end()
            return []
        # Once they were there they may go again, as spare ones do.
        new = list(step.names.values()) or self._new_nodes(step, asked)
        if new is None:
            if now > step.until:
                self._give_up("the new nodes are not ready")
            return []
        step = self._named(step, new, asked)
        for name in new:
            if name not in step.going:
                self._carries(name, until=step.since + step.pays_back_in)
        if step.relocations:
            self._make_room(step, asked)
            return []
        waiting = frozenset(name for name in left if name not in removing)
        if not waiting:
            return []
        self._next = now + asked.config.consolidation.interval
        plan = await self._decide(asked, only=waiting)
        found = self._first_wave(plan, asked, nodes=waiting)
        if "consolidation" not in asked.allowed:
            return []
        if not plan.going and not removing:
            codes = {node.node: node.code or "" for node in plan.nodes}
            self._give_up(
                ", ".join(f"{name}: {codes.get(name, 'gone')}" for name in sorted(waiting))
            )
            return []
        if not found and not removing and now > step.until:
            self._give_up("its nodes cannot go in one wave any more")
            return []
        part = ConsolidationStep(
            nodes=step.nodes, buys=(), pays_back_in=step.pays_back_in, saves_per_hour="0"
        )
        return self._start(part, found, now)

    def _named(
        self, step: StepUnderWay, new: Sequence[str], asked: ConsolidationRound
    ) -> StepUnderWay:
        """The step with what the nodes are called that were bought for it."""
        if step.names or not step.planned:
            return step
        names: dict[str, str] = {}
        for group, planned in step.planned.items():
            there = sorted(set(asked.groups[group].nodes).intersection(new))
            names.update(zip(planned, there, strict=False))
        self._under_way = msgspec.structs.replace(step, names=names)
        return self._under_way

    def _make_room(self, step: StepUnderWay, asked: ConsolidationRound) -> None:
        """Let pods of nodes that stay make room, beside what else goes on."""
        if self._relocator.is_running or "consolidation" not in asked.allowed:
            return
        if self._relocator.error:
            self._give_up(self._relocator.error)
            return
        moves = [
            msgspec.structs.replace(
                move,
                source=step.names.get(move.source, move.source),
                to=step.names.get(move.to, move.to),
            )
            for move in step.relocations
        ]
        for move in moves:
            if move.to not in step.going:
                self._carries(move.to, until=step.since + step.pays_back_in)
        self._relocator.start(moves, asked.config, asked.inputs.features, self._made_room)

    def _made_room(self, made: Sequence[PodRelocation]) -> None:
        step = self._under_way
        if step is not None:
            done = {(move.pod, move.wave) for move in made}
            left = tuple(move for move in step.relocations if (move.pod, move.wave) not in done)
            self._under_way = msgspec.structs.replace(step, relocations=left)

    def _new_nodes(self, step: StepUnderWay, asked: ConsolidationRound) -> list[str] | None:
        """The nodes that were bought, or nothing until all of them are ready."""
        known = set(step.known)
        found = []
        for group, count in step.bought.items():
            there = asked.groups.get(group)
            ready = [
                name
                for name in (there.nodes if there is not None else ())
                if name not in known
                and (state := asked.readiness.nodes.get(name)) is not None
                and state.state == READY
            ]
            if len(ready) < count:
                return None
            found += ready
        return found

    def _give_up(self, why: str) -> None:
        self._metrics.given_up()
        self._context.tell(
            EventReason.CONSOLIDATION_GIVEN_UP,
            f"Consolidation: given up: {why}; nodes that are not needed go as scale-down has it",
            warning=True,
        )
        self._end()

    def _end(self) -> None:
        self._under_way = None
        self.report = msgspec.structs.replace(self.report, under_way=None)

    def _tell(self, message: str) -> None:
        self._context.tell(EventReason.CONSOLIDATION, message)

    async def _decide(
        self, asked: ConsolidationRound, *, only: frozenset[str] | None = None
    ) -> ConsolidationPlan:
        clock, config = self._context.clock, asked.config
        end = clock.monotonic() + (config.scale_down_simulation_timeout or float("inf"))
        question = ConsolidationQuestion(
            asked.inputs,
            ConsolidationState(pays_back=self._pays_back, volume_seconds=self._times.seconds),
            only=only,
        )
        count = self._world.size
        objects = self._recorder.look(asked.objects, count=count, config=config)
        with self._world.frozen():
            plan = await self._context.worker(
                lambda: decision.decide(question, out_of_time=lambda: clock.monotonic() >= end)
            )
        await self._recorder.keep(
            question,
            plan,
            objects,
            asked.coming,
            config=config,
            now=self._context.now(),
            count=count,
        )
        return plan

"""The loop: look, decide, act; again when a pod finds no node, or when the scan interval is over.

No awaiting stands between looking and deciding, and what is decided on stands still meanwhile, so a
plan is made from one state of the cluster.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from tonnage.autoscaler.actuator import Actuator, EventReason, NotLeadingError
from tonnage.autoscaler.assessor import Assessor
from tonnage.autoscaler.capacity_buffers import BufferWatch
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.autoscaler.decisions import DecisionLog, DecisionRecorder
from tonnage.autoscaler.metrics import AutoscalerMetrics
from tonnage.autoscaler.planner import Planner
from tonnage.autoscaler.provider_state import LostNodes, ProviderReader, ProviderState
from tonnage.autoscaler.provisioning_requests import ProvisioningRequests
from tonnage.autoscaler.quiet_rounds import QuietRounds
from tonnage.autoscaler.remediation import Remediator
from tonnage.autoscaler.report import RoundReport
from tonnage.autoscaler.scale_up_executor import ScaleUpExecutor
from tonnage.autoscaler.scaledown.scale_down import ScaleDown
from tonnage.autoscaler.scaledown.situation import Situation
from tonnage.autoscaler.startup_taints import StartupTaintRemover
from tonnage.autoscaler.state import State, StateWriter
from tonnage.autoscaler.status import StatusWriter
from tonnage.autoscaler.world import ClusterView
from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.cluster.events import Recorder
from tonnage.errors import ClusterError, ProviderError, TonnageError
from tonnage.groups.memory import TemplateMemory
from tonnage.groups.options import policy_of
from tonnage.groups.registry import GroupObservation, Observation, Registry, restored
from tonnage.providers.protocol import Provider
from tonnage.rules.features import Features
from tonnage.scaleup import requested_room
from tonnage.scaleup.assessment import Assessment
from tonnage.scaleup.decision import Decision
from tonnage.scaleup.plan import Plan
from tonnage.service import workers
from tonnage.service.config_file import ConfigFile
from tonnage.service.live_cluster import Trust
from tonnage.service.steady_time import SteadyTime
from tonnage.service.wanted_kinds import WantedKinds
from tonnage.service.workers import Worker

TRANSIENT = "transientError"
NO_GROUPS = "no node groups: nothing can be bought"

_log = logging.getLogger(__name__)

_OVERTAKEN_AT_MOST = 3
"""Plans in a row that may be overtaken by events before the next scan is waited for."""


class Autoscaler:
    """Acts only while `leading()`, and only on a world that can be trusted.

    What is known of requests lives in the registry; everything else is looked up anew.
    """

    def __init__(
        self,
        world: ClusterView,
        provider: Provider,
        *,
        client: Client,
        config: ConfigFile[AutoscalerConfig],
        features: Callable[[AutoscalerConfig], Features],
        clock: Clock,
        metrics: AutoscalerMetrics,
        leading: Callable[[], bool],
        recorder: Recorder | None = None,
        namespace: str = "kube-system",
        identity: str = "",
        dry_run: bool = False,
        worker: Worker = workers.here,
        measured: bool = True,
    ) -> None:
        self._world = world
        self._config = config
        self._features = features
        self._clock = clock
        self._time = SteadyTime(clock)
        self._metrics = metrics
        self._measured = measured
        self._identity = identity
        self._reader = ProviderReader(provider, clock=clock)
        self._actuator = Actuator(self._reader, leading=leading, recorder=recorder, dry_run=dry_run)
        self._context = context = AutoscalingContext(
            world=world,
            actuator=self._actuator,
            client=client,
            clock=clock,
            now=self._time.now,
            worker=worker,
            metrics=metrics,
            about=lambda: self._status.about(self._config.current),
            write_down=self._save,
        )
        self._taint_remover = StartupTaintRemover(context)
        self._state = StateWriter(
            client,
            namespace=namespace,
            state=self._current_state,
            recall=lambda stored: self._assessor.recall(stored.memory.lessons),
        )
        self._kinds = WantedKinds(client, clock=clock, changed=world.batch.call)
        self._lost_nodes = LostNodes(world, clock=clock)
        self._assessor = Assessor(world, kinds=self._kinds, now=self._time.now)
        self._planner = Planner(context)
        self._recorder = DecisionRecorder(context)
        self._status = StatusWriter(
            client,
            metrics=metrics if measured else None,
            namespace=namespace,
            mode=self._mode,
        )
        beside = Actuator(self._reader, leading=leading, recorder=recorder, dry_run=dry_run)
        self._scale_down = ScaleDown(
            context._replace(actuator=beside),
            removed=lambda *nodes: self._registry.removed(*nodes),
            buy=self._buy,
        )
        self.requests = ProvisioningRequests(context, self._kinds)
        self.buffers = BufferWatch(context, self._kinds)
        self._problems: list[str] = []
        self.active_at = self.succeeded_at = clock.monotonic()
        self.failure: Exception | None = None
        """What ended the last round before its time."""
        self._begin(State())

    @property
    def report(self) -> RoundReport | None:
        """The last round."""
        return self._status.report

    @property
    def document(self) -> dict[str, Any]:
        """The last round for operators."""
        return self._status.document

    @property
    def memory(self) -> TemplateMemory:
        """What was seen of nodes, and learned about their limits."""
        return self._assessor.memory

    @property
    def decisions(self) -> DecisionLog:
        """The last decisions."""
        return self._recorder.log

    async def run(self) -> None:
        """Loop until cancelled; to be called whenever we become leader."""
        self.active_at = self.succeeded_at = self._clock.monotonic()
        await self._load()
        async with self._scale_down, self._kinds:
            await self._go_round()

    async def _go_round(self) -> None:
        overtaken = 0
        while True:
            self._world.batch.begin()
            settled = await self.guarded_round()
            overtaken = 0 if settled else overtaken + 1
            if 0 < overtaken <= _OVERTAKEN_AT_MOST:
                continue
            await self._pause()

    async def once(self) -> None:
        """A single round, as somebody who looks in would want it; what goes wrong is raised."""
        await self._load()
        async with self._scale_down, self._kinds:
            await self.buffers.ready(self._config.current)
            await self._scale_down.ready(self._config.current)
            await self.guarded_round()
        if self.failure is not None:
            raise self.failure

    async def guarded_round(self) -> bool:
        """One round; whatever goes wrong is told, counted and over with. False: do it again."""
        self.active_at = self._clock.monotonic()
        self.failure = None
        self._metrics.active("main", now=self._time.now())
        try:
            with self._metrics.timed("main"):
                settled = await self.round()
        except NotLeadingError as error:
            _log.warning("round abandoned", extra={"error": str(error)})
            return True
        except TonnageError as error:
            await self._failed(error, kind=_kind(error))
            if _kind(error) != TRANSIENT:
                return True
            # A provider that is throttled is no reason to restart us.
            settled = True
        except Exception as error:
            _log.exception("round failed")
            await self._failed(error, kind="internalError")
            return True
        self.succeeded_at = self._clock.monotonic()
        self._metrics.active("mainSuccessful", now=self._time.now())
        return settled

    async def round(self) -> bool:
        """Look, decide, act. False if what was decided has been overtaken by events."""
        self._config.check()
        self._metrics.configuration(self._config.problem)
        config = self._config.current
        features = self._features(config)
        known = (self._config.problem, self.decisions.problem, self._state.problem)
        self._problems = list(filter(None, known))
        self._problems.extend(self._silenced())
        self._actuator.done = []
        self._recorder.forget()
        self._actuator.timeout = config.provider_timeout
        async with self._world.turn:
            self._world.configure(config, features, schedulers=config.allowed_scheduler_names)
        trust = self._world.trust(csi_aware=config.csi_aware)
        if trust.hold:
            await self._finish(self._held(trust.hold, trust), config)
            return True
        self._problems.extend(await self._taint_remover.untaint(config))
        self._actuator.check("refresh")
        with self._metrics.timed("cloudProviderRefresh"):
            provided = await self._reader.everything(seconds=config.provider_timeout)
        self._problems.extend((*provided.unread, *provided.problems.values()))
        await self._world.batch.take_along(
            window=config.batch_window, longest=config.longest_batch_window
        )
        async with self._world.turn:
            # The world went on meanwhile; from here to the plan it stands still.
            trust = self._world.trust(csi_aware=config.csi_aware)
            hold = trust.hold
            if not hold:
                after = config.patience.max_node_provision_time
                hold, problems = self._lost_nodes.look(provided, after=after)
                self._problems.extend(problems)
            if not hold:
                now = self._time.now()
                same = self._quiet.again(provided, trust, config, features, now=now)
                if same is None or self._problems:
                    return await self._decide(provided, trust, config, features)
                await self._finish(same, config)
                return True
        await self._finish(self._held(hold, trust, provided), config)
        return True

    async def _decide(
        self, provided: ProviderState, trust: Trust, config: AutoscalerConfig, features: Features
    ) -> bool:
        now, changes = self._time.now(), self._world.changes
        with self._metrics.timed("updateClusterState"):
            blind = bool(trust.blind_to_volumes)
            look = partial(
                self._assessor.look,
                provided,
                config=config,
                features=features,
                now=now,
                blind=blind,
                headroom=() if blind else self.buffers.rooms(config, now=now),
                requested=() if blind else self.requests.rooms(config, now=now),
            )
            found = look()
            observation = self._observe(found, provided, config, now)
        if not provided.groups:
            self._problems.append(NO_GROUPS)
        self._remediator.tell(observation)
        self._remediator.tell_problems(provided)
        self._remediator.tell_unready(found.readiness, provided, config)
        self._remediator.tell_outages(found.readiness)
        changed = await self._remediator.clear(observation, provided)
        hold = "" if found.readiness.healthy else found.readiness.reason
        plan: Plan | None = None
        settled = True
        if hold:
            self._context.tell(EventReason.CLUSTER_UNHEALTHY, hold, warning=True)
        else:
            replaced = await self._remediator.replace_unready(
                found.readiness, observation, provided, config, now=now
            )
            if changed or replaced:
                # Sizes are no longer what was looked at.
                settled = False
            else:
                if self._actuator.done:
                    # Something was tried in vain, and the world went on meanwhile.
                    found = look()
                found = found.told(
                    skipped=self._executor.skipped(provided, observation),
                    upcoming={name: one.upcoming for name, one in observation.groups.items()},
                    purchases=self._registry.purchases,
                )
                self._recorder.look(config)
                made = await self._decision(self._scale_down.beside(found))
                plan = made.plan
                self._recorder.note(made)
                settled = await self._executor.carry_out(
                    plan, provided, observation, config, now=now
                )
        if settled:
            keep = hold or self.buffers.hold(config) or self.requests.hold(config)
            beside = msgspec.structs.replace(
                found, inputs=requested_room.booked(found.inputs, plan)
            )
            situation = Situation(beside, provided, trust, plan=plan, hold=keep)
            with self._metrics.timed("scaleDown"):
                self._problems.extend(await self._scale_down.round(situation, config))
        self._problems.extend((*self.buffers.problems(config), *self._assessor.gangs.problems))
        self._problems.extend(self.requests.problems(config))
        await self.buffers.tell(plan, now=now)
        await self.requests.tell(plan if settled else None, now=now)
        report = RoundReport(
            now=now,
            held=hold,
            trust=trust,
            provided=provided,
            readiness=found.readiness,
            observation=observation,
            plan=plan,
            done=(*self._actuator.done, *self._scale_down.done()),
            waiting=len(self._world.waiting),
            waiting_with_volumes=sum(bool(record.volumes) for record in found.pending),
            because_of_volumes=await self._planner.because_of_volumes(config, features)
            if self._measured
            else None,
            problems=tuple(self._problems),
            slots=self._assessor.slots(provided.groups) if self._measured else None,
            refused=self._refused(),
            scale_down=self._scale_down.report,
        )
        await self._save()
        await self._finish(report, config)
        await self._recorder.keep(report, config)
        if settled:
            self._quiet.note(
                report,
                config,
                features,
                changes=changes,
                registry=self._registry.state,
                removals=self._scale_down.memory,
            )
        return settled

    def _observe(
        self, found: Assessment, provided: ProviderState, config: AutoscalerConfig, now: float
    ) -> Observation:
        self._assessor.note_starts(found.readiness, self._registry.state.requests, now=now)
        return self._registry.observe(
            [
                GroupObservation(
                    group,
                    found.readiness.groups[group.id],
                    provided.machines.get(group.id),
                    provided.options[group.id].max_node_provision_time
                    if group.id in provided.options
                    else None,
                )
                for group in provided.groups
            ],
            registered=self._assessor.registered,
            unread=self._assessor.unread,
            policy=policy_of(config, live=True),
            patience=config.patience,
            now=now,
        )

    async def _decision(self, found: Assessment) -> Decision:
        with self._metrics.timed("scaleUp"):
            made, left_out = await self._planner.decide(found)
        self._problems.extend((*left_out, *made.plan.warnings))
        return made

    async def _buy(
        self, plan: Plan, provided: ProviderState, config: AutoscalerConfig, *, now: float
    ) -> bool:
        """For who needs nodes before others can go."""
        return await self._executor.buy(plan, provided, config, now=now)

    # Around the decision.

    def _begin(self, state: State) -> None:
        self._registry = Registry(restored(state.registry, now=self._time.now()))
        self._scale_down.restore(state.scale_down)
        self._quiet = QuietRounds(self._world, self._assessor)
        if state.memory != TemplateMemory():
            self._assessor.memory = state.memory
        self._remediator = Remediator(self._context, self._registry)
        self._executor = ScaleUpExecutor(self._context, self._reader, self._registry)

    async def _load(self) -> None:
        """What the leader before us knew. If it cannot be read, patience is lost, nothing else."""
        config = self._config.current
        if config.write_status_configmap and not self._actuator.dry_run:
            await self._status.begin(config)
        self._begin(await self._state.load() or State(memory=self._assessor.memory))

    async def _save(self) -> None:
        if not self._actuator.dry_run:
            self._problems.extend(filter(None, [await self._state.save()]))

    def _current_state(self) -> State:
        return State(
            registry=self._registry.state,
            memory=self._assessor.memory,
            scale_down=self._scale_down.memory,
        )

    def _silenced(self) -> Iterator[str]:
        """What could not be told when something was last said."""
        if self._actuator.refused is not None:
            yield f"events are not written: {self._actuator.refused.right}"
        if self._status.refused is not None:
            yield f"the status ConfigMap is not written: {self._status.refused.right}"

    def _refused(self) -> tuple[errors.Forbidden, ...]:
        found = (self._actuator.refused, self._status.refused, self._state.refused)
        return tuple(one for one in found if one is not None)

    def _held(self, hold: str, trust: Trust, provided: ProviderState | None = None) -> RoundReport:
        return RoundReport(
            now=self._time.now(),
            held=hold,
            trust=trust,
            provided=provided,
            waiting=len(self._world.waiting),
            problems=tuple(self._problems),
            refused=self._refused(),
        )

    async def _failed(self, error: Exception, *, kind: str) -> None:
        self.failure = error
        if kind != TRANSIENT:
            self._metrics.error(kind)
        _log.error("round failed", extra={"kind": kind, "error": str(error)})
        report = self._held(f"{kind}: {error}", self._world.trust(csi_aware=True))
        await self._finish(report, self._config.current)

    async def _finish(self, report: RoundReport, config: AutoscalerConfig) -> None:
        self._status.take(report)
        if config.write_status_configmap and not self._actuator.dry_run:
            await self._status.write(config)

    def _mode(self) -> Mapping[str, object]:
        return {
            "identity": self._identity,
            "dryRun": self._actuator.dry_run,
            "configProblem": self._config.problem,
            "optInEnforcedBy": self._world.opt_in_enforcer(self._config.current.enforcement),
        }

    async def _pause(self) -> None:
        """Until a pod finds no node, and a moment longer for its siblings; or the scan interval."""
        config = self._config.current
        await self._world.batch.complete(
            within=config.scan_interval,
            window=config.batch_window,
            longest=config.longest_batch_window,
        )


def _kind(error: TonnageError) -> str:
    """Upstream's name for what went wrong."""
    if isinstance(error, ProviderError):
        return TRANSIENT if error.retryable else "cloudProviderError"
    return "apiCallError" if isinstance(error, ClusterError) else "internalError"

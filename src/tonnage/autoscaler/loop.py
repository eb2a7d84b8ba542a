"""The loop: look, decide, act; again when a pod finds no node, or when the scan interval is over.

No awaiting stands between looking and deciding, so a plan is made from one state of the cluster.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tonnage.autoscaler import outside
from tonnage.autoscaler.acting import Hands, NotLeadingError
from tonnage.autoscaler.buying import Buyer
from tonnage.autoscaler.cleaning import Cleaner
from tonnage.autoscaler.config import Config
from tonnage.autoscaler.decisions import DecisionLog
from tonnage.autoscaler.metrics import Metrics
from tonnage.autoscaler.provided import Asking, Provided
from tonnage.autoscaler.report import Decision, Report, SlotCount
from tonnage.autoscaler.state import State, StateStore
from tonnage.autoscaler.status import LAST_UPDATED, StatusKeeper, go_time, text
from tonnage.autoscaler.untainting import Untainter
from tonnage.autoscaler.world import PodsByNode, World
from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.cluster.events import Recorder
from tonnage.cluster.records import ConfigMap, ObjectReference
from tonnage.errors import ClusterError, InputError, ProviderError, TonnageError
from tonnage.filters.features import Features
from tonnage.groups.memory import TemplateMemory
from tonnage.groups.registry import Observation, Registry, Sighting, restored
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSIDriver, CSINode
from tonnage.objects.workloads import DaemonSet
from tonnage.providers.protocol import Provider
from tonnage.scaleup import deciding
from tonnage.scaleup.deciding import Look
from tonnage.scaleup.plan import Plan
from tonnage.service.configfile import ConfigFile
from tonnage.service.standing import Trust
from tonnage.service.steadytime import SteadyTime
from tonnage.snapshot.slots import UNLIMITED
from tonnage.snapshot.snapshot import PodRecord

_log = logging.getLogger(__name__)

_OVERTAKEN_AT_MOST = 3
"""Plans in a row that may be overtaken by events before the next scan is waited for."""


class Autoscaler:
    """Acts only while `leading()`, and only on a world that can be trusted.

    What is known of requests lives in the registry; everything else is looked up anew.
    """

    def __init__(
        self,
        world: World,
        provider: Provider,
        *,
        client: Client,
        config: ConfigFile[Config],
        features: Callable[[Config], Features],
        clock: Clock,
        metrics: Metrics,
        leading: Callable[[], bool],
        recorder: Recorder | None = None,
        namespace: str = "kube-system",
        identity: str = "",
        dry_run: bool = False,
    ) -> None:
        self._world = world
        self._client = client
        self._config = config
        self._features = features
        self._clock = clock
        self._time = SteadyTime(clock)
        self._metrics = metrics
        self._namespace = namespace
        self._identity = identity
        self._asking = Asking(provider, clock=clock)
        self._hands = Hands(self._asking, leading=leading, recorder=recorder, dry_run=dry_run)
        self._untainter = Untainter(world, self._hands, client=client, clock=clock)
        self._store = StateStore(client, namespace=namespace)
        self._memory = TemplateMemory()
        self._status = StatusKeeper()
        self._problems: list[str] = []
        self.report: Report | None = None
        self.document: dict[str, Any] = {"autoscalerStatus": "Initializing"}
        self.decisions = DecisionLog()
        self.active_at = self.succeeded_at = clock.monotonic()
        self._begin(State())

    async def run(self) -> None:
        """Loop until cancelled; to be called whenever we become leader."""
        self.active_at = self.succeeded_at = self._clock.monotonic()
        await self._load()
        overtaken = 0
        while True:
            self._world.woken.clear()
            settled = await self.guarded_round()
            overtaken = 0 if settled else overtaken + 1
            if 0 < overtaken <= _OVERTAKEN_AT_MOST:
                continue
            await self._pause()

    async def once(self) -> None:
        """A single round, as somebody who looks in would want it."""
        await self._load()
        await self.guarded_round()

    async def guarded_round(self) -> bool:
        """One round; whatever goes wrong is told, counted and over with. False: do it again."""
        self.active_at = self._clock.monotonic()
        self._metrics.active("main", now=self._time.now())
        try:
            with self._metrics.timed("main"):
                settled = await self.round()
        except NotLeadingError as error:
            _log.warning("round abandoned", extra={"error": str(error)})
            return True
        except TonnageError as error:
            self._failed(error, kind=_kind(error))
            return True
        except Exception as error:
            _log.exception("round failed")
            self._failed(error, kind="internalError")
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
        self._problems = list(filter(None, (self._config.problem, self.decisions.problem)))
        self._hands.done = []
        self._hands.timeout = config.provider_timeout
        self._world.configure(config, features, schedulers=config.allowed_scheduler_names)
        trust = self._world.trust(csi_aware=config.csi_aware)
        if trust.hold:
            await self._finish(self._held(trust.hold, trust), config)
            return True
        self._problems.extend(await self._untainter.untaint(config))
        self._hands.check("refresh")
        with self._metrics.timed("cloudProviderRefresh"):
            provided = await self._asking.everything(seconds=config.provider_timeout)
        # The world went on meanwhile; from here to the plan it stands still.
        trust = self._world.trust(csi_aware=config.csi_aware)
        hold = trust.hold or self._unbelievable(provided)
        if hold:
            await self._finish(self._held(hold, trust, provided), config)
            return True
        return await self._decide(provided, trust, config, features)

    async def _decide(
        self, provided: Provided, trust: Trust, config: Config, features: Features
    ) -> bool:
        now = self._time.now()
        with self._metrics.timed("updateClusterState"):
            found = self._look(provided, trust, config, now)
            observation = self._observe(found, provided, config, now)
        self._memory = found.templates.memory
        self._problems.extend(provided.problems.values())
        self._cleaner.tell(observation)
        changed = await self._cleaner.clear(observation, provided)
        hold = "" if found.readiness.healthy else found.readiness.reason
        plan: Plan | None = None
        settled = True
        if hold:
            self._hands.tell(self._about(config), "ClusterUnhealthy", hold, warning=True)
        else:
            replaced = await self._cleaner.replace_unready(found.readiness, provided, config)
            if changed or replaced:
                # Sizes are no longer what was looked at.
                settled = False
            else:
                plan = self._plan(found, provided, observation, config, features)
                settled = await self._carry_out(plan, provided, observation, config, now)
        report = Report(
            now=now,
            held=hold,
            trust=trust,
            provided=provided,
            readiness=found.readiness,
            observation=observation,
            plan=plan,
            done=tuple(self._hands.done),
            waiting=len(self._world.waiting),
            waiting_with_volumes=sum(bool(record.volumes) for record in found.pending),
            problems=tuple(self._problems),
            slots=self._slots(provided),
        )
        self._keep(report)
        await self._save()
        await self._finish(report, config)
        return settled

    def _look(self, provided: Provided, trust: Trust, config: Config, now: float) -> Look:
        world = self._world
        blind = bool(trust.blind_to_volumes)

        def counts(record: PodRecord) -> bool:
            return record.key in world.waiting and not (blind and record.volumes)

        def pod(key: str) -> Any:
            return world.pod(key)

        cluster = deciding.Cluster(
            snapshot=world.snapshot,
            groups=provided.groups,
            nodes=list(world.cache(Node)),
            csinodes=list(world.cache(CSINode)),
            daemonsets=list(world.cache(DaemonSet)),
            drivers=list(world.cache(CSIDriver)),
            pods_by_node=PodsByNode(world.pods_by_node),
            pod=pod,
        )
        return deciding.look(
            cluster, options=config, now=now, memory=self._memory, live=True, counts=counts
        )

    def _observe(self, found: Look, provided: Provided, config: Config, now: float) -> Observation:
        nodes = found.cluster.nodes
        registered = {node.metadata.name for node in nodes}
        registered.update(node.spec.provider_id for node in nodes if node.spec.provider_id)
        return self._registry.observe(
            [
                Sighting(
                    group,
                    found.readiness.groups[group.id],
                    provided.machines.get(group.id),
                    provided.options[group.id].max_node_provision_time
                    if group.id in provided.options
                    else None,
                )
                for group in provided.groups
            ],
            registered=frozenset(registered),
            policy=deciding.policy_of(config, live=True),
            patience=config.patience,
            now=now,
        )

    def _plan(
        self,
        found: Look,
        provided: Provided,
        observation: Observation,
        config: Config,
        features: Features,
    ) -> Plan:
        end = self._clock.monotonic() + (config.time_budget or float("inf"))
        skipped = _skipped(provided, observation)

        def decide(look: Look) -> Plan:
            return deciding.decide_standing(
                look,
                options=config,
                features=features,
                skipped=skipped,
                upcoming={name: one.upcoming for name, one in observation.groups.items()},
                out_of_time=lambda: self._clock.monotonic() >= end,
                outside=asked,
            )

        with self._metrics.timed("scaleUp"), outside.expanders(config) as asked:
            try:
                plan = decide(found)
            except Exception as error:
                if isinstance(error, InputError):
                    raise
                _log.exception("decision failed; pods are now tried one by one")
                plan = decide(found._replace(pending=self._decidable(found, decide)))
        self._problems.extend(plan.warnings)
        return plan

    def _decidable(self, found: Look, decide: Callable[[Look], Plan]) -> list[PodRecord]:
        """The pods that can be decided on; one that cannot must not stop the others."""
        good: list[PodRecord] = []
        for record in found.pending:
            try:
                decide(found._replace(pending=[record]))
            except Exception as error:
                problem = f"Pod {record.key}: not decided on: {type(error).__name__}: {error}"
                self._problems.append(problem)
            else:
                good.append(record)
        return good

    async def _carry_out(
        self,
        plan: Plan,
        provided: Provided,
        observation: Observation,
        config: Config,
        now: float,
    ) -> bool:
        for step in plan.steps:
            _log.info(
                "decided",
                extra={
                    "chosen": step.chosen,
                    "scale_ups": {one.group: one.delta for one in step.scale_ups},
                    "pods": len(step.pods),
                    "why": step.reason,
                },
            )
        settled = await self._buyer.buy(plan, provided, config, now=now)
        if settled:
            self._buyer.tell_not_helped(plan.not_helped)
        if config.enforce_node_group_min_size and not plan.scale_ups:
            skipped = _skipped(provided, observation)
            await self._buyer.reach_minimum(provided, skipped, config, now=now)
        return settled

    # Around the decision.

    def _begin(self, state: State) -> None:
        self._registry = Registry(restored(state.registry, now=self._time.now()))
        if state.memory.groups:
            self._memory = state.memory
        about = self._about(self._config.current)
        self._cleaner = Cleaner(
            self._world, self._hands, self._registry, about=about, metrics=self._metrics
        )
        self._buyer = Buyer(
            self._world,
            self._asking,
            self._hands,
            self._registry,
            about=about,
            metrics=self._metrics,
            clock=self._clock,
            write_down=self._save,
        )

    async def _load(self) -> None:
        """What the leader before us knew. If it cannot be read, patience is lost, nothing else."""
        try:
            self._begin(await self._store.load())
        except ClusterError as error:
            _log.warning("stored state not read", extra={"error": str(error)})
            self._begin(State(memory=self._memory))

    async def _save(self) -> None:
        if self._hands.dry_run:
            return
        try:
            await self._store.save(State(registry=self._registry.state, memory=self._memory))
        except errors.Conflict as error:
            await self._store.forget()
            raise NotLeadingError(
                f"the stored state was changed by somebody else: {error}"
            ) from error
        except ClusterError as error:
            problem = f"state not stored, a restart would lose it: {error}"
            self._problems.append(problem)
            _log.warning("state not stored", extra={"error": str(error)})

    def _unbelievable(self, provided: Provided) -> str:
        """No node is known, though the provider has machines that nodes should have come from."""
        running = sum(one.running for machines in provided.machines.values() for one in machines)
        if len(self._world.cache(Node)) or not running:
            return ""
        return f"no node is known, and the provider has {running} machines running"

    def _held(self, hold: str, trust: Trust, provided: Provided | None = None) -> Report:
        if self.report is None or self.report.held != hold:
            _log.warning("nothing is decided", extra={"why": hold})
        return Report(
            now=self._time.now(),
            held=hold,
            trust=trust,
            provided=provided,
            waiting=len(self._world.waiting),
            problems=tuple(self._problems),
        )

    def _failed(self, error: Exception, *, kind: str) -> None:
        self._metrics.error(kind)
        _log.error("round failed", extra={"kind": kind, "error": str(error)})
        trust = self._world.trust(csi_aware=True)
        report = self._held(f"{kind}: {error}", trust)
        self.report = report
        self._metrics.take(report)
        self.document = self._status.document(report, mode=self._mode())

    def _keep(self, report: Report) -> None:
        plan = report.plan
        if plan is not None and (plan.steps or plan.not_helped or report.done):
            config = self._config.current
            self.decisions.keep(
                Decision(time=go_time(report.now), plan=plan, done=report.done),
                file=config.decision_file,
                max_bytes=config.decision_file_size,
            )

    async def _finish(self, report: Report, config: Config) -> None:
        """Tell what the round came to."""
        self.report = report
        self._metrics.take(report)
        self.document = self._status.document(report, mode=self._mode())
        if not config.write_status_configmap or self._hands.dry_run:
            return
        name, shown = config.status_config_map_name, text(self.document)
        change = {
            "metadata": {"annotations": {LAST_UPDATED: go_time(report.now)}},
            "data": {"status": shown},
        }
        try:
            try:
                await self._client.patch(ConfigMap, name, change, namespace=self._namespace)
            except errors.NotFound:
                meta = ObjectMeta(
                    name=name,
                    namespace=self._namespace,
                    annotations={LAST_UPDATED: go_time(report.now)},
                )
                await self._client.create(
                    ConfigMap, ConfigMap(metadata=meta, data={"status": shown})
                )
        except ClusterError as error:
            _log.warning("status not written", extra={"error": str(error)})

    def _mode(self) -> Mapping[str, object]:
        return {
            "identity": self._identity,
            "dryRun": self._hands.dry_run,
            "configProblem": self._config.problem,
        }

    def _about(self, config: Config) -> ObjectReference:
        return ObjectReference(
            api_version="v1",
            kind="ConfigMap",
            namespace=self._namespace,
            name=config.status_config_map_name,
        )

    def _slots(self, provided: Provided) -> dict[tuple[str, str], SlotCount]:
        snapshot = self._world.snapshot
        counts: dict[tuple[str, str], SlotCount] = {}
        for group in provided.groups:
            rows = [snapshot.nodes[name].row for name in group.nodes if name in snapshot.nodes]
            for driver in snapshot.slots.drivers() if rows else ():
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

    async def _pause(self) -> None:
        """Until a pod finds no node, and a moment longer for its siblings; or the scan interval."""
        config = self._config.current
        try:
            async with self._clock.timeout(config.scan_interval):
                await self._world.woken.wait()
        except TimeoutError:
            return
        await self._clock.sleep(config.batch_window)


def _skipped(provided: Provided, observation: Observation) -> dict[str, str]:
    """Groups that may not be scaled up, and why."""
    skipped = {name: one.skip_reason for name, one in observation.groups.items() if one.skip_reason}
    return {**skipped, **dict.fromkeys(provided.problems, "its provider did not answer for it")}


def _kind(error: TonnageError) -> str:
    """Upstream's name for what went wrong."""
    if isinstance(error, ProviderError):
        return "cloudProviderError"
    return "apiCallError" if isinstance(error, ClusterError) else "internalError"

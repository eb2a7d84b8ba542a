"""All components of a cluster on one clock, and the script that is played to them."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.program import AutoscalerProgram
from tonnage.autoscaler.program import AutoscalerSettings as AutoscalerSettings
from tonnage.clock import Clock
from tonnage.cluster.client import Client
from tonnage.embedded.apiserver import ApiServer, InProcessTransport
from tonnage.embedded.cloud import CloudBehaviour
from tonnage.embedded.world import EmbeddedWorld
from tonnage.errors import TonnageError
from tonnage.groups import node_group_objects
from tonnage.objects import codec
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import LabelSelector
from tonnage.objects.phrases import listed
from tonnage.providers.kwok_objects import GROUP_LABEL
from tonnage.report.timeline import Decided, Mark, Sample, Timeline
from tonnage.rules import features, opt_in
from tonnage.rules.features import Features
from tonnage.scheduler.config import SchedulerConfig
from tonnage.scheduler.program import SchedulerProgram
from tonnage.scheduler.program import SchedulerSettings as SchedulerSettings
from tonnage.service import lifecycle
from tonnage.service.config_file import ConfigFile
from tonnage.simulation import actions, capacity_program, scenario_files
from tonnage.simulation.accounts import Accounts
from tonnage.simulation.faults import CuttableTransport
from tonnage.simulation.manifests import Manifests
from tonnage.simulation.recorded_cloud import RecordedCloud
from tonnage.simulation.sampling import same_but_for_time, sample_interval
from tonnage.simulation.scenario import Program as ProgramName
from tonnage.simulation.scenario import ScenarioAction, Simulation


class Ensemble:
    """A cluster that lives as long as `run`; the same scenario on a `VirtualClock` does the same.

    Its parts are there to be asked and ordered about meanwhile.
    """

    def __init__(
        self,
        simulation: Simulation,
        *,
        clock: Clock,
        label: str = "",
        watch: Callable[[Sample], None] | None = None,
    ) -> None:
        self.simulation = simulation
        self.clock = clock
        self.label = label
        self._watch = watch
        spec = self._spec = simulation.spec
        self.server = ApiServer(clock=clock, rng=self._rng("server"))
        self.client = self._client("client")
        self.manifests = Manifests(self.server)
        # Everything that a controller manager would do is done by the world; nobody reads leases.
        behaviour = msgspec.structs.replace(spec.world, controllers=True, heartbeat=None)
        self.accounts = Accounts(
            self.server.store, clock=clock, world=behaviour, stuck_after=spec.stuck_after
        )
        self.world = EmbeddedWorld(self._client("world"), clock, behaviour, self._rng("world"))
        self.cloud = RecordedCloud(
            self._client("cloud"),
            clock,
            simulation.groups,
            self._cloud(),
            self._rng("cloud"),
            now=lambda: self.accounts.now,
        )
        self.way = CuttableTransport(InProcessTransport(self.server))
        self._config = ConfigFile(
            None, AutoscalerConfig, given=scenario_files.autoscaler_options(spec)
        )
        unchecked = {"cacheCheckInterval": 0, **spec.scheduler}
        self._scheduler_config = ConfigFile(None, SchedulerConfig, given=unchecked)
        self._version = f"v{spec.kubernetes_version or '.'.join(map(str, features.NEWEST))}.0"
        self._features = opt_in.settled(
            features.of_version(spec.kubernetes_version, spec.feature_gates),
            "always" if spec.extender else "as-server",
            seen="",
        )
        self._programs: dict[ProgramName, asyncio.Task[None]] = {}
        self._starts = 0
        self.autoscaler: AutoscalerProgram | None = None
        self.scheduler: SchedulerProgram | None = None
        self.samples: list[Sample] = []
        self.marks: list[Mark] = []
        self.on_action: Callable[[float, ScenarioAction], None] | None = None
        """Told of each action of the script, and its time, just before it is done."""
        self._prices = {
            group.id: group.price_per_hour or 0.0
            for group in node_group_objects.from_objects(simulation.groups, ())
        }

    async def run(self) -> None:
        """From the beginning to the end of the scenario's duration; once."""
        for tree in self.simulation.objects:
            self.manifests.apply(tree)
        await self.cloud.open()
        self.sample()
        async with lifecycle.beside(
            self.world.run(),
            self.cloud.run(),
            self._kept("scheduler", self._run_scheduler),
            self._kept("autoscaler", self._run_autoscaler),
            self._sampling(),
            self._script(),
            *([self._run_capacity_templates()] if self._spec.capacity_templates else ()),
        ):
            await self.clock.sleep(self._spec.duration)
        self.sample(last=True)

    @property
    def debug_documents(self) -> dict[str, Callable[[], object]]:
        """What the autoscaler that runs now would tell at its debug address."""

        def of(path: str) -> Callable[[], object]:
            def told() -> object:
                return self.autoscaler.debug_documents[path]() if self.autoscaler else []

            return told

        paths = ("decisions", "recorded-decisions", "scale-down", "room", "snapshot", "leader")
        return {f"/debug/{path}": of(f"/debug/{path}") for path in paths}

    @property
    def objects(self) -> list[KubeObject]:
        """What the API holds now, and the groups with the nodes they have by now."""
        rows = ((one.kind.row, one) for one in self.server.store.collections.values())
        found = [
            codec.decode(stored.data, row)
            for row, collection in rows
            if row is not None
            for stored in collection.within()
        ]
        for group in self.simulation.groups:
            own = LabelSelector(match_labels={GROUP_LABEL: group.metadata.name})
            now = msgspec.structs.replace(group.spec, nodes=(), node_selector=own, target_size=None)
            found.append(msgspec.structs.replace(group, spec=now))
        return found

    @property
    def decisions(self) -> list[Decided]:
        """What the autoscaler has asked of the cloud."""
        self.cloud.take_reasons()
        return self.cloud.asked

    def timeline(self) -> Timeline:
        """What came of it until now."""
        decisions = self.decisions
        return Timeline(
            name=self.simulation.name,
            label=self.label,
            description=self._spec.description,
            seed=self._spec.seed,
            duration=self._spec.duration,
            options=self._spec.options,
            stuck_after=self._spec.stuck_after,
            samples=tuple(self.samples),
            decisions=tuple(decisions),
            marks=tuple(self.marks),
            summary=self.accounts.summary(self.samples[-1], decisions),
            problems=tuple(self._problems(decisions)),
        )

    def _problems(self, decisions: list[Decided]) -> Iterator[str]:
        if not any(self._prices.values()):
            yield "no node group has a price"
        if not decisions:
            yield f"nothing was decided: {self._why_nothing()}"
        elif unplayed := self._unplayed_drivers():
            yield (
                f"new nodes did not register {listed(unplayed)}, which nodes or templates list:"
                " name each driver, with its limit, in drivers of spec.world"
            )

    def _unplayed_drivers(self) -> list[str]:
        """CSI drivers of nodes and templates that nobody plays on the nodes that are bought."""
        specs = [one.spec.template.csi_node for one in self.simulation.groups if one.spec.template]
        names = {entry.name for one in specs if one is not None for entry in one.spec.drivers}
        for tree in self.simulation.objects:
            if tree["kind"] == "CSINode":
                entries = (tree.get("spec") or {}).get("drivers") or ()
                names |= {entry["name"] for entry in entries}
        return sorted(names - {driver.name for driver in self._spec.world.drivers})

    def _why_nothing(self) -> str:
        """Why the autoscaler asked for nothing in all this time."""
        if not self.accounts.pending_peak:
            return "no pod ever waited for a node"
        if not self.simulation.groups:
            return "there are no node groups to grow; give NodeGroups among objects or files"
        report = self.autoscaler.autoscaler.report if self.autoscaler is not None else None
        left = report.plan.not_helped if report is not None and report.plan is not None else ()
        reasons = dict.fromkeys(text for one in left for why in one.reasons for text in why.reasons)
        if reasons:
            return f"no node group helps the pods that wait: {', '.join(list(reasons)[:3])}"
        return "pods that waited found a place on nodes that were there"

    def sample(self, *, last: bool = False) -> None:
        """Look, and keep what is seen if it differs from before, or is the last there is."""
        self.cloud.take_reasons()
        machines = list(self.cloud.machines)
        seen = self.accounts.sample(
            requested=sum(
                machine.state == "creating" and machine.error is None for machine in machines
            ),
            cost=self.cloud.bill().cost,
            cost_per_hour=sum(
                self._prices[machine.group] for machine in machines if machine.error is None
            ),
        )
        if self._watch is not None:
            self._watch(seen)
        before = self.samples[-1] if self.samples else None
        if last or before is None or not same_but_for_time(before, seen):
            self.samples.append(seen)

    def mark(self, text: str) -> None:
        """Note that something was done from outside."""
        self.marks.append(Mark(at=round(self.accounts.now, 3), text=text))

    def restart(self, program: ProgramName) -> None:
        """End a program at once; another takes its place, and knows only what the API holds."""
        self._programs[program].cancel()

    # Programs

    async def _kept(
        self, name: ProgramName, start: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        while True:
            task = self._programs[name] = asyncio.ensure_future(start())
            try:
                await asyncio.wait({task})
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _run_autoscaler(self) -> None:
        self._starts += 1
        identity = f"autoscaler-{self._starts}"
        can_be_cut = any(action.cut is not None for action in self._spec.script)
        way = self.way if can_be_cut else InProcessTransport(self.server)
        program = self.autoscaler = AutoscalerProgram(
            Client(way, clock=self.clock, rng=self._rng(identity)),
            lambda _: self.cloud,
            config=self._config,
            settings=AutoscalerSettings(identity=identity, leader_elect=False, measured=False),
            server_version=self._version,
            clock=self.clock,
            rng=self._rng(f"{identity} program"),
            new_id=_ids(identity),
        )
        self.cloud.report = lambda: program.autoscaler.report
        # Neither sockets nor the collector's settings are touched: many of these may be running.
        async with lifecycle.beside(program.world.mirror.run(), program.recorder.run()):
            await program.autoscaler.run()

    async def _run_scheduler(self) -> None:
        self._starts += 1
        identity = f"scheduler-{self._starts}"
        program = self.scheduler = _Scheduler(
            self._client(identity),
            features=self._features,
            config=self._scheduler_config,
            settings=SchedulerSettings(
                scheduler_name="default-scheduler",
                identity=identity,
                address="",
                leader_elect=False,
            ),
            server_version=self._version,
            clock=self.clock,
            rng=self._rng(f"{identity} program"),
            new_id=_ids(identity),
        )
        await program.run()

    async def _run_capacity_templates(self) -> None:
        whose = "capacity-templates"
        await capacity_program.run(
            self._client(whose),
            self.cloud,
            clock=self.clock,
            rng=self._rng(f"{whose} program"),
            new_id=_ids(whose),
        )

    # The course of things

    async def _script(self) -> None:
        due = sorted(
            (
                (at, position, action)
                for position, action in enumerate(self._spec.script)
                for at in action.times(self._spec.duration)
            ),
            key=lambda one: one[:2],
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                for at, _, action in due:
                    await self.clock.sleep(at - self.accounts.now)
                    if self.on_action is not None:
                        self.on_action(at, action)
                    tasks.create_task(actions.perform(action, self))
        except* TonnageError as errors:
            failed = errors.exceptions[0]
        else:
            return
        # A group of one would hide what the scenario's author has to read.
        raise failed

    async def _sampling(self) -> None:
        every = self._spec.sample_every or sample_interval(self._spec.duration)
        turn = 0
        while True:
            turn += 1
            await self.clock.sleep(every * turn - self.accounts.now)
            self.sample()

    def _cloud(self) -> CloudBehaviour:
        """The cloud, with the shortages that the script tells of."""
        told = [
            action.out_of_stock.since(at)
            for action in self._spec.script
            if action.out_of_stock is not None
            for at in action.times(self._spec.duration)
        ]
        cloud = self._spec.cloud
        return msgspec.structs.replace(cloud, shortages=(*cloud.shortages, *told))

    def _client(self, whose: str) -> Client:
        return Client(InProcessTransport(self.server), clock=self.clock, rng=self._rng(whose))

    def _rng(self, whose: str) -> random.Random:
        return random.Random(f"{self._spec.seed}/{whose}")


class _Scheduler(SchedulerProgram):
    """Follows the rules of the scenario's version and gates, as the cluster's scheduler would."""

    def __init__(self, client: Client, *, features: Features, **parts: Any) -> None:
        self._given = features
        super().__init__(client, **parts)

    def _features(self, config: SchedulerConfig) -> Features:  # noqa: ARG002
        return self._given


def _ids(identity: str) -> Callable[[], str]:
    numbers = iter(range(10**9))
    return lambda: f"{identity}.{next(numbers):06d}"

"""Where moments come from: a cluster in files, one that is watched, an autoscaler that runs.

Each publishes to a feed. A file is one moment; a watched cluster is looked at again whenever it
has changed, at most once in `PAUSE` seconds; an autoscaler is only listened to.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tonnage.api.cluster import Cluster
from tonnage.autoscaler.program import AutoscalerProgram
from tonnage.autoscaler.report import LoggedDecision
from tonnage.autoscaler.scaledown.report import NodeReport, ScaleDownDocument
from tonnage.autoscaler.scaledown.workloads import Workloads
from tonnage.autoscaler.status import go_time
from tonnage.autoscaler.world import KINDS, ClusterView
from tonnage.board.feed import Feed
from tonnage.board.moment import Moment
from tonnage.clock import Clock
from tonnage.groups import node_group_objects
from tonnage.groups.inputs import Inputs
from tonnage.groups.options import of as options_of
from tonnage.groups.scale_down_options import AT_ONCE
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import NodeGroup
from tonnage.objects.timestamps import rfc3339
from tonnage.rules import opt_in
from tonnage.rules.features import Features
from tonnage.scaledown import decision as scale_down
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.plan import ScaleDownPlan
from tonnage.scaleup import decision
from tonnage.scaleup.decision import Decision
from tonnage.scaleup.plan import Plan
from tonnage.service import lifecycle, workers
from tonnage.service.connections import Connection
from tonnage.service.workers import Worker

PAUSE = 1.0
ASKED_AT_ONCE = 6
"""Kinds of pods whose nodes are asked for one moment, where moments follow each other."""

REMOVALS_EVERY = 30.0
"""Seconds between two looks at which nodes could go: that is the dearest question."""

NO_GROUPS = (
    "no node group is known, so nothing can be bought: give --node-groups FILE or --discover"
)
_KEPT = 100

_log = logging.getLogger(__name__)


def of_files(cluster: Cluster, feed: Feed, *, now: float) -> None:
    """Publish the one moment that files are."""
    feed.publish(moment_of(cluster, now=now))


def moment_of(cluster: Cluster, *, now: float) -> Moment:
    """All that can be told of a cluster that does not change."""
    made = cluster.decide(now=now)
    plan = cluster.scale_down(now=now)
    return Moment(
        now=now,
        inputs=made.inputs,
        plan=made.plan,
        readiness=made.readiness,
        scale_down=_document(plan, now),
        decisions=_logged(made.plan, now),
        notes=(*cluster.notes, *cluster.problems, *_about(made.inputs)),
    )


def _document(plan: ScaleDownPlan, now: float) -> ScaleDownDocument:
    nodes = tuple(NodeReport(decision=one) for one in plan.nodes)
    return ScaleDownDocument(time=rfc3339(now), nodes=nodes)


def _logged(plan: Plan, now: float) -> tuple[LoggedDecision, ...]:
    if not (plan.steps or plan.not_helped):
        return ()
    return (LoggedDecision(time=go_time(now), plan=plan),)


def _about(inputs: Inputs) -> Iterable[str]:
    if not inputs.groups:
        yield NO_GROUPS


class WatchedCluster:
    """A live cluster that is only read: no lease, no event, no change of any object.

    `groups` gives the node groups for the nodes there are. While `busy`, the snapshot belongs to a
    decision.
    """

    def __init__(
        self,
        connection: Connection,
        feed: Feed,
        *,
        features: Features,
        groups: Callable[[Sequence[Node]], Sequence[NodeGroup]],
        settings: Mapping[str, object],
        worker: Worker = workers.in_thread,
    ) -> None:
        self._feed = feed
        self._clock = connection.clock
        self._features = features
        self._groups = groups
        self._settings = dict(settings)
        self._options = options_of(self._settings)
        self._worker = worker
        self._decisions: deque[LoggedDecision] = deque(maxlen=_KEPT)
        self._removals: ScaleDownDocument | None = None
        self._removals_at = -REMOVALS_EVERY
        self._changed = True
        self.world = ClusterView(
            connection.client,
            clock=connection.clock,
            rng=connection.rng,
            options=self._options,
            features=features,
        )
        self.workloads = Workloads(
            connection.client, self.world, clock=connection.clock, rng=connection.rng
        )
        for kind in KINDS:
            self.world.cache(kind).subscribe(self._note)

    def _note(self, _: Any) -> None:
        self._changed = True

    def busy(self) -> bool:
        return self.world.still

    def objects(self) -> list[KubeObject]:
        return self.world.objects()

    async def run(self) -> None:
        """Publish what changes until cancelled."""
        async with lifecycle.beside(self.world.mirror.run(), self.workloads.mirror.run()):
            while not self.world.synced:
                await self._clock.sleep(0.05)
            while True:
                due = self._clock.monotonic() - self._removals_at >= REMOVALS_EVERY
                if self._changed or due:
                    self._changed = False
                    await self.look()
                await self._clock.sleep(PAUSE)

    async def look(self) -> None:
        """Publish the cluster as it is now; what cannot be decided is told and costs no more."""
        world = self.world
        features = opt_in.settled(
            self._features, self._options.enforcement, seen=world.enforces_opt_in
        )
        world.settle(features)
        trust = world.trust()
        now = time.time()
        nodes = list(world.cache(Node))
        inputs = Inputs(
            now=now,
            options=self._options,
            features=features,
            groups=tuple(node_group_objects.from_objects(self._groups(nodes), nodes)),
            live=True,
            cluster=world.state(),
        )
        made: Decision | None = None
        held = trust.hold
        with world.frozen():
            try:
                made = await self._worker(lambda: decision.decide(inputs))
                await self._look_at_removals(inputs)
            except Exception as error:
                _log.exception("not decided")
                held = held or f"{type(error).__name__}: {error}"
            if made is not None:
                self._keep(made.plan, now)
            self._feed.publish(
                Moment(
                    now=now,
                    inputs=inputs,
                    plan=made.plan if made is not None else None,
                    readiness=made.readiness if made is not None else None,
                    scale_down=self._removals,
                    decisions=tuple(self._decisions),
                    held=held,
                    notes=(*_about(inputs), *trust.problems[:20]),
                )
            )

    def _keep(self, plan: Plan, now: float) -> None:
        if not self._decisions or self._decisions[-1].plan != plan:
            self._decisions.extend(_logged(plan, now))

    async def _look_at_removals(self, inputs: Inputs) -> None:
        at = self._clock.monotonic()
        if at - self._removals_at < REMOVALS_EVERY:
            return
        self._removals_at = at
        if not inputs.groups:
            return
        given = {**AT_ONCE, **self._settings}
        asked_from = msgspec.structs.replace(inputs, options=options_of(given))
        objects = [*self.world.objects(), *self.workloads.objects()]
        end = time.monotonic() + asked_from.options.scale_down_simulation_timeout

        def look() -> ScaleDownDocument:
            asked = ScaleDownInputs.of(asked_from, objects)
            plan = scale_down.decide(asked, out_of_time=lambda: time.monotonic() >= end).plan
            return _document(plan, inputs.now)

        self._removals = await self._worker(look)


class FollowedAutoscaler:
    """What an autoscaler in this process sees and decides; `program` is `None` while none runs.

    It is never asked for anything: after a round its report is read, between decisions, and that
    is all the time it costs the loop.
    """

    def __init__(
        self,
        feed: Feed,
        program: Callable[[], AutoscalerProgram | None],
        *,
        clock: Clock,
    ) -> None:
        self._feed = feed
        self._program = program
        self._clock = clock
        self._seen: object = None
        self.longest = 0.0
        """Seconds that the dearest moment took."""

    def busy(self) -> bool:
        program = self._program()
        return program is None or program.world.still

    def objects(self) -> list[KubeObject]:
        program = self._program()
        return program.world.objects() if program is not None else []

    async def run(self) -> None:
        while True:
            program = self._program()
            if program is not None and not program.world.still:
                report = program.autoscaler.report
                if report is not None and report is not self._seen:
                    self._seen = report
                    began = self._clock.monotonic()
                    self._feed.publish(self.moment(program))
                    self.longest = max(self.longest, self._clock.monotonic() - began)
            await self._clock.sleep(PAUSE)

    def moment(self, program: AutoscalerProgram) -> Moment:
        report = program.autoscaler.report
        assert report is not None
        groups = report.provided.groups if report.provided is not None else ()
        inputs = Inputs(
            now=report.now,
            options=program.config,
            features=program.features,
            groups=tuple(groups),
            memory=program.autoscaler.memory,
            live=True,
            cluster=program.world.state(),
        )
        return Moment(
            now=report.now,
            inputs=inputs,
            plan=report.plan,
            readiness=report.readiness,
            scale_down=program.scale_down(),
            decisions=tuple(program.autoscaler.decisions.last),
            held=report.held,
            notes=report.problems[:20],
        )

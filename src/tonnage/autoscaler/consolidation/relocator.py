"""Pods of nodes that stay make room for others: single ones, wave by wave, node by node.

While its pods leave, a node is marked, so that none of them comes straight back. Who makes room
next does so when those before are ready at their new places.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tonnage.autoscaler.actuator import EventReason, NotLeadingError
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.consolidation.memory import PodRelocation
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.autoscaler.scaledown import taints
from tonnage.autoscaler.scaledown.evictions import Evictor
from tonnage.autoscaler.scaledown.removals import RemovalFailed
from tonnage.autoscaler.scaledown.taints import NodeChanger
from tonnage.errors import ClusterError, TonnageError
from tonnage.groups.passing_taints import MAKING_ROOM
from tonnage.objects.conditions import is_ready
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.rules import pipeline
from tonnage.rules.features import Features
from tonnage.snapshot.reservations import Reservation, Reservations

_LOOK = 1.0
"""Seconds between two looks at a snapshot that somebody plans with."""

_log = logging.getLogger(__name__)


class Relocator:
    """Works on one list of relocations at a time; `error` says why the last was not ended."""

    def __init__(
        self,
        context: AutoscalingContext,
        evictor: Evictor,
        changer: NodeChanger,
        *,
        hold: Callable[[Pod, str], None],
        taken: Callable[[], Iterable[Reservation]],
    ) -> None:
        """`hold` keeps a place for the successor of a pod, `taken` has all that are kept."""
        self._context = context
        self._world = context.world
        self._actuator = context.actuator
        self._evictor = evictor
        self._changer = changer
        self._hold = hold
        self._taken = taken
        self._task: asyncio.Task[None] | None = None
        self._source = ""
        self._marked: list[str] = []
        self._marked_as_of = -1
        self.error = ""

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(
        self,
        moves: Sequence[PodRelocation],
        config: AutoscalerConfig,
        features: Features,
        done: Callable[[Sequence[PodRelocation]], None],
    ) -> None:
        """Begin to make these moves; `done` is told of each that is made."""
        self.error = ""
        self._task = asyncio.ensure_future(self._guarded(moves, config, features, done))

    async def attend(self) -> None:
        """Once a round: take the mark off nodes that nobody leaves any more."""
        if self._actuator.dry_run:
            return
        for name in self._marked_nodes():
            if name != self._source:
                await self._release(name)

    def _marked_nodes(self) -> list[str]:
        """Nodes with the mark; looked for again only if nodes have changed."""
        if self._marked_as_of != self._world.revision:
            self._marked_as_of = self._world.revision
            nodes = self._world.cache(Node)
            self._marked = [one.metadata.name for one in nodes if taints.has(one, MAKING_ROOM)]
        return self._marked

    async def stop(self) -> None:
        """End all work at its next step; what is left can be gone on with."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._task, self._source = None, ""

    async def _guarded(
        self,
        moves: Sequence[PodRelocation],
        config: AutoscalerConfig,
        features: Features,
        done: Callable[[Sequence[PodRelocation]], None],
    ) -> None:
        try:
            for (_, source), some in itertools.groupby(
                sorted(moves, key=_wave_and_source), key=_wave_and_source
            ):
                leaving = list(some)
                await self._relieve(source, leaving, config, features)
                done(leaving)
                await self._context.write_down()
        except NotLeadingError as error:
            _log.warning("pods left to the next leader", extra={"error": str(error)})
        except TonnageError as error:
            self.error = str(error)
        except Exception as error:
            _log.exception("room not made")
            self.error = f"{type(error).__name__}: {error}"

    async def _relieve(
        self,
        source: str,
        moves: Sequence[PodRelocation],
        config: AutoscalerConfig,
        features: Features,
    ) -> None:
        """Let pods leave a node, and wait until they are ready elsewhere."""
        found = [(move, self._pod(move)) for move in moves]
        # One that is not there has left before us, or before a restart.
        leaving = [(move, pod) for move, pod in found if pod is not None]
        if not leaving:
            return
        self._source = source
        try:
            self._actuator.check(f"making room on node {source}")
            await self._changer.change(source, taints.making_room)
            for move, pod in leaving:
                await self._check(pod, move.to, features)
            await self._leave(leaving, config)
        finally:
            self._source = ""
            await self._release(source)

    async def _leave(
        self, leaving: Sequence[tuple[PodRelocation, Pod]], config: AutoscalerConfig
    ) -> None:
        places = {pod.metadata.uid: move.to for move, pod in leaving}
        before = {
            move.controller: {pod.metadata.uid for pod in self._replicas(move)}
            for move, _ in leaving
        }

        def hold(pod: Pod) -> None:
            self._hold(pod, places[pod.metadata.uid])

        for move, pod in leaving:
            self._actuator.tell(
                pod,
                EventReason.CONSOLIDATION,
                f"moving from node {move.source} to node {move.to} to make room for others",
            )
        await self._evictor.evict(
            [pod for _, pod in leaving],
            grace=config.max_graceful_termination_sec,
            config=config,
            before=hold,
        )
        for controller in before:
            some = [move for move, _ in leaving if move.controller == controller]
            await self._have_come(some, before[controller], within=config.replica_ready_timeout)

    async def _have_come(
        self, moves: Sequence[PodRelocation], before: set[str], *, within: float
    ) -> None:
        """Wait for as many new replicas as have left."""

        def ready() -> bool:
            new = [pod for pod in self._replicas(moves[0]) if pod.metadata.uid not in before]
            return sum(bool(pod.spec.node_name) and is_ready(pod) for pod in new) >= len(moves)

        if not await self._context.poll(
            ready, within=within, doing="waiting for pods that made room"
        ):
            raise RemovalFailed(
                f"pod {moves[0].pod} was evicted and is not ready after {within:g} s"
            )

    async def _check(self, pod: Pod, target: str, features: Features) -> None:
        """`RemovalFailed` if a rule forbids the place by now, or others have taken it."""
        while self._world.still:
            await self._context.clock.sleep(_LOOK)
        snapshot, key = self._world.snapshot, pod.metadata.key
        record, node = snapshot.pods.get(key), snapshot.nodes.get(target)
        if record is None or node is None:
            raise RemovalFailed(f"pod {key}: node {target} is gone")
        with snapshot.trial():
            others = Reservations()
            for entry in self._taken():
                others.hold(entry)
            others.place(snapshot)
            snapshot.drop_pod(pod.metadata.namespace, pod.metadata.name)
            fits = pipeline.evaluate(snapshot, record.moved_to(""), features).fits
            if not np.take(fits, node.row):
                raise RemovalFailed(f"pod {key} no longer fits on node {target}")

    def _pod(self, move: PodRelocation) -> Pod | None:
        """The pod that is meant, on the node that it is to leave."""
        on_node = self._world.pods_by_node.get(move.source, {})
        for pod in on_node.values():
            if pod.metadata.key == move.pod or (move.stopped and _is_of(pod, move.controller)):
                return pod
        return None

    def _replicas(self, move: PodRelocation) -> list[Pod]:
        namespace = move.pod.partition("/")[0]
        return [
            pod
            for pod in self._world.cache(Pod)
            if pod.metadata.namespace == namespace and _is_of(pod, move.controller)
        ]

    async def _release(self, name: str) -> None:
        try:
            self._actuator.check(f"releasing node {name}")
            await self._changer.change(name, taints.room_made)
        except ClusterError as error:
            # It is tried again with the next round.
            _log.warning("node not released", extra={"node": name, "error": str(error)})


def _wave_and_source(move: PodRelocation) -> tuple[int, str]:
    return move.wave, move.source


def _is_of(pod: Pod, controller: str) -> bool:
    owner = pod.metadata.controller
    return owner is not None and owner.uid == controller and not pod.metadata.deletion_timestamp

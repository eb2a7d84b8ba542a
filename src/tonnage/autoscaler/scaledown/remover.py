"""Removing nodes: marked, drained, their volumes detached, deleted. Each step looks anew.

A removal runs beside the loop and never holds it up. Whatever makes its node stay takes the marks
off again; whoever loses the lead in the middle leaves the rest to the next leader.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

import msgspec

from tonnage.autoscaler.actuator import EventReason, NotLeadingError
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.autoscaler.report import Done
from tonnage.autoscaler.scaledown import drain_priority, node_pods, taints
from tonnage.autoscaler.scaledown.deletion_batch import DeletionBatches
from tonnage.autoscaler.scaledown.evictions import Evictor
from tonnage.autoscaler.scaledown.metrics import RemovalMetrics
from tonnage.autoscaler.scaledown.removals import (
    NodeRemoval,
    RemovalCancelled,
    RemovalFailed,
    RemovalMemory,
    Stage,
)
from tonnage.autoscaler.scaledown.taints import NodeChanger
from tonnage.clock import poll
from tonnage.cluster import errors
from tonnage.cluster.client import Selection
from tonnage.cluster.records import InvolvedObject
from tonnage.errors import ClusterError, TonnageError
from tonnage.objects.nodes import Node
from tonnage.objects.phrases import listed
from tonnage.objects.pods import Pod
from tonnage.service import moving_pods

_DELAY_DELETION = "delay-deletion.cluster-autoscaler.kubernetes.io/"
_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
_LOOK = 5.0
"""Seconds between two looks at what keeps a node."""

_GONE_WITHIN = 300.0
"""Seconds after which a node that was to be deleted and is still there is nobody's any more."""

HELD = 900.0
"""Seconds that the places of pods that move are held by a note, unless it is renewed."""

_log = logging.getLogger(__name__)


class NodeRemover:
    """`removals` are those under way, by node; `ended` tells the loop what became of others."""

    def __init__(
        self,
        context: AutoscalingContext,
        evictor: Evictor,
        changer: NodeChanger,
        metrics: RemovalMetrics,
        *,
        objection: Callable[[NodeRemoval], Awaitable[str]],
        moving: Callable[[Pod, str], None],
        delay_reason: Callable[[str], str],
        removed: Callable[[str, int], None],
    ) -> None:
        """`objection` says why a node had better stay, by what is known now; `delay_reason` why it
        did not go earlier. `moving` is told of pods that are about to be evicted, and their places.
        What is under way is written down before anything irrevocable happens, and `removed` is
        told when nodes of a group were.
        """
        self._context = context
        self._world = context.world
        self._actuator = context.actuator
        self._clock = context.clock
        self._now = context.now
        self._evictor = evictor
        self._changer = changer
        self._metrics = metrics
        self._objection = objection
        self._moving = moving
        self._delay_reason = delay_reason
        self._removed = removed
        self._batches = DeletionBatches(
            context.clock, check=lambda one: self._check(one, cleared=True), delete=self._delete
        )
        self._config = AutoscalerConfig()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._noted: dict[str, float] = {}
        """When the note of pods that move was last written on a node."""
        self.removals: dict[str, NodeRemoval] = {}
        self.deleted: dict[str, float] = {}
        self.failed: dict[str, float] = {}
        """When a removal last ended well, and badly, by group."""
        self._marked: list[str] = []
        self._marked_as_of = -1
        self.done: list[Done] = []
        """What was asked of the provider since the list was last emptied."""
        self.last_failure = ""

    def restore(self, memory: RemovalMemory) -> None:
        """Take over what was under way when it was last written down."""
        self.removals = dict(memory.removals)
        self.deleted = dict(memory.cool_downs.deleted)
        self.failed = dict(memory.cool_downs.failed)

    def start(self, removals: Sequence[NodeRemoval], config: AutoscalerConfig) -> None:
        """Begin to remove nodes, together: all of them go, or none."""
        self._config = config
        self.removals.update({removal.node: removal for removal in removals})
        task = asyncio.ensure_future(self._guarded(removals))
        for removal in removals:
            self._tasks[removal.node] = task

    async def attend(
        self, config: AutoscalerConfig, *, ours: Collection[str], leaving: Collection[str]
    ) -> None:
        """Once a round: go on with what nobody works on, forget what is over.

        Nodes that are marked though they are not being removed are given back to the scheduler: of
        those that are `ours` to remove all, of others only if the mark says that it is ours; of
        those that are `leaving`, as their provider says, none.
        """
        self._config = config
        waiting: dict[str, list[NodeRemoval]] = {}
        for removal in list(self.removals.values()):
            if removal.node in self._tasks:
                continue
            node = self._world.node(removal.node)
            if node is None or node.metadata.uid != removal.uid:
                self.removals.pop(removal.node)
            elif removal.stage is not Stage.DELETED:
                unit = removal.group if removal.whole_group else f"node {removal.node}"
                waiting.setdefault(unit, []).append(removal)
            elif self._now() - removal.at > _GONE_WITHIN and removal.node not in leaving:
                self.removals.pop(removal.node)
        for together in waiting.values():
            self.start(together, config)
        self._noted = {node: at for node, at in self._noted.items() if node in self.removals}
        await self._renew_notes()
        for name in self._marked_nodes():
            node = self._world.node(name)
            if node is None or name in self.removals or name in leaving:
                continue
            if name in ours or taints.CORDONED in node.metadata.annotations:
                await self.release(name)

    def _marked_nodes(self) -> list[str]:
        """Nodes with a mark of a removal; looked for again only if nodes have changed."""
        if self._marked_as_of != self._world.revision:
            self._marked_as_of = self._world.revision
            nodes = self._world.cache(Node)
            self._marked = [one.metadata.name for one in nodes if taints.not_deleted(one)]
        return self._marked

    async def release(self, name: str) -> None:
        """Take the marks off a node that stays."""
        if self._actuator.dry_run:
            return
        self._actuator.check(f"releasing node {name}")
        try:
            await self._changer.change(name, taints.not_deleted)
        except ClusterError as error:
            # It is tried again with the next round.
            _log.warning("node not released", extra={"node": name, "error": str(error)})

    async def stop(self) -> None:
        """End all work at its next step; what is written down can be gone on with."""
        tasks = set(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._batches.stop()
        self._tasks.clear()

    async def _guarded(self, removals: Sequence[NodeRemoval]) -> None:
        try:
            await self._remove(removals)
        except NotLeadingError as error:
            _log.warning("removal left to the next leader", extra={"error": str(error)})
        except RemovalCancelled as cancelled:
            await self._roll_back(removals, str(cancelled), failed=False)
        except TonnageError as error:
            await self._roll_back(removals, str(error), failed=True)
        except Exception as error:
            _log.exception("removal failed")
            await self._roll_back(removals, f"{type(error).__name__}: {error}", failed=True)
        finally:
            for removal in removals:
                self._tasks.pop(removal.node, None)

    async def _remove(self, removals: Sequence[NodeRemoval]) -> None:
        await self._context.write_down()
        for removal in removals:
            await self._mark(removal)
        # Whoever was about to send a pod there has heard of the mark by then.
        await self._clock.sleep(self._config.node_delete_delay_after_taint)
        async with asyncio.TaskGroup() as tasks:
            drains = [tasks.create_task(_kept(self._cleared(one))) for one in removals]
        for drain in drains:
            error = drain.result()
            if error is not None:
                raise error
        for removal in removals:
            await self._check_nobody_came(removal)
            self._check(removal, cleared=True)
        await self._batches.delete(removals, interval=self._config.node_deletion_batcher_interval)

    async def _check_nobody_came(self, removal: NodeRemoval) -> None:
        """Watches may be behind, as after an outage; the server itself is asked who has come."""
        on_node = Selection(fields=f"spec.nodeName={removal.node}")
        listing = await self._context.client.list(Pod, on_node)
        pods = [pod for pod in listing.items if pod.spec.node_name == removal.node]
        if workload := node_pods.sort(pods, now=self._now()).workload:
            names = listed([pod.metadata.key for pod in workload])
            raise RemovalCancelled(f"pods are on it, though not heard of yet: {names}")

    async def _mark(self, removal: NodeRemoval) -> None:
        self._check(removal)
        try:
            node = await self._change_marks(removal)
        except errors.Forbidden as error:
            raise RemovalFailed(f"node {removal.node} not marked: {error.right}") from error
        if node is None or node.metadata.uid != removal.uid:
            raise RemovalCancelled("the node is gone")
        self._actuator.tell(
            node, EventReason.SCALE_DOWN, "marked the node as toBeDeleted/unschedulable"
        )

    async def _change_marks(self, removal: NodeRemoval) -> Node | None:
        """Set the marks, with a note of the pods that move, for whoever places pods."""
        now, cordon = self._now(), self._config.cordon_node_before_terminating
        pods = ((self._world.pod(key), node) for key, node in removal.moves.items())
        note = moving_pods.note(
            ((pod, node) for pod, node in pods if pod and pod.spec.node_name == removal.node),
            now=now,
            until=now + HELD,
        )
        self._noted[removal.node] = now
        return await self._changer.change(
            removal.node,
            lambda node: taints.to_be_deleted(node, now=now, cordon=cordon, note=note),
        )

    async def _renew_notes(self) -> None:
        """Places are held for as long as a drain goes on, and not much longer."""
        late = self._now() - HELD / 2
        for removal in list(self.removals.values()):
            draining = removal.stage in (Stage.MARKED, Stage.DRAINING) and removal.moves
            if draining and self._noted.get(removal.node, self._now()) < late:
                try:
                    await self._change_marks(removal)
                except ClusterError as error:
                    _log.info("note not renewed", extra={"node": removal.node, "why": str(error)})

    async def _cleared(self, removal: NodeRemoval) -> None:
        """Bring the node to where it can be deleted without harm to anybody."""
        self._check(removal)
        pods = self._pods(removal.node)
        if not removal.drain and pods.workload:
            names = listed([pod.metadata.key for pod in pods.workload])
            raise RemovalCancelled(f"it is no longer empty: {names}")
        if pods.workload:
            await self._drain(removal, pods.workload)
        await self._detach(self.removals[removal.node])
        await self._evict_daemons(removal)
        await self._wait_for_others(removal)

    async def _drain(self, removal: NodeRemoval, pods: Sequence[Pod]) -> None:
        objection = await self._objection(removal)
        if objection:
            raise RemovalCancelled(objection)
        self._reached(removal, Stage.DRAINING)
        await self._context.write_down()
        config = self._config
        among = drain_priority.rounds(
            config.drain_priority_config, grace=config.max_graceful_termination_sec
        )
        for one, some in drain_priority.sorted_into(pods, among):
            for wave in _waves(removal, some):
                await self._evictor.evict(
                    wave,
                    grace=one.grace,
                    config=config,
                    before=lambda pod: self._before(removal, pod),
                )

    def _before(self, removal: NodeRemoval, pod: Pod) -> None:
        """Before each single eviction."""
        self._check(removal)
        place = removal.moves.get(pod.metadata.key)
        if place is not None:
            self._moving(pod, place)

    async def _detach(self, removal: NodeRemoval) -> None:
        within = self._config.volume_detach_timeout
        if not within:
            return
        node = removal.node

        def left() -> list[str]:
            pods = self._pods(node)
            return node_pods.attached(self._world, node, staying=(*pods.daemons, *pods.drivers))

        if not left():
            return
        self._reached(removal, Stage.DETACHING)
        began = self._clock.monotonic()
        # Who is on it by now would have its volumes attached for longer than anybody waits.
        detached = await poll(
            lambda: not left(),
            clock=self._clock,
            within=within,
            check=lambda: self._check(removal, cleared=True),
        )
        self._metrics.detached(self._clock.monotonic() - began, all_of_them=detached)
        if not detached:
            message = (
                f"still attached after {within:g} s, deleting the node anyway: {listed(left())}"
            )
            self._actuator.tell(
                self._node(removal), EventReason.VOLUMES_STILL_ATTACHED, message, warning=True
            )

    async def _evict_daemons(self, removal: NodeRemoval) -> None:
        """Pods that go with the node may end in order; those that serve volumes come last."""
        config = self._config
        default = (
            config.daemon_set_eviction_for_occupied_nodes
            if removal.drain
            else config.daemon_set_eviction_for_empty_nodes
        )
        pods = self._pods(removal.node)
        for some in (pods.daemons, pods.drivers):
            going = [pod for pod in some if node_pods.may_evict_daemon(pod, default=default)]
            await self._evictor.try_to_evict(going, grace=config.max_graceful_termination_sec)

    async def _wait_for_others(self, removal: NodeRemoval) -> None:
        """Others may ask for a while by an annotation of the node."""
        end = self._clock.monotonic() + self._config.node_deletion_delay_timeout
        while self._clock.monotonic() < end:
            node = self._check(removal)
            if not any(key.startswith(_DELAY_DELETION) for key in node.metadata.annotations):
                return
            await self._clock.sleep(_LOOK)

    async def _delete(self, removals: Sequence[NodeRemoval]) -> None:
        group, names = removals[0].group, [one.node for one in removals]
        nodes = [node for name in names if (node := self._world.node(name)) is not None]
        # Written down first: who comes after us must not take the marks off what is going.
        for removal in removals:
            self._reached(removal, Stage.DELETED)
        await self._context.write_down()
        try:
            await self._actuator.delete(group, names, reason=f"scale-down: {removals[0].reason}")
        finally:
            self.done, self._actuator.done = [*self.done, *self._actuator.done], []
        self._removed(group, len(names))
        now = self._now()
        self.deleted[group] = now
        for removal in removals:
            self._metrics.removed(
                removal.reason,
                seconds=now - removal.since,
                delay_reason=self._delay_reason(removal.node),
            )
            if removal.drain:
                message = f"Scale-down: node {removal.node} removed with drain"
                self._context.tell(EventReason.SCALE_DOWN, message)
            else:
                message = f"Scale-down: empty node {removal.node} removed"
                self._context.tell(EventReason.SCALE_DOWN_EMPTY, message)
        for node in nodes:
            self._actuator.tell(node, EventReason.SCALE_DOWN, "nodes removed by cluster autoscaler")

    def _check(self, removal: NodeRemoval, *, cleared: bool = False) -> Node:
        """Look at the node anew, before every step; `cleared`, nobody may be on it any more."""
        self._actuator.check(f"removing node {removal.node}")
        config = self._config
        trust = self._world.trust(csi_aware=config.csi_aware)
        if trust.hold:
            raise RemovalCancelled(f"what is known of the cluster cannot be trusted: {trust.hold}")
        if not config.scale_down_enabled:
            raise RemovalCancelled("scale-down was turned off")
        node = self._world.node(removal.node)
        if node is None or node.metadata.uid != removal.uid:
            raise RemovalCancelled("the node is gone")
        if node.metadata.annotations.get(_DISABLED) == "true":
            raise RemovalCancelled(f"its annotation {_DISABLED} says so")
        if cleared and (pods := self._pods(removal.node).workload):
            raise RemovalCancelled(f"pods are on it: {listed([pod.metadata.key for pod in pods])}")
        return node

    async def _roll_back(self, removals: Sequence[NodeRemoval], why: str, *, failed: bool) -> None:
        self._metrics.rolled_back("failed" if failed else "cancelled")
        for removal in removals:
            self.removals.pop(removal.node, None)
            if failed:
                self.failed[removal.group] = self._now()
                self.last_failure = f"node {removal.node}: {why}"
                message = f"failed to remove the node: {why}"
                self._actuator.tell(
                    self._node(removal), EventReason.SCALE_DOWN_FAILED, message, warning=True
                )
            else:
                _log.info("node stays", extra={"node": removal.node, "why": why})
                self._actuator.tell(
                    self._node(removal), EventReason.SCALE_DOWN_CANCELLED, f"the node stays: {why}"
                )
            try:
                await self.release(removal.node)
            except NotLeadingError as error:
                _log.warning("node not released", extra={"error": str(error)})
        try:
            await self._context.write_down()
        except ClusterError as error:
            _log.warning("removal not written down", extra={"error": str(error)})

    def _reached(self, removal: NodeRemoval, stage: Stage) -> None:
        self.removals[removal.node] = msgspec.structs.replace(removal, stage=stage, at=self._now())

    def _pods(self, node: str) -> node_pods.NodePods:
        return node_pods.sort(self._world.pods_by_node.get(node, {}).values(), now=self._now())

    def _node(self, removal: NodeRemoval) -> Node | InvolvedObject:
        """What is said of the node is said of, also if it is gone."""
        node = self._world.node(removal.node)
        return node or InvolvedObject(
            api_version="v1", kind="Node", name=removal.node, uid=removal.uid
        )


def _waves(removal: NodeRemoval, pods: Iterable[Pod]) -> list[list[Pod]]:
    """The pods in the order of the plan's waves; those that it does not know come last."""
    found: dict[float, list[Pod]] = {}
    for pod in pods:
        found.setdefault(removal.waves.get(pod.metadata.key, math.inf), []).append(pod)
    return [some for _, some in sorted(found.items())]


async def _kept(work: Awaitable[None]) -> TonnageError | None:
    """The error that ended the work, for who waits for several."""
    try:
        await work
    except TonnageError as error:
        return error
    return None

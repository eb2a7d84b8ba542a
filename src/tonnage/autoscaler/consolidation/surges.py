"""A second replica is started before the only one is evicted, so that it is not away.

The Deployment, or the ReplicaSet that nobody controls, is scaled from one to two; the second
replica goes to the place that is held for the first. When it is ready the first is evicted, and the
scale goes back to one: who came last, and is not ready, is given up then. What was scaled is
written down before, so that whoever comes after us takes it back.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

from tonnage.autoscaler.actuator import EventReason, NotLeadingError
from tonnage.autoscaler.consolidation.memory import Surge
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.autoscaler.scaledown.metrics import RemovalMetrics
from tonnage.autoscaler.scaledown.removals import RemovalFailed
from tonnage.autoscaler.scaledown.workloads import Workloads
from tonnage.cluster import errors
from tonnage.errors import ClusterError
from tonnage.objects.conditions import is_ready
from tonnage.objects.pods import Pod
from tonnage.objects.workloads import Deployment, ReplicaSet
from tonnage.scaledown import stand_ins

_RECREATE = "Recreate"
"""The strategy of who never wants two replicas at once."""

_log = logging.getLogger(__name__)


class Surges:
    """`under_way` are second replicas that have yet to be taken back, by the UID of the first."""

    def __init__(
        self, context: AutoscalingContext, workloads: Workloads, metrics: RemovalMetrics
    ) -> None:
        self._context = context
        self._world = context.world
        self._actuator = context.actuator
        self._client = context.client
        self._workloads = workloads
        self._metrics = metrics
        self._active: set[str] = set()
        self.enabled = False
        self.under_way: dict[str, Surge] = {}

    @asynccontextmanager
    async def beside(
        self, pod: Pod, *, within: float, before: Callable[[Pod], object]
    ) -> AsyncIterator[None]:
        """With a second replica that is ready, if there may be one; it is the only one afterwards.

        `before` is called in time to hold its place. `RemovalFailed` if it is not ready `within` so
        many seconds; then all is as it was.
        """
        uid = pod.metadata.uid
        self._active.add(uid)
        try:
            if self.enabled:
                await self._start(pod, within, before)
            yield
        except (asyncio.CancelledError, NotLeadingError):
            # Whoever leads next takes it back, or goes on.
            raise
        except BaseException:
            await self.settle(uid)
            raise
        else:
            await self.settle(uid)
        finally:
            self._active.discard(uid)

    async def settle(self, uid: str) -> None:
        """Go back to one replica, unless somebody has changed their number meanwhile."""
        surge = self.under_way.get(uid)
        if surge is None:
            return
        try:
            if await self._replicas(surge) == 2:
                await self._scale(surge, 1)
        except errors.NotFound:
            pass
        self.under_way.pop(uid, None)
        await self._context.write_down()

    async def attend(self, going: Collection[str]) -> None:
        """Once a round: take back what nobody works on, but for pods of nodes that are `going`."""
        for uid, surge in list(self.under_way.items()):
            pod = self._world.pod(surge.pod)
            there = pod is not None and pod.metadata.uid == uid
            if uid in self._active or (pod is not None and there and pod.spec.node_name in going):
                continue
            try:
                await self.settle(uid)
            except ClusterError as error:
                _log.warning("second replica not taken back", extra={"error": str(error)})

    async def _start(self, pod: Pod, within: float, before: Callable[[Pod], object]) -> None:
        surge = self.under_way.get(pod.metadata.uid) or await self._wanted(pod)
        if surge is None:
            return
        before(pod)
        known = pod.metadata.uid in self.under_way
        if not known:
            self.under_way[pod.metadata.uid] = surge
            await self._context.write_down()
        try:
            if not known or await self._replicas(surge) == 1:
                await self._scale(surge, 2)
        except errors.Forbidden as error:
            self.under_way.pop(pod.metadata.uid, None)
            self._metrics.stood_in(succeeded=False)
            raise RemovalFailed(
                f"pod {surge.pod} stays: no second replica: {error.right}"
            ) from error
        self._actuator.tell(
            pod, EventReason.SCALE_DOWN, "starting a second replica before this one is evicted"
        )
        ready = await self._context.poll(
            lambda: self._is_ready(pod), within=within, doing="waiting for a second replica"
        )
        self._metrics.stood_in(succeeded=ready)
        if not ready:
            raise RemovalFailed(
                f"pod {surge.pod} stays: its second replica is not ready after {within:g} s"
            )

    async def _wanted(self, pod: Pod) -> Surge | None:
        """What to scale, if a second replica may stand in for the pod."""
        controllers, storage = self._workloads.controllers(), self._world.snapshot.storage
        target = stand_ins.scaled(pod, controllers)
        if target is None or stand_ins.attaches_once(pod, storage):
            return None
        namespace = pod.metadata.namespace
        surge = Surge(
            pod=pod.metadata.key,
            kind=target.kind,
            name=target.name,
            namespace=namespace,
            uid=target.uid,
        )
        if target.kind == "Deployment":
            try:
                found = await self._client.get(Deployment, target.name, namespace=namespace)
            except errors.Forbidden as error:
                self._metrics.stood_in(succeeded=False)
                raise RemovalFailed(
                    f"pod {surge.pod} stays: no second replica: {error.right}"
                ) from error
            except errors.NotFound:
                return None
            rolling = found.status.replicas != 1
            if found.spec.strategy.type == _RECREATE or rolling or found.spec.replicas != 1:
                return None
        return surge

    async def _replicas(self, surge: Surge) -> int | None:
        """How many are wanted now; `NotFound` if it is another one by now."""
        found: Deployment | ReplicaSet
        if surge.kind == "Deployment":
            found = await self._client.get(Deployment, surge.name, namespace=surge.namespace)
        else:
            found = await self._client.get(ReplicaSet, surge.name, namespace=surge.namespace)
        if found.metadata.uid != surge.uid:
            raise errors.NotFound(f"{surge.kind} {surge.namespace}/{surge.name} is another one")
        return found.spec.replicas

    async def _scale(self, surge: Surge, replicas: int) -> None:
        self._actuator.check(f"scaling {surge.kind} {surge.namespace}/{surge.name}")
        if surge.kind == "Deployment":
            await self._client.scale(Deployment, surge.name, replicas, namespace=surge.namespace)
        else:
            await self._client.scale(ReplicaSet, surge.name, replicas, namespace=surge.namespace)

    def _is_ready(self, pod: Pod) -> bool:
        """Whether a second replica is ready on another node."""
        owner = pod.metadata.controller
        assert owner is not None
        return any(
            is_ready(other)
            and other.spec.node_name not in ("", pod.spec.node_name)
            and other.metadata.deletion_timestamp is None
            for other in self._world.cache(Pod)
            if other.metadata.uid != pod.metadata.uid
            and (of := other.metadata.controller) is not None
            and of.uid == owner.uid
        )

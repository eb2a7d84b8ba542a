"""Evicting the pods of a node: as disruption budgets allow, and one replica of a set at a time."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from weakref import WeakValueDictionary

from tonnage.autoscaler.actuator import EventReason
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.consolidation.surges import Surges
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.autoscaler.scaledown import node_pods
from tonnage.autoscaler.scaledown.eviction_requests import EvictionRequester
from tonnage.autoscaler.scaledown.metrics import RemovalMetrics
from tonnage.autoscaler.scaledown.removals import RemovalFailed
from tonnage.autoscaler.scaledown.workloads import Workloads
from tonnage.cluster import errors
from tonnage.errors import ClusterError, TonnageError
from tonnage.objects.conditions import is_ready
from tonnage.objects.pods import Pod

RETRY = 10.0
"""Seconds between two attempts to evict a pod."""

_MARGIN = 30.0
"""Seconds beyond its grace that a pod may take to be gone."""

_AT_ONCE = 20
"""Evictions asked for at the same time."""

_ONE_AT_A_TIME = "StatefulSet"

_log = logging.getLogger(__name__)


class Evictor:
    """Evicts. Of a StatefulSet only one pod is on its way at any time, whatever node it is on.

    The lock of a set, by its uid, lives as long as somebody holds it or waits for it.
    """

    def __init__(
        self,
        context: AutoscalingContext,
        workloads: Workloads,
        metrics: RemovalMetrics,
        surges: Surges,
    ) -> None:
        self._context = context
        self._world = context.world
        self._actuator = context.actuator
        self._clock = context.clock
        self._workloads = workloads
        self._metrics = metrics
        self._surges = surges
        self._sets: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._requester = EvictionRequester(context)

    async def evict(
        self,
        pods: Sequence[Pod],
        *,
        grace: int,
        config: AutoscalerConfig,
        before: Callable[[Pod], object] = lambda _: None,
    ) -> None:
        """Evict the pods and wait until they are gone; `before` is called for each, in time.

        `RemovalFailed` names the first that could not be evicted, or that does not go.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                for pod in pods:
                    tasks.create_task(self._gone(pod, grace, config, before))
        except* TonnageError as failures:
            failed = failures.exceptions[0]
        else:
            return
        raise failed

    async def try_to_evict(self, pods: Iterable[Pod], *, grace: int) -> None:
        """Evict pods that go with their node anyway: those who can still end in order do so."""
        going = []
        for pod in pods:
            self._actuator.check(f"evicting pod {pod.metadata.key}")
            try:
                await self._ask(pod, grace)
            except ClusterError as error:
                _log.info("pod not evicted", extra={"pod": pod.metadata.key, "why": str(error)})
            else:
                going.append(pod)
        for pod in going:
            await self._is_gone(pod, within=min(node_pods.grace(pod), grace))

    async def _gone(
        self, pod: Pod, grace: int, config: AutoscalerConfig, before: Callable[[Pod], object]
    ) -> None:
        controller, within = pod.metadata.controller, config.replica_ready_timeout
        if controller is None or controller.kind != _ONE_AT_A_TIME:
            async with self._surges.beside(pod, within=within, before=before):
                await self._evicted(pod, grace, config, before)
            return
        async with self._sets.setdefault(controller.uid, asyncio.Lock()):
            await self._others_ready(pod, within=within)
            await self._evicted(pod, grace, config, before)
            await self._back(pod, within=within)

    async def _evicted(
        self, pod: Pod, grace: int, config: AutoscalerConfig, before: Callable[[Pod], object]
    ) -> None:
        name = pod.metadata.key
        if pod.spec.eviction_responders:
            before(pod)
            await self._requester.moved(
                pod,
                within=config.eviction_request_timeout,
                is_leaving=lambda: self._is_leaving(pod),
            )
        end = self._clock.monotonic() + config.max_pod_eviction_time
        while not self._is_leaving(pod):
            self._actuator.check(f"evicting pod {name}")
            before(pod)
            try:
                async with self._limit:
                    await self._ask(pod, grace)
            except errors.Forbidden as error:
                self._failed(pod, error)
                raise RemovalFailed(f"pod {name} not evicted: {error.right}") from error
            except (errors.TooManyRequests, errors.ServerError, errors.ConnectionFailed) as error:
                if self._clock.monotonic() + RETRY > end:
                    self._failed(pod, error)
                    raise RemovalFailed(f"pod {name} not evicted: {error}") from error
            else:
                self._metrics.evicted(1, succeeded=True)
                self._actuator.tell(pod, EventReason.SCALE_DOWN, "deleting pod for node scale down")
                # At once: who has a second replica needs no third.
                await self._surges.settle(pod.metadata.uid)
                break
            await self._clock.sleep(RETRY)
        longest = min(node_pods.grace(pod), grace) + _MARGIN
        if not await self._is_gone(pod, within=longest):
            raise RemovalFailed(f"pod {name} does not end within {longest:g} s")

    def _failed(self, pod: Pod, error: ClusterError) -> None:
        self._metrics.evicted(1, succeeded=False)
        message = f"failed to delete pod for ScaleDown: {error}"
        self._actuator.tell(pod, EventReason.SCALE_DOWN_FAILED, message, warning=True)

    async def _ask(self, pod: Pod, grace: int) -> None:
        own = node_pods.grace(pod)
        try:
            await self._context.client.evict(pod, grace_period=grace if own > grace else None)
        except (errors.NotFound, errors.Conflict):
            # It is gone, or another has its name by now.
            return

    def _is_leaving(self, pod: Pod) -> bool:
        now = self._now(pod)
        return now is None or now.metadata.deletion_timestamp is not None

    def _now(self, pod: Pod) -> Pod | None:
        """The pod as it is now, if it is still this one and runs."""
        now = self._world.pod(pod.metadata.key)
        return now if now is not None and now.metadata.uid == pod.metadata.uid else None

    async def _is_gone(self, pod: Pod, *, within: float) -> bool:
        return await self._waited(lambda: self._now(pod) is None, within=within)

    async def _others_ready(self, pod: Pod, *, within: float) -> None:
        """A replica may still be on its way from elsewhere, or from before a restart."""

        def settled() -> bool:
            return self._now(pod) is None or self._workloads.others_are_ready(pod)

        if not await self._waited(settled, within=within):
            raise RemovalFailed(
                f"pod {pod.metadata.key} stays: another replica of its StatefulSet is not ready"
            )

    async def _back(self, pod: Pod, *, within: float) -> None:
        """Wait for the replica that takes the place of this one."""
        name = pod.metadata.key

        def ready() -> bool:
            now = self._world.pod(name)
            return now is not None and now.metadata.uid != pod.metadata.uid and _runs(now)

        def over() -> bool:
            return ready() or not self._workloads.wants(pod)

        if not await self._waited(over, within=within):
            raise RemovalFailed(f"pod {name} was evicted and is not ready after {within:g} s")

    async def _waited(self, done: Callable[[], bool], *, within: float) -> bool:
        return await self._context.poll(done, within=within, doing="waiting for pods")


def _runs(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and is_ready(pod)

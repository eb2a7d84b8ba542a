"""Eviction by request: a pod whose operator wants to move it is left to the operator.

Such a pod names responders (`spec.evictionResponders`, alpha in 1.37). An EvictionRequest asks
them; a controller of the server passes it on, and tells by conditions what became of it. Where the
server lacks the kind, nobody looks at the request, or nobody manages, the pod is evicted as any
other.
"""

import logging
from collections.abc import Callable

from tonnage.autoscaler.actuator import EventReason
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.cluster import errors
from tonnage.errors import ClusterError
from tonnage.objects.evictions import (
    EvictionPodReference,
    EvictionRequest,
    EvictionRequestSpec,
    EvictionTarget,
)
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import Pod

REQUESTER = "tonnage.dev/scale-down"
FAILED = "Failed"

OBSERVED_WITHIN = 30.0
"""Seconds in which a controller that is there has looked at a request."""

_LOOK = 1.0

_log = logging.getLogger(__name__)


class EvictionRequester:
    """Asks for evictions. Every request is taken back when it is over, however it ends."""

    def __init__(self, context: AutoscalingContext) -> None:
        self._actuator = context.actuator
        self._client = context.client
        self._clock = context.clock

    async def moved(self, pod: Pod, *, within: float, is_leaving: Callable[[], bool]) -> bool:
        """Have the pod's responders move it; whether it is leaving, or has to be evicted after all.

        Only pods that name responders are asked about; with `within` 0 nobody is.
        """
        if not within or not pod.spec.eviction_responders or not await self._ask(pod):
            return False
        try:
            return await self._answered(pod, within, is_leaving)
        finally:
            await self._withdraw(pod)

    async def _ask(self, pod: Pod) -> bool:
        name = pod.metadata.key
        self._actuator.check(f"asking for the eviction of pod {name}")
        request = EvictionRequest(
            metadata=ObjectMeta(name=_name(pod), namespace=pod.metadata.namespace),
            spec=EvictionRequestSpec(
                target=EvictionTarget(
                    pod=EvictionPodReference(name=pod.metadata.name, uid=pod.metadata.uid)
                ),
                requester=REQUESTER,
                intent="Eviction",
            ),
        )
        try:
            await self._client.create(EvictionRequest, request)
        except errors.Conflict:
            # Ours, from before a restart.
            return True
        except ClusterError as error:
            _log.info("eviction not asked for", extra={"pod": name, "why": str(error)})
            return False
        responders = ", ".join(one.name for one in pod.spec.eviction_responders)
        message = f"asked {responders} to move the pod for node scale down"
        self._actuator.tell(pod, EventReason.EVICTION_REQUESTED, message)
        return True

    async def _answered(self, pod: Pod, within: float, is_leaving: Callable[[], bool]) -> bool:
        begun = self._clock.monotonic()
        while not is_leaving():
            waited = self._clock.monotonic() - begun
            why = "" if waited < within else f"the pod is still there after {within:g} s"
            why = why or await self._refusal(pod, waited)
            if why:
                message = f"not moved by request, evicted instead: {why}"
                self._actuator.tell(pod, EventReason.EVICTION_REQUESTED, message)
                return False
            await self._clock.sleep(_LOOK)
            self._actuator.check("waiting for pods")
        return True

    async def _refusal(self, pod: Pod, waited: float) -> str:
        """Why nobody moves the pod; empty while somebody may."""
        namespace = pod.metadata.namespace
        try:
            found = await self._client.get(EvictionRequest, _name(pod), namespace=namespace)
        except errors.NotFound:
            return "the request was deleted"
        except ClusterError:
            return ""
        status = found.status
        for condition in status.conditions:
            if condition.type == FAILED and condition.status == "True":
                return condition.message or condition.reason or "the request failed"
        if status.observed_generation is None and waited >= OBSERVED_WITHIN:
            return f"nobody looked at the request within {OBSERVED_WITHIN:g} s"
        return ""

    async def _withdraw(self, pod: Pod) -> None:
        try:
            await self._client.delete(EvictionRequest, _name(pod), namespace=pod.metadata.namespace)
        except errors.NotFound:
            return
        except ClusterError as error:
            _log.warning(
                "request not taken back", extra={"pod": pod.metadata.key, "error": str(error)}
            )


def _name(pod: Pod) -> str:
    """One request of ours for a pod, whoever leads."""
    return f"tonnage-{pod.metadata.uid}"

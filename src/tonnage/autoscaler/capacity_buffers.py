"""CapacityBuffers of the live cluster: watched while they are wanted, and told what became of them.

What a buffer refers to is watched from the moment that one does. Who keeps no room ready needs no
rights to any of these kinds. Looking ahead keeps room as buffers do, for pods that controllers make
next: these and quotas are watched while that is wanted.
"""

import logging
from collections.abc import Iterator

import msgspec

from tonnage.autoscaler.actuator import EventReason
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.autoscaler.world import ClusterView
from tonnage.cluster import errors
from tonnage.cluster.watch_events import Change, EventType
from tonnage.errors import ClusterError
from tonnage.groups import capacity_buffers, look_ahead
from tonnage.groups.capacity_buffers import SCALABLE, BufferReading
from tonnage.groups.headroom import KeptRoom
from tonnage.groups.look_ahead import ControlledPods
from tonnage.objects.buffers import (
    ACTIVE_CAPACITY,
    CapacityBuffer,
    CapacityBufferStatus,
    PodTemplate,
)
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import Condition
from tonnage.objects.pods import Pod
from tonnage.objects.quotas import ResourceQuota
from tonnage.objects.storage import PersistentVolumeClaim
from tonnage.objects.timestamps import rfc3339
from tonnage.scaleup.plan import KeptRoomPlan, Plan
from tonnage.service.wanted_kinds import WantedKinds

READY = "ReadyForProvisioning"
PROVISIONING = "Provisioning"

_KNOWN_WITHIN = 60.0
"""Seconds for caches to fill when there is to be only one round."""

_log = logging.getLogger(__name__)


class LookAhead:
    """What controllers make next. Who does not look ahead needs no rights to their kinds.

    The pods of controllers are counted as the watch tells of them, from the first time on.
    """

    def __init__(self, world: ClusterView, kinds: WantedKinds) -> None:
        self._world = world
        self._kinds = kinds
        self._pods: ControlledPods | None = None

    def rooms(self, config: AutoscalerConfig, *, now: float) -> tuple[KeptRoom, ...]:
        """Room for the pods to come; none before all that says so is known."""
        if not config.look_ahead or self.hold(config) or any(self.problems(config)):
            return ()
        claims = self._world.cache(PersistentVolumeClaim)
        return look_ahead.rooms(
            [one for kind in look_ahead.CONTROLLERS for one in self._kinds.cache(kind)],
            self._controlled_pods(),
            quotas=self._kinds.cache(ResourceQuota),
            has_claim=lambda namespace, name: claims.get(name, namespace=namespace) is not None,
            now=now,
            within=config.look_ahead_time,
        )

    def hold(self, config: AutoscalerConfig) -> str:
        """Why no node may go: it is not known yet which pods are to come. Empty if it is."""
        for kind in look_ahead.KINDS if config.look_ahead else ():
            cache = self._kinds.cache(kind)
            if cache.obstacle is None and not cache.synced:
                return f"{kind.__name__} objects are not all known yet"
        return ""

    def problems(self, config: AutoscalerConfig) -> Iterator[str]:
        """Rights that are missing: without one of them nothing is looked ahead at."""
        for kind in look_ahead.KINDS if config.look_ahead else ():
            obstacle = self._kinds.cache(kind).obstacle
            if obstacle is not None:
                yield f"lookAhead: {obstacle.right}"

    def _controlled_pods(self) -> ControlledPods:
        if self._pods is None:
            cache = self._world.cache(Pod)
            self._pods = ControlledPods(cache)
            cache.subscribe(self._pod_changed)
        return self._pods

    def _pod_changed(self, change: Change[Pod]) -> None:
        assert self._pods is not None
        if change.type is EventType.DELETED:
            self._pods.drop(change.object)
        else:
            self._pods.put(change.object)


class BufferWatch:
    """Buffers and what they refer to, as of the last look, and what became of them."""

    def __init__(self, context: AutoscalingContext, kinds: WantedKinds) -> None:
        self._client = context.client
        self._actuator = context.actuator
        self._clock = context.clock
        self._kinds = kinds
        self._ahead = LookAhead(context.world, kinds)
        self._readings: tuple[BufferReading, ...] = ()
        self._told: dict[str, str] = {}

    async def ready(self, config: AutoscalerConfig) -> None:
        """Wait until all is known that a decision needs, for who decides only once."""
        end = self._clock.monotonic() + _KNOWN_WITHIN
        while self.hold(config) and self._clock.monotonic() < end:
            await self._clock.sleep(0.1)

    def rooms(self, config: AutoscalerConfig, *, now: float) -> tuple[KeptRoom, ...]:
        """The room that buffers ask for now, and that of pods which controllers make next."""
        self._readings = ()
        ahead = self._ahead.rooms(config, now=now)
        if not config.capacity_buffers:
            return ahead
        buffers = [
            one for one in self._kinds.cache(CapacityBuffer) if self._is_known(_referred(one))
        ]
        self._readings = capacity_buffers.read(buffers, self._find, now=now)
        return (*(one.room for one in self._readings if one.room is not None), *ahead)

    def hold(self, config: AutoscalerConfig) -> str:
        """Why no node may go: it is not known which room is to be kept. Empty if it is."""
        unknown = self._ahead.hold(config)
        if unknown or not config.capacity_buffers:
            return unknown
        kinds: dict[type[KubeObject], None] = {CapacityBuffer: None}
        for buffer in self._kinds.cache(CapacityBuffer):
            referred = _referred(buffer)
            if referred is not None:
                kinds[referred] = None
        for kind in kinds:
            cache = self._kinds.cache(kind)
            obstacle = cache.obstacle
            if obstacle is not None and obstacle.forbidden:
                return obstacle.right
            # Without its definition there are no objects of the kind.
            if obstacle is None and not cache.synced:
                return f"{kind.__name__} objects are not all known yet"
        return ""

    def problems(self, config: AutoscalerConfig) -> Iterator[str]:
        """What is wrong with buffers, and with looking ahead, for the status."""
        yield from self._ahead.problems(config)
        hold = self.hold(config)
        if hold.startswith("missing right"):
            yield f"CapacityBuffers: {hold}"
        for reading in self._readings:
            if reading.problem:
                yield reading.problem

    @property
    def readings(self) -> tuple[BufferReading, ...]:
        """The buffers of the last look."""
        return self._readings

    async def tell(self, plan: Plan | None, *, now: float) -> None:
        """Write into the buffers what became of them, where that has changed."""
        if plan is None or self._actuator.dry_run:
            return
        rooms = {room.name: room for room in plan.kept_rooms}
        bought = {title for step in plan.steps for title in (step.headroom or ())}
        told = {}
        for reading in self._readings:
            meta = reading.buffer.metadata
            title = f"CapacityBuffer {meta.key}"
            room = rooms.get(title)
            told[meta.key] = reading.reason
            if title in bought and room is not None:
                message = f"nodes are bought for {room.bought} of {room.chunks} chunks"
                self._actuator.tell(reading.buffer, EventReason.TRIGGERED_SCALE_UP, message)
            if not reading.is_good and self._told.get(meta.key) != reading.reason:
                message = f"no room is kept: {reading.message}"
                self._actuator.tell(
                    reading.buffer, EventReason.BAD_CAPACITY_BUFFER, message, warning=True
                )
            await self._write(reading, room, now=now)
        self._told = told

    async def _write(
        self, reading: BufferReading, room: KeptRoomPlan | None, *, now: float
    ) -> None:
        before = reading.buffer.status
        wanted = _status(reading, room, before, now=now)
        if wanted == before:
            return
        meta = reading.buffer.metadata
        change = {"status": {**_NOTHING, **msgspec.to_builtins(wanted)}}
        try:
            await self._client.patch(
                CapacityBuffer, meta.name, change, namespace=meta.namespace, subresource="status"
            )
        except errors.NotFound:
            return
        except ClusterError as error:
            _log.warning(
                "status of buffer not written", extra={"buffer": meta.key, "error": str(error)}
            )

    def _is_known(self, kind: type[KubeObject] | None) -> bool:
        """Whether it can be said that an object of the kind is not there."""
        return kind is None or self._kinds.cache(kind).synced

    def _find(self, kind: type[KubeObject], namespace: str, name: str) -> KubeObject | None:
        return self._kinds.cache(kind).get(name, namespace=namespace)


def _referred(buffer: CapacityBuffer) -> type[KubeObject] | None:
    """The kind that a buffer refers to."""
    reference = buffer.spec.scalable_ref
    if buffer.spec.pod_template_ref is not None:
        return PodTemplate
    return SCALABLE.get((reference.api_group, reference.kind)) if reference is not None else None


_NOTHING: dict[str, object] = {
    "podTemplateRef": None,
    "podTemplateGeneration": None,
    "replicas": None,
}
"""What a merge patch is to take away where we have no word of it."""


def _status(
    reading: BufferReading,
    room: KeptRoomPlan | None,
    before: CapacityBufferStatus,
    *,
    now: float,
) -> CapacityBufferStatus:
    ready = _condition(READY, reading.is_good, reading.reason, reading.message)
    known = {one.type: one for one in before.conditions}
    conditions = [
        one
        if (old := known.get(one.type)) is None or old.status != one.status
        else msgspec.structs.replace(one, last_transition_time=old.last_transition_time)
        for one in (ready, _provisioning(reading, room))
    ]
    others = [one for one in before.conditions if one.type not in (READY, PROVISIONING)]
    return CapacityBufferStatus(
        pod_template_ref=reading.template,
        pod_template_generation=reading.generation,
        replicas=reading.chunks if reading.is_good else None,
        provisioning_strategy=ACTIVE_CAPACITY,
        conditions=tuple(
            msgspec.structs.replace(
                one, last_transition_time=one.last_transition_time or rfc3339(now)
            )
            for one in (*others, *conditions)
        ),
    )


def _provisioning(reading: BufferReading, room: KeptRoomPlan | None) -> Condition:
    """Whether every chunk has room: on nodes that are there or coming, or on nodes just bought."""
    if room is None:
        reason = reading.reason if not reading.is_good else "NothingToKeep"
        return _condition(PROVISIONING, False, reason, reading.message)
    if room.missing:
        reasons = sorted({text for one in room.reasons for text in one.reasons})
        message = f"no room for {room.missing} of {room.chunks} chunks: {'; '.join(reasons)[:500]}"
        return _condition(PROVISIONING, False, "RoomMissing", message)
    if room.bought:
        message = f"nodes are bought for {room.bought} of {room.chunks} chunks"
        return _condition(PROVISIONING, True, "NodesBought", message)
    return _condition(PROVISIONING, True, "RoomKept", f"room for {room.chunks} chunks")


def _condition(kind: str, holds: bool, reason: str, message: str) -> Condition:
    return Condition(type=kind, status="True" if holds else "False", reason=reason, message=message)

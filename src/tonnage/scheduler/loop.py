"""The scheduler: takes waiting pods from the queue, decides, and has the decisions carried out.

No awaiting stands between looking and deciding, so what is decided together is decided on one
state of the cluster. Binding goes on beside it; until the server confirms, a decision is assumed.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import numpy as np

from tonnage.clock import Clock
from tonnage.cluster.client import Client
from tonnage.cluster.events import Recorder
from tonnage.cluster.watch_events import EventType
from tonnage.objects import complexity
from tonnage.objects.pods import FINISHED, Pod
from tonnage.objects.storage import PersistentVolume, PersistentVolumeClaim
from tonnage.rules.features import Features
from tonnage.rules.framework import EventKind
from tonnage.scheduler import claim_space, queueing_hints
from tonnage.scheduler import metrics as figures
from tonnage.scheduler.binder import Binder, BindingFailed, PodGone
from tonnage.scheduler.config import SchedulerConfig
from tonnage.scheduler.gang_placer import GANG_SCHEDULING, GangPlacer
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.placer import PlacedPod, Placer, RefusedPod
from tonnage.scheduler.pod_status import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    PodCondition,
    PodStatusWriter,
    scheduled_condition,
)
from tonnage.scheduler.preemptor import Preemptor
from tonnage.scheduler.queue import QueuedPod, SchedulingQueue
from tonnage.scheduler.queueing_hints import ClusterEvent
from tonnage.scheduler.scheduler_cache import SchedulerCache
from tonnage.service.booked_room import PROVISIONING_REQUESTS, BookedRoom
from tonnage.service.config_file import ConfigFile
from tonnage.service.wanted_kinds import WantedKinds
from tonnage.snapshot.reservations import Source
from tonnage.snapshot.snapshot import PodRecord

_log = logging.getLogger(__name__)

_SLICE = 1.0
"""Seconds of deciding after which others have their turn: leases, watches, health."""

_LOOK_AGAIN = 1.0
"""Seconds between looks at caches that are not to be trusted, and at the configuration file."""

_NOBODY_WAITS = 10.0
"""The same while no pod waits: whoever comes wakes the loop, and all is looked at before that."""


class Scheduler:
    """Every pod of ours without a node is in the queue, or assumed on one and being bound."""

    def __init__(
        self,
        world: SchedulerCache,
        client: Client,
        *,
        name: str,
        config: ConfigFile[SchedulerConfig],
        features: Callable[[SchedulerConfig], Features],
        clock: Clock,
        rng: random.Random,
        recorder: Recorder,
        queue: SchedulingQueue,
        metrics: SchedulerMetrics,
        leading: Callable[[], bool],
        together: bool = True,
    ) -> None:
        self._world = world
        self._name = name
        self._config = config
        self._features = features
        self._clock = clock
        self._rng = np.random.default_rng(rng.getrandbits(64))
        self._recorder = recorder
        self.queue = queue
        self._metrics = metrics
        self._leading = leading
        self._together = together
        self._pods = world.cache(Pod)
        self._binder = Binder(client, world, clock=clock, parallelism=config.current.parallelism)
        self.statuses = PodStatusWriter(
            client,
            recorder,
            clock=clock,
            waiting=lambda key: self._waiting_pod(key) if leading() else None,
        )
        self._preemptor = Preemptor(
            client, world, clock=clock, recorder=recorder, name=name, metrics=metrics, rng=self._rng
        )
        kinds = WantedKinds(client, clock=clock, changed=self._kinds_changed)
        self.booked = BookedRoom(
            world,
            world.reservations,
            kinds,
            clock=clock,
            wanted=lambda: config.current.provisioning_requests,
        )
        self._gangs = GangPlacer(
            world,
            kinds,
            is_ours=lambda record: self._waiting_pod(record.key) is not None,
        )
        self._woken = asyncio.Event()
        self._tasks: asyncio.TaskGroup
        self._looked_at = -_LOOK_AGAIN
        self.hold = ""
        self.active_at = clock.monotonic()
        world.listener = self._changed
        world.moving.freed = lambda record: self._wake(ClusterEvent(EventKind.POD_DELETED, record))

    async def run(self) -> None:
        """Until cancelled. What an earlier run left unfinished is decided anew."""
        self._world.start_over()
        self.booked.changed()
        self._preemptor.start_over()
        self.queue.clear()
        for pod in self._pods:
            self._enqueue(pod)
        async with self._gangs.kinds, asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            while True:
                self._woken.clear()
                if self._held():
                    await self._clock.sleep(_LOOK_AGAIN)
                elif self.round():
                    await self._clock.sleep(0.0)
                else:
                    await self._pause()

    def round(self) -> int:
        """Decide for the pods whose turn it is; how many those were."""
        started = self.active_at = self._clock.monotonic()
        config = self._config.current
        features = self._features(config)
        self._world.settle(features)
        self.queue.config = config
        self._world.moving.expire()
        if self._world.claim_space.lapse(started):
            self._wake(ClusterEvent(EventKind.CAPACITY_UPDATED, None))
        if self.booked.refresh(features):
            self._wake_by((PROVISIONING_REQUESTS, GANG_SCHEDULING), lambda *_: True)
        taken = self.queue.pop(config.batch, now=started)
        if not taken:
            return 0
        blind = self._world.trust().blind_to_volumes
        ready = [record for one in taken if (record := self._ready(one, blind)) is not None]
        turn = self._gangs.in_turn(ready, now=self._clock.now().timestamp())
        for record in turn.not_known_yet:
            self.queue.failed(record.key, now=started)
        records = turn.single
        placer = Placer(
            self._world,
            features,
            config.weights,
            booked=self.booked,
            rng=self._rng,
            together=self._together,
        )
        ledger: AbstractContextManager[None] = nullcontext()
        if config.count_pledged_storage:
            every = [*records, *(one for gang in turn.gangs for one in gang.members)]
            ledger = claim_space.counted(self._world.snapshot, every, self._world.claim_space)
        # Refusals are dealt with on it too: preemption must not offer storage that was given.
        with ledger:
            outcomes = [
                *self._in_turn(placer, records, until=started + _SLICE),
                *self._gangs.decide(turn.gangs, placer),
            ]
            placed = [one for one in outcomes if isinstance(one, PlacedPod)]
            popped = {one.key for one in taken}
            refused = [
                one for one in outcomes if isinstance(one, RefusedPod) and one.record.key in popped
            ]
            self._count(placed, refused, self._clock.monotonic() - started)
            for one in placed:
                self._tasks.create_task(self._see_through(one, features, config.bind_timeout))
                self._wake(ClusterEvent(EventKind.POD_ADDED, one.record))
            self._refuse(refused, features, config)
        return len(taken)

    def _in_turn(
        self, placer: Placer, records: list[PodRecord], *, until: float
    ) -> Iterator[PlacedPod | RefusedPod]:
        """What is decided until then; everybody else keeps his turn.

        Pods with very many rules come last, and only one of them: leases and health wait for it.
        """
        left = {record.key: None for record in records}
        simple = [record for record in records if not _is_costly(record)]
        costly = [record for record in records if _is_costly(record)]
        for outcome in self._decisions(placer, [*simple, *costly[:1]]):
            left.pop(outcome.record.key, None)
            yield outcome
            if self._clock.monotonic() >= until:
                break
        for key in left:
            self.queue.give_back(key)

    def _decisions(
        self, placer: Placer, records: list[PodRecord]
    ) -> Iterator[PlacedPod | RefusedPod]:
        """What is decided; a pod that cannot be, for whatever reason, stops no other."""
        left = {record.key: record for record in records}
        try:
            for outcome in placer.decide(records):
                del left[outcome.record.key]
                yield outcome
        except Exception:
            _log.exception("pods not decided together", extra={"pods": len(left)})
            for key, record in left.items():
                try:
                    yield from placer.decide([record])
                except Exception as error:
                    _log.exception("pod not decided", extra={"pod": key})
                    self._fail(key, f"internal error: {error}")

    def _held(self) -> bool:
        """Whether acting must wait: not ours to act, or too little known."""
        now = self._clock.monotonic()
        if now - self._looked_at >= _LOOK_AGAIN:
            self._looked_at = now
            self._config.check()
            hold = self._world.trust().hold or self.booked.unknown()
            if hold and hold != self.hold:
                _log.info("not scheduling", extra={"reason": hold})
            self.hold = hold
        return bool(self.hold) or not self._leading()

    async def _pause(self) -> None:
        """Until something happens, a backoff ends, or it is time to look at the caches again."""
        wait = self.queue.next_in(self._clock.monotonic())
        look = _LOOK_AGAIN if len(self.queue) else _NOBODY_WAITS
        bound = look if wait is None else min(wait, look)
        with suppress(TimeoutError):
            async with self._clock.timeout(bound):
                await self._woken.wait()

    # Pods that wait

    def _ready(self, waiting: QueuedPod, blind: tuple[str, ...]) -> PodRecord | None:
        """The pod in the snapshot's terms, if a decision about it can be made."""
        record = self._world.snapshot.pods.get(waiting.key)
        if record is None:
            why = self._world.rejected.get(("Pod", waiting.key), "the pod is not known")
            self._fail(waiting.key, f"pod not understood: {why}")
            return None
        if not record.pending:
            self.queue.remove(waiting.key)
            return None
        if blind and record.volumes:
            self._fail(waiting.key, f"{', '.join(blind)} objects cannot be read")
            return None
        return record

    def _enqueue(self, pod: Pod) -> None:
        meta = pod.metadata
        key = meta.key
        if not self._is_ours(pod) or self._world.reservations.get(key, Source.ASSUMED):
            if self.queue.get(key) is not None and not self._is_ours(pod):
                self.queue.remove(key)
            return
        known = self.queue.get(key)
        if known is None or known.uid != meta.uid:
            self.queue.add(
                key,
                uid=meta.uid,
                priority=pod.spec.priority or 0,
                now=self._clock.monotonic(),
                gated=bool(pod.spec.scheduling_gates),
            )
            self._woken.set()

    def _waiting_pod(self, key: str) -> Pod | None:
        pod = self._world.pod(key)
        is_waiting = pod is not None and self._is_ours(pod) and self.queue.get(key) is not None
        return pod if is_waiting else None

    def _kinds_changed(self) -> None:
        """Gangs may need fewer pods now, or are known at last; something may be booked or not."""
        self.booked.changed()
        now = self._clock.monotonic()
        for key in self._gangs.held:
            if self.queue.get(key) is not None:
                self.queue.changed(key, gated=False, now=now)
        self._woken.set()

    def _is_ours(self, pod: Pod) -> bool:
        return (
            pod.spec.scheduler_name == self._name
            and not pod.spec.node_name
            and pod.metadata.deletion_timestamp is None
            and pod.status.phase not in FINISHED
        )

    # What happens in the cluster

    def _changed(self, type_: EventType, obj: Any, before: Any) -> None:
        gone = type_ is EventType.DELETED
        if isinstance(obj, Pod):
            self._pod_changed(obj, before, gone=gone)
            return
        if before is not None or not gone:
            for happening in queueing_hints.happenings(before, None if gone else obj):
                self._wake(happening)
        if isinstance(obj, PersistentVolumeClaim):
            self._binder.volumes_changed([(obj.metadata.namespace, obj.metadata.name)])
        elif isinstance(obj, PersistentVolume) and obj.spec.claim_ref is not None:
            reference = obj.spec.claim_ref
            self._binder.volumes_changed([(reference.namespace, reference.name)])

    def _pod_changed(self, pod: Pod, before: PodRecord | None, *, gone: bool) -> None:
        key = pod.metadata.key
        record = self._world.snapshot.pods.get(key)
        if gone:
            self.queue.remove(key)
            self._gangs.held.discard(key)
            self.statuses.drop(key)
            self._preemptor.pod_gone(key)
            volumes = before.volumes if before is not None else ()
            self._binder.volumes_changed(
                (pod.metadata.namespace, volume.claim) for volume in volumes
            )
        else:
            self._enqueue(pod)
            if (
                before is not None
                and record is not None
                and before.pod_class is not record.pod_class
            ):
                gated = bool(pod.spec.scheduling_gates)
                self.queue.changed(key, gated=gated, now=self._clock.monotonic())
                self._woken.set()
        for happening in _pod_happenings(before, record):
            self._wake(happening)

    def _wake(self, happening: ClusterEvent) -> None:
        snapshot, features = self._world.snapshot, self._features(self._config.current)

        def worth(by: str, waiting: QueuedPod) -> bool:
            record = snapshot.pods.get(waiting.key)
            if by in (GANG_SCHEDULING, PROVISIONING_REQUESTS):
                return True
            return record is None or queueing_hints.worth_another_try(
                happening, by, record, snapshot, features
            )

        cured = queueing_hints.cured(happening.event, features)
        if happening.event is not EventKind.POD_ADDED:
            # What is booked may find its room elsewhere, or at last: no watch tells of decisions
            # that are taken back, nor of places that nobody came for.
            self.booked.changed()
            # Whatever helps one pod may be what the last of a gang lacks.
            cured = (*cured, GANG_SCHEDULING) if self._gangs.held else cured
            cured = (*cured, PROVISIONING_REQUESTS) if len(self.booked) else cured
        self._wake_by(cured, worth)

    def _wake_by(self, cured: Iterable[str], worth: Callable[[str, QueuedPod], bool]) -> None:
        if self.queue.wake(cured, worth, now=self._clock.monotonic()):
            self._woken.set()

    # What became of pods

    def _count(self, placed: list[PlacedPod], refused: list[RefusedPod], seconds: float) -> None:
        total = len(placed) + len(refused)
        if not total:
            return
        self._metrics.batch(total)
        errors = sum(one.error for one in refused)
        for result, count in (
            (figures.SCHEDULED, len(placed)),
            (figures.UNSCHEDULABLE, len(refused) - errors),
            (figures.ERROR, errors),
        ):
            if count:
                self._metrics.decided(result, count, seconds=seconds * count / total)

    async def _see_through(self, placed: PlacedPod, features: Features, within: float) -> None:
        """Bind the pod, or take the decision back."""
        key = placed.record.key
        self.statuses.drop(key)
        pod = self._world.pod(key)
        try:
            if pod is None:
                raise PodGone(key)
            await self._binder.bind(pod, placed, features, within=within)
        except PodGone:
            self._world.forget(placed.record, placed.volumes)
            waiting = self.queue.get(key)
            if waiting is not None and waiting.uid == placed.record.meta.uid:
                self.queue.remove(key)
            return
        except Exception as error:
            if not isinstance(error, BindingFailed):
                _log.exception("binding failed", extra={"pod": key})
            self._world.forget(placed.record, placed.volumes)
            waiting = self.queue.get(key)
            if waiting is not None and waiting.uid == placed.record.meta.uid:
                self._fail(key, str(error))
            return
        self._bound(pod, placed)

    def _bound(self, pod: Pod, placed: PlacedPod) -> None:
        key = placed.record.key
        self._world.settle_volumes(placed.volumes)
        waiting = self.queue.get(key)
        if waiting is not None and waiting.uid == pod.metadata.uid:
            seconds = self._clock.monotonic() - waiting.arrived
            self._metrics.bound(attempts=waiting.attempts, seconds=seconds)
            self.queue.remove(key)
        self._recorder.record(
            pod,
            reason="Scheduled",
            message=f"Successfully assigned {key} to {placed.node}",
        )

    def _refuse(
        self, refused: list[RefusedPod], features: Features, config: SchedulerConfig
    ) -> None:
        now = self._clock.monotonic()
        for one in refused:
            key = one.record.key
            if one.error:
                self._fail(key, one.text)
                continue
            # To make room for one of a gang helps none of them.
            whole = one.record.key in self._gangs.held
            allowed = config.preemption and not _is_costly(one.record) and not whole
            attempt = self._preemptor.attempt(one, features, allowed=allowed)
            for victim in attempt.work:
                self._tasks.create_task(victim)
            for other in attempt.displaced:
                self._withdraw_promise(other)
            message = f"{one.text} preemption: {attempt.told}" if attempt.told else one.text
            self.queue.refused(key, one.by, now=now)
            self._tell(key, UNSCHEDULABLE, message, nominated=attempt.nominated)

    def _withdraw_promise(self, key: str) -> None:
        """Tell a pod that the node it was promised goes to a more important one."""
        pod = self._world.pod(key)
        told = scheduled_condition(pod) if pod is not None else None
        if pod is not None and told is not None and told.status == "False":
            self.statuses.say(pod, PodCondition(reason=told.reason, message=told.message))

    def _fail(self, key: str, message: str) -> None:
        self.queue.failed(key, now=self._clock.monotonic())
        self._woken.set()
        self._tell(key, SCHEDULER_ERROR, message)

    def _tell(self, key: str, reason: str, message: str, *, nominated: str | None = None) -> None:
        pod = self._world.pod(key)
        if pod is None:
            return
        promised = pod.status.nominated_node_name if nominated is None else nominated
        self.statuses.refuse(pod, PodCondition(reason=reason, message=message, nominated=promised))


def _pod_happenings(before: PodRecord | None, now: PodRecord | None) -> list[ClusterEvent]:
    """What a change of a pod comes to for others: only pods with a node matter to them."""
    if before is not None and _place(before) and _place(before) != _place(now):
        return [ClusterEvent(EventKind.POD_DELETED, before)]
    if now is None or not now.node_name:
        return []
    if before is None or not before.node_name:
        return [ClusterEvent(EventKind.POD_ADDED, now)]
    found = []
    if before.meta.labels != now.meta.labels:
        found.append(ClusterEvent(EventKind.POD_LABELLED, now))
    if before.pod_class is not now.pod_class and before.pod_class.usage != now.pod_class.usage:
        found.append(ClusterEvent(EventKind.POD_RESIZED, now))
    if now.terminating and not before.terminating:
        # It does not count any more where matching pods are spread.
        found.append(ClusterEvent(EventKind.POD_LABELLED, now))
    return found


def _place(record: PodRecord | None) -> str:
    """The node whose room a pod takes, or is promised."""
    return "" if record is None else record.node_name or record.nominated


def _is_costly(record: PodRecord) -> bool:
    """Whether the pod has so many rules that a decision on it takes others' time."""
    return record.complexity > complexity.MOST

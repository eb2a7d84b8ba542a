"""A live cluster's watches, into a trace: lists once, then every change as it is told."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tonnage.clock import Clock
from tonnage.cluster.cache import Cache
from tonnage.cluster.client import Client
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.watch_events import Change, EventType
from tonnage.errors import ClusterError
from tonnage.files.anonymiser import Anonymiser
from tonnage.objects import (
    buffers,
    gangs,
    kinds,
    nodes,
    pods,
    provisioning_requests,
    quotas,
    storage,
    workloads,
)
from tonnage.objects.kinds import KubeObject
from tonnage.objects.scenarios import NodeGroup
from tonnage.objects.timestamps import rfc3339
from tonnage.service import lifecycle
from tonnage.traces.log import TraceLog
from tonnage.traces.pruning import pruned
from tonnage.traces.records import TraceHead

RECORDED: tuple[type[KubeObject], ...] = (
    nodes.Namespace,
    nodes.Node,
    storage.CSINode,
    storage.CSIDriver,
    storage.StorageClass,
    storage.PersistentVolume,
    storage.PersistentVolumeClaim,
    storage.VolumeAttachment,
    storage.CSIStorageCapacity,
    workloads.PriorityClass,
    workloads.PodDisruptionBudget,
    workloads.Service,
    workloads.DaemonSet,
    workloads.Deployment,
    workloads.ReplicaSet,
    workloads.ReplicationController,
    workloads.StatefulSet,
    workloads.CronJob,
    workloads.Job,
    quotas.ResourceQuota,
    buffers.CapacityBuffer,
    buffers.PodTemplate,
    gangs.WorkloadPodGroup,
    gangs.CoschedulingPodGroup,
    provisioning_requests.ProvisioningRequest,
    pods.Pod,
)
"""The kinds in a trace; pods last, so that what they name is there before them."""

ESSENTIAL: tuple[type[KubeObject], ...] = (nodes.Node, pods.Pod)
"""Without these nothing can be replayed."""

BEAT = 10.0
"""Seconds after which what was told is in the file."""
_LOOK = 0.1


class ClusterRecorder:
    """Follows the cluster from `known` on; `start` opens the trace when all lists are there.

    `unread` are kinds that could not be read, with the reason.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        start: Callable[[TraceHead], TraceLog],
        head: TraceHead,
        node_groups: Sequence[NodeGroup] = (),
        anonymise: bool = False,
    ) -> None:
        self._clock = clock
        self._start = start
        self._head = head
        self._node_groups = tuple(node_groups)
        self._anonymise = anonymise
        self._anonymiser: Anonymiser | None = None
        self._mirror = Mirror(client, clock=clock, rng=rng)
        self._caches: dict[type[KubeObject], Cache[Any]] = {
            kind: self._mirror.add(kind) for kind in RECORDED
        }
        self._began = self.recorded_for = 0.0
        self.log: TraceLog | None = None
        self.unread: dict[str, str] = {}

    @property
    def seconds(self) -> float:
        """Since the first line; nothing before."""
        return self._clock.monotonic() - self._began if self.log is not None else 0.0

    async def run(self, duration: float | None) -> None:
        """For so long, or until cancelled; the trace is closed either way."""
        why = "interrupted"
        try:
            async with lifecycle.beside(self._mirror.run()):
                await self._synced()
                self._begin()
                await self._follow(duration)
                why = "duration"
        finally:
            self.recorded_for = self.seconds
            if self.log is not None:
                self.log.end(why, at=self.recorded_for)

    async def _synced(self) -> None:
        """Until every kind is known, or cannot be."""
        while True:
            waiting = False
            for kind, cache in self._caches.items():
                obstacle = cache.obstacle
                if obstacle is not None and kind in ESSENTIAL:
                    raise ClusterError(f"{obstacle.message}: without them there is no trace")
                waiting = waiting or not (cache.synced or obstacle)
            if not waiting:
                return
            await self._clock.sleep(_LOOK)

    def _begin(self) -> None:
        """Write all there is, then listen: nothing can happen in between."""
        for kind, cache in self._caches.items():
            if cache.obstacle is not None and not kinds.by_type(kind).optional:
                self.unread[kind.__name__] = cache.obstacle.message
        objects = [obj for cache in self._caches.values() for obj in cache]
        groups = self._node_groups
        if self._anonymise:
            renaming = self._anonymiser = Anonymiser([*objects, *groups])
            groups = tuple(renaming.renamed(group) for group in groups)  # type: ignore[misc]
        head = msgspec.structs.replace(
            self._head,
            started_at=rfc3339(self._clock.now()),
            node_groups=groups,
            anonymised=self._anonymise,
            unread=tuple(self.unread),
        )
        self.log = self._start(head)
        self._began = self._clock.monotonic()
        for obj in objects:
            self._put(obj, at=0.0)
        self.log.known(at=0.0)
        self.log.beat(at=0.0)
        for cache in self._caches.values():
            cache.subscribe(self._changed)

    async def _follow(self, duration: float | None) -> None:
        assert self.log is not None
        while duration is None or self.seconds < duration:
            left = BEAT if duration is None else min(BEAT, duration - self.seconds)
            await self._clock.sleep(left)
            self.log.beat(at=self.seconds)

    def _changed(self, change: Change[Any]) -> None:
        if self._anonymiser is not None:
            self._anonymiser.learn(change.object)
        if change.type is not EventType.DELETED:
            self._put(change.object, at=self.seconds)
            return
        assert self.log is not None
        gone = self._renamed(change.object)
        self.log.remove(kinds.of(gone), gone.metadata.key, at=self.seconds)

    def _put(self, obj: KubeObject, *, at: float) -> None:
        assert self.log is not None
        self.log.put(kinds.of(obj), pruned(self._renamed(obj)), at=at)

    def _renamed(self, obj: KubeObject) -> KubeObject:
        return obj if self._anonymiser is None else self._anonymiser.renamed(obj)

"""The cluster as the scheduler sees it: what the server says, and what was decided since.

A pod that was given a node counts as being there from that moment on, long before the server says
so; the same holds for the volume a claim was given, and for the node that preemption promised.
"""

import random
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tonnage.clock import Clock
from tonnage.cluster.client import Client
from tonnage.cluster.resources import Named
from tonnage.cluster.watch_events import Change, EventType
from tonnage.objects import selectors
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Namespace, Node
from tonnage.objects.pods import FINISHED, Pod
from tonnage.objects.storage import (
    SELECTED_NODE_ANNOTATION,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tonnage.objects.workloads import PodDisruptionBudget
from tonnage.rules.features import Features
from tonnage.scheduler.claim_space import ClaimSpace, holder_of
from tonnage.service.live_cluster import OF_SCHEDULING, LiveCluster
from tonnage.service.moving_pods import MovingPods
from tonnage.snapshot.reservations import Reservation, Reservations, Source
from tonnage.snapshot.snapshot import PodRecord, Snapshot

ClaimKey: TypeAlias = tuple[str, str]

KINDS: tuple[type, ...] = (*OF_SCHEDULING, PodDisruptionBudget)

Listener: TypeAlias = Callable[[EventType, Any, Any], None]
"""Told of each change, after the snapshot took it: its type, the object, and what was held before.

For a pod, that is its record.
"""


class VolumeChoice(NamedTuple):
    """What the claims of a pod get on its node: existing volumes, or new ones made for it."""

    prebind: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...] = ()
    provision: tuple[PersistentVolumeClaim, ...] = ()

    @property
    def claims(self) -> tuple[PersistentVolumeClaim, ...]:
        return (*(claim for _, claim in self.prebind), *self.provision)


NOTHING_TO_BIND = VolumeChoice()


class SchedulerCache(LiveCluster):
    """The snapshot is what the caches hold, with everything on it that is held by reservations.

    These are pods whose binding, or whose nomination, the server has not told us of yet, pods that
    scale-down moves (`moving`), claims that were given a node, and `claim_space`, which does not
    show yet in what drivers publish.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        features: Features,
    ) -> None:
        self.reservations = Reservations()
        self.claim_space = ClaimSpace(self.reservations)
        self._clock = clock
        self._volumes: dict[str, ObjectReference] = {}
        self.listener: Listener = lambda *_: None
        super().__init__(
            client,
            clock=clock,
            rng=rng,
            features=features,
            counted=self._with_decisions,
            kinds=KINDS,
        )
        self.moving = MovingPods(self, self.reservations, clock=clock)

    def assume(self, record: PodRecord, node: str, choice: VolumeChoice) -> PodRecord:
        """Let the pod be on the node, with its volumes; gives its record there."""
        now = self._clock.monotonic()
        assumed = Reservation(
            record.key, Source.ASSUMED, now, node=node, uid=record.meta.uid, pod=record
        )
        self.reservations.hold(assumed)
        for volume, claim in choice.prebind:
            self._volumes[volume.metadata.name] = reference_to(claim)
            self.snapshot.put_volume(self._with_claim(volume))
        for claim in choice.provision:
            self.reservations.hold(Reservation(holder_of(claim), Source.ASSUMED, now, node=node))
            if self._publishes(claim):
                self.claim_space.give(claim, node, now=now)
            self.snapshot.put_claim(self._with_node(claim))
        return self.snapshot.place(record, node)

    def is_assumed(self, record: PodRecord) -> bool:
        """Whether this very pod is on a node by our decision, and the server has not said so."""
        assumed = self.reservations.get(record.key, Source.ASSUMED)
        return assumed is not None and assumed.uid == record.meta.uid

    @property
    def assumed(self) -> dict[str, Reservation]:
        """Pods that are on a node by our decision alone, each with what holds its place."""
        held = self.reservations.of(Source.ASSUMED)
        return {entry.holder: entry for entry in held if entry.pod is not None}

    def forget(self, record: PodRecord, choice: VolumeChoice) -> None:
        """Take the assumption back: what the server says holds again."""
        self.settle_volumes(choice)
        if not self.is_assumed(record):
            return  # The pod is gone or bound, and was taken for that already.
        self.reservations.release(record.key, Source.ASSUMED)
        pod = self.pod(record.key)
        assert pod is not None, "an assumption goes with its pod"
        self._take(Change(EventType.MODIFIED, pod))

    def settle_volumes(self, choice: VolumeChoice) -> None:
        """Nothing is assumed any more of the volumes of a pod."""
        for volume, _ in choice.prebind:
            if self._volumes.pop(volume.metadata.name, None) is not None:
                self._put_back(PersistentVolume, volume)
        for claim in choice.provision:
            if self.reservations.release(holder_of(claim), Source.ASSUMED):
                self._put_back(PersistentVolumeClaim, claim)

    def nominate(self, key: str, node: str) -> None:
        """A pod's nomination, or with no node that it has none, until the server says the same."""
        pod = self.pod(key)
        if pod is None:
            return
        now = self._clock.monotonic()
        self.reservations.hold(Reservation(key, Source.NOMINATED, now, node=node))
        counted = self._with_decisions(pod)
        if counted is not None:
            self.snapshot.put_pod(counted)

    def start_over(self) -> None:
        """Believe the server alone."""
        self.reservations.clear()
        self._volumes.clear()
        self._rebuild()
        for claim in self.cache(PersistentVolumeClaim):
            self._follow_claim(EventType.MODIFIED, claim)

    def _rebuild(self) -> None:
        super()._rebuild()
        self.moving.start_over()

    def claim(self, key: ClaimKey) -> PersistentVolumeClaim | None:
        """The claim as the server last told it."""
        return self.cache(PersistentVolumeClaim).get(key[1], namespace=key[0])

    def _put_back(self, kind: type[Any], stale: Any) -> None:
        meta = stale.metadata
        obj = self.cache(kind).get(meta.name, namespace=meta.namespace)
        if obj is not None:
            self._take(Change(EventType.MODIFIED, obj))

    def _take(self, change: Change[Any]) -> None:
        obj = change.object
        before = self._held(obj)
        if isinstance(obj, Pod):
            self.reservations.seen(obj, gone=change.type is EventType.DELETED)
        elif isinstance(obj, PersistentVolumeClaim):
            self._follow_claim(change.type, obj)
        elif isinstance(obj, CSIStorageCapacity) and isinstance(before, CSIStorageCapacity):
            self.claim_space.published(before, obj, covers=lambda node: self._covers(obj, node))
        super()._take(change)
        self.listener(change.type, obj, before)

    def _feed(self, type_: EventType, obj: Named) -> None:
        if type_ is not EventType.DELETED:
            if isinstance(obj, PersistentVolumeClaim) and len(self.reservations):
                obj = self._with_node(obj)
            elif isinstance(obj, PersistentVolume) and self._volumes:
                obj = self._with_claim(obj)
        super()._feed(type_, obj)

    def _follow_claim(self, type_: EventType, claim: PersistentVolumeClaim) -> None:
        if type_ is EventType.DELETED:
            self.claim_space.drop(claim)
        elif claim.fully_bound:
            self.claim_space.made(claim, now=self._clock.monotonic())
        elif not claim.spec.volume_name and self._chosen_node(claim) is None:
            self._believe(claim)

    def _believe(self, claim: PersistentVolumeClaim) -> None:
        """A node that the server names gets the volume, whatever becomes of the pod."""
        node = claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION, "")
        if not node:
            self.claim_space.take_back(claim)
        elif self._publishes(claim) and not self.claim_space.holds(claim, node):
            self.claim_space.give(claim, node, now=self._clock.monotonic())

    def _publishes(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the driver that serves the claim publishes what it has left."""
        storage = self.snapshot.storage
        found = storage.classes.get(claim.class_name)
        driver = storage.drivers.get(found.provisioner) if found is not None else None
        return driver is not None and bool(driver.spec.storage_capacity)

    def _covers(self, capacity: CSIStorageCapacity, node: str) -> bool:
        found, topology = self.snapshot.nodes.get(node), capacity.node_topology
        return (
            found is not None
            and topology is not None
            and selectors.is_valid(topology)
            and selectors.matches(topology, found.node.metadata.labels)
        )

    def _with_decisions(self, pod: Pod) -> Pod | None:
        if pod.status.phase in FINISHED:
            return None
        if pod.spec.node_name or not len(self.reservations):
            return pod
        key = pod.metadata.key
        assumed = self.reservations.get(key, Source.ASSUMED)
        if assumed is not None and assumed.uid == pod.metadata.uid:
            spec = msgspec.structs.replace(pod.spec, node_name=assumed.node)
            return msgspec.structs.replace(pod, spec=spec)
        nominated = self.reservations.get(key, Source.NOMINATED)
        if nominated is not None:
            status = msgspec.structs.replace(pod.status, nominated_node_name=nominated.node)
            return msgspec.structs.replace(pod, status=status)
        return self.moving.counted(pod)

    def _chosen_node(self, claim: PersistentVolumeClaim) -> str | None:
        """The node that we have chosen for the claim's volume, until its pod is bound."""
        chosen = self.reservations.get(holder_of(claim), Source.ASSUMED)
        return None if chosen is None else chosen.node

    def _with_node(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        node = self._chosen_node(claim)
        if node is None or claim.spec.volume_name:
            return claim
        annotations = {**claim.metadata.annotations, SELECTED_NODE_ANNOTATION: node}
        meta = msgspec.structs.replace(claim.metadata, annotations=annotations)
        return msgspec.structs.replace(claim, metadata=meta)

    def _with_claim(self, volume: PersistentVolume) -> PersistentVolume:
        reference = self._volumes.get(volume.metadata.name)
        if reference is None or (volume.spec.claim_ref and volume.spec.claim_ref.uid):
            return volume
        spec = msgspec.structs.replace(volume.spec, claim_ref=reference)
        return msgspec.structs.replace(volume, spec=spec)

    def _held(self, obj: Any) -> Any:
        """What the snapshot holds under the object's name."""
        find = _HELD.get(type(obj))
        return None if find is None else find(self.snapshot, obj.metadata)


_HELD: dict[type, Callable[[Snapshot, ObjectMeta], Any]] = {
    Pod: lambda held, meta: held.pods.get(meta.key),
    Node: lambda held, meta: (found := held.nodes.get(meta.name)) and found.node,
    CSINode: lambda held, meta: held.csinodes.get(meta.name),
    PersistentVolumeClaim: lambda held, meta: held.storage.claim(meta.namespace, meta.name),
    PersistentVolume: lambda held, meta: held.storage.volume(meta.name),
    StorageClass: lambda held, meta: held.storage.storage_class(meta.name),
    CSIDriver: lambda held, meta: held.storage.drivers.get(meta.name),
    CSIStorageCapacity: lambda held, meta: held.storage.capacity(meta.namespace, meta.name),
    VolumeAttachment: lambda held, meta: held.attachments.get(meta.name),
    Namespace: lambda held, meta: held.namespaces.get(meta.name),
}


def reference_to(claim: PersistentVolumeClaim) -> ObjectReference:
    """How a volume names the claim it is for."""
    meta = claim.metadata
    return ObjectReference(
        kind="PersistentVolumeClaim", namespace=meta.namespace, name=meta.name, uid=meta.uid
    )

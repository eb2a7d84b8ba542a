"""Which volumes the pods on nodes use, and which attachments there are for them."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from tonnage.cluster.cache import Cache
from tonnage.cluster.watch_events import Change, EventType
from tonnage.embedded.world.caches import WorldCaches
from tonnage.embedded.world.pod_index import PodKey
from tonnage.objects import volumes as pod_volumes
from tonnage.objects.pods import FINISHED, Pod
from tonnage.objects.storage import (
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

ClaimKey: TypeAlias = tuple[str, str]


class Used(NamedTuple):
    """A volume that a pod uses; `driver` is empty where nothing has to be mounted by one."""

    volume: str
    driver: str


class StorageIndex:
    """Claims, volumes and classes, as they are looked up by those who resolve volumes."""

    intree_apart = False

    def __init__(self, caches: WorldCaches, csi_drivers: Cache[CSIDriver]) -> None:
        self._claims = caches.claims
        self._volumes = caches.volumes
        self._classes = caches.classes
        self._csi_drivers = csi_drivers

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        return self._claims.get(name, namespace=namespace)

    def volume(self, name: str) -> PersistentVolume | None:
        return self._volumes.get(name)

    def storage_class(self, name: str) -> StorageClass | None:
        return self._classes.get(name)

    def attaches(self, driver: str) -> bool:
        """Whether volumes of the driver are attached to nodes; so it is unless it says not."""
        found = self._csi_drivers.get(driver)
        return bool(driver) and (found is None or found.spec.attach_required is not False)

    def used(self, pod: Pod) -> Iterator[tuple[str, Used | None]]:
        """Each claim of a pod with its volume, `None` as long as it has none."""
        for volume in pod_volumes.of_pod(pod):
            if not volume.claim:
                continue
            claim = self.claim(pod.metadata.namespace, volume.claim)
            if claim is None or not claim.fully_bound:
                yield volume.claim, None
                continue
            name = claim.spec.volume_name
            if self.volume(name) is None:
                yield volume.claim, None
                continue
            use = pod_volumes.use_of_claim(claim, self)
            yield volume.claim, Used(name, use[0].driver if use is not None else "")


class AttachmentIndex:
    """Attachments by volume and node."""

    def __init__(self, attachments: Cache[VolumeAttachment]) -> None:
        self._by_volume: defaultdict[str, dict[str, VolumeAttachment]] = defaultdict(dict)
        attachments.subscribe(self._changed)

    def of(self, volume: str) -> dict[str, VolumeAttachment]:
        return self._by_volume[volume]

    def is_attached(self, volume: str, node: str) -> bool:
        found = self._by_volume[volume].get(node)
        return (
            found is not None
            and found.status.attached
            and found.metadata.deletion_timestamp is None
        )

    def _changed(self, change: Change[VolumeAttachment]) -> None:
        spec = change.object.spec
        there = self._by_volume[spec.source.persistent_volume_name or ""]
        if change.type is EventType.DELETED:
            there.pop(spec.node_name, None)
        else:
            there[spec.node_name] = change.object


class PodVolumes:
    """Volumes by the nodes and pods that use them: pods that are on a node and not finished."""

    def __init__(self, caches: WorldCaches, storage: StorageIndex) -> None:
        self._storage = storage
        self._pods = caches.pods
        self._of_claim: defaultdict[ClaimKey, dict[PodKey, None]] = defaultdict(dict)
        self._users: defaultdict[str, dict[str, dict[PodKey, None]]] = defaultdict(dict)
        self._held: dict[PodKey, tuple[str, tuple[Used, ...]]] = {}
        self._listeners: list[Callable[[Used], None]] = []
        caches.pods.subscribe(self._pod_changed)
        caches.claims.subscribe(lambda change: self._claim_changed(change.object))
        caches.volumes.subscribe(self._volume_changed)

    def follow(self, listener: Callable[[Used], None]) -> None:
        """Be told of each volume that is used by another pod, or no longer by one."""
        self._listeners.append(listener)

    def nodes_using(self, volume: str) -> dict[str, dict[PodKey, None]]:
        return self._users[volume]

    def users(self, volume: str, node: str) -> list[PodKey]:
        return sorted(self._users[volume].get(node, ()))

    def waiting_for(self, claim: ClaimKey) -> list[PodKey]:
        return sorted(self._of_claim[claim])

    def _pod_changed(self, change: Change[Pod]) -> None:
        pod = change.object
        if not pod.spec.node_name or not pod.spec.volumes:
            return
        meta = pod.metadata
        key = (meta.namespace, meta.name)
        uses = change.type is not EventType.DELETED and pod.status.phase not in FINISHED
        if uses and key in self._held and self._held[key][0] == pod.spec.node_name:
            return  # What a pod uses never changes; claims that change are another matter.
        for volume in pod_volumes.of_pod(pod):
            if volume.claim and uses:
                self._of_claim[meta.namespace, volume.claim][key] = None
            elif volume.claim:
                self._of_claim[meta.namespace, volume.claim].pop(key, None)
        self._hold(key, pod if uses else None)

    def _claim_changed(self, claim: PersistentVolumeClaim) -> None:
        for key in self.waiting_for((claim.metadata.namespace, claim.metadata.name)):
            self._hold(key, self._pods.get(key[1], namespace=key[0]))

    def _volume_changed(self, change: Change[PersistentVolume]) -> None:
        reference = change.object.spec.claim_ref
        if change.type is EventType.ADDED and reference is not None:
            for key in self.waiting_for((reference.namespace, reference.name)):
                self._hold(key, self._pods.get(key[1], namespace=key[0]))

    def _hold(self, key: PodKey, pod: Pod | None) -> None:
        node, before = self._held.pop(key, ("", ()))
        after: tuple[Used, ...] = ()
        if pod is not None:
            after = tuple(used for _, used in self._storage.used(pod) if used is not None)
            self._held[key] = (pod.spec.node_name, after)
            if after == before and node == pod.spec.node_name:
                return
        for used in before:
            users = self._users[used.volume]
            users.get(node, {}).pop(key, None)
            if not users.get(node):
                users.pop(node, None)
        if pod is not None:
            for used in after:
                self._users[used.volume].setdefault(pod.spec.node_name, {})[key] = None
        for used in dict.fromkeys((*before, *after)):
            for listener in self._listeners:
                listener(used)

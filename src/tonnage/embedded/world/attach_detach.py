"""The attach-detach controller's part: attachments exist for what pods on nodes use."""

import hashlib

from tonnage.cluster import errors
from tonnage.cluster.watch_events import Change, EventType
from tonnage.embedded.world.caches import WorldCaches
from tonnage.embedded.world.event_writer import EventWriter
from tonnage.embedded.world.keyed_tasks import WorldContext
from tonnage.embedded.world.pod_volumes import AttachmentIndex, PodVolumes, StorageIndex, Used
from tonnage.embedded.world.work_queue import WorkQueue
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.storage import (
    AttachmentSource,
    AttachmentSpec,
    PersistentVolume,
    VolumeAttachment,
)

_SHARED = ("ReadWriteMany", "ReadOnlyMany")


class AttachDetach:
    """Asks for an attachment once a pod is on a node, and gives it up with its last pod there.

    A volume that can be on one node only waits until it is detached from the other.
    """

    def __init__(
        self,
        context: WorldContext,
        caches: WorldCaches,
        *,
        storage: StorageIndex,
        uses: PodVolumes,
        index: AttachmentIndex,
        event_writer: EventWriter,
    ) -> None:
        self._client = context.client
        self._pods = caches.pods
        self._event_writer = event_writer
        self._storage = storage
        self._uses = uses
        self._index = index
        self._drivers: dict[str, str] = {}
        self._queue = WorkQueue("attachments of", self._look, context)
        uses.follow(self._use_changed)
        caches.attachments.subscribe(self._attachment_changed)

    def _use_changed(self, used: Used) -> None:
        if self._storage.attaches(used.driver):
            self._drivers[used.volume] = used.driver
            self._queue.note(used.volume)

    def _attachment_changed(self, change: Change[VolumeAttachment]) -> None:
        volume = change.object.spec.source.persistent_volume_name or ""
        self._queue.note(volume)
        if change.type is not EventType.DELETED and change.object.status.attach_error is not None:
            self._complain(volume, change.object)

    def _complain(self, volume: str, attachment: VolumeAttachment) -> None:
        node, error = attachment.spec.node_name, attachment.status.attach_error
        assert error is not None
        for namespace, name in self._uses.users(volume, node):
            pod = self._pods.get(name, namespace=namespace)
            if pod is not None:
                problem = f"volume {volume} is not attached to node {node}: {error.message}"
                self._event_writer.attach_failed(pod, problem)

    async def _look(self, volume: str) -> None:
        used_on, attached_to = self._uses.nodes_using(volume), dict(self._index.of(volume))
        for node, attachment in sorted(attached_to.items()):
            if node not in used_on and attachment.metadata.deletion_timestamp is None:
                await self._give_up(attachment)
        found = self._storage.volume(volume)
        if found is None or volume not in self._drivers:
            return
        for node in sorted(used_on):
            elsewhere = [other for other in attached_to if other != node]
            if node not in attached_to and (not elsewhere or _is_shared(found)):
                attached_to[node] = await self._ask_for(volume, node)

    async def _give_up(self, attachment: VolumeAttachment) -> None:
        meta = attachment.metadata
        try:
            await self._client.delete(VolumeAttachment, meta.name, uid=meta.uid)
        except (errors.NotFound, errors.Conflict):
            return  # It is gone, or another one by now.

    async def _ask_for(self, volume: str, node: str) -> VolumeAttachment:
        driver = self._drivers[volume]
        wanted = VolumeAttachment(
            metadata=ObjectMeta(name=_name(volume, driver, node)),
            spec=AttachmentSpec(
                attacher=driver,
                node_name=node,
                source=AttachmentSource(persistent_volume_name=volume),
            ),
        )
        try:
            return await self._client.create(VolumeAttachment, wanted)
        except errors.Conflict as error:
            if not error.already_exists:
                raise
        return wanted


def _is_shared(volume: PersistentVolume) -> bool:
    return any(mode in _SHARED for mode in volume.spec.access_modes)


def _name(*about: str) -> str:
    return f"csi-{hashlib.sha256('/'.join(about).encode()).hexdigest()}"

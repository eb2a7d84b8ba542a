"""What keeps a pod from starting: volumes that are not bound, not attached or cannot be mounted."""

from collections.abc import Callable

from tonnage.cluster.watch_events import Change
from tonnage.embedded.world.caches import WorldCaches
from tonnage.embedded.world.pod_index import PodKey, PodsOnNodes
from tonnage.embedded.world.pod_volumes import AttachmentIndex, PodVolumes, StorageIndex
from tonnage.objects.pods import Pod
from tonnage.objects.storage import CSINode, PersistentVolumeClaim, VolumeAttachment


class MountChecks:
    """Answers for one pod on its node; `follow` tells which pods had better be asked about again.

    Made after the indexes it is given, so that those are up to date when it tells.
    """

    def __init__(
        self,
        caches: WorldCaches,
        *,
        storage: StorageIndex,
        uses: PodVolumes,
        index: AttachmentIndex,
        on_nodes: PodsOnNodes,
    ) -> None:
        self._storage = storage
        self._uses = uses
        self._index = index
        self._on_nodes = on_nodes
        self._csi_nodes = caches.csi_nodes
        self._listeners: list[Callable[[PodKey], None]] = []
        caches.attachments.subscribe(self._attachment_changed)
        caches.claims.subscribe(self._claim_changed)
        caches.csi_nodes.subscribe(self._csi_node_changed)

    def follow(self, listener: Callable[[PodKey], None]) -> None:
        self._listeners.append(listener)

    def absent_driver(self, pod: Pod) -> str:
        """The driver of a volume that is bound, if the pod's node does not have it."""
        node = pod.spec.node_name
        for _, used in self._storage.used(pod):
            if used is not None and used.driver and not self._is_registered(used.driver, node):
                return used.driver
        return ""

    def missing(self, pod: Pod) -> str:
        """What the pod waits for, empty if for nothing."""
        node = pod.spec.node_name
        for claim, used in self._storage.used(pod):
            if used is None:
                return f"claim {claim} is not bound"
            if used.driver and not self._is_registered(used.driver, node):
                return f"driver {used.driver} is not registered on node {node}"
            if self._storage.attaches(used.driver) and not self._index.is_attached(
                used.volume, node
            ):
                return f"volume {used.volume} is not attached to node {node}"
        return ""

    def _is_registered(self, driver: str, node: str) -> bool:
        found = self._csi_nodes.get(node)
        return found is not None and any(one.name == driver for one in found.spec.drivers)

    def _attachment_changed(self, change: Change[VolumeAttachment]) -> None:
        spec = change.object.spec
        if change.object.status.attached:
            self._tell(self._uses.users(spec.source.persistent_volume_name or "", spec.node_name))

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        meta = change.object.metadata
        self._tell(self._uses.waiting_for((meta.namespace, meta.name)))

    def _csi_node_changed(self, change: Change[CSINode]) -> None:
        pods = self._on_nodes.on(change.object.metadata.name)
        self._tell([(pod.metadata.namespace, pod.metadata.name) for pod in pods])

    def _tell(self, keys: list[PodKey]) -> None:
        for key in keys:
            for listener in self._listeners:
                listener(key)

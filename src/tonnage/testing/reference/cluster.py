"""A cluster as one scheduling attempt sees it, and the few ways it changes in a replay."""

from collections.abc import Iterable, Mapping
from itertools import chain

import msgspec

from tonnage.errors import InputError
from tonnage.objects.nodes import Namespace, Node
from tonnage.objects.pods import FINISHED, Pod
from tonnage.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tonnage.testing.reference import volume_choice
from tonnage.testing.reference.inventory import HostedNode, StorageObjects, key


class ReferenceCluster:
    """A pod is on at most one node, and waits only while it is on none.

    Objects of kinds that no filter reads are passed over. Pods that are finished,
    or that name a node which does not exist, are nowhere, as in upstream's snapshot.
    With `returning_volume_once` a volume that is still attached for a pod that returns
    takes one slot, where upstream counts two.
    """

    def __init__(
        self,
        objects: Iterable[object],
        *,
        kubernetes_version: tuple[int, int] = (1, 37),
        gates: Mapping[str, bool] | None = None,
        returning_volume_once: bool = False,
    ) -> None:
        self.kubernetes_version = kubernetes_version
        self.returning_volume_once = returning_volume_once
        self.nodes: dict[str, HostedNode] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.storage = StorageObjects()
        self._gates = {
            "VolumeLimitScaling": kubernetes_version >= (1, 37),
            "NodeDeclaredFeatures": kubernetes_version >= (1, 36),
            **(gates or {}),
        }
        self._pending: dict[str, Pod] = {}
        self._replaced: dict[str, list[PersistentVolume | PersistentVolumeClaim]] = {}
        csi_nodes: dict[str, CSINode] = {}
        pods: list[Pod] = []
        for item in objects:
            match item:
                case Node():
                    self.nodes[item.metadata.name] = HostedNode(item, None)
                case CSINode():
                    csi_nodes[item.metadata.name] = item
                case Pod():
                    pods.append(item)
                case Namespace():
                    self.namespaces[item.metadata.name] = item
                case _:
                    self._store(item)
        for name, hosted in self.nodes.items():
            hosted.csi_node = csi_nodes.get(name)
        for pod in pods:
            self._admit(pod)

    def enabled(self, gate: str) -> bool:
        """Whether a feature gate is on: as asked for, else by the version's default."""
        return self._gates.get(gate, False)

    def pending(self) -> list[Pod]:
        """Pods that wait for a node, gated ones included."""
        return list(self._pending.values())

    def running(self) -> Iterable[Pod]:
        """Pods on all nodes."""
        return chain.from_iterable(hosted.pods for hosted in self.nodes.values())

    def place(self, pod: Pod, node_name: str, *, assume_volumes: bool = True) -> None:
        """Puts a pod on a node, whether or not it fits there.

        `assume_volumes` does what upstream's Reserve does: volumes chosen for unbound
        claims are taken, and claims to be provisioned are pinned to the node.
        """
        hosted = self.nodes.get(node_name)
        if hosted is None:
            raise InputError(f"pod {key(pod.metadata)}: there is no node {node_name!r}")
        if any(key(other.metadata) == key(pod.metadata) for other in self.running()):
            raise InputError(f"pod {key(pod.metadata)}: is on a node already")
        if assume_volumes:
            self._assume(pod, hosted)
        self._pending.pop(key(pod.metadata), None)
        spec = msgspec.structs.replace(pod.spec, node_name=node_name)
        hosted.pods.append(msgspec.structs.replace(pod, spec=spec))

    def remove(self, pod: Pod) -> None:
        """Takes a pod off its node, or out of the queue, and undoes what placing it assumed."""
        name = key(pod.metadata)
        self._pending.pop(name, None)
        for hosted in self.nodes.values():
            hosted.pods = [other for other in hosted.pods if key(other.metadata) != name]
        for before in self._replaced.pop(name, []):
            self._store(before)

    def add_node(self, node: Node, csi_node: CSINode | None, pods: Iterable[Pod] = ()) -> None:
        """Adds a node with the pods that come with it."""
        name = node.metadata.name
        if name in self.nodes:
            raise InputError(f"node {name!r}: is in the cluster already")
        self.nodes[name] = HostedNode(node, csi_node)
        for pod in pods:
            self.place(pod, name)

    def _store(self, item: object) -> None:
        match item:
            case PersistentVolumeClaim():
                self.storage.claims[key(item.metadata)] = item
            case PersistentVolume():
                self.storage.volumes[item.metadata.name] = item
            case StorageClass():
                self.storage.classes[item.metadata.name] = item
            case CSIDriver():
                self.storage.drivers[item.metadata.name] = item
            case CSIStorageCapacity():
                self.storage.capacities[key(item.metadata)] = item
            case VolumeAttachment():
                self.storage.attachments[item.metadata.name] = item

    def _admit(self, pod: Pod) -> None:
        if pod.status.phase in FINISHED:
            return
        if not pod.spec.node_name:
            if pod.metadata.deletion_timestamp is None:
                self._pending[key(pod.metadata)] = pod
        elif pod.spec.node_name in self.nodes:
            self.nodes[pod.spec.node_name].pods.append(pod)

    def _assume(self, pod: Pod, hosted: HostedNode) -> None:
        replaced: list[PersistentVolume | PersistentVolumeClaim] = []
        for assumed in volume_choice.assumed(self.storage, pod, hosted):
            if isinstance(assumed, PersistentVolume):
                replaced.append(self.storage.volumes[assumed.metadata.name])
            else:
                replaced.append(self.storage.claims[key(assumed.metadata)])
            self._store(assumed)
        if replaced:
            self._replaced[key(pod.metadata)] = replaced

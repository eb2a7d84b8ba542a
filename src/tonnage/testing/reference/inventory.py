"""The plain containers a cluster is made of: a node with its pods, and storage objects by name."""

from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)


class HostedNode:
    """A node, its CSINode if there is one, and the pods on it in the order they came."""

    def __init__(self, node: Node, csi_node: CSINode | None) -> None:
        self.node = node
        self.csi_node = csi_node
        self.pods: list[Pod] = []

    @property
    def name(self) -> str:
        return self.node.metadata.name

    @property
    def labels(self) -> dict[str, str]:
        return self.node.metadata.labels


class StorageObjects:
    """Storage objects, each kind by name, in the order they were given."""

    def __init__(self) -> None:
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self.capacities: dict[str, CSIStorageCapacity] = {}
        self.attachments: dict[str, VolumeAttachment] = {}

    def claim(self, pod: Pod, name: str) -> PersistentVolumeClaim | None:
        """The claim of that name in the pod's namespace."""
        return self.claims.get(f"{namespace(pod.metadata)}/{name}")


def namespace(meta: ObjectMeta) -> str:
    """The object's namespace; none given means `default`."""
    return meta.namespace or "default"


def key(meta: ObjectMeta) -> str:
    """`namespace/name`."""
    return f"{namespace(meta)}/{meta.name}"

"""The kinds of objects that most parts of the world live on, each watched once."""

from typing import NamedTuple

from tonnage.cluster.cache import Cache
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)


class WorldCaches(NamedTuple):
    """Each part subscribes to those it follows, and looks up others in them."""

    nodes: Cache[Node]
    csi_nodes: Cache[CSINode]
    pods: Cache[Pod]
    claims: Cache[PersistentVolumeClaim]
    volumes: Cache[PersistentVolume]
    classes: Cache[StorageClass]
    attachments: Cache[VolumeAttachment]

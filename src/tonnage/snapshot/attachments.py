"""VolumeAttachments: which of them hold a slot of a node.

An attachment counts once its node and its volume are both known; either may come late,
go, and come back.
"""

from collections.abc import Mapping

from tonnage.objects.storage import VolumeAttachment
from tonnage.objects.volumes import VolumeUse
from tonnage.snapshot.records import NodeRecord
from tonnage.snapshot.slots import SlotLedger
from tonnage.snapshot.storage import StorageState


class Attachments:
    """The ledger holds a slot for exactly those whose node and CSI volume are there."""

    def __init__(
        self, ledger: SlotLedger, storage: StorageState, nodes: Mapping[str, NodeRecord]
    ) -> None:
        self._ledger = ledger
        self._storage = storage
        self._nodes = nodes
        self.by_name: dict[str, VolumeAttachment] = {}
        self.leaving: set[str] = set()
        """Those that are being deleted."""
        self._by_node: dict[str, set[str]] = {}
        self._by_volume: dict[str, tuple[str, ...]] = {}
        self._counted: dict[str, tuple[int, VolumeUse]] = {}

    def add(self, attachment: VolumeAttachment) -> None:
        """Take in one whose name is not taken."""
        name, spec = attachment.metadata.name, attachment.spec
        self.by_name[name] = attachment
        if attachment.metadata.deletion_timestamp is not None:
            self.leaving.add(name)
        self._by_node.setdefault(spec.node_name, set()).add(name)
        volume = spec.source.persistent_volume_name
        if volume is not None:
            self._by_volume[volume] = (*self._by_volume.get(volume, ()), name)
        self._count(attachment)

    def remove(self, name: str) -> None:
        self._uncount(name)
        self.leaving.discard(name)
        spec = self.by_name.pop(name).spec
        names = self._by_node[spec.node_name]
        names.remove(name)
        if not names:
            del self._by_node[spec.node_name]
        volume = spec.source.persistent_volume_name
        if volume is not None:
            left = tuple(one for one in self._by_volume.pop(volume) if one != name)
            if left:
                self._by_volume[volume] = left

    def node_came(self, node_name: str) -> None:
        for name in self._by_node.get(node_name, ()):
            self._count(self.by_name[name])

    def node_goes(self, node_name: str) -> None:
        for name in self._by_node.get(node_name, ()):
            self._uncount(name)

    def volume_came(self, volume_name: str) -> None:
        for name in self._by_volume.get(volume_name, ()):
            self._count(self.by_name[name])

    def volume_goes(self, volume_name: str) -> None:
        for name in self._by_volume.get(volume_name, ()):
            self._uncount(name)

    def _count(self, attachment: VolumeAttachment) -> None:
        node = self._nodes.get(attachment.spec.node_name)
        use = self._storage.use_of(attachment)
        if node is None or use is None or not use.driver:
            return
        self._ledger.attach(node.row, use)
        self._counted[attachment.metadata.name] = (node.row, use)

    def _uncount(self, name: str) -> None:
        counted = self._counted.pop(name, None)
        if counted is not None:
            self._ledger.detach(*counted)

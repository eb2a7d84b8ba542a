"""What the API server has about this node, and no more: its Node, CSINode and attachments.

Attachments cannot be selected by node, so all of them come by; of those of other nodes only the
name is kept.
"""

import random

import msgspec

from tonnage.clock import Clock
from tonnage.cluster import resources
from tonnage.cluster.client import Client, Selection
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.resources import Resource
from tonnage.objects.meta import ObjectMeta, Record
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSIDriver, CSINode, VolumeAttachment


class NodeObjects:
    """Caches of the kinds the agent follows."""

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._name = name
        itself = Selection(fields=f"metadata.name={name}")
        self.mirror = Mirror(client, clock=clock, rng=rng)
        self.nodes = self.mirror.add(Node, itself)
        self.csinodes = self.mirror.add(CSINode, itself)
        self.drivers = self.mirror.add(CSIDriver)
        self.attachments = self.mirror.add(_attachments_of(name))

    @property
    def complete(self) -> bool:
        """Whether everything is known that may be known; without the node there is nothing."""
        others = (self.csinodes, self.drivers, self.attachments)
        return self.nodes.synced and all(other.synced or other.obstacle for other in others)

    @property
    def node(self) -> Node | None:
        return self.nodes.get(self._name)

    @property
    def csinode(self) -> CSINode | None:
        return self.csinodes.get(self._name)


def _attachments_of(node: str) -> Resource[VolumeAttachment]:
    usual = resources.of(VolumeAttachment)

    def decode(data: bytes | msgspec.Raw) -> VolumeAttachment:
        head = _HEAD.decode(data)
        if head.spec.node_name == node:
            return usual.decode(data)
        meta = head.metadata
        return VolumeAttachment(
            metadata=ObjectMeta(
                name=meta.name, uid=meta.uid, resource_version=meta.resource_version
            )
        )

    return usual.decoded_by(decode)


class _Identity(Record, frozen=True, kw_only=True):
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class _HeadSpec(Record, frozen=True, kw_only=True):
    node_name: str = ""


class _Head(Record, frozen=True, kw_only=True):
    metadata: _Identity = _Identity()
    spec: _HeadSpec = _HeadSpec()


_HEAD = msgspec.json.Decoder(_Head)

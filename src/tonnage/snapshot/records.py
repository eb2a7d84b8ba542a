"""What the snapshot keeps of a node and of a pod, apart from the columns."""

from typing import NamedTuple

from tonnage.objects import volumes
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.volumes import PodVolume, Slots
from tonnage.snapshot.classes import PodClass

NOWHERE = -1


class NodeRecord(NamedTuple):
    name: str
    row: int
    order: int
    node: Node


class PodRecord:
    """A pod the snapshot knows. `row` is where it is placed, or NOWHERE.

    `pin` is the only node that a pod of a pinned class may go to.
    """

    __slots__ = (
        "key",
        "meta",
        "node_name",
        "nominated",
        "order",
        "pin",
        "pods",
        "row",
        "slots",
        "volumes",
    )

    def __init__(
        self,
        meta: ObjectMeta,
        pods: PodClass,
        pod_volumes: tuple[PodVolume, ...],
        *,
        node_name: str,
        nominated: str,
        order: int,
        pin: str | None = None,
    ) -> None:
        self.key = f"{meta.namespace}/{meta.name}"
        self.meta = meta
        self.pods = pods
        self.volumes = pod_volumes
        self.node_name = node_name
        self.nominated = nominated
        self.order = order
        self.pin = pin
        self.row = NOWHERE
        self.slots: Slots = volumes.NO_SLOTS

    @property
    def terminating(self) -> bool:
        return self.meta.deletion_timestamp is not None

    def moved_to(self, node_name: str) -> "PodRecord":
        """The same pod as if it had been bound to another node, or to none."""
        return PodRecord(
            self.meta,
            self.pods,
            self.volumes,
            node_name=node_name,
            nominated="",
            order=self.order,
            pin=self.pin,
        )

    @property
    def pending(self) -> bool:
        """Waiting for a node: has none, and is not being deleted."""
        return not self.node_name and not self.terminating

"""What the snapshot keeps of a node and of a pod, apart from the columns."""

import msgspec

from tonnage.objects.gangs import GangName
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.volumes import NO_SLOTS, PodVolume, Slots
from tonnage.snapshot.classes import PodClass
from tonnage.snapshot.waiting_claims import ClaimsOfPod, WaitingClaim, WaitingClaims

NOWHERE = -1


class NodeRecord(msgspec.Struct, frozen=True):
    """A node of the snapshot. Of an imagined one `node` is the template, under its own name."""

    name: str
    row: int
    order: int
    node: Node
    imagined: bool = False


class PodRecord(msgspec.Struct, gc=False, eq=False):
    """A pod the snapshot knows. `row` is where it is placed, or NOWHERE.

    `pin` is the only node that a pod of a pinned class may go to, `gang` the pods that are of use
    only together with it. There is one for every pod
    of the cluster, so it is small and the garbage collector passes it over: it is in no cycle.
    """

    meta: ObjectMeta
    pod_class: PodClass
    volumes: tuple[PodVolume, ...]
    key: str
    node_name: str
    nominated: str
    order: int
    pin: str | None = None
    row: int = NOWHERE
    slots: Slots = NO_SLOTS
    gang: GangName | None = None
    _claims: tuple[WaitingClaim, ...] | None = None
    _alike: ClaimsOfPod | None = None
    _alike_as_of: int = -1

    @property
    def complexity(self) -> int:
        """How much there is to look at when the pod is decided on."""
        return self.pod_class.complexity + len(self.volumes)

    @property
    def terminating(self) -> bool:
        return self.meta.deletion_timestamp is not None

    def moved_to(self, node_name: str) -> "PodRecord":
        """The same pod as if it had been bound to another node, or to none."""
        return PodRecord(
            self.meta,
            self.pod_class,
            self.volumes,
            key=self.key,
            node_name=node_name,
            nominated="",
            order=self.order,
            pin=self.pin,
            gang=self.gang,
        )

    def waiting_claims(self, known: WaitingClaims) -> ClaimsOfPod | None:
        """The claims of its volumes, if it has no other volumes and none of them has a volume."""
        if self._alike_as_of == known.changes:
            return self._alike
        before = self._claims
        found = self._claims = known.of_pod(self.meta.namespace, self.volumes, before)
        if found is None:
            return None
        if found is not before:
            self._alike = known.alike(found)
        self._alike_as_of = known.changes
        return self._alike

    @property
    def pending(self) -> bool:
        """Waiting for a node: has none, and is not being deleted."""
        return not self.node_name and self.meta.deletion_timestamp is None

"""Storage that this scheduler has pledged to claims, as long as nobody publishes that it is taken.

kube-scheduler looks at what a driver published last, at each claim alone. Until the driver tells of
a new volume its space looks free, and the next pods of a burst are sent to a node that has none. So
what was pledged counts here until it shows: published capacity went down by it, or time enough has
passed since the volume was made. Nothing else is counted: where nothing was pledged, what is
published decides.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import msgspec

from tonnage.objects import quantities
from tonnage.objects.storage import CSIStorageCapacity, PersistentVolumeClaim
from tonnage.scaleup import pod_groups
from tonnage.snapshot import published_storage, storage_ledger
from tonnage.snapshot.snapshot import PodRecord, Snapshot

ClaimKey: TypeAlias = tuple[str, str]

SHOWS_WITHIN = 90.0
"""Seconds from a volume to its showing in published capacity: an external-provisioner asks its
driver every minute unless told otherwise, and may take a while to write what it heard."""


class Pledge(msgspec.Struct):
    """Space for one claim on a node; `made_at` is when its volume was there."""

    node: str
    storage_class: str
    size: int
    made_at: float | None = None


class Pledges:
    """Claims whose volumes are to be made, or were made and do not show yet."""

    def __init__(self) -> None:
        self._kept: dict[ClaimKey, Pledge] = {}
        self._freed = False

    def __iter__(self) -> Iterator[Pledge]:
        return iter(self._kept.values())

    def give(self, claim: PersistentVolumeClaim, node: str) -> None:
        """The claim's volume will be made there."""
        size = storage_ledger.size_of(claim)
        if size:
            self._kept[claim_key(claim)] = Pledge(node, claim.class_name, size)

    def holds(self, claim: PersistentVolumeClaim, node: str) -> bool:
        """Whether the claim has a pledge of this node."""
        kept = self._kept.get(claim_key(claim))
        return kept is not None and kept.node == node

    def take_back(self, claim: PersistentVolumeClaim) -> None:
        """There will be no volume, unless there is one already."""
        kept = self._kept.get(claim_key(claim))
        if kept is not None and kept.made_at is None:
            self.drop(claim)

    def drop(self, claim: PersistentVolumeClaim) -> None:
        """The claim is gone, and with it its volume."""
        self._freed |= self._kept.pop(claim_key(claim), None) is not None

    def made(self, claim: PersistentVolumeClaim, *, now: float) -> None:
        """The claim has its volume; from now on it should show soon."""
        kept = self._kept.get(claim_key(claim))
        if kept is not None and kept.made_at is None:
            kept.made_at = now

    def published(
        self,
        before: CSIStorageCapacity,
        after: CSIStorageCapacity,
        *,
        covers: Callable[[str], bool],
    ) -> None:
        """What is published of some nodes has changed: volumes that it went down by show now."""
        lower = _amount(before) - _amount(after)
        for key, one in list(self._kept.items()):
            if lower < one.size or one.storage_class != after.storage_class_name:
                continue
            if covers(one.node):
                lower -= one.size
                del self._kept[key]

    def lapse(self, now: float) -> bool:
        """Forget what should have shown by now; whether any space was freed since last asked."""
        late = [
            key
            for key, one in self._kept.items()
            if one.made_at is not None and now - one.made_at >= SHOWS_WITHIN
        ]
        for key in late:
            del self._kept[key]
        freed, self._freed = self._freed or bool(late), False
        return freed

    def clear(self) -> None:
        self._kept.clear()


@contextmanager
def counted(snapshot: Snapshot, records: Iterable[PodRecord], pledges: Pledges) -> Iterator[None]:
    """While pods are decided: what was pledged counts, and what they are given counts for the next.

    Pods are given something by `storage_ledger.take` of the snapshot's ledger.
    """
    classes, askers = _asked_for(snapshot, records)
    pledged = [
        (snapshot.nodes[pledge.node].row, pledge.storage_class, pledge.size)
        for pledge in pledges
        if pledge.node in snapshot.nodes
    ]
    # A single pod and no pledges: kube-scheduler's check is all there is, and costs less.
    if classes and (pledged or askers > 1):
        published_storage.open_for_pledges(snapshot, classes, pledged=pledged)
    try:
        yield
    finally:
        published_storage.close(snapshot)


def _asked_for(snapshot: Snapshot, records: Iterable[PodRecord]) -> tuple[frozenset[str], int]:
    """Classes of drivers that publish capacity and are to make volumes; for how many pods."""
    tracked = storage_ledger.tracked(snapshot.storage)
    if not tracked:
        return frozenset(), 0
    drivers: set[str] = set()
    askers = 0
    for record in records:
        wanted = {
            tracked[claim.class_name].provisioner
            for claim in pod_groups.unbound_claims(snapshot, record)
            if claim.class_name in tracked
        }
        drivers |= wanted
        askers += bool(wanted)
    # All classes of a driver: they may share a disk.
    names = frozenset(name for name, one in tracked.items() if one.provisioner in drivers)
    return names, askers


def _amount(capacity: CSIStorageCapacity) -> int:
    told = capacity.capacity if capacity.capacity is not None else capacity.maximum_volume_size
    return quantities.value(told) if told is not None else 0


def claim_key(claim: PersistentVolumeClaim) -> ClaimKey:
    return (claim.metadata.namespace, claim.metadata.name)

"""Space on disks that was given to claims, as long as nobody publishes that it is taken.

kube-scheduler looks at what a driver published last, at each claim alone. Until the driver tells of
a new volume its space looks free, and the next pods of a burst are sent to a node that has none. So
what a claim was given counts here until it shows: published capacity went down by it, or time
enough has passed since the volume was made. Nothing else is counted: where nothing was given, what
is published decides.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from tonnage.objects import quantities
from tonnage.objects.storage import CSIStorageCapacity, PersistentVolumeClaim
from tonnage.scaleup import pod_groups
from tonnage.snapshot import published_storage, storage_ledger
from tonnage.snapshot.reservations import Reservation, Reservations, Source
from tonnage.snapshot.snapshot import PodRecord, Snapshot

SHOWS_WITHIN = 90.0
"""Seconds from a volume to its showing in published capacity: an external-provisioner asks its
driver every minute unless told otherwise, and may take a while to write what it heard."""


class ClaimSpace:
    """Claims whose volumes are to be made, or were made and do not show yet.

    They are entries of the reservations with an amount of a storage class on a node; one that has
    an end is of a volume that was made.
    """

    def __init__(self, reservations: Reservations) -> None:
        self._held = reservations
        self._freed = False

    def __iter__(self) -> Iterator[Reservation]:
        return (entry for entry in self._held.of(Source.SELECTED_NODE) if entry.amounts)

    def give(self, claim: PersistentVolumeClaim, node: str, *, now: float) -> None:
        """The claim's volume will be made there."""
        size = storage_ledger.size_of(claim)
        if size:
            amounts = {claim.class_name: size}
            self._held.hold(
                Reservation(holder_of(claim), Source.SELECTED_NODE, now, node=node, amounts=amounts)
            )

    def holds(self, claim: PersistentVolumeClaim, node: str) -> bool:
        """Whether the claim was given space on this node."""
        entry = self._held.get(holder_of(claim), Source.SELECTED_NODE)
        return entry is not None and entry.node == node

    def take_back(self, claim: PersistentVolumeClaim) -> None:
        """There will be no volume, unless there is one already."""
        entry = self._held.get(holder_of(claim), Source.SELECTED_NODE)
        if entry is not None and entry.until is None:
            self.drop(claim)

    def drop(self, claim: PersistentVolumeClaim) -> None:
        """The claim is gone, and with it its volume."""
        self._freed |= self._held.release(holder_of(claim), Source.SELECTED_NODE)

    def made(self, claim: PersistentVolumeClaim, *, now: float) -> None:
        """The claim has its volume; from now on it should show soon."""
        self._held.end_at(holder_of(claim), Source.SELECTED_NODE, now + SHOWS_WITHIN)

    def published(
        self,
        before: CSIStorageCapacity,
        after: CSIStorageCapacity,
        *,
        covers: Callable[[str], bool],
    ) -> None:
        """What is published of some nodes has changed: volumes that it went down by show now."""
        lower = _amount(before) - _amount(after)
        for entry in list(self):
            size = entry.amounts.get(after.storage_class_name)
            if size is not None and size <= lower and covers(entry.node):
                lower -= size
                self._held.release(entry.holder, entry.source)

    def lapse(self, now: float) -> bool:
        """Forget what should have shown by now; whether any space was freed since last asked."""
        late = any(entry.amounts for entry in self._held.expire(now))
        freed, self._freed = self._freed or late, False
        return freed


@contextmanager
def counted(snapshot: Snapshot, records: Iterable[PodRecord], space: ClaimSpace) -> Iterator[None]:
    """While pods are decided: what was given counts, and what they are given counts for the next.

    Pods are given something by `storage_ledger.take` of the snapshot's ledger.
    """
    classes, askers = _asked_for(snapshot, records)
    given = [
        (snapshot.nodes[entry.node].row, storage_class, size)
        for entry in space
        if entry.node in snapshot.nodes
        for storage_class, size in entry.amounts.items()
    ]
    # A single pod and nothing given: kube-scheduler's check is all there is, and costs less.
    if classes and (given or askers > 1):
        published_storage.open_for_given(snapshot, classes, given=given)
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


def holder_of(claim: PersistentVolumeClaim) -> str:
    """What a claim is called among pods that hold something."""
    return f"claim:{claim.metadata.namespace}/{claim.metadata.name}"

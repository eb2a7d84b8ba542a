"""Changes to storage: what a claim, a volume or a class comes to for pods that are placed.

A claim that binds, a volume that appears, a class that changes moves the slots of exactly the
pods that use it.
"""

from collections.abc import Callable, Iterable

from tonnage.objects import volumes
from tonnage.objects.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tonnage.snapshot.attachments import Attachments
from tonnage.snapshot.journal import Journal
from tonnage.snapshot.occupancy import Occupancy
from tonnage.snapshot.storage import StorageState


class StorageChanges:
    """Placed pods hold the slots that their volumes come to now.

    The opposite of a change is noted once the change is made. By then the change has noted which
    orders to put right, and that has to be done after the opposite.
    """

    def __init__(
        self,
        storage: StorageState,
        occupancy: Occupancy,
        attachments: Attachments,
        journal: Journal,
    ) -> None:
        self._storage = storage
        self._occupancy = occupancy
        self._attachments = attachments
        self._journal = journal
        self.volume_claims: dict[str, tuple[tuple[str, str], ...]] = {}
        self.gone = 0
        """Claims and volumes that went; more may be kept of them than is needed."""

    def put_claim(self, claim: PersistentVolumeClaim) -> None:
        key = (claim.metadata.namespace, claim.metadata.name)
        known = self._storage.claims.get(key)
        self._resettle((key,), lambda: self._link_claim(claim, instead_of=known))
        self._journal.undo_by(
            *((self.drop_claim, *key) if known is None else (self.put_claim, known))
        )

    def put_claims(self, claims: Iterable[PersistentVolumeClaim]) -> None:
        """Many at once. Of one that is new, has no volume and no pod, nothing else is known."""
        held, used = self._storage.claims, self._occupancy.claim_users
        recording = self._journal.recording
        for claim in claims:
            key = (claim.metadata.namespace, claim.metadata.name)
            if recording or claim.spec.volume_name or key in held or key in used:
                self.put_claim(claim)
            else:
                held[key] = claim

    def drop_claim(self, namespace: str, name: str) -> None:
        known = self._storage.claims.get((namespace, name))
        if known is not None:
            self.gone += 1
            self._resettle(((namespace, name),), lambda: self._unlink_claim(known))
            self._journal.undo_by(self.put_claim, known)

    def put_volume(self, volume: PersistentVolume) -> None:
        name = volume.metadata.name
        known = self._storage.volume(name)
        self._resettle_volume(name, lambda: self._storage.put_volume(volume))
        self._journal.undo_by(
            *((self.drop_volume, name) if known is None else (self.put_volume, known))
        )

    def drop_volume(self, name: str) -> None:
        known = self._storage.volume(name)
        if known is not None:
            self.gone += 1
            self._resettle_volume(name, lambda: self._storage.drop_volume(name))
            self._journal.undo_by(self.put_volume, known)

    def put_class(self, storage_class: StorageClass) -> None:
        name = storage_class.metadata.name
        known = self._storage.classes.get(name)
        self._resettle(
            self._claims_of_class(name),
            lambda: self._storage.classes.__setitem__(name, storage_class),
        )
        self._journal.undo_by(
            *((self.drop_class, name) if known is None else (self.put_class, known))
        )

    def drop_class(self, name: str) -> None:
        known = self._storage.classes.get(name)
        if known is not None:
            self._resettle(
                self._claims_of_class(name),
                lambda: self._journal.remove(self._storage.classes, name),
            )
            self._journal.undo_by(self.put_class, known)

    def put_driver(self, driver: CSIDriver) -> None:
        self._journal.put(self._storage.drivers, driver.metadata.name, driver)

    def drop_driver(self, name: str) -> None:
        if name in self._storage.drivers:
            self._journal.remove(self._storage.drivers, name)

    def put_capacity(self, capacity: CSIStorageCapacity) -> None:
        key = (capacity.metadata.namespace, capacity.metadata.name)
        known = self._storage.capacity(*key)
        self._storage.put_capacity(capacity)
        self._journal.undo_by(
            *((self.drop_capacity, *key) if known is None else (self.put_capacity, known))
        )

    def drop_capacity(self, namespace: str, name: str) -> None:
        known = self._storage.drop_capacity(namespace, name)
        if known is not None:
            self._journal.undo_by(self.put_capacity, known)

    def put_attachment(self, attachment: VolumeAttachment) -> None:
        name = attachment.metadata.name
        self.drop_attachment(name)
        self._journal.undo_by(self.drop_attachment, name)
        self._attachments.add(attachment)

    def drop_attachment(self, name: str) -> None:
        known = self._attachments.by_name.get(name)
        if known is not None:
            self._journal.keep(self._attachments.by_name)
            self._journal.undo_by(self.put_attachment, known)
            self._attachments.remove(name)

    def _link_claim(
        self, claim: PersistentVolumeClaim, *, instead_of: PersistentVolumeClaim | None
    ) -> None:
        key = (claim.metadata.namespace, claim.metadata.name)
        if instead_of is not None:
            self._unlink_volume(instead_of)
        self._storage.claims[key] = claim
        self._storage.waiting_claims.forget(key)
        volume = claim.spec.volume_name
        if volume:
            self.volume_claims[volume] = (*self.volume_claims.get(volume, ()), key)

    def _unlink_claim(self, claim: PersistentVolumeClaim) -> None:
        key = (claim.metadata.namespace, claim.metadata.name)
        self._unlink_volume(claim)
        self._journal.remove(self._storage.claims, key)
        self._storage.waiting_claims.forget(key)

    def _unlink_volume(self, claim: PersistentVolumeClaim) -> None:
        key = (claim.metadata.namespace, claim.metadata.name)
        volume = claim.spec.volume_name
        if volume:
            left = tuple(one for one in self.volume_claims.pop(volume) if one != key)
            if left:
                self.volume_claims[volume] = left

    def _resettle_volume(self, name: str, change: Callable[[], object]) -> None:
        self._attachments.volume_goes(name)
        self._resettle(self.volume_claims.get(name, ()), change)
        self._attachments.volume_came(name)

    def _claims_of_class(self, name: str) -> tuple[tuple[str, str], ...]:
        # Classes change so rarely that an index over all claims would not pay.
        return tuple(
            key
            for key, claim in self._storage.claims.items()
            if key in self._occupancy.claim_users and claim.class_name == name
        )

    def _resettle(self, claims: Iterable[tuple[str, str]], change: Callable[[], object]) -> None:
        """Make a change to storage and move the slots of the pods that use these claims."""
        affected = [
            record for key in claims for record in self._occupancy.claim_users.get(key, {}).values()
        ]
        for record in affected:
            if record.slots is not volumes.NO_SLOTS:
                self._occupancy.give_back_slots(record)
        change()
        for record in affected:
            if record.slots is volumes.NO_SLOTS:
                self._occupancy.take_slots(record)

"""Claims, volumes, classes, drivers and capacities by name, with the indexes filters need."""

from collections.abc import Callable, Iterable
from typing import Any

from tonnage.objects import quantities, selectors
from tonnage.objects.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tonnage.objects.volumes import VolumeUse
from tonnage.snapshot.labels import ValueTable
from tonnage.snapshot.open_volumes import OpenVolumes, is_open
from tonnage.snapshot.waiting_claims import WaitingClaims

NO_LIMIT = -(2**63)
"""Less than any limit, and than any size asked for."""


class StorageState:
    """Holds the cluster's storage objects; every index agrees with the objects held."""

    intree_apart = False

    def __init__(self, keep: Callable[[dict[Any, Any]], None] = lambda _: None) -> None:
        """`keep` is told of dictionaries that are about to lose an entry, or its place."""
        self._keep = keep
        self.claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self._open: dict[str, dict[str, PersistentVolume]] = {}
        self._open_arranged: dict[str, OpenVolumes] = {}
        self._reserved: dict[tuple[str, str], tuple[PersistentVolume, ...]] = {}
        self.waiting_claims = WaitingClaims(self.claims, self._reserved)
        self._capacities: dict[str, dict[tuple[str, str], CSIStorageCapacity]] = {}
        self._capacity_class: dict[tuple[str, str], str] = {}
        self._per_value: dict[str, CapacityIndex] = {}

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        return self.claims.get((namespace, name))

    def volume(self, name: str) -> PersistentVolume | None:
        return self.volumes.get(name)

    def use_of(self, attachment: VolumeAttachment) -> VolumeUse | None:
        """What is attached, if it is a CSI volume that is known."""
        name = attachment.spec.source.persistent_volume_name
        volume = self.volumes.get(name) if name is not None else None
        if volume is None or volume.spec.csi is None:
            return None
        return VolumeUse(attachment.spec.attacher, volume.spec.csi.volume_handle)

    def storage_class(self, name: str) -> StorageClass | None:
        return self.classes.get(name)

    def put_volume(self, volume: PersistentVolume) -> None:
        self.drop_volume(volume.metadata.name)
        self.volumes[volume.metadata.name] = volume
        reference = volume.spec.claim_ref
        if reference is not None:
            key = (reference.namespace, reference.name)
            self._reserved[key] = (*self._reserved.get(key, ()), volume)
            self.waiting_claims.forget(key)
        elif is_open(volume):
            self._open.setdefault(volume.class_name, {})[volume.metadata.name] = volume
            arranged = self._open_arranged.get(volume.class_name)
            if arranged is not None and not arranged.put_back(volume):
                del self._open_arranged[volume.class_name]

    def drop_volume(self, name: str) -> PersistentVolume | None:
        volume = self.volumes.get(name)
        if volume is None:
            return None
        self._keep(self.volumes)
        del self.volumes[name]
        reference = volume.spec.claim_ref
        if reference is not None:
            self._keep(self._reserved)
            key = (reference.namespace, reference.name)
            left = tuple(one for one in self._reserved.pop(key) if one is not volume)
            if left:
                self._reserved[key] = left
            self.waiting_claims.forget(key)
        elif is_open(volume):
            del self._open[volume.class_name][name]
            if volume.class_name in self._open_arranged:
                self._open_arranged[volume.class_name].withdraw(name)
        return volume

    def forget_arranged(self) -> None:
        """Let go what was arranged for questions, and what is kept of classes by name only."""
        self._open = {name: volumes for name, volumes in self._open.items() if volumes}
        self._capacities = {name: found for name, found in self._capacities.items() if found}
        self._open_arranged.clear()
        self._per_value.clear()
        self.waiting_claims.forget_all()

    def reserved_for(self, namespace: str, claim: str) -> tuple[PersistentVolume, ...]:
        """Volumes that name the claim, of whatever class."""
        return self._reserved.get((namespace, claim), ())

    def has_open_volumes(self, class_name: str) -> bool:
        return bool(self._open.get(class_name))

    def open_volumes(self, class_name: str) -> OpenVolumes:
        """Volumes of the class that any claim may take."""
        arranged = self._open_arranged.get(class_name)
        if arranged is None:
            arranged = OpenVolumes(self._open.get(class_name, {}).values())
            self._open_arranged[class_name] = arranged
        return arranged

    def put_capacity(self, capacity: CSIStorageCapacity) -> None:
        key = (capacity.metadata.namespace, capacity.metadata.name)
        self.drop_capacity(*key)
        name = capacity.storage_class_name
        self._capacities.setdefault(name, {})[key] = capacity
        self._capacity_class[key] = name
        self._per_value.pop(name, None)

    def drop_capacity(self, namespace: str, name: str) -> CSIStorageCapacity | None:
        key = (namespace, name)
        class_name = self._capacity_class.pop(key, None)
        if class_name is None:
            return None
        self._per_value.pop(class_name, None)
        self._keep(self._capacities[class_name])
        return self._capacities[class_name].pop(key)

    def capacity(self, namespace: str, name: str) -> CSIStorageCapacity | None:
        class_name = self._capacity_class.get((namespace, name))
        return None if class_name is None else self._capacities[class_name][namespace, name]

    def capacities_of(self, class_name: str) -> Iterable[CSIStorageCapacity]:
        return self._capacities.get(class_name, {}).values()

    def capacity_index(self, class_name: str) -> "CapacityIndex":
        """The capacities of a class, arranged for asking "where is there room for this much"."""
        index = self._per_value.get(class_name)
        if index is None:
            index = CapacityIndex(self._capacities.get(class_name, {}).values())
            self._per_value[class_name] = index
        return index


class CapacityIndex:
    """Local storage publishes an object per node: those are kept by label value, not as selectors.

    `by_label` maps a label key to the largest limit for each of its values, NO_LIMIT if there is
    none; `others` are the objects whose topology is anything but one label.
    """

    def __init__(self, capacities: Iterable[CSIStorageCapacity]) -> None:
        self.by_label: dict[str, ValueTable] = {}
        self.others: list[tuple[CSIStorageCapacity, int]] = []
        for capacity in capacities:
            limit = limit_of(capacity)
            topology = capacity.node_topology
            if limit is None or topology is None or not selectors.is_valid(topology):
                continue
            label = selectors.single_label(topology)
            if label is not None:
                key, value = label
                limits = self.by_label.setdefault(key, ValueTable(default=NO_LIMIT))
                limits.set(value, max(limits.get(value), limit))
            else:
                self.others.append((capacity, limit))


def limit_of(capacity: CSIStorageCapacity) -> int | None:
    """The largest volume the object promises room for; `None` if it promises nothing."""
    if capacity.maximum_volume_size is not None:
        return quantities.value(capacity.maximum_volume_size)
    return quantities.value(capacity.capacity) if capacity.capacity is not None else None

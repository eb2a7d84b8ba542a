"""Claims, volumes, classes, drivers and capacities by name, with the indexes filters need."""

from collections.abc import Iterable, Iterator, Mapping

from tonnage.objects import quantities
from tonnage.objects.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)


class StorageState:
    """Holds the cluster's storage objects; every index agrees with the objects held."""

    def __init__(self) -> None:
        self.claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self._volumes_by_class: dict[str, dict[str, PersistentVolume]] = {}
        self._capacities: dict[str, dict[tuple[str, str], CSIStorageCapacity]] = {}
        self._capacity_class: dict[tuple[str, str], str] = {}
        self._per_value: dict[str, CapacityIndex] = {}

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        return self.claims.get((namespace, name))

    def volume(self, name: str) -> PersistentVolume | None:
        return self.volumes.get(name)

    def storage_class(self, name: str) -> StorageClass | None:
        return self.classes.get(name)

    def put_volume(self, volume: PersistentVolume) -> None:
        self.drop_volume(volume.metadata.name)
        self.volumes[volume.metadata.name] = volume
        self._volumes_by_class.setdefault(volume.class_name, {})[volume.metadata.name] = volume

    def drop_volume(self, name: str) -> PersistentVolume | None:
        volume = self.volumes.pop(name, None)
        if volume is not None:
            del self._volumes_by_class[volume.class_name][name]
        return volume

    def volumes_of_class(self, name: str) -> Mapping[str, PersistentVolume]:
        return self._volumes_by_class.get(name, {})

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
        return self._capacities[class_name].pop(key)

    def capacity(self, namespace: str, name: str) -> CSIStorageCapacity | None:
        class_name = self._capacity_class.get((namespace, name))
        return None if class_name is None else self._capacities[class_name][namespace, name]

    def capacities(self) -> Iterator[CSIStorageCapacity]:
        for of_class in self._capacities.values():
            yield from of_class.values()

    def capacity_index(self, class_name: str) -> "CapacityIndex":
        """The capacities of a class, arranged for asking "where is there room for this much"."""
        index = self._per_value.get(class_name)
        if index is None:
            index = CapacityIndex(self._capacities.get(class_name, {}).values())
            self._per_value[class_name] = index
        return index


class CapacityIndex:
    """Local storage publishes an object per node: those are kept by label value, not as selectors.

    `by_label` maps a label key to the largest limit for each of its values; `others` are the
    objects whose topology is anything but one label.
    """

    def __init__(self, capacities: Iterable[CSIStorageCapacity]) -> None:
        self.by_label: dict[str, dict[str, int]] = {}
        self.others: list[tuple[CSIStorageCapacity, int]] = []
        for capacity in capacities:
            limit = limit_of(capacity)
            if limit is None or capacity.node_topology is None:
                continue
            labels = capacity.node_topology.match_labels
            if len(labels) == 1 and not capacity.node_topology.match_expressions:
                ((key, value),) = labels.items()
                values = self.by_label.setdefault(key, {})
                values[value] = max(values.get(value, limit), limit)
            else:
                self.others.append((capacity, limit))


def limit_of(capacity: CSIStorageCapacity) -> int | None:
    """The largest volume the object promises room for; `None` if it promises nothing."""
    if capacity.maximum_volume_size is not None:
        return quantities.value(capacity.maximum_volume_size)
    return quantities.value(capacity.capacity) if capacity.capacity is not None else None

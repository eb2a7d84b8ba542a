"""Space that drivers have on nodes: taken by volumes, and published as CSIStorageCapacity.

The part of an external-provisioner beside a driver with local disks. What is published lags behind
what is there, as with a real one that asks its driver now and then.
"""

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from tonnage.cluster import errors
from tonnage.cluster.watch_events import Change, EventType
from tonnage.embedded.world.caches import WorldCaches
from tonnage.embedded.world.keyed_tasks import WorldContext
from tonnage.embedded.world.work_queue import WorkQueue
from tonnage.objects import quantities
from tonnage.objects.meta import LabelSelector, ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSINode, CSIStorageCapacity, PersistentVolume, StorageClass
from tonnage.snapshot.open_volumes import affinity_of

NAMESPACE = "kube-system"
"""Where the objects are: an external-provisioner publishes in its own namespace."""

Segment: TypeAlias = tuple[tuple[str, str], ...]
"""Labels of the nodes that have a disk in common, in the order of their keys; mostly of one."""


class _Object(NamedTuple):
    """What one CSIStorageCapacity is about."""

    driver: str
    storage_class: str
    segment: Segment

    @property
    def name(self) -> str:
        text = "/".join((self.driver, self.storage_class, *map("=".join, self.segment)))
        return f"csisc-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


class LocalCapacity:
    """Knows what is taken of each disk, and has what is left published for every class.

    A disk that nobody tells the size of has room for everything.
    """

    def __init__(self, context: WorldContext, caches: WorldCaches) -> None:
        self._client, self._clock, behaviour, self._chance, _ = context
        self._drivers = {
            driver.name: driver for driver in behaviour.drivers if driver.capacity is not None
        }
        self._nodes = caches.nodes
        self._csi_nodes = caches.csi_nodes
        self._classes = caches.classes
        self._taken: defaultdict[tuple[str, Segment], dict[str, int]] = defaultdict(dict)
        """Bytes by volume; a volume takes them from when it is begun to be made."""
        self._segments: dict[tuple[str, str], Segment] = {}
        """By node and driver, from the driver's first registration there to the node's end."""
        self._queue = WorkQueue("capacity", self._publish, context)
        if self._drivers:
            caches.nodes.subscribe(self._node_changed)
            caches.csi_nodes.subscribe(self._csi_node_changed)
            caches.volumes.subscribe(self._volume_changed)
            caches.classes.subscribe(self._class_changed)

    def is_limited(self, driver: str) -> bool:
        """Whether the driver's disks have an end."""
        return driver in self._drivers

    def has_room(self, driver: str, place: Mapping[str, str], size: int) -> bool:
        """Whether a volume of so many bytes can be made there."""
        return driver not in self._drivers or size <= self._left(driver, _segment(place))

    def take(self, driver: str, place: Mapping[str, str], *, volume: str, size: int) -> None:
        """From now on the volume takes so many bytes there."""
        if driver in self._drivers:
            segment = _segment(place)
            self._taken[driver, segment][volume] = size
            self._note(driver, segment)

    def _left(self, driver: str, segment: Segment) -> int:
        whole = self._drivers[driver].capacity
        assert whole is not None, "only drivers with a capacity are looked at"
        return quantities.value(whole) - sum(self._taken[driver, segment].values())

    # What there is, and what becomes of it

    def _node_changed(self, change: Change[Node]) -> None:
        name = change.object.metadata.name
        if change.type is not EventType.DELETED:
            self._look_at(name)
            return
        for driver in self._drivers:
            segment = self._segments.pop((name, driver), None)
            if segment is not None:
                self._note(driver, segment)

    def _csi_node_changed(self, change: Change[CSINode]) -> None:
        if change.type is not EventType.DELETED:
            self._look_at(change.object.metadata.name)

    def _look_at(self, name: str) -> None:
        """Whether a driver has come to the node; one that goes away again leaves its disk there."""
        node, csi_node = self._nodes.get(name), self._csi_nodes.get(name)
        if node is None or csi_node is None:
            return
        for entry in csi_node.spec.drivers:
            driver = self._drivers.get(entry.name)
            if driver is not None and (name, entry.name) not in self._segments:
                segment = self._segments[name, entry.name] = _segment(driver.segment(node))
                self._note(entry.name, segment)

    def _volume_changed(self, change: Change[PersistentVolume]) -> None:
        volume, name = change.object, change.object.metadata.name
        driver = volume.spec.csi.driver if volume.spec.csi is not None else ""
        if driver not in self._drivers:
            return
        segment = _segment_of(volume)
        taken = self._taken[driver, segment]
        if change.type is EventType.DELETED:
            taken.pop(name, None)
        else:
            taken[name] = quantities.value(volume.spec.capacity.get("storage", 0))
        self._note(driver, segment)

    def _class_changed(self, change: Change[StorageClass]) -> None:
        name, driver = change.object.metadata.name, change.object.provisioner
        for (_, other), segment in self._segments.items():
            if other == driver:
                self._queue.note(_Object(driver, name, segment))

    def _note(self, driver: str, segment: Segment) -> None:
        for storage_class in self._classes:
            if storage_class.provisioner == driver:
                self._queue.note(_Object(driver, storage_class.metadata.name, segment))

    # What is published

    async def _publish(self, about: _Object) -> None:
        driver = self._drivers[about.driver]
        wait = self._chance.seconds(driver.published_after, "publish", *about)
        await self._clock.sleep(wait)
        if not self._is_wanted(about):
            await self._remove(about)
            return
        left = quantities.render(max(self._left(about.driver, about.segment), 0), binary=True)
        sizes = {"capacity": left, "maximumVolumeSize": left}
        try:
            await self._client.patch(CSIStorageCapacity, about.name, sizes, namespace=NAMESPACE)
        except errors.NotFound:
            await self._client.create(CSIStorageCapacity, _object(about, left))

    def _is_wanted(self, about: _Object) -> bool:
        found = self._classes.get(about.storage_class)
        if found is None or found.provisioner != about.driver:
            return False
        there = ((one, segment) for (_, one), segment in self._segments.items())
        return (about.driver, about.segment) in there

    async def _remove(self, about: _Object) -> None:
        try:
            await self._client.delete(CSIStorageCapacity, about.name, namespace=NAMESPACE)
        except errors.NotFound:
            return


def _segment(place: Mapping[str, str]) -> Segment:
    return tuple(sorted(place.items()))


def _segment_of(volume: PersistentVolume) -> Segment:
    """Where a volume is, as whoever made it says."""
    affinity = affinity_of(volume)
    terms = affinity.node_selector_terms if affinity is not None else ()
    return tuple(
        sorted(
            (one.key, one.values[0])
            for one in (terms[0].match_expressions if terms else ())
            if one.values
        )
    )


def _object(about: _Object, left: str) -> CSIStorageCapacity:
    return CSIStorageCapacity(
        metadata=ObjectMeta(
            name=about.name,
            namespace=NAMESPACE,
            labels={
                "csi.storage.k8s.io/drivername": about.driver,
                "csi.storage.k8s.io/managed-by": "external-provisioner",
            },
        ),
        storage_class_name=about.storage_class,
        node_topology=LabelSelector(match_labels=dict(about.segment)),
        capacity=left,
        maximum_volume_size=left,
    )

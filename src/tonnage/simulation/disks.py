"""Local storage: what volumes take of the disks of nodes, counted from the API and apart from the
code that decides, as slots are.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from tonnage.embedded.apiserver.store import ObjectStore, Stored
from tonnage.embedded.world import WorldBehaviour
from tonnage.objects import quantities
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.report.timeline import StorageUse

_Disk: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
"""A driver, and the labels of the nodes that have the disk."""


class DiskUse(NamedTuple):
    """A driver's disk on a node, in bytes: what its volumes take, and all there is."""

    node: str
    driver: str
    used: int
    capacity: int


class DiskLedger:
    """Which volumes are on which disks; of drivers whose disks have a size."""

    def __init__(self, store: ObjectStore, world: WorldBehaviour) -> None:
        self._nodes = store.built_in("nodes")
        self._drivers = {
            driver.name: driver for driver in world.drivers if driver.capacity is not None
        }
        self._taken: defaultdict[_Disk, dict[str, int]] = defaultdict(dict)

    def volume_changed(self, before: Stored | None, after: Stored | None) -> None:
        if before is not None and after is None:
            self._taken[_disk(before)].pop(before.name, None)
        elif after is not None and before is None:
            size = quantities.value(after.tree["spec"].get("capacity", {}).get("storage", 0))
            self._taken[_disk(after)][after.name] = size

    def has_end(self, driver: str) -> bool:
        """Whether the driver's disks have a size."""
        return driver in self._drivers

    def left(self, node: str, driver: str) -> int:
        """Bytes of the disk that a node has, or would have, of a driver whose disks have a size."""
        return self._capacity(driver) - self._used((driver, self._segment(node, driver)))

    def by_node(self, registered: Mapping[str, Iterable[str]]) -> list[DiskUse]:
        """All disks of drivers on nodes where they are registered."""
        return [
            DiskUse(node, disk[0], self._used(disk), self._capacity(disk[0]))
            for node, disk in self._disks(registered)
        ]

    def totals(self, registered: Mapping[str, Iterable[str]]) -> tuple[StorageUse, ...]:
        """Each driver over all nodes where it is registered; a disk that they share counts once."""
        used: Counter[str] = Counter()
        total: Counter[str] = Counter()
        for disk in {disk for _, disk in self._disks(registered)}:
            used[disk[0]] += self._used(disk)
            total[disk[0]] += self._capacity(disk[0])
        return tuple(
            StorageUse(driver=name, used_bytes=used[name], total_bytes=total[name])
            for name in sorted(total)
        )

    def _disks(self, registered: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, _Disk]]:
        if not self._drivers:
            return
        for node, drivers in sorted(registered.items()):
            for driver in sorted(self._drivers.keys() & drivers):
                yield node, (driver, self._segment(node, driver))

    def _segment(self, node: str, driver: str) -> tuple[tuple[str, str], ...]:
        stored = self._nodes.get("", node)
        labels = stored.meta.get("labels", {}) if stored is not None else {}
        meta = ObjectMeta(name=node, labels=labels)
        return tuple(sorted(self._drivers[driver].segment(Node(metadata=meta)).items()))

    def _used(self, disk: _Disk) -> int:
        return sum(self._taken[disk].values())

    def _capacity(self, driver: str) -> int:
        return quantities.value(self._drivers[driver].capacity or 0)


def _disk(volume: Stored) -> _Disk:
    spec = volume.tree["spec"]
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    terms = required.get("nodeSelectorTerms") or [{}]
    labels = ((term["key"], term["values"][0]) for term in terms[0].get("matchExpressions") or ())
    return (spec.get("csi") or {}).get("driver", ""), tuple(sorted(labels))

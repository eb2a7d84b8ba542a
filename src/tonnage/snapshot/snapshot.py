"""The cluster in columns, kept up to date change by change.

Objects go in one at a time, in any order, as a watch delivers them: a pod may come
before its node, a claim after its pod. What depends on a change is brought up to
date by the change; nothing is ever recounted.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from tonnage.objects import volumes
from tonnage.objects.decoding import collector_paused
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Namespace, Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import (
    MIGRATED_PLUGINS_ANNOTATION,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tonnage.snapshot import classes, limits
from tonnage.snapshot.attachments import Attachments
from tonnage.snapshot.classifying import PodClasses
from tonnage.snapshot.counting import AntiTerms, PodCounters
from tonnage.snapshot.interning import Interner
from tonnage.snapshot.journal import Journal
from tonnage.snapshot.nodes import NodeColumns
from tonnage.snapshot.occupancy import Occupancy, discard
from tonnage.snapshot.records import NOWHERE, NodeRecord, PodRecord
from tonnage.snapshot.rows import RowTable
from tonnage.snapshot.slots import SlotLedger
from tonnage.snapshot.storage import StorageState
from tonnage.snapshot.storage_ledger import StorageLedger

if TYPE_CHECKING:
    from tonnage.snapshot.slot_pools import SlotPools

__all__ = ["FINISHED", "NOWHERE", "Change", "NodeRecord", "PodRecord", "Snapshot"]

Change: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]
FINISHED = ("Succeeded", "Failed")


class Snapshot:
    """Columns equal what a rebuild from the objects held would give; a fork reverts exactly."""

    def __init__(
        self,
        *,
        version: tuple[int, int] = (1, 37),
        limit_reader: limits.LimitReader = limits.from_csinode,
    ) -> None:
        self._limit_reader = limit_reader
        self._journal = Journal()
        self.undo_by = self._journal.undo_by
        self._next_order = 0
        self.table = RowTable()
        self.columns = NodeColumns(self.table)
        self._limits_in_doubt = False
        self.slots = SlotLedger(self.table, appeared=self._driver_appeared)
        self.storage = StorageState()
        self.storage_ledger: StorageLedger | None = None
        self.slot_pools: SlotPools | None = None
        self.anti_terms = AntiTerms()
        self.counters = PodCounters(self.table)
        self._classes = PodClasses(
            self.columns, self.counters, self.anti_terms, version=version, regroup=self._regroup
        )
        self.classes = self._classes.by_key
        self._occupancy = Occupancy(self.columns, self.counters, self.slots, self.storage)
        self.host_ports = self._occupancy.host_ports
        self.problem_pods = self._occupancy.problem_pods
        self.disk_pods = self._occupancy.disk_pods
        self._claim_users = self._occupancy.claim_users
        self.nodes: dict[str, NodeRecord] = {}
        self.pods: dict[str, PodRecord] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.csinodes: dict[str, CSINode] = {}
        self._attachments = Attachments(self.slots, self.storage, self.nodes)
        self.attachments = self._attachments.by_name
        self.nominated_pods: dict[str, dict[str, PodRecord]] = {}
        self.migrated_plugins = self.table.column(np.int32)
        self.plugin_sets: Interner[frozenset[str]] = Interner()
        self.plugin_sets.id_of(frozenset())
        self._pods_by_node: dict[str, dict[str, PodRecord]] = {}
        self._volume_claims: dict[str, tuple[tuple[str, str], ...]] = {}
        self._putters: dict[type, Callable[[Any], None]] = {
            Node: self.put_node,
            Pod: self.put_pod,
            CSINode: self.put_csinode,
            VolumeAttachment: self.put_attachment,
            PersistentVolumeClaim: self.put_claim,
            PersistentVolume: self.put_volume,
            StorageClass: self.put_class,
            CSIDriver: self.put_driver,
            CSIStorageCapacity: self.put_capacity,
            Namespace: self.put_namespace,
        }
        self._droppers: dict[type, Callable[..., None]] = {
            Node: self.drop_node,
            CSINode: self.drop_csinode,
            VolumeAttachment: self.drop_attachment,
            PersistentVolume: self.drop_volume,
            StorageClass: self.drop_class,
            CSIDriver: self.drop_driver,
            Namespace: self.drop_namespace,
            Pod: self.drop_pod,
            PersistentVolumeClaim: self.drop_claim,
            CSIStorageCapacity: self.drop_capacity,
        }

    # Feeding.

    @classmethod
    def of(cls, objects: Iterable[object], **options: Any) -> "Snapshot":
        """A snapshot of the objects; kinds that do not matter to scheduling are passed over."""
        snapshot = cls(**options)
        with collector_paused():
            for one in objects:
                snapshot.apply("ADDED", one)
        return snapshot

    def apply(self, change: Change, obj: object) -> None:
        """Take one change of a watch; kinds that do not matter to scheduling are passed over."""
        kind = type(obj)
        if kind not in self._putters:
            return
        if change != "DELETED":
            self._putters[kind](obj)
            return
        meta: ObjectMeta = obj.metadata  # type: ignore[attr-defined]
        namespaced = kind in (Pod, PersistentVolumeClaim, CSIStorageCapacity)
        name = (meta.namespace, meta.name) if namespaced else (meta.name,)
        self._droppers[kind](*name)

    # Forks.

    def fork(self) -> None:
        """From here on changes can be taken back by `revert`. Forks nest."""
        self._journal.fork()

    def revert(self) -> None:
        """Back to where the last fork was made."""
        self._journal.revert()

    def commit(self) -> None:
        """Keep what was changed since the last fork; an outer fork can still take it back."""
        self._journal.commit()

    # Nodes.

    def put_node(self, node: Node) -> None:
        name = node.metadata.name
        known = self.nodes.get(name)
        if known is None:
            self.undo_by(self.drop_node, name)
            self._add_node(node, self.next_order())
        else:
            self.undo_by(self.put_node, known.node)
            self.columns.clear(known.row, known.node)
            self.columns.set(known.row, node)
            self.nodes[name] = known._replace(node=node)
            self._refresh_limits(name)

    def drop_node(self, name: str) -> None:
        """Take a node away. Its pods stay known, and are placed again if it comes back."""
        record = self.nodes.get(name)
        if record is None:
            return
        self.undo_by(self._add_node, record.node, record.order)
        for pod in self._pods_by_node.get(name, {}).values():
            self._occupancy.vacate(pod)
        self._attachments.node_goes(name)
        del self.nodes[name]
        self.columns.clear(record.row, record.node)
        self.table.release(record.row)

    def _add_node(self, node: Node, order: int) -> None:
        name = node.metadata.name
        row = self.table.allocate()
        self.nodes[name] = NodeRecord(name, row, order, node)
        self.columns.set(row, node)
        self._refresh_limits(name)
        for pod in self._pods_by_node.get(name, {}).values():
            self._occupancy.occupy(pod, row)
        self._attachments.node_came(name)

    def put_csinode(self, csinode: CSINode) -> None:
        name = csinode.metadata.name
        known = self.csinodes.get(name)
        self.undo_by(*((self.drop_csinode, name) if known is None else (self.put_csinode, known)))
        self.csinodes[name] = csinode
        self._refresh_limits(name)

    def drop_csinode(self, name: str) -> None:
        known = self.csinodes.pop(name, None)
        if known is not None:
            self.undo_by(self.put_csinode, known)
            self._refresh_limits(name)

    def _driver_appeared(self) -> None:
        """A key of a node may turn out to be this driver's, if limits are read from keys at all."""
        if self._limit_reader is limits.from_csinode or self._limits_in_doubt:
            return
        self._limits_in_doubt = True
        for name, record in self.nodes.items():
            if record.node.metadata.name == name:  # not an imagined one, whose CSINode is not kept
                self._refresh_limits(name)
        self._limits_in_doubt = False

    def _refresh_limits(self, name: str) -> None:
        record = self.nodes.get(name)
        if record is not None:
            self.set_node_limits(record.row, record.node, self.csinodes.get(name))

    def set_node_limits(self, row: int, node: Node, csinode: CSINode | None) -> None:
        """Fill in what a CSINode says about a row."""
        known = [driver.name for driver in self.slots.drivers()]
        listed, found, exists = self._limit_reader(node, csinode, known)
        self.slots.set_limits(row, listed, found, csinode=exists)
        plugins = csinode.metadata.annotations.get(MIGRATED_PLUGINS_ANNOTATION) if csinode else None
        self.migrated_plugins.data[row] = self.plugin_sets.id_of(
            frozenset(plugins.split(",")) if plugins else frozenset()
        )

    def name_of(self, row: int) -> str:
        """The name of the node on a row."""
        return self.columns.labels.name_of(row)

    def ordered_nodes(self) -> list[NodeRecord]:
        """Nodes in the order they came."""
        return sorted(self.nodes.values(), key=lambda record: record.order)

    # Pods.

    def put_pod(self, pod: Pod) -> None:
        """Take a pod as it is now; a finished pod is as good as gone."""
        if pod.status.phase in FINISHED:
            self.drop_pod(pod.metadata.namespace, pod.metadata.name)
            return
        record = self.record_of(pod)
        known = self.pods.get(record.key)
        if known is not None:
            record.order = known.order
        self._put_record(record)

    def drop_pod(self, namespace: str, name: str) -> None:
        record = self.pods.get(f"{namespace}/{name}")
        if record is not None:
            self.undo_by(self._put_record, record)
            self._forget(record)

    def place(self, record: PodRecord, node_name: str) -> PodRecord:
        """Put a pod on a node, as if it had been bound; gives the record as it is there."""
        placed = record.moved_to(node_name)
        self._put_record(placed)
        return placed

    def record_of(self, pod: Pod) -> PodRecord:
        """The pod in the snapshot's terms, without taking it in."""
        pods = self._classes.of(pod)
        return PodRecord(
            pod.metadata,
            pods,
            volumes.of_pod(pod) if pod.spec.volumes else (),
            key=f"{pod.metadata.namespace}/{pod.metadata.name}",
            node_name=pod.spec.node_name,
            nominated=pod.status.nominated_node_name,
            order=self.next_order(),
            pin=classes.pinned_node(pod.spec.affinity) if pods.pinned else None,
        )

    def pending_pods(self) -> list[PodRecord]:
        """Pods that wait for a node, in the order they came."""
        waiting = [record for record in self.pods.values() if record.pending]
        return sorted(waiting, key=lambda record: record.order)

    def pods_on(self, node_name: str) -> Iterable[PodRecord]:
        return self._pods_by_node.get(node_name, {}).values()

    def _put_record(self, record: PodRecord) -> None:
        known = self.pods.get(record.key)
        if known is None:
            self.undo_by(self.drop_pod, record.meta.namespace, record.meta.name)
        else:
            self.undo_by(self._put_record, known)
            self._forget(known)
        # A record that was gone for a while may be older than what tells its pod apart.
        record.pods = self._classes.told_apart(record.pods, record.meta.labels)
        self.pods[record.key] = record
        if record.node_name:
            self._pods_by_node.setdefault(record.node_name, {})[record.key] = record
            node = self.nodes.get(record.node_name)
            if node is not None:
                self._occupancy.occupy(record, node.row)
        elif record.nominated:
            self.nominated_pods.setdefault(record.nominated, {})[record.key] = record

    def _forget(self, record: PodRecord) -> None:
        del self.pods[record.key]
        if record.node_name:
            if record.row != NOWHERE:
                self._occupancy.vacate(record)
            discard(self._pods_by_node, record.node_name, record.key)
        elif record.nominated:
            discard(self.nominated_pods, record.nominated, record.key)

    def _regroup(self, names: frozenset[str]) -> None:
        """Labels have become facts: move the pods that have them to classes of their own."""
        for record in self.pods.values():
            if names.isdisjoint(record.meta.labels):
                continue
            row = record.row
            if row != NOWHERE:
                self._occupancy.vacate(record)
            record.pods = self._classes.told_apart(record.pods, record.meta.labels)
            if row != NOWHERE:
                self._occupancy.occupy(record, row)

    # Storage.

    def put_claim(self, claim: PersistentVolumeClaim) -> None:
        key = (claim.metadata.namespace, claim.metadata.name)
        known = self.storage.claims.get(key)
        self.undo_by(*((self.drop_claim, *key) if known is None else (self.put_claim, known)))
        if known is not None:
            self._unlink_claim(known)
        self._resettle((key,), lambda: self._link_claim(claim))

    def drop_claim(self, namespace: str, name: str) -> None:
        known = self.storage.claims.get((namespace, name))
        if known is not None:
            self.undo_by(self.put_claim, known)
            self._resettle(((namespace, name),), lambda: self._unlink_claim(known))

    def claims_in_use(self, keys: AbstractSet[tuple[str, str]]) -> AbstractSet[tuple[str, str]]:
        """Those of the claims that pods on nodes use."""
        return keys & self._claim_users.keys()

    def claim_users(self, namespace: str, name: str) -> Iterable[PodRecord]:
        """Pods on nodes that use the claim."""
        return self._claim_users.get((namespace, name), {}).values()

    def used_claims(self) -> Iterable[tuple[tuple[str, str], Iterable[PodRecord]]]:
        """Claims that pods on nodes use, each with the pods."""
        return ((key, users.values()) for key, users in self._claim_users.items())

    def _link_claim(self, claim: PersistentVolumeClaim) -> None:
        key = (claim.metadata.namespace, claim.metadata.name)
        self.storage.claims[key] = claim
        volume = claim.spec.volume_name
        if volume:
            self._volume_claims[volume] = (*self._volume_claims.get(volume, ()), key)

    def _unlink_claim(self, claim: PersistentVolumeClaim) -> None:
        key = (claim.metadata.namespace, claim.metadata.name)
        del self.storage.claims[key]
        volume = claim.spec.volume_name
        if volume:
            left = tuple(one for one in self._volume_claims.pop(volume) if one != key)
            if left:
                self._volume_claims[volume] = left

    def put_volume(self, volume: PersistentVolume) -> None:
        name = volume.metadata.name
        known = self.storage.volume(name)
        self.undo_by(*((self.drop_volume, name) if known is None else (self.put_volume, known)))
        self._resettle_volume(name, lambda: self.storage.put_volume(volume))

    def drop_volume(self, name: str) -> None:
        known = self.storage.volume(name)
        if known is not None:
            self.undo_by(self.put_volume, known)
            self._resettle_volume(name, lambda: self.storage.drop_volume(name))

    def _resettle_volume(self, name: str, change: Callable[[], object]) -> None:
        self._attachments.volume_goes(name)
        self._resettle(self._volume_claims.get(name, ()), change)
        self._attachments.volume_came(name)

    def put_class(self, storage_class: StorageClass) -> None:
        name = storage_class.metadata.name
        known = self.storage.classes.get(name)
        self.undo_by(*((self.drop_class, name) if known is None else (self.put_class, known)))
        self._resettle(
            self._claims_of_class(name),
            lambda: self.storage.classes.__setitem__(name, storage_class),
        )

    def drop_class(self, name: str) -> None:
        known = self.storage.classes.get(name)
        if known is not None:
            self.undo_by(self.put_class, known)
            self._resettle(
                self._claims_of_class(name), lambda: self.storage.classes.__delitem__(name)
            )

    def _claims_of_class(self, name: str) -> tuple[tuple[str, str], ...]:
        # Classes change so rarely that an index over all claims would not pay.
        return tuple(
            key
            for key, claim in self.storage.claims.items()
            if key in self._claim_users and claim.class_name == name
        )

    def _resettle(self, claims: Iterable[tuple[str, str]], change: Callable[[], object]) -> None:
        """Make a change to storage and move the slots of the pods that use these claims."""
        affected = [record for key in claims for record in self._claim_users.get(key, {}).values()]
        for record in affected:
            if record.slots is not volumes.NO_SLOTS:
                self._occupancy.give_back_slots(record)
        change()
        for record in affected:
            if record.slots is volumes.NO_SLOTS:
                self._occupancy.take_slots(record)

    def put_driver(self, driver: CSIDriver) -> None:
        self._put_simple(self.storage.drivers, driver, self.put_driver, self.drop_driver)

    def drop_driver(self, name: str) -> None:
        known = self.storage.drivers.pop(name, None)
        if known is not None:
            self.undo_by(self.put_driver, known)

    def put_capacity(self, capacity: CSIStorageCapacity) -> None:
        key = (capacity.metadata.namespace, capacity.metadata.name)
        known = self.storage.capacity(*key)
        self.undo_by(*((self.drop_capacity, *key) if known is None else (self.put_capacity, known)))
        self.storage.put_capacity(capacity)

    def drop_capacity(self, namespace: str, name: str) -> None:
        known = self.storage.drop_capacity(namespace, name)
        if known is not None:
            self.undo_by(self.put_capacity, known)

    def put_attachment(self, attachment: VolumeAttachment) -> None:
        name = attachment.metadata.name
        self.drop_attachment(name)
        self.undo_by(self.drop_attachment, name)
        self._attachments.add(attachment)

    def drop_attachment(self, name: str) -> None:
        known = self.attachments.get(name)
        if known is not None:
            self.undo_by(self.put_attachment, known)
            self._attachments.remove(name)

    # Namespaces.

    def put_namespace(self, namespace: Namespace) -> None:
        self._put_simple(self.namespaces, namespace, self.put_namespace, self.drop_namespace)
        self.anti_terms.namespaces_changed()

    def drop_namespace(self, name: str) -> None:
        known = self.namespaces.pop(name, None)
        if known is not None:
            self.undo_by(self.put_namespace, known)
            self.anti_terms.namespaces_changed()

    def _put_simple(
        self,
        held: dict[str, Any],
        obj: Any,
        put: Callable[[Any], None],
        drop: Callable[[str], None],
    ) -> None:
        name = obj.metadata.name
        known = held.get(name)
        self.undo_by(*((drop, name) if known is None else (put, known)))
        held[name] = obj

    def next_order(self) -> int:
        """A number larger than any given before."""
        self._next_order += 1
        return self._next_order

"""The cluster in columns, kept up to date change by change.

Objects go in one at a time, in any order, as a watch delivers them: a pod may come
before its node, a claim after its pod. What depends on a change is brought up to
date by the change; nothing is ever recounted.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np

from tonnage.objects import gangs, limit_keys, volumes
from tonnage.objects.codec import collector_paused
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Namespace, Node
from tonnage.objects.pods import FINISHED, Pod
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
from tonnage.snapshot.arrivals import Arrivals
from tonnage.snapshot.attachments import Attachments
from tonnage.snapshot.bulk_pods import BulkPods, Footprint
from tonnage.snapshot.interner import Interner
from tonnage.snapshot.journal import Journal, Trial
from tonnage.snapshot.namespace_index import NamespaceIndex
from tonnage.snapshot.nodes import NodeColumns
from tonnage.snapshot.occupancy import Occupancy, discard, include
from tonnage.snapshot.pod_classes import PodClasses
from tonnage.snapshot.pod_counters import AntiTerms, PodCounters
from tonnage.snapshot.records import NOWHERE, NodeRecord, PodRecord
from tonnage.snapshot.rows import Facts, RowTable
from tonnage.snapshot.slot_pools import SlotPoolColumns
from tonnage.snapshot.slots import SlotLedger
from tonnage.snapshot.storage import StorageState
from tonnage.snapshot.storage_changes import StorageChanges
from tonnage.snapshot.storage_ledger import StorageLedger

__all__ = ["FINISHED", "NOWHERE", "Change", "NodeRecord", "PodRecord", "Snapshot"]

Change: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]
_CLUTTER = 1024


class Snapshot:
    """Columns equal what a rebuild from the objects held would give; a trial reverts exactly."""

    def __init__(
        self,
        *,
        version: tuple[int, int] = (1, 37),
        limit_reader: limits.LimitReader = limits.from_csinode,
    ) -> None:
        self._limit_reader = limit_reader
        self.reads_keys = limit_reader is not limits.from_csinode
        self.own_keys: dict[str, str] = {}
        self._journal = Journal()
        self.undo_by = self._journal.undo_by
        self._next_order = 0
        self.table = RowTable()
        self.columns = NodeColumns(self.table, offered=self._resource_came)
        self._limits_in_doubt = False
        self.slots = SlotLedger(
            self.table, appeared=self._driver_appeared if self.reads_keys else None
        )
        self._gone = 0
        self.storage = StorageState(self._journal.keep)
        self.storage.intree_apart = self.reads_keys
        self.storage_ledger = StorageLedger(self.table)
        self.slot_pools = SlotPoolColumns()
        self.anti_terms = AntiTerms()
        self.counters = PodCounters(self.table)
        self._occupancy = Occupancy(self.columns, self.counters, self.slots, self.storage)
        self.host_ports = self._occupancy.host_ports
        self.bulk_pods = BulkPods(
            self.columns,
            self.counters,
            self.slots,
            self.host_ports,
            storage_ledger=lambda: self.storage_ledger,
        )
        self._classes = PodClasses(
            self.columns,
            self.counters,
            self.anti_terms,
            version=version,
            check=self.bulk_pods.check_told_apart,
            regroup=self._regroup,
        )
        self.classes = self._classes.by_key
        self.known_class = self._classes.adopt
        self.problem_pods = self._occupancy.problem_pods
        self.disk_pods = self._occupancy.disk_pods
        self._claim_users = self._occupancy.claim_users
        self.nodes: Arrivals[NodeRecord] = Arrivals()
        self.pods: Arrivals[PodRecord] = Arrivals()
        self.ending_pods: dict[str, PodRecord] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.namespace_index = NamespaceIndex(self.namespaces)
        self.csinodes: dict[str, CSINode] = {}
        self._attachments = Attachments(self.slots, self.storage, self.nodes)
        self.attachments = self._attachments.by_name
        self.leaving_attachments = self._attachments.leaving
        self.nominated_pods: dict[str, dict[str, PodRecord]] = {}
        self.migrated_plugins = self.table.column(np.int32)
        self.plugin_sets: Interner[frozenset[str]] = Interner()
        self.plugin_sets.id_of(frozenset())
        self._pods_by_node: dict[str, dict[str, PodRecord]] = {}
        changes = StorageChanges(self.storage, self._occupancy, self._attachments, self._journal)
        self._storage_changes = changes
        self.put_claim, self.drop_claim = changes.put_claim, changes.drop_claim
        self.put_claims = changes.put_claims
        self.put_volume, self.drop_volume = changes.put_volume, changes.drop_volume
        self.put_class, self.drop_class = changes.put_class, changes.drop_class
        self.put_capacity, self.drop_capacity = changes.put_capacity, changes.drop_capacity
        self.put_attachment = changes.put_attachment
        self.drop_attachment = changes.drop_attachment
        self._verbs: dict[type, tuple[Callable[[Any], None], Callable[..., None]]] = {
            Node: (self.put_node, self.drop_node),
            Pod: (self.put_pod, self.drop_pod),
            CSINode: (self.put_csinode, self.drop_csinode),
            VolumeAttachment: (self.put_attachment, self.drop_attachment),
            PersistentVolumeClaim: (self.put_claim, self.drop_claim),
            PersistentVolume: (self.put_volume, self.drop_volume),
            StorageClass: (self.put_class, self.drop_class),
            CSIDriver: (self.put_driver, self.drop_driver),
            CSIStorageCapacity: (self.put_capacity, self.drop_capacity),
            Namespace: (self.put_namespace, self.drop_namespace),
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
        if kind not in self._verbs:
            return
        put, drop = self._verbs[kind]
        if change != "DELETED":
            put(obj)
            return
        meta: ObjectMeta = obj.metadata  # type: ignore[attr-defined]
        namespaced = kind in (Pod, PersistentVolumeClaim, CSIStorageCapacity)
        name = (meta.namespace, meta.name) if namespaced else (meta.name,)
        drop(*name)

    def trial(self) -> Trial:
        """`with snapshot.trial() as trial:` what is changed inside is taken back on leaving.

        Unless `trial.keep()` was called. Trials nest.
        """
        return self._journal.trial()

    # Nodes.

    def put_node(self, node: Node, csinode: CSINode | None = None) -> None:
        """Take a node as it is now, together with its CSINode if that is given."""
        name = node.metadata.name
        known = self.nodes.get(name)
        if known is None:
            self.undo_by(self.drop_node, name)
            row = self.table.allocate()
            self.columns.set(row, node)
            self.nodes.add(name, NodeRecord(name, row, self.next_order(), node))
        else:
            self._keep_row(known)
            self.columns.clear(known.row, known.node)
            self.columns.set(known.row, node)
            self.nodes[name] = msgspec.structs.replace(known, node=node, imagined=False)
        if csinode is not None:
            self._journal.put(self.csinodes, name, csinode)
        # A blank row has no limits.
        if known is not None or self.reads_keys or name in self.csinodes:
            self._refresh_limits(name)
        if known is None:
            self._fill(name, row)

    def drop_node(self, name: str) -> None:
        """Take a node away. Its pods stay known, and are placed again if it comes back.

        Imagined pods that are held on it go with it; only a revert brings them back.
        """
        record = self.nodes.get(name)
        if record is None:
            return
        row = record.row
        for pod in self._pods_by_node.get(name, {}).values():
            self._occupancy.vacate(pod)
        self._attachments.node_goes(name)
        held = self.bulk_pods.clear(row)
        if self._journal.recording:
            self.undo_by(self._bring_back, record, self.table.facts(row), held)
        del self.nodes[name]
        self.table.release(row)
        self._gone += 1

    def _bring_back(
        self, record: NodeRecord, facts: Facts, held: list[tuple[Footprint, int]]
    ) -> None:
        self.table.put_back(record.row, facts)
        self.nodes.add(record.name, record)
        self._reread_limits(record)
        self.bulk_pods.restore(record.row, held)
        self._fill(record.name, record.row)

    def _fill(self, name: str, row: int) -> None:
        """Give a node that is new on its row what is known to be on it."""
        for pod in self._pods_by_node.get(name, {}).values():
            self._occupancy.occupy(pod, row)
        self._attachments.node_came(name)

    def put_csinode(self, csinode: CSINode) -> None:
        name = csinode.metadata.name
        self._keep_row(self.nodes.get(name))
        self._journal.put(self.csinodes, name, csinode)
        self._refresh_limits(name)

    def drop_csinode(self, name: str) -> None:
        if name in self.csinodes:
            self._keep_row(self.nodes.get(name))
            self._journal.remove(self.csinodes, name)
            self._refresh_limits(name)

    def _keep_row(self, record: NodeRecord | None) -> None:
        """Have a revert give back what the row of a node holds now."""
        if record is not None and self._journal.recording:
            self.undo_by(self._reset_row, record, self.table.facts(record.row))

    def _reset_row(self, record: NodeRecord, facts: Facts) -> None:
        self.table.reset(record.row, facts)
        self.nodes[record.name] = record
        self._reread_limits(record)

    def _driver_appeared(self) -> None:
        """A key of a node may turn out to be this driver's, where limits are read from keys."""
        if not self._limits_in_doubt:
            self._limits_in_doubt = True
            for record in self.nodes.values():
                self._reread_limits(record)
            self._limits_in_doubt = False

    def put_driver(self, driver: CSIDriver) -> None:
        self.undo_by(self._read_keys)
        self._storage_changes.put_driver(driver)
        self._read_keys()

    def drop_driver(self, name: str) -> None:
        self.undo_by(self._read_keys)
        self._storage_changes.drop_driver(name)
        self._read_keys()

    def _read_keys(self) -> None:
        """Another driver may name the key of its limit now, or none."""
        keys = limit_keys.own_keys(self.storage.drivers.values())
        if keys != self.own_keys:
            self.own_keys = keys
            for record in self.nodes.values():
                self._reread_limits(record)

    def _reread_limits(self, record: NodeRecord) -> None:
        """Bring limits up to date with the drivers that are known by now."""
        # Of an imagined node the CSINode is not kept.
        if self.reads_keys and not record.imagined:
            self._refresh_limits(record.name)

    def _refresh_limits(self, name: str) -> None:
        record = self.nodes.get(name)
        if record is not None:
            self.set_node_limits(record.row, record.node, self.csinodes.get(name))

    def set_node_limits(self, row: int, node: Node, csinode: CSINode | None) -> None:
        """Fill in what a CSINode says about a row."""
        known = [driver.name for driver in self.slots.drivers()]
        listed, found, exists = self._limit_reader(node, csinode, known, self.own_keys)
        self.slots.set_limits(row, listed, found, csinode=exists)
        plugins = csinode.metadata.annotations.get(MIGRATED_PLUGINS_ANNOTATION) if csinode else None
        self.migrated_plugins.data[row] = self.plugin_sets.id_of(
            frozenset(plugins.split(",")) if plugins else frozenset()
        )

    def limits_on(self, node: Node, csinode: CSINode | None) -> Mapping[str, int]:
        """The limits that would hold on a node."""
        known = [driver.name for driver in self.slots.drivers()]
        return self._limit_reader(node, csinode, known, self.own_keys).limits

    def name_of(self, row: int) -> str:
        """The name of the node on a row."""
        return self.columns.labels.name_of(row)

    def ordered_nodes(self) -> list[NodeRecord]:
        """Nodes in the order they came."""
        return list(self.nodes.values())

    # Pods.

    def put_pod(self, pod: Pod) -> None:
        """Take a pod as it is now; a finished pod is as good as gone."""
        if pod.status.phase in FINISHED:
            self.drop_pod(pod.metadata.namespace, pod.metadata.name)
            return
        self._put_record(self.record_of(pod))

    def drop_pod(self, namespace: str, name: str) -> None:
        record = self.pods.get(f"{namespace}/{name}")
        if record is not None:
            self.undo_by(self._put_record, record)
            self._withdraw(record)
            self._classes.release(record.pod_class)
            del self.pods[record.key]
            self.ending_pods.pop(record.key, None)

    def place(self, record: PodRecord, node_name: str) -> PodRecord:
        """Put a pod on a node, as if it had been bound; gives the record as it is there."""
        placed = record.moved_to(node_name)
        self._put_record(placed)
        return placed

    def record_of(self, pod: Pod) -> PodRecord:
        """The pod in the snapshot's terms, without taking it in."""
        pod_class = self._classes.of(pod)
        return PodRecord(
            pod.metadata,
            pod_class,
            volumes.of_pod(pod) if pod.spec.volumes else (),
            key=pod.metadata.key,
            node_name=pod.spec.node_name,
            nominated=pod.status.nominated_node_name,
            order=self.next_order(),
            pin=classes.pinned_node(pod.spec.affinity) if pod_class.pinned else None,
            gang=gangs.gang_of(pod),
        )

    def pending_pods(self) -> list[PodRecord]:
        """Pods that wait for a node, in the order they came."""
        return [record for record in self.pods.values() if record.pending]

    def pods_on(self, node_name: str) -> list[PodRecord]:
        """Pods that have the node, in the order they came."""
        return _in_order(self._pods_by_node.get(node_name, {}))

    def records_on(self, node_name: str) -> Iterable[PodRecord]:
        """The same pods in no certain order, and without a list of them."""
        return self._pods_by_node.get(node_name, {}).values()

    def _put_record(self, record: PodRecord) -> None:
        known = self.pods.get(record.key)
        if known is None:
            self.undo_by(self.drop_pod, record.meta.namespace, record.meta.name)
            self.pods.add(record.key, record)
        else:
            self.undo_by(self._put_record, known)
            self._withdraw(known)
            self._classes.release(known.pod_class)
            # A record made only to ask about the pod does not know when the pod came.
            record.order = known.order
            self.pods[record.key] = record
        # A record that was gone for a while may be older than what tells its pod apart, and its
        # class may have been forgotten.
        pod_class = self._classes.told_apart(record.pod_class, record.meta.labels)
        if pod_class.users:
            pod_class.users += 1
        else:
            pod_class = self._classes.adopt(pod_class)
            self._classes.use(pod_class)
        record.pod_class = pod_class
        if record.terminating:
            self.ending_pods[record.key] = record
        elif self.ending_pods:
            self.ending_pods.pop(record.key, None)
        if record.node_name:
            self._pods_by_node.setdefault(record.node_name, {})[record.key] = record
            node = self.nodes.get(record.node_name)
            if node is not None:
                self._occupancy.occupy(record, node.row)
        elif record.nominated:
            include(self.nominated_pods, record.nominated, record)

    def _withdraw(self, record: PodRecord) -> None:
        """Take a pod off its node, or off the one it is promised."""
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
            self._classes.release(record.pod_class)
            record.pod_class = self._classes.told_apart(record.pod_class, record.meta.labels)
            self._classes.use(record.pod_class)
            if row != NOWHERE:
                self._occupancy.occupy(record, row)

    def _resource_came(self, name: str, column: int) -> None:
        self.undo_by(self._resource_goes)
        self._classes.resource_came(name, column)

    def _resource_goes(self) -> None:
        self.columns.drop_last_resource()
        self._classes.resources_renumbered()

    # Living long.

    @property
    def cluttered(self) -> bool:
        """Whether so much was left behind by what is gone that it is worth a `tidy`."""
        left_behind = self._gone + self._classes.clutter + self._storage_changes.gone
        return (
            left_behind > _CLUTTER
            and left_behind > _CLUTTER + (len(self.pods) + len(self.nodes)) // 4
        )

    def tidy(self) -> None:
        """Forget what only pods, nodes and claims had that are gone, or were only asked about.

        Not while a trial is open, which may bring them back, nor while somebody holds a record
        that he did not get from here since: questions with it would be answered all the same,
        only slower.
        """
        assert not self._journal.recording, "what a trial may bring back cannot be forgotten"
        self._classes.forget_unused()
        self.table.forget_derived()
        self.slots.compact()
        self.storage.forget_arranged()
        self.plugin_sets = self.plugin_sets.compacted(self.migrated_plugins, always=1)
        if self.columns.compact():
            self._classes.resources_renumbered()
        self._gone = self._storage_changes.gone = 0

    # Storage; it is fed through `storage_changes`.

    def claims_in_use(self, keys: AbstractSet[tuple[str, str]]) -> AbstractSet[tuple[str, str]]:
        """Those of the claims that pods on nodes use."""
        return keys & self._claim_users.keys()

    def claim_users(self, namespace: str, name: str) -> list[PodRecord]:
        """Pods on nodes that use the claim, in the order they came."""
        return _in_order(self._claim_users.get((namespace, name), {}))

    def used_claims(self) -> Iterable[tuple[tuple[str, str], Iterable[PodRecord]]]:
        """Claims that pods on nodes use, each with the pods; both in no order."""
        return ((key, users.values()) for key, users in self._claim_users.items())

    # Namespaces.

    def put_namespace(self, namespace: Namespace) -> None:
        self.undo_by(self._namespaces_changed)
        self._journal.put(self.namespaces, namespace.metadata.name, namespace)
        self._namespaces_changed()

    def drop_namespace(self, name: str) -> None:
        if name in self.namespaces:
            self.undo_by(self._namespaces_changed)
            self._journal.remove(self.namespaces, name)
            self._namespaces_changed()

    def _namespaces_changed(self) -> None:
        self.anti_terms.namespaces_changed()
        self.namespace_index.changed()

    def next_order(self) -> int:
        """A number larger than any given before."""
        self._next_order += 1
        return self._next_order - 1

    def next_orders(self, count: int) -> range:
        """So many of them."""
        self._next_order += count
        return range(self._next_order - count, self._next_order)


def _in_order(records: Mapping[str, PodRecord]) -> list[PodRecord]:
    return sorted(records.values(), key=lambda record: record.order)

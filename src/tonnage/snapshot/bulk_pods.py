"""Pods held on rows by their class and number, without a record each.

Thousands of pods that do not run yet are put on nodes that do not exist yet, in a few steps over
columns. Each step is remembered as it was made, which costs the same for one row and for all.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import msgspec
import numpy as np

from tonnage.errors import InputError
from tonnage.snapshot.classes import PodClass
from tonnage.snapshot.host_ports import HostPorts
from tonnage.snapshot.nodes import PODS, NodeColumns
from tonnage.snapshot.pod_counters import PodCounters
from tonnage.snapshot.rows import Ints, RowIndex
from tonnage.snapshot.slots import SlotLedger
from tonnage.snapshot.storage_ledger import StorageLedger


class Footprint(msgspec.Struct, frozen=True):
    """A class of pods and what each of them takes: slots by driver, bytes by storage class."""

    pod_class: PodClass
    slots: Mapping[str, int]
    storage: Mapping[str, int] = MappingProxyType({})


class BulkPods:
    """Columns and counts hold what the pods of every hold take, on rows that are still there."""

    def __init__(
        self,
        columns: NodeColumns,
        counters: PodCounters,
        slots: SlotLedger,
        host_ports: HostPorts,
        *,
        storage_ledger: Callable[[], StorageLedger],
    ) -> None:
        self._columns = columns
        self._counters = counters
        self._slots = slots
        self._host_ports = host_ports
        self._storage_ledger = storage_ledger
        self._holds: list[tuple[Footprint, RowIndex, Ints]] = []
        # Made from the holds when a row is first cleared: planning never asks for it.
        self._by_row: dict[int, list[tuple[Footprint, int]]] = {}
        self._arranged = 0

    def place(self, group: Footprint, rows: RowIndex, counts: Ints) -> None:
        """Put so many pods of a class on each of the rows (each row at most once in `rows`)."""
        if group.storage:
            # What is not taken now must not be given back when there is a ledger of it.
            group = msgspec.structs.replace(
                group, storage=self._storage_ledger().counted(group.storage)
            )
        self._take(group, rows, counts)
        self._count(group.pod_class, rows, counts)
        self._holds.append((group, rows, counts))

    def give_back(self) -> None:
        """Undo the last hold."""
        group, rows, counts = self._holds.pop()
        if self._arranged > len(self._holds):
            self._arranged -= 1
            for row in rows.tolist():
                self._by_row[row].pop()
        self._take(group, rows, -counts)
        self._count(group.pod_class, rows, -counts)

    def start(self, row: int, group: Footprint) -> None:
        """Let a template have one pod, which is no part of the cluster and counted nowhere."""
        self._take(group, np.array([row]), np.ones(1, dtype=np.int64))
        self._host_ports.take(row, group.pod_class.ports)

    def start_copies(self, rows: slice, starting: Iterable[Footprint]) -> None:
        """Count the pods that copies of a template have; what they take was copied."""
        copies, ones = np.arange(rows.start, rows.stop), np.ones(rows.stop - rows.start, np.int64)
        for group in starting:
            self._count(group.pod_class, copies, ones)
            self._holds.append((Footprint(group.pod_class, {}), copies, ones))

    def clear(self, row: int) -> list[tuple[Footprint, int]]:
        """Take all pods that are held on a row away; tells `restore` which they were."""
        self._arrange()
        found = self._by_row.pop(row, [])
        for group, count in found:
            self._change_row(group, row, -count)
        return found

    def restore(self, row: int, found: list[tuple[Footprint, int]]) -> None:
        """Undo `clear`."""
        self._by_row[row] = found
        for group, count in found:
            self._change_row(group, row, count)

    def check_told_apart(self, labels: frozenset[str]) -> None:
        """Refuse to let labels become facts that held pods have: nobody knows which of them."""
        for group, _, _ in self._holds:
            unknown = labels & group.pod_class.identity_labels
            if unknown:
                raise InputError(
                    f"a selector names the label {min(unknown)}, but pods of namespace "
                    f"{group.pod_class.namespace} that have it are held by number already: "
                    "take in the pod with the selector before holding others"
                )

    def _arrange(self) -> None:
        for group, rows, counts in self._holds[self._arranged :]:
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                self._by_row.setdefault(row, []).append((group, count))
        self._arranged = len(self._holds)

    def _change_row(self, group: Footprint, row: int, count: int) -> None:
        rows, counts = np.array([row]), np.array([count])
        self._take(group, rows, counts)
        self._count(group.pod_class, rows, counts)

    def _take(self, group: Footprint, rows: RowIndex, counts: Ints) -> None:
        used = self._columns.used
        for resource, amount in group.pod_class.usage_columns:
            used[resource].data[rows] += amount * counts
        used[PODS].data[rows] += counts
        for driver, slots in group.slots.items():
            self._slots.take(driver, rows, slots * counts)
        if group.storage:
            self._storage_ledger().take(rows, counts, group.storage)

    def _count(self, pod_class: PodClass, rows: RowIndex, counts: Ints) -> None:
        nodes = pod_class.nodes
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            left = nodes.get(row, 0) + count
            if left:
                nodes[row] = left
            else:
                nodes.pop(row, None)
            if pod_class.ports:
                self._host_ports.take(row, pod_class.ports, count)
        self._counters.added_many(pod_class, rows, counts)

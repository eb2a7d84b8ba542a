"""What nodes are, in columns: labels, taints, what they can carry, which features they declare."""

import numpy as np

from tonnage.objects import resources, taints
from tonnage.objects.nodes import Node, Taint
from tonnage.objects.pods import Toleration
from tonnage.snapshot.classes import PodClass
from tonnage.snapshot.interning import Interner
from tonnage.snapshot.labels import NodeLabels
from tonnage.snapshot.rows import Bools, Column, Rows, RowTable

CPU, MEMORY, EPHEMERAL, PODS = range(4)
_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_BLOCKING = ("NoSchedule", "NoExecute")


class NodeColumns:
    """Every live row holds exactly the facts of its node."""

    def __init__(self, table: RowTable) -> None:
        self._table = table
        self.labels = NodeLabels(table)
        self.unschedulable = table.column(np.bool_)
        self._taints = table.column(np.int32)
        self._taint_sets: Interner[tuple[Taint, ...]] = Interner()
        self._taint_sets.id_of(())
        self._features = table.column(np.int32)
        self._feature_sets: Interner[frozenset[str]] = Interner()
        self._feature_sets.id_of(frozenset())
        self._resource_ids: Interner[str] = Interner()
        self.allocatable: list[Column[np.int64]] = []
        self.used: list[Column[np.int64]] = []
        for name in ("cpu", "memory", "ephemeral-storage", "pods"):
            self.resource(name)

    def resource(self, name: str) -> int:
        """The id of a resource; its columns are `allocatable[id]` and `used[id]`."""
        known = self._resource_ids.get(name)
        if known is None:
            known = self._resource_ids.id_of(name)
            self.allocatable.append(self._table.column(np.int64))
            self.used.append(self._table.column(np.int64))
        return known

    def find_resource(self, name: str) -> int | None:
        """The id of a resource that some node has or some pod on a node takes."""
        return self._resource_ids.get(name)

    def taken_by(self, pods: PodClass) -> tuple[tuple[int, int], ...]:
        """Columns and amounts of what a pod of the class takes of a row.

        They are made when the first of its pods is on one: who only waits has none.
        """
        if pods.usage_columns is None:
            pods.usage_columns = tuple(
                (self.resource(name), amount) for name, amount in pods.usage.items() if amount
            )
        return pods.usage_columns

    @property
    def resource_names(self) -> list[str]:
        return self._resource_ids.values

    def set(self, row: int, node: Node) -> None:
        """Fill a blank row, or one that was cleared."""
        self.labels.set(row, node.metadata.name, node.metadata.labels)
        self.unschedulable.data[row] = node.spec.unschedulable
        self._taints.data[row] = self._taint_sets.id_of(
            tuple(
                # When it was added is of no matter, and would make equal taints differ.
                Taint(key=taint.key, value=taint.value, effect=taint.effect)
                for taint in node.spec.taints
                if taint.effect in _BLOCKING
            )
        )
        self._features.data[row] = self._feature_sets.id_of(
            frozenset(node.status.declared_features)
        )
        for name, amount in resources.allocatable(node).items():
            self.allocatable[self.resource(name)].data[row] = amount

    def clear(self, row: int, node: Node) -> None:
        """Take the node's facts off its row; what its pods use stays."""
        self.labels.clear(row, node.metadata.labels)
        for name in resources.allocatable(node):
            self.allocatable[self.resource(name)].data[row] = 0

    def tolerated(self, tolerations: tuple[Toleration, ...], *, comparing: bool) -> Bools:
        """Rows whose NoSchedule and NoExecute taints are all tolerated."""
        return self._table.derived(
            ("taints", comparing, _toleration_key(tolerations)),
            lambda rows: self._tolerated(tolerations, rows, comparing=comparing),
        )

    def open_to(self, tolerations: tuple[Toleration, ...], *, comparing: bool) -> Bools:
        """Rows that are not cordoned, or whose cordon is tolerated."""
        size = self._table.size
        if taints.untolerated((_UNSCHEDULABLE,), tolerations, comparison_operators=comparing):
            return ~self.unschedulable.data[:size]
        return np.ones(size, dtype=np.bool_)

    def declaring(self, features: frozenset[str]) -> Bools:
        """Rows whose node declares every one of the features."""
        return self._table.derived(
            ("features", features), lambda rows: self._declaring(features, rows)
        )

    def taints_of(self, row: int) -> tuple[Taint, ...]:
        return self._taint_sets.values[int(self._taints.data[row])]

    def _tolerated(
        self, tolerations: tuple[Toleration, ...], rows: Rows, *, comparing: bool
    ) -> Bools:
        table = np.array(
            [
                taints.untolerated(blocking, tolerations, comparison_operators=comparing) is None
                for blocking in self._taint_sets.values
            ],
            dtype=np.bool_,
        )
        return table[self._taints.data[rows]]

    def _declaring(self, features: frozenset[str], rows: Rows) -> Bools:
        table = np.array(
            [features <= declared for declared in self._feature_sets.values], dtype=np.bool_
        )
        return table[self._features.data[rows]]


def _toleration_key(tolerations: tuple[Toleration, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple((one.key, one.operator, one.value, one.effect) for one in tolerations)

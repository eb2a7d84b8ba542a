"""What nodes are, in columns: labels, taints, what they can carry, which features they declare.

A resource has columns only while some node offers it. What nobody offers nobody can have, however
many names of such resources pods come up with.
"""

from collections.abc import Callable, Mapping

import numpy as np

from tonnage.objects import resources, taints
from tonnage.objects.nodes import Node, Taint
from tonnage.objects.pods import Toleration
from tonnage.snapshot.interner import Interner
from tonnage.snapshot.labels import NodeLabels
from tonnage.snapshot.rows import Bools, Column, Rows, RowTable

CPU, MEMORY, EPHEMERAL, PODS = range(4)
_PLAIN = ("cpu", "memory", "ephemeral-storage", "pods")
"""They have columns always."""

_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_BLOCKING = ("NoSchedule", "NoExecute")


class NodeColumns:
    """Every live row holds exactly the facts of its node."""

    def __init__(
        self, table: RowTable, *, offered: Callable[[str, int], None] = lambda _, __: None
    ) -> None:
        """`offered` is told of a resource that nodes begin to offer, and of its column."""
        self._table = table
        self._offered: Callable[[str, int], None] = lambda _, __: None
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
        for name in _PLAIN:
            self.resource(name)
        self._offered = offered

    def resource(self, name: str) -> int:
        """The id of a resource that a node offers; columns are `allocatable[id]` and `used[id]`."""
        known = self._resource_ids.get(name)
        if known is None:
            known = self._resource_ids.id_of(name)
            self.allocatable.append(self._table.column(np.int64))
            self.used.append(self._table.column(np.int64))
            self._offered(name, known)
        return known

    def find_resource(self, name: str) -> int | None:
        """The id of a resource, if some node offers it."""
        return self._resource_ids.get(name)

    def columns_of(self, amounts: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
        """The resources among these that nodes offer, by their ids."""
        return tuple(
            (known, amount)
            for name, amount in amounts.items()
            if amount and (known := self._resource_ids.get(name)) is not None
        )

    @property
    def resource_names(self) -> list[str]:
        return self._resource_ids.values

    def drop_last_resource(self) -> None:
        """Take back that nodes began to offer the one that came last."""
        self._table.drop((self.allocatable.pop(), self.used.pop()))
        self._resource_ids.forget_last()

    def compact(self) -> bool:
        """Forget what only nodes had that are gone; whether resources have other ids now."""
        self.labels.compact()
        self._taint_sets = self._taint_sets.compacted(self._taints, always=1)
        self._feature_sets = self._feature_sets.compacted(self._features, always=1)
        offered = [
            number
            for number, column in enumerate(self.allocatable)
            if number < len(_PLAIN) or column.data.any()
        ]
        if len(offered) == len(self.allocatable):
            return False
        kept = set(offered)
        self._table.drop(
            one
            for columns in (self.allocatable, self.used)
            for number, one in enumerate(columns)
            if number not in kept
        )
        names = self._resource_ids.values
        self._resource_ids = Interner()
        for number in offered:
            self._resource_ids.id_of(names[number])
        self.allocatable = [self.allocatable[number] for number in offered]
        self.used = [self.used[number] for number in offered]
        return True

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
        if len(self._taint_sets) == 1:
            # There are no such taints.
            return np.ones(self._table.size, dtype=np.bool_)
        return self._table.derived(
            ("taints", comparing, _toleration_key(tolerations)),
            lambda rows: self._tolerated(tolerations, rows, comparing=comparing),
        )

    def open_to(self, tolerations: tuple[Toleration, ...], *, comparing: bool) -> Bools:
        """Rows that are not cordoned, or whose cordon is tolerated."""
        cordoned = self.unschedulable.data[: self._table.size]
        if cordoned.any() and taints.untolerated(
            (_UNSCHEDULABLE,), tolerations, comparison_operators=comparing
        ):
            return ~cordoned
        return np.ones(len(cordoned), dtype=np.bool_)

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

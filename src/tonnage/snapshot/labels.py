"""Node labels and names as columns of small integers, and selectors answered over them."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tonnage.objects import selectors
from tonnage.objects.meta import LabelSelector
from tonnage.objects.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tonnage.objects.storage import TopologyTerm
from tonnage.snapshot.interner import Interner
from tonnage.snapshot.rows import Bools, Column, Ints, Rows, RowTable

ABSENT = 0
_NAME_FIELD = "metadata.name"


class LabelColumn:
    """The values of one label key; 0 where a node does not have it."""

    __slots__ = ("_numbers", "column", "values")

    def __init__(self, column: Column[np.int32]) -> None:
        self.column = column
        self.values: Interner[str] = Interner(first=1)
        self._numbers: tuple[Ints, Bools] | None = None

    @property
    def data(self) -> npt.NDArray[np.int32]:
        return self.column.data

    def among(self, values: Iterable[str], rows: Rows) -> Bools:
        """Where the label has one of `values`."""
        data = self.data[rows]
        ids = [known for value in values if (known := self.values.get(value)) is not None]
        if not ids:
            return np.zeros(len(data), dtype=np.bool_)
        if len(ids) == 1:
            mask: Bools = data == ids[0]
            return mask
        table = np.zeros(len(self.values), dtype=np.bool_)
        table[ids] = True
        return table[data]

    def absent(self, rows: Rows) -> Bools:
        """Where a node does not have the label."""
        mask: Bools = self.data[rows] == ABSENT
        return mask

    def satisfying(self, operator: str, values: tuple[str, ...], rows: Rows) -> Bools:
        """Where the label passes a numeric comparison."""
        operand = selectors.integer(values[0]) if len(values) == 1 else None
        if operand is None or operator not in ("Gt", "Lt"):
            return np.zeros(len(self.data[rows]), dtype=np.bool_)
        numbers, are_numbers = self._as_numbers()
        table: Bools = (numbers > operand if operator == "Gt" else numbers < operand) & are_numbers
        return table[self.data[rows]]

    def compact(self) -> None:
        """Forget values that no row has any more."""
        self.values = self.values.compacted(self.column)
        self._numbers = None

    def _as_numbers(self) -> tuple[Ints, Bools]:
        """The values as integers, and which of them are any; each value is read once."""
        if self._numbers is None or len(self._numbers[0]) != len(self.values):
            read = [None, *map(selectors.integer, self.values.values)]
            self._numbers = (
                np.array([number or 0 for number in read], dtype=np.int64),
                np.array([number is not None for number in read], dtype=np.bool_),
            )
        return self._numbers


class ValueTable:
    """A number for each value of a label, to be read for all rows at once."""

    __slots__ = ("_by_id", "_default", "_numbers", "_values")

    def __init__(self, *, default: int) -> None:
        self._default = default
        self._numbers: dict[str, int] = {}
        self._by_id: Ints | None = None
        self._values: Interner[str] | None = None

    def get(self, value: str) -> int:
        return self._numbers.get(value, self._default)

    def set(self, value: str, number: int) -> None:
        self._numbers[value] = number
        self._by_id = None

    def of_rows(self, column: LabelColumn, size: int) -> Ints:
        """The numbers for the first `size` rows; the default where the label has another value."""
        table = self._by_id
        # Values are only ever added to a set of them, so its length says whether it is current.
        if table is None or self._values is not column.values or len(table) != len(column.values):
            table = np.full(len(column.values), self._default, dtype=np.int64)
            for value, number in self._numbers.items():
                identity = column.values.get(value)
                if identity is not None:
                    table[identity] = number
            self._by_id, self._values = table, column.values
        return table[column.data[:size]]


class NodeLabels:
    """Every label of every live row is in its key's column, and nothing else is."""

    def __init__(self, table: RowTable) -> None:
        self._table = table
        self._keys: dict[str, LabelColumn] = {}
        self._names = LabelColumn(table.column(np.int32))
        self._nowhere = LabelColumn(table.column(np.int32))

    def set(self, row: int, name: str, labels: Mapping[str, str]) -> None:
        self._names.data[row] = self._names.values.id_of(name)
        for key, value in labels.items():
            column = self.key(key)
            column.data[row] = column.values.id_of(value)
        self._table.touch(row)

    def clear(self, row: int, labels: Mapping[str, str]) -> None:
        for key in labels:
            self._keys[key].data[row] = ABSENT
        self._table.touch(row)

    def name_of(self, row: int) -> str:
        return self._names.values.values[int(self._names.data[row]) - 1]

    def rename(self, rows: slice, names: Sequence[str], *, keys: Iterable[str]) -> None:
        """Give copied rows names of their own, also as the value of the given labels."""
        for column in (self._names, *(self.key(key) for key in keys)):
            column.data[rows] = [column.values.id_of(name) for name in names]

    def __contains__(self, key: str) -> bool:
        """Whether a node has, or had, the label."""
        return key in self._keys

    def find(self, key: str) -> LabelColumn:
        """The column of a label, to be read; asking for one that no node has leaves nothing."""
        return self._keys.get(key, self._nowhere)

    def key(self, key: str) -> LabelColumn:
        """The column of a label, which is made if need be."""
        column = self._keys.get(key)
        if column is None:
            column = self._keys[key] = LabelColumn(self._table.column(np.int32))
        return column

    def compact(self) -> None:
        """Forget keys and values that no row has any more."""
        gone = [key for key, column in self._keys.items() if not column.data.any()]
        self._table.drop(self._keys.pop(key).column for key in gone)
        for column in (self._names, *self._keys.values()):
            column.compact()

    def matching(self, selector: LabelSelector | None) -> Bools:
        """Rows a label selector picks; none where it is absent or cannot be parsed."""
        if selector is None or not selectors.is_valid(selector):
            return np.zeros(self._table.size, dtype=np.bool_)
        return self._table.derived(
            ("labels", selectors.canonical(selector)), lambda rows: self._select(selector, rows)
        )

    def matching_nodes(self, selector: NodeSelector, *, by_name: bool) -> Bools:
        """Rows a node selector picks. Without `by_name` field terms are taken as true."""
        return self._table.derived(
            ("nodes", by_name, selector),
            lambda rows: self._any_term(selector.node_selector_terms, rows, by_name=by_name),
        )

    def named(self, name: str) -> Bools:
        """The row of the node of that name."""
        return self._names.among((name,), slice(0, self._table.size))

    def equal(self, wanted: Mapping[str, str]) -> Bools:
        """Rows that carry every one of the given labels."""
        return self._table.derived(
            ("equal", tuple(sorted(wanted.items()))), lambda rows: self._all_equal(wanted, rows)
        )

    def allowed(self, topologies: tuple[TopologyTerm, ...]) -> Bools:
        """Rows inside a StorageClass's allowed topologies; no term allows all."""
        return self._table.derived(
            ("topologies", topologies), lambda rows: self._any_topology(topologies, rows)
        )

    def _select(self, selector: LabelSelector, rows: Rows) -> Bools:
        mask = self._all_equal(selector.match_labels, rows)
        for one in selector.match_expressions:
            mask &= self._requirement(one.key, one.operator, one.values, rows)
        return mask

    def _all_equal(self, wanted: Mapping[str, str], rows: Rows) -> Bools:
        mask = np.ones(self._count(rows), dtype=np.bool_)
        for key, value in wanted.items():
            mask &= self.find(key).among((value,), rows)
        return mask

    def _any_topology(self, topologies: tuple[TopologyTerm, ...], rows: Rows) -> Bools:
        mask = np.full(self._count(rows), not topologies, dtype=np.bool_)
        for term in topologies:
            if not term.match_label_expressions:
                continue
            inside = np.ones(len(mask), dtype=np.bool_)
            for one in term.match_label_expressions:
                inside &= self.find(one.key).among(one.values, rows)
            mask |= inside
        return mask

    def _any_term(self, terms: tuple[NodeSelectorTerm, ...], rows: Rows, *, by_name: bool) -> Bools:
        mask = np.zeros(self._count(rows), dtype=np.bool_)
        for term in terms:
            if selectors.valid_term(term):
                mask |= self._term(term, rows, by_name=by_name)
        return mask

    def _term(self, term: NodeSelectorTerm, rows: Rows, *, by_name: bool) -> Bools:
        mask = np.ones(self._count(rows), dtype=np.bool_)
        for one in term.match_expressions:
            mask &= self._requirement(one.key, one.operator, one.values, rows)
        if by_name:
            for one in term.match_fields:
                mask &= self._field(one, rows)
        return mask

    def _field(self, one: NodeSelectorRequirement, rows: Rows) -> Bools:
        # A field that does not exist reads as empty.
        if one.key == _NAME_FIELD:
            named = self._names.among(one.values, rows)
        else:
            named = np.full(self._count(rows), "" in one.values, dtype=np.bool_)
        return ~named if one.operator == "NotIn" else named

    def _requirement(self, key: str, operator: str, values: tuple[str, ...], rows: Rows) -> Bools:
        column = self.find(key)
        match operator:
            case "In":
                return column.among(values, rows)
            case "NotIn":
                return ~column.among(values, rows)
            case "Exists":
                return ~column.absent(rows)
            case "DoesNotExist":
                return column.absent(rows)
            case _:
                return column.satisfying(operator, values, rows)

    def _count(self, rows: Rows) -> int:
        return len(self._table.alive.data[rows])

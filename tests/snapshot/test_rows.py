"""Rows and columns: growing, reusing, and answers that are brought up to date."""

import numpy as np

from tonnage.rules import features, pipeline
from tonnage.snapshot.rows import Bools, Rows, RowTable
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing.builders import node, pod


def test_a_new_row_is_blank() -> None:
    table = RowTable()
    column = table.column(np.int64, 7)

    assert column.data[table.allocate()] == 7


def test_a_released_row_is_blank_again_and_reused() -> None:
    table = RowTable()
    column = table.column(np.int64)
    first, _ = table.allocate(), table.allocate()
    column.data[first] = 5
    table.release(first)

    assert table.allocate() == first
    assert column.data[first] == 0


def test_the_lowest_free_row_is_reused_first() -> None:
    table = RowTable()
    rows = [table.allocate() for _ in range(4)]
    table.release(rows[2])
    table.release(rows[1])

    assert [table.allocate(), table.allocate(), table.allocate()] == [1, 2, 4]


def test_rows_at_the_end_are_given_up() -> None:
    table = RowTable()
    for _ in range(3):
        table.allocate()
    table.release(1)
    table.release(2)

    assert table.size == 1


def test_a_row_that_was_given_up_is_given_only_once() -> None:
    table = RowTable()
    rows = [table.allocate() for _ in range(3)]
    for row in reversed(rows):
        table.release(row)

    assert [table.allocate() for _ in range(5)] == [0, 1, 2, 3, 4]


def test_columns_keep_their_values_when_they_grow() -> None:
    table = RowTable()
    column = table.column(np.int64, -1)
    for number in range(1000):
        row = table.allocate()
        column.data[row] = number

    assert column.data[:1000].tolist() == list(range(1000))
    assert len(column.data) > 1000
    assert column.data[1000] == -1


def test_a_column_made_late_covers_all_rows() -> None:
    table = RowTable()
    for _ in range(200):
        table.allocate()

    assert len(table.column(np.bool_).data) >= 200


def test_a_shadow_is_taken_but_not_alive() -> None:
    table = RowTable()
    row = table.allocate(shadow=True)

    assert not table.alive.data[row]
    assert table.allocate() != row


def test_copies_hold_what_the_row_holds_and_are_alive() -> None:
    table = RowTable()
    column = table.column(np.int64)
    row = table.allocate(shadow=True)
    column.data[row] = 5
    copies = table.copy(row, 3)

    assert column.data[copies].tolist() == [5, 5, 5]
    assert table.alive.data[copies].all()


class Threshold:
    """A derived mask over a column, which counts the rows it is asked about."""

    def __init__(self) -> None:
        self.table = RowTable()
        self.column = self.table.column(np.int64)
        self.asked = 0

    def mask(self) -> list[bool]:
        def compute(rows: Rows) -> np.ndarray:
            values = self.column.data[rows]
            self.asked += len(values)
            return values > 10

        return self.table.derived("large", compute).tolist()

    def set(self, row: int, value: int) -> None:
        self.column.data[row] = value
        self.table.touch(row)


def test_a_derived_mask_is_recomputed_where_rows_were_touched_and_nowhere_else() -> None:
    derived = Threshold()
    for _ in range(50):
        derived.table.allocate()
    before = derived.mask()
    derived.asked = 0
    derived.set(3, 20)

    assert (any(before), derived.mask()[3], sum(derived.mask())) == (False, True, 1)
    assert derived.asked == 1


def test_a_derived_mask_is_current_after_many_changes() -> None:
    """The log of touched rows is cut now and then."""
    derived = Threshold()
    rows = [derived.table.allocate() for _ in range(10)]
    derived.mask()
    for number in range(20_000):
        derived.set(rows[number % 10], number)
    derived.set(rows[4], 0)

    assert derived.mask() == [row != 4 for row in rows]


def test_a_derived_mask_covers_rows_that_came_later() -> None:
    derived = Threshold()
    derived.set(derived.table.allocate(), 20)
    derived.mask()
    for _ in range(300):
        derived.set(derived.table.allocate(), 20)

    assert derived.mask() == [True] * 301


def test_a_released_row_leaves_derived_masks() -> None:
    derived = Threshold()
    rows = [derived.table.allocate() for _ in range(3)]
    for row in rows:
        derived.set(row, 20)
    derived.mask()
    derived.table.release(rows[1])

    assert derived.mask() == [True, False, True]


def test_hundreds_of_nodes_come_and_go() -> None:
    """More than a table starts with, with selectors asked in between."""
    snapshot = Snapshot()
    asking = snapshot.record_of(pod("web", node_selector={"parity": "odd"}))
    for number in range(300):
        parity = "odd" if number % 2 else "even"
        snapshot.put_node(node(f"n{number}", labels={"parity": parity}))
        if number % 50 == 0:
            pipeline.evaluate(snapshot, asking, features.of_version())
    for number in range(0, 300, 3):
        snapshot.drop_node(f"n{number}")
    for number in range(300, 350):
        snapshot.put_node(node(f"n{number}", labels={"parity": "odd"}))
    found = pipeline.evaluate(snapshot, asking, features.of_version())
    fitting = {one.node for one in found if not one.reasons}

    assert fitting == {
        f"n{number}" for number in range(350) if number >= 300 or (number % 2 and number % 3)
    }


def test_a_row_put_back_has_what_it_had() -> None:
    table = RowTable()
    column = table.column(np.int64, 7)
    first, last = table.allocate(), table.allocate()
    column.data[last] = 3
    table.release(first)
    facts = table.facts(last)
    table.release(last)
    gone = (table.size, int(column.data[last]))
    table.put_back(last, facts)

    assert gone == (0, 7)
    assert (table.size, int(column.data[last]), table.taken.tolist()) == (2, 3, [False, True])
    assert table.allocate() == first


def test_free_rows_before_one_that_is_put_back_are_in_derived_masks_again() -> None:
    table = RowTable()
    rows = [table.allocate() for _ in range(3)]
    facts = table.facts(rows[2])
    for row in rows[1:]:
        table.release(row)

    def everywhere(asked: Rows) -> Bools:
        return np.ones(len(table.alive.data[asked]), dtype=np.bool_)

    before = table.derived("all", everywhere).tolist()
    table.put_back(rows[2], facts)

    assert (before, table.derived("all", everywhere).tolist()) == ([True], [True] * 3)


def test_a_column_that_was_dropped_can_be_taken_back_after_growth() -> None:
    table = RowTable()
    column = table.column(np.int64)
    row = table.allocate()
    column.data[row] = 5
    table.drop([column])
    table.copy(row, 100)
    table.take_back([column])

    assert (int(column.data[row]), int(column.data[100])) == (5, 0)

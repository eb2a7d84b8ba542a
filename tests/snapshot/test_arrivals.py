"""Records in the order they came, also after some were away."""

from typing import NamedTuple

import pytest

from tonnage.snapshot.arrivals import Arrivals


class One(NamedTuple):
    order: int


def of(*orders: int) -> Arrivals[One]:
    arrivals: Arrivals[One] = Arrivals()
    for order in orders:
        arrivals.add(str(order), One(order))
    return arrivals


@pytest.mark.parametrize("orders", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
def test_records_come_in_their_order(orders) -> None:
    arrivals = of(*orders)

    assert list(arrivals) == ["1", "2", "3"]
    assert list(reversed(arrivals)) == ["3", "2", "1"]
    assert list(arrivals.keys()) == ["1", "2", "3"]
    assert [one.order for one in arrivals.values()] == [1, 2, 3]
    assert [name for name, _ in arrivals.items()] == ["1", "2", "3"]


def test_one_that_is_put_back_has_its_place_again() -> None:
    arrivals = of(1, 2, 3)
    known = arrivals.pop("2")
    without = list(arrivals)
    arrivals.add("2", known)

    assert (without, list(arrivals)) == (["1", "3"], ["1", "2", "3"])


def test_many_are_appended_at_once() -> None:
    arrivals = of(2, 1)
    arrivals.append(["3", "4"], [One(3), One(4)])
    arrivals.add("5", One(5))

    assert list(arrivals) == ["1", "2", "3", "4", "5"]


def test_nothing_may_be_appended() -> None:
    arrivals = of(1)
    arrivals.append([], [])

    assert list(arrivals) == ["1"]


def test_a_copy_of_it_has_the_order_too() -> None:
    assert list({**of(2, 1)}) == ["1", "2"]

"""What is taken and not seen yet: who holds what, how long, and what it sums up to."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.growth import sizes
from tonnage.objects.pods import Pod
from tonnage.snapshot.reservations import Reservation, Reservations, Share, Source
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing import builders as make

DRIVER = "csi.example.com"
POD = "default/db"


def slots(*counts: int, driver: str = DRIVER) -> tuple[Share, ...]:
    """So many on rows 0, 1 and so on."""
    rows = np.arange(len(counts), dtype=np.int32)
    return (Share(driver, rows, np.array(counts, dtype=np.int16)),)


def entry(
    source: Source, *counts: int, holder: str = POD, node: str = "", until: float | None = None
) -> Reservation:
    return Reservation(holder, source, since=0.0, until=until, node=node, shares=slots(*counts))


def nominated(name: str, node: str) -> Pod:
    pod = make.pod(name)
    status = msgspec.structs.replace(pod.status, nominated_node_name=node)
    return msgspec.structs.replace(pod, status=status)


def test_of_a_holders_entries_the_surest_counts() -> None:
    held = Reservations()
    held.hold(entry(Source.ASSUMED, 1, 0))
    held.hold(entry(Source.LET_THROUGH, 1, 1))
    assert held.on_rows(DRIVER, 2).tolist() == [1, 0]
    assert [one.source for one in held] == [Source.ASSUMED]


def test_what_was_less_sure_counts_again_once_the_surer_entry_is_let_go() -> None:
    held = Reservations()
    held.hold(entry(Source.LET_THROUGH, 1, 1))
    held.hold(entry(Source.ASSUMED, 1, 0))
    held.release(POD, Source.ASSUMED)
    assert held.on_rows(DRIVER, 2).tolist() == [1, 1]


def test_an_entry_takes_the_place_of_the_one_of_its_source() -> None:
    held = Reservations()
    held.hold(entry(Source.LET_THROUGH, 1, 1))
    held.hold(entry(Source.LET_THROUGH, 0, 2))
    assert (held.on_rows(DRIVER, 2).tolist(), len(held)) == ([0, 2], 1)


def test_an_entry_ends_at_its_moment_and_not_before() -> None:
    held = Reservations()
    held.hold(entry(Source.LET_THROUGH, 1, until=30.0))
    assert held.expire(29.9) == []
    assert [one.holder for one in held.expire(30.0)] == [POD]
    assert len(held) == 0


def test_what_something_else_proves_has_no_end_until_it_is_given_one() -> None:
    held = Reservations()
    held.hold(entry(Source.SELECTED_NODE, 1))
    assert held.expire(1e9) == []
    held.end_at(POD, Source.SELECTED_NODE, 40.0)
    held.end_at(POD, Source.SELECTED_NODE, 90.0)
    assert len(held.expire(40.0)) == 1


@pytest.mark.parametrize(
    ("pod", "gone", "left"),
    [
        pytest.param(make.pod("db", on="n1"), False, set(), id="it is on a node"),
        pytest.param(make.pod("db", phase="Succeeded"), False, set(), id="it has finished"),
        pytest.param(make.pod("db"), True, set(), id="it is gone"),
        pytest.param(
            nominated("db", "n1"), False, {Source.ASSUMED}, id="the server nominates the same node"
        ),
        pytest.param(
            nominated("db", "n2"),
            False,
            {Source.ASSUMED, Source.NOMINATED},
            id="the server nominates another node",
        ),
        pytest.param(make.pod("other", on="n1"), False, {Source.ASSUMED, Source.NOMINATED}),
    ],
)
def test_a_change_ends_what_it_shows(pod: Pod, gone: bool, left: set[Source]) -> None:
    held = Reservations()
    held.hold(entry(Source.ASSUMED, node="n1"))
    held.hold(entry(Source.NOMINATED, node="n1"))
    told = held.seen(pod, gone=gone)
    assert {one.source for one in held.of(*Source)} == left
    assert told == (len(left) < 2)


def a_cluster() -> Snapshot:
    snapshot = Snapshot()
    for name in ("n1", "n2"):
        snapshot.put_node(make.node(name))
    snapshot.put_pod(make.pod("db"))
    return snapshot


def test_pods_whose_node_is_known_are_put_on_it() -> None:
    snapshot, held = a_cluster(), Reservations()
    pod = snapshot.pods[POD]
    held.hold(Reservation(POD, Source.SELECTED_NODE, since=0.0, node="n2", pod=pod))
    with snapshot.trial():
        held.place(snapshot)
        assert [one.key for one in snapshot.pods_on("n2")] == [POD]
    assert snapshot.pods_on("n2") == []


def test_a_pod_that_is_still_to_come_takes_its_place_as_well() -> None:
    snapshot, held = a_cluster(), Reservations()
    successor = snapshot.record_of(make.pod("db-new"))
    held.hold(Reservation("db's place", Source.MOVING, since=0.0, node="n1", pod=successor))
    with snapshot.trial():
        held.place(snapshot)
        assert [one.key for one in snapshot.pods_on("n1")] == ["default/db-new"]
    assert "default/db-new" not in snapshot.pods


@pytest.mark.parametrize("change", ["the pod changed", "the node is gone"])
def test_what_has_changed_since_is_left_where_it_is(change: str) -> None:
    snapshot, held = a_cluster(), Reservations()
    pod = snapshot.pods[POD]
    held.hold(Reservation(POD, Source.SELECTED_NODE, since=0.0, node="n2", pod=pod))
    if change == "the pod changed":
        snapshot.put_pod(make.pod("db", on="n1"))
    else:
        snapshot.drop_node("n2")
    held.place(snapshot)
    assert snapshot.pods_on("n2") == []


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from([Source.ASSUMED, Source.LET_THROUGH]),
        st.dictionaries(st.integers(0, 200), st.integers(1, 9), max_size=4),
    ),
    max_size=20,
)


@given(steps=STEPS)
def test_sums_are_those_of_what_counts(steps: list[tuple[str, Source, dict[int, int]]]) -> None:
    reservations = Reservations()
    held: dict[str, dict[Source, dict[int, int]]] = {}
    for pod, source, counts in steps:
        if counts:
            rows = np.array(list(counts), dtype=np.int32)
            share = Share(DRIVER, rows, np.array(list(counts.values()), dtype=np.int16))
            reservations.hold(Reservation(pod, source, since=0.0, shares=(share,)))
            held.setdefault(pod, {})[source] = counts
        else:
            reservations.release(pod, source)
            held.get(pod, {}).pop(source, None)
    counted = [entries[min(entries)] for entries in held.values() if entries]
    expected = [sum(one.get(row, 0) for one in counted) for row in range(201)]
    assert reservations.on_rows(DRIVER, 201).tolist() == expected
    assert reservations.on_rows_of(lambda _: True, DRIVER, 201).tolist() == expected


def test_nothing_is_left_of_resources_of_which_nothing_is_held() -> None:
    reservations = Reservations()
    for number in range(100):
        driver = f"csi-{number}.example.com"
        assert not reservations.on_rows(driver, 200).any()
        reservations.hold(
            Reservation("a", Source.LET_THROUGH, since=0.0, shares=slots(1, driver=driver))
        )
    assert sizes(reservations)["Reservations._sums"] == 1
    reservations.release("a")
    assert sizes(reservations).total() == 0

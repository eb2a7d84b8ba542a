"""Forks: whatever is changed or imagined after one can be taken back exactly."""

import random

import numpy as np
import pytest
from hypothesis import given

from tests.snapshot.dumping import differences, dump, orders, rows, told_waiting
from tests.snapshot.histories import Imagination, cluster_of, lean, mixed, scripts, seeds
from tonnage.filters import features, pipeline
from tonnage.objects.pods import PodAffinityTerm
from tonnage.snapshot import imagined
from tonnage.snapshot.imagined import Held
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing.builders import (
    HOSTNAME,
    node,
    pod,
    pv,
    pvc,
    selecting,
    storage_class,
)

NEWEST = features.of_version()


def with_holes(seed: int) -> Snapshot:
    """A cluster that lost objects of all kinds, so that rows are free in the middle."""
    snapshot = Snapshot.of(cluster_of(seed)[0])
    for one in random.Random(seed).sample(mixed(seed), 25):
        snapshot.apply("DELETED", one)
    return snapshot


@given(seeds, scripts)
@lean(150)
def test_a_fork_is_reverted_to_the_bit(seed, script) -> None:
    snapshot, gates = with_holes(seed), cluster_of(seed)[1]
    told = told_waiting(snapshot, gates)
    Imagination(snapshot, mixed(seed), gates).play(script)

    assert differences(told, told_waiting(snapshot, gates)) == {}


def test_what_is_committed_stays() -> None:
    snapshot = Snapshot.of([node("n1"), pod("web")])
    snapshot.fork()
    snapshot.place(snapshot.pods["default/web"], "n1")
    snapshot.commit()

    assert [record.key for record in snapshot.pods_on("n1")] == ["default/web"]


def test_an_outer_fork_takes_back_what_an_inner_one_committed() -> None:
    snapshot = Snapshot.of([node("n1"), pod("web", cpu=1)])
    before = dump(snapshot)
    snapshot.fork()
    snapshot.fork()
    snapshot.place(snapshot.pods["default/web"], "n1")
    snapshot.commit()
    snapshot.put_node(node("n2"))
    snapshot.revert()

    assert differences(before, dump(snapshot)) == {}


def test_an_inner_fork_takes_back_nothing_of_the_outer_one() -> None:
    snapshot = Snapshot.of([node("n1"), pod("web"), pod("db")])
    snapshot.fork()
    snapshot.place(snapshot.pods["default/web"], "n1")
    snapshot.fork()
    snapshot.place(snapshot.pods["default/db"], "n1")
    snapshot.revert()

    assert [record.key for record in snapshot.pods_on("n1")] == ["default/web"]


def test_changes_without_a_fork_are_for_good() -> None:
    snapshot = Snapshot.of([node("n1"), pod("web")])
    snapshot.place(snapshot.pods["default/web"], "n1")
    snapshot.fork()
    snapshot.revert()

    assert [record.key for record in snapshot.pods_on("n1")] == ["default/web"]


def test_a_class_first_seen_in_a_fork_is_counted_after_it() -> None:
    """Classes and counters learnt in a fork stay known, and must not go wrong."""
    term = PodAffinityTerm(topology_key=HOSTNAME, label_selector=selecting({"app": "db"}))
    snapshot = Snapshot.of([node("n1"), node("n2")])
    snapshot.fork()
    snapshot.put_pod(pod("db", on="n1", labels={"app": "db"}))
    asking = snapshot.record_of(pod("web", apart=[term]))
    inside = pipeline.evaluate(snapshot, asking, NEWEST).fits.tolist()
    snapshot.revert()

    assert inside == [False, True]
    assert pipeline.evaluate(snapshot, asking, NEWEST).fits.tolist() == [True, True]


def test_a_record_from_before_a_fork_can_be_placed_in_it() -> None:
    """Inside the fork its labels have become facts, which the record does not know yet."""
    index = "apps.kubernetes.io/pod-index"
    term = PodAffinityTerm(topology_key=HOSTNAME, label_selector=selecting({index: "1"}))
    snapshot = Snapshot.of([node("n1"), pod("db-1", labels={index: "1"})])
    record = snapshot.pods["default/db-1"]
    snapshot.fork()
    asking = snapshot.record_of(pod("web", apart=[term]))
    snapshot.place(record, "n1")

    assert pipeline.evaluate(snapshot, asking, NEWEST).fits.tolist() == [False]


# What does not hold yet.


def holding(*, apart: bool = False) -> tuple[Snapshot, Held]:
    term = PodAffinityTerm(topology_key=HOSTNAME, label_selector=selecting({"app": "db"}))
    wanting = pod("db", cpu=1, labels={"app": "db"}, host_ports=[80], apart=[term] if apart else [])
    snapshot = Snapshot.of([node("n0"), node("n1"), wanting])
    return snapshot, Held(snapshot.pods["default/db"].pods, {})


def hold_one(snapshot: Snapshot, group: Held, name: str) -> None:
    row = snapshot.nodes[name].row
    imagined.hold(snapshot, group, np.array([row]), np.array([1]))


DROPPED = "a node that is dropped takes its imagined pods along in some columns and not in others"


@pytest.mark.xfail(reason=DROPPED, strict=True)
def test_a_node_with_imagined_pods_can_be_dropped_and_reverted() -> None:
    snapshot, group = holding()
    before = dump(snapshot)
    snapshot.fork()
    hold_one(snapshot, group, "n1")
    snapshot.drop_node("n1")
    snapshot.revert()

    assert differences(before, dump(snapshot)) == {}


@pytest.mark.xfail(reason=DROPPED, strict=True)
def test_a_new_node_does_not_inherit_the_imagined_pods_of_a_dropped_one() -> None:
    snapshot, group = holding()
    snapshot.fork()
    hold_one(snapshot, group, "n1")
    snapshot.drop_node("n1")
    snapshot.put_node(node("n2"))
    found = pipeline.evaluate(snapshot, snapshot.pods["default/db"], NEWEST)

    assert found.on("n2").texts == []


@pytest.mark.xfail(reason=DROPPED, strict=True, raises=IndexError)
def test_imagined_pods_of_a_dropped_node_refuse_nobody() -> None:
    snapshot, group = holding(apart=True)
    snapshot.fork()
    hold_one(snapshot, group, "n1")
    snapshot.drop_node("n1")
    found = pipeline.evaluate(snapshot, snapshot.pods["default/db"], NEWEST)

    assert found.on("n0").texts == []


@pytest.mark.xfail(
    reason="a copy is put back under the name of the template it was made from", strict=True
)
def test_an_imagined_node_can_be_dropped_and_reverted() -> None:
    snapshot = Snapshot.of([node("n1")])
    snapshot.fork()
    template = imagined.add_template(snapshot, node("template"), None, [])
    imagined.add_copies(snapshot, template, ["copy-1", "copy-2"])
    snapshot.fork()
    snapshot.drop_node("copy-1")
    snapshot.revert()

    assert sorted(snapshot.nodes) == ["copy-1", "copy-2", "n1"]


@pytest.mark.xfail(reason="a node is put back on the lowest free row, not on its own", strict=True)
def test_a_node_comes_back_to_its_row() -> None:
    snapshot = Snapshot.of([node("n0"), node("n1"), node("n2")])
    snapshot.drop_node("n0")
    before = rows(snapshot)
    snapshot.fork()
    snapshot.drop_node("n2")
    snapshot.revert()

    assert rows(snapshot) == before


def test_which_of_two_equal_volumes_is_taken_does_not_depend_on_a_reverted_fork() -> None:
    """The first claim takes the first volume, and only one of them suits the second claim."""
    fast = selecting({"kind": "fast"})
    objects = [
        node("n1"),
        storage_class("static", "kubernetes.io/no-provisioner"),
        pv("plain", driver="csi.example", storage_class="static"),
        pv("fast", driver="csi.example", storage_class="static", labels={"kind": "fast"}),
        pvc("any", storage_class="static"),
        pvc("fast", storage_class="static", selector=fast),
        pod("web", pvcs=["any", "fast"]),
    ]
    snapshot = Snapshot.of(objects)
    snapshot.fork()
    snapshot.drop_volume("plain")
    snapshot.revert()

    assert told_waiting(snapshot, NEWEST) == told_waiting(Snapshot.of(objects), NEWEST)


def test_waiting_pods_keep_their_order() -> None:
    snapshot = Snapshot.of([node("n1"), pod("a"), pod("b")])
    snapshot.fork()
    snapshot.place(snapshot.pods["default/a"], "n1")
    snapshot.revert()

    assert [record.key for record in snapshot.pending_pods()] == ["default/a", "default/b"]


def test_orders_of_arrival_survive_a_revert() -> None:
    snapshot = Snapshot.of([node("n1"), node("n2"), pod("a"), pod("b")])
    before = orders(snapshot)
    snapshot.fork()
    snapshot.place(snapshot.pods["default/a"], "n1")
    snapshot.drop_node("n1")
    snapshot.drop_pod("default", "b")
    snapshot.revert()

    assert orders(snapshot) == before
    assert [record.name for record in snapshot.ordered_nodes()] == ["n1", "n2"]

"""Trials: whatever is changed or imagined in one can be taken back exactly."""

import random

import numpy as np
from hypothesis import given

from tests.snapshot.dumping import differences, dump, exact, orders, rows, told_waiting
from tests.snapshot.histories import Imagination, cluster_of, lean, mixed, scripts, seeds
from tonnage.objects import limit_keys
from tonnage.objects.pods import PodAffinityTerm
from tonnage.rules import features, pipeline
from tonnage.snapshot import imagined, limits, published_storage
from tonnage.snapshot.imagined import Footprint
from tonnage.snapshot.slot_pools import Pool, clear_pools, set_pools
from tonnage.snapshot.slots import UNLIMITED
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing.builders import (
    HOSTNAME,
    attachment,
    capacity,
    csidriver,
    csinode,
    node,
    pod,
    pv,
    pvc,
    selecting,
    storage_class,
)

NEWEST = features.of_version()
EBS = "ebs.csi.aws.com"
USER = pod("db", cpu=1, labels={"app": "db"})


def with_holes(seed: int) -> Snapshot:
    """A cluster that lost objects of all kinds, so that rows are free in the middle."""
    snapshot = Snapshot.of(cluster_of(seed)[0])
    for one in random.Random(seed).sample(mixed(seed), 25):
        snapshot.apply("DELETED", one)
    return snapshot


@given(seeds, scripts)
@lean(150)
def test_a_trial_is_reverted_to_the_bit(seed, script) -> None:
    snapshot, gates = with_holes(seed), cluster_of(seed)[1]
    told = told_waiting(snapshot, gates)
    Imagination(snapshot, mixed(seed), gates).play(script)

    assert differences(told, told_waiting(snapshot, gates)) == {}


def test_what_is_committed_stays() -> None:
    snapshot = Snapshot.of([node("n1"), pod("web")])
    with snapshot.trial() as trial:
        snapshot.place(snapshot.pods["default/web"], "n1")
        trial.keep()

    assert [record.key for record in snapshot.pods_on("n1")] == ["default/web"]


def test_an_outer_trial_takes_back_what_an_inner_one_kept() -> None:
    snapshot = Snapshot.of([node("n1"), pod("web", cpu=1)])
    before = dump(snapshot)
    with snapshot.trial():
        with snapshot.trial() as trial:
            snapshot.place(snapshot.pods["default/web"], "n1")
            trial.keep()
        snapshot.put_node(node("n2"))

    assert differences(before, dump(snapshot)) == {}


def test_an_inner_trial_takes_back_nothing_of_the_outer_one() -> None:
    snapshot = Snapshot.of([node("n1"), pod("web"), pod("db")])
    with snapshot.trial():
        snapshot.place(snapshot.pods["default/web"], "n1")
        with snapshot.trial():
            snapshot.place(snapshot.pods["default/db"], "n1")

        assert [record.key for record in snapshot.pods_on("n1")] == ["default/web"]


def test_changes_outside_a_trial_are_for_good() -> None:
    snapshot = Snapshot.of([node("n1"), pod("web")])
    snapshot.place(snapshot.pods["default/web"], "n1")
    with snapshot.trial():
        pass

    assert [record.key for record in snapshot.pods_on("n1")] == ["default/web"]


def test_a_class_first_seen_in_a_trial_is_counted_after_it() -> None:
    """Classes and counters learnt in a trial stay known, and must not go wrong."""
    term = PodAffinityTerm(topology_key=HOSTNAME, label_selector=selecting({"app": "db"}))
    snapshot = Snapshot.of([node("n1"), node("n2")])
    with snapshot.trial():
        snapshot.put_pod(pod("db", on="n1", labels={"app": "db"}))
        asking = snapshot.record_of(pod("web", apart=[term]))
        inside = pipeline.evaluate(snapshot, asking, NEWEST).fits.tolist()

    assert inside == [False, True]
    assert pipeline.evaluate(snapshot, asking, NEWEST).fits.tolist() == [True, True]


def test_a_record_from_before_a_trial_can_be_placed_in_it() -> None:
    """Inside the trial its labels have become facts, which the record does not know yet."""
    index = "apps.kubernetes.io/pod-index"
    term = PodAffinityTerm(topology_key=HOSTNAME, label_selector=selecting({index: "1"}))
    snapshot = Snapshot.of([node("n1"), pod("db-1", labels={index: "1"})])
    record = snapshot.pods["default/db-1"]
    with snapshot.trial():
        asking = snapshot.record_of(pod("web", apart=[term]))
        snapshot.place(record, "n1")

        assert pipeline.evaluate(snapshot, asking, NEWEST).fits.tolist() == [False]


# Nodes that go inside a trial.


def holding(*, apart: bool = False) -> tuple[Snapshot, Footprint]:
    term = PodAffinityTerm(topology_key=HOSTNAME, label_selector=selecting({"app": "db"}))
    wanting = pod("db", cpu=1, labels={"app": "db"}, host_ports=[80], apart=[term] if apart else [])
    snapshot = Snapshot.of([node("n0"), node("n1"), wanting])
    return snapshot, Footprint(snapshot.pods["default/db"].pod_class, {})


def hold_one(snapshot: Snapshot, group: Footprint, name: str) -> None:
    row = snapshot.nodes[name].row
    imagined.place(snapshot, group, np.array([row]), np.array([1]))


def test_a_node_with_imagined_pods_can_be_dropped_and_reverted() -> None:
    snapshot, group = holding()
    before = exact(snapshot)
    with snapshot.trial():
        hold_one(snapshot, group, "n1")
        snapshot.drop_node("n1")

    assert differences(before, exact(snapshot)) == {}


def test_a_new_node_does_not_inherit_the_imagined_pods_of_a_dropped_one() -> None:
    snapshot, group = holding()
    with snapshot.trial():
        hold_one(snapshot, group, "n1")
        snapshot.drop_node("n1")
        snapshot.put_node(node("n2"))
        found = pipeline.evaluate(snapshot, snapshot.pods["default/db"], NEWEST)

        assert found.on("n2").texts == []


def test_imagined_pods_of_a_dropped_node_refuse_nobody() -> None:
    snapshot, group = holding(apart=True)
    with snapshot.trial():
        hold_one(snapshot, group, "n1")
        snapshot.drop_node("n1")
        found = pipeline.evaluate(snapshot, snapshot.pods["default/db"], NEWEST)

        assert found.on("n0").texts == []


def test_an_imagined_node_can_be_dropped_and_reverted() -> None:
    snapshot = Snapshot.of([node("n1")])
    with snapshot.trial():
        template = imagined.add_template(snapshot, node("template"), None, [])
        imagined.add_copies(snapshot, template, ["copy-1", "copy-2"])
        before = exact(snapshot)
        with snapshot.trial():
            snapshot.drop_node("copy-1")

        assert differences(before, exact(snapshot)) == {}
        assert list(snapshot.nodes) == ["n1", "copy-1", "copy-2"]


def test_a_real_node_in_place_of_an_imagined_one_can_be_reverted() -> None:
    snapshot = Snapshot()
    template = imagined.add_template(snapshot, node("t"), csinode("t", {EBS: 5}), [(USER, {})])
    imagined.add_copies(snapshot, template, ["copy"])
    before = exact(snapshot)
    with snapshot.trial():
        snapshot.put_node(node("copy", cpu="8"))
        snapshot.put_csinode(csinode("copy", {EBS: 3}))

    assert differences(before, exact(snapshot)) == {}


def test_a_node_comes_back_with_pools_and_what_is_left_of_its_storage() -> None:
    snapshot = Snapshot.of(
        [
            csidriver(EBS, storage_capacity=True),
            storage_class("disk", EBS),
            node("n0"),
            node("n1"),
            capacity("on-n1", "disk", free="10Gi", topology={HOSTNAME: "n1"}),
            USER,
        ]
    )
    row = snapshot.nodes["n1"].row
    with snapshot.trial():
        set_pools(snapshot, {row: [Pool("shared", ((EBS, 1),), 4)]})
        published_storage.open_ledger(snapshot, ["disk"], templates={}, coming_up={})
        group = Footprint(snapshot.pods["default/db"].pod_class, {EBS: 1}, {"disk": 2**30})
        imagined.place(snapshot, group, np.array([row]), np.array([2]))
        before = exact(snapshot)
        with snapshot.trial():
            snapshot.drop_node("n1")
            snapshot.put_node(node("n2"))

        assert differences(before, exact(snapshot)) == {}
        assert before["slot pools"] == [("shared", {EBS: 1}, [UNLIMITED, 4], [UNLIMITED, 2])]


def test_a_node_that_was_away_learns_of_drivers_that_appeared_meanwhile() -> None:
    """A long name is hashed in the key that has the limit, and recognised once it is known."""
    driver = f"{'long-' * 12}.csi.example.com"
    limited = node("n1", allocatable={limit_keys.key_for(driver): 7})
    snapshot = Snapshot(limit_reader=limits.from_csinode_and_allocatable)
    snapshot.put_node(limited)
    with snapshot.trial():
        snapshot.drop_node("n1")
        slots = snapshot.slots.driver(driver)

    assert slots.limit.data[snapshot.nodes["n1"].row] == 7


def test_a_dropped_node_leaves_its_row_to_the_next() -> None:
    snapshot = Snapshot.of([node("n0"), node("n1"), node("n2")])
    snapshot.drop_node("n1")
    snapshot.put_node(node("n3"))

    assert rows(snapshot) == {"n0": 0, "n3": 1, "n2": 2}


def test_a_row_between_free_ones_is_found_after_the_end_was_away() -> None:
    """Nodes n1 and n2 are gone, so without n3 all of their rows lie beyond the end."""
    snapshot = Snapshot.of([node(f"n{number}") for number in range(4)])
    snapshot.drop_node("n1")
    snapshot.drop_node("n2")
    with snapshot.trial():
        snapshot.drop_node("n3")
        snapshot.put_node(node("new"))
    snapshot.put_node(node("n4"))
    snapshot.put_node(node("n5"))

    assert rows(snapshot) == {"n0": 0, "n3": 3, "n4": 1, "n5": 2}


def test_pods_of_a_dropped_node_can_be_moved_and_all_of_it_reverted() -> None:
    """What emptying a node comes to."""
    snapshot = Snapshot.of(
        [
            *(node(f"n{number}") for number in range(3)),
            pvc("data", volume="data"),
            pv("data", driver=EBS),
            attachment("data", "n1", attacher=EBS),
            pod("first", on="n1", cpu=1),
            pod("db", on="n1", pvcs=["data"]),
            pod("last", on="n1", host_ports=[80]),
            pod("there", on="n2"),
        ]
    )
    before = exact(snapshot)
    with snapshot.trial():
        going = snapshot.pods_on("n1")
        snapshot.drop_node("n1")
        for record in going:
            snapshot.place(record, "n2")
        moved = [record.key for record in snapshot.pods_on("n2")]

    assert moved == ["default/first", "default/db", "default/last", "default/there"]
    assert differences(before, exact(snapshot)) == {}


def test_a_node_comes_back_to_its_row() -> None:
    snapshot = Snapshot.of([node("n0"), node("n1"), node("n2")])
    snapshot.drop_node("n0")
    before = rows(snapshot)
    with snapshot.trial():
        snapshot.drop_node("n2")

    assert rows(snapshot) == before


# Orders.


def test_which_of_two_equal_volumes_is_taken_does_not_depend_on_a_trial() -> None:
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
    with snapshot.trial():
        snapshot.drop_volume("plain")

    assert told_waiting(snapshot, NEWEST) == told_waiting(Snapshot.of(objects), NEWEST)


def test_waiting_pods_keep_their_order() -> None:
    snapshot = Snapshot.of([node("n1"), pod("a"), pod("b")])
    with snapshot.trial():
        snapshot.place(snapshot.pods["default/a"], "n1")

    assert [record.key for record in snapshot.pending_pods()] == ["default/a", "default/b"]


def test_orders_of_arrival_survive_a_revert() -> None:
    snapshot = Snapshot.of([node("n1"), node("n2"), pod("a"), pod("b")])
    before = orders(snapshot)
    with snapshot.trial():
        snapshot.place(snapshot.pods["default/a"], "n1")
        snapshot.drop_node("n1")
        snapshot.drop_pod("default", "b")

    assert orders(snapshot) == before
    assert [record.name for record in snapshot.ordered_nodes()] == ["n1", "n2"]


def test_volumes_that_name_a_claim_keep_their_order() -> None:
    claim = pvc("data")
    snapshot = Snapshot.of([pv("one", claim=claim), pv("other", claim=claim)])
    with snapshot.trial():
        snapshot.drop_volume("one")

    found = snapshot.storage.reserved_for("default", "data")
    assert [volume.metadata.name for volume in found] == ["one", "other"]


def test_attachments_keep_their_order() -> None:
    snapshot = Snapshot.of([attachment(name, "n1", attacher=EBS) for name in ("one", "other")])
    before = list(snapshot.attachments)
    with snapshot.trial():
        snapshot.drop_attachment(before[0])

    assert list(snapshot.attachments) == before


def test_the_first_pod_in_trouble_stays_the_first() -> None:
    """Its name is in the error that others get."""
    foreign = [pvc(f"{name}-scratch") for name in "ab"]
    users = [pod(name, on="n1", ephemeral=["scratch"]) for name in "ab"]
    snapshot = Snapshot.of([node("n1"), *foreign, *users])
    row = snapshot.nodes["n1"].row
    with snapshot.trial():
        snapshot.drop_pod("default", "a")

    assert list(snapshot.problem_pods[row]) == ["default/a", "default/b"]


def test_pools_set_in_a_trial_make_way_for_those_before() -> None:
    snapshot = Snapshot.of([node("n1"), node("n2")])
    set_pools(snapshot, {0: [Pool("standing", ((EBS, 1),), 4)]})
    before = exact(snapshot)
    with snapshot.trial():
        set_pools(snapshot, {1: [Pool("planned", ((EBS, 1),), 2)]})
        clear_pools(snapshot)

    assert differences(before, exact(snapshot)) == {}

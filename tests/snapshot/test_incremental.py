"""Feeding a snapshot: objects come in any order, change and go, and nothing is ever recounted."""

import random

import msgspec
import pytest
from hypothesis import given

from tests.snapshot.dumping import differences, dump, told_waiting
from tests.snapshot.histories import cluster_of, lean, lived_through, seeds
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Taint
from tonnage.objects.pods import Pod, PodAffinityTerm
from tonnage.objects.storage import PersistentVolumeClaim, VolumeAttachment
from tonnage.objects.workloads import PodDisruptionBudget
from tonnage.rules import features, pipeline
from tonnage.snapshot.slots import UNLIMITED
from tonnage.snapshot.snapshot import Change, Snapshot
from tonnage.testing.builders import (
    attachment,
    capacity,
    csidriver,
    csinode,
    namespace,
    node,
    pod,
    pv,
    pvc,
    selecting,
    storage_class,
)

EBS = "ebs.csi.aws.com"
CPU = 0


@given(seeds)
@lean(60)
def test_any_order_of_feeding_gives_the_same_snapshot(seed) -> None:
    objects, gates = cluster_of(seed)
    shuffled = random.Random(seed).sample(objects, len(objects))
    one, other = Snapshot.of(objects), Snapshot.of(shuffled)

    assert differences(dump(one), dump(other)) == {}
    assert differences(told_waiting(one, gates), told_waiting(other, gates)) == {}


@given(seeds)
@lean(30)
def test_claims_that_come_at_once_are_as_those_that_come_one_by_one(seed) -> None:
    objects, gates = cluster_of(seed)
    claims = [one for one in objects if isinstance(one, PersistentVolumeClaim)]
    others = [one for one in objects if not isinstance(one, PersistentVolumeClaim)]
    twice = [*claims, *claims[::3]]
    before, after = Snapshot(), Snapshot.of(others)
    before.put_claims(twice)
    for one in others:
        before.apply("ADDED", one)
    with after.trial():
        after.put_claims(twice)
    assert differences(dump(after), dump(Snapshot.of(others))) == {}
    after.put_claims(twice)

    for snapshot in (before, after):
        assert differences(dump(snapshot), dump(Snapshot.of(objects))) == {}
        told = told_waiting(Snapshot.of(objects), gates)
        assert differences(told_waiting(snapshot, gates), told) == {}


@given(seeds)
@lean(60)
def test_what_was_lived_through_equals_a_rebuild_from_what_is_left(seed) -> None:
    lived, left = lived_through(seed, changes=300)
    rebuilt, gates = Snapshot.of(left), cluster_of(seed)[1]

    assert differences(dump(lived), dump(rebuilt)) == {}
    assert differences(told_waiting(lived, gates), told_waiting(rebuilt, gates)) == {}
    # Counters exist only after somebody has asked.
    assert differences(dump(lived), dump(rebuilt)) == {}


@given(seeds)
@lean(60)
def test_adding_and_removing_an_object_leaves_no_trace(seed) -> None:
    objects, gates = cluster_of(seed)
    snapshot = Snapshot.of(objects)
    told = told_waiting(snapshot, gates)
    full = dump(snapshot)
    for one in random.Random(seed).sample(objects, 12):
        snapshot.apply("DELETED", one)
        without = dump(snapshot)
        snapshot.apply("ADDED", one)
        assert differences(full, dump(snapshot)) == {}
        snapshot.apply("DELETED", one)
        assert differences(without, dump(snapshot)) == {}
        snapshot.apply("ADDED", one)

    assert differences(told, told_waiting(snapshot, gates)) == {}


@given(seeds)
@lean(30)
def test_the_same_change_twice_is_one_change(seed) -> None:
    objects, gates = cluster_of(seed)
    once, twice = Snapshot.of(objects), Snapshot.of(objects)
    for one in objects:
        twice.apply("MODIFIED", one)

    assert differences(dump(once), dump(twice)) == {}
    assert differences(told_waiting(once, gates), told_waiting(twice, gates)) == {}


@given(seeds)
@lean(30)
def test_nothing_is_left_when_everything_is_gone(seed) -> None:
    objects, gates = cluster_of(seed)
    snapshot = Snapshot.of(objects)
    told_waiting(snapshot, gates)
    for one in random.Random(seed).sample(objects, len(objects)):
        snapshot.apply("DELETED", one)

    assert differences(dump(Snapshot()), dump(snapshot)) == {}


# One fact each, on the smallest cluster that shows it.

CLAIM = pvc("data", volume="data")
VOLUME = pv("data", driver=EBS, claim=CLAIM)
USER = pod("db", on="n1", pvcs=["data"], cpu=1)


def used_cpu(snapshot: Snapshot, name: str = "n1") -> int:
    return int(snapshot.columns.used[CPU].data[snapshot.nodes[name].row])


def slots(snapshot: Snapshot, name: str = "n1", driver: str = EBS) -> tuple[int, int]:
    """Volumes in use, and those that are only attached."""
    found, row = snapshot.slots.driver(driver), snapshot.nodes[name].row
    return int(found.used.data[row]), int(found.idle_attachments.data[row])


def limit(snapshot: Snapshot, name: str = "n1", driver: str = EBS) -> int:
    return int(snapshot.slots.driver(driver).limit.data[snapshot.nodes[name].row])


def test_a_pod_may_come_before_its_node() -> None:
    assert used_cpu(Snapshot.of([USER, node("n1")])) == 1000


def test_a_pod_waits_for_its_node_to_come_back() -> None:
    snapshot = Snapshot.of([node("n1"), USER])
    snapshot.drop_node("n1")
    snapshot.put_node(node("n1"))

    assert used_cpu(snapshot) == 1000


def test_a_pod_that_was_deleted_meanwhile_does_not_come_back_with_its_node() -> None:
    snapshot = Snapshot.of([node("n1"), USER])
    snapshot.drop_node("n1")
    snapshot.drop_pod("default", "db")
    snapshot.put_node(node("n1"))

    assert used_cpu(snapshot) == 0


@pytest.mark.parametrize(
    "order",
    [
        pytest.param((CLAIM, VOLUME, USER), id="claim, volume, pod"),
        pytest.param((USER, CLAIM, VOLUME), id="pod, claim, volume"),
        pytest.param((USER, VOLUME, CLAIM), id="pod, volume, claim"),
        pytest.param((VOLUME, USER, CLAIM), id="volume, pod, claim"),
    ],
)
def test_a_slot_is_taken_once_pod_claim_and_volume_are_known(order) -> None:
    assert slots(Snapshot.of([node("n1"), *order])) == (1, 0)


@pytest.mark.parametrize(
    ("gone", "left"),
    [
        pytest.param(USER, (0, 0), id="the pod"),
        pytest.param(CLAIM, (0, 0), id="the claim: a missing one takes no slot"),
        pytest.param(VOLUME, (0, 0), id="the volume: without a class there is nothing else"),
    ],
)
def test_a_slot_is_given_back_when_one_of_them_goes(gone, left) -> None:
    snapshot = Snapshot.of([node("n1"), CLAIM, VOLUME, USER])
    snapshot.apply("DELETED", gone)

    assert slots(snapshot) == left


def test_a_claim_that_gets_bound_moves_its_slot_from_the_class_to_the_volume() -> None:
    unbound = pvc("data", storage_class="local")
    bound = pvc("data", storage_class="local", volume="data")
    other = "local.csi.example"
    snapshot = Snapshot.of([node("n1"), storage_class("local", other), unbound, USER])
    before = slots(snapshot, driver=other), slots(snapshot)
    snapshot.apply("ADDED", VOLUME)
    snapshot.apply("MODIFIED", bound)

    assert before == ((1, 0), (0, 0))
    assert (slots(snapshot, driver=other), slots(snapshot)) == ((0, 0), (1, 0))


@pytest.mark.parametrize("last", ["class", "claim"])
def test_an_unbound_claim_takes_a_slot_once_its_class_is_known(last) -> None:
    storage = storage_class("ebs", EBS), pvc("data", storage_class="ebs")
    ordered = storage if last == "claim" else storage[::-1]

    assert slots(Snapshot.of([node("n1"), USER, *ordered])) == (1, 0)


def test_a_class_that_goes_takes_the_slots_of_unbound_claims_along() -> None:
    snapshot = Snapshot.of(
        [node("n1"), storage_class("ebs", EBS), pvc("data", storage_class="ebs"), USER]
    )
    snapshot.drop_class("ebs")

    assert slots(snapshot) == (0, 0)


ATTACHED = attachment("data", "n1", attacher=EBS)


def test_an_attachment_may_come_before_its_node_and_volume() -> None:
    assert slots(Snapshot.of([ATTACHED, VOLUME, node("n1")])) == (0, 1)
    assert slots(Snapshot.of([ATTACHED, node("n1"), VOLUME])) == (0, 1)


def test_a_volume_in_use_is_not_held_by_its_attachment_as_well() -> None:
    snapshot = Snapshot.of([node("n1"), CLAIM, VOLUME, ATTACHED, USER])
    in_use = slots(snapshot)
    snapshot.drop_pod("default", "db")

    assert (in_use, slots(snapshot)) == ((1, 0), (0, 1))


def test_an_attachment_that_moves_lets_go_of_its_old_node() -> None:
    snapshot = Snapshot.of([node("n1"), node("n2"), VOLUME, ATTACHED])
    moved = msgspec.structs.replace(
        ATTACHED, spec=msgspec.structs.replace(ATTACHED.spec, node_name="n2")
    )
    snapshot.apply("MODIFIED", moved)

    assert (slots(snapshot, "n1"), slots(snapshot, "n2")) == ((0, 0), (0, 1))


def test_a_volume_shared_by_pods_takes_one_slot_until_the_last_one_goes() -> None:
    second = pod("second", on="n1", pvcs=["data"])
    snapshot = Snapshot.of([node("n1"), CLAIM, VOLUME, USER, second])
    both = slots(snapshot)
    snapshot.drop_pod("default", "db")
    one = slots(snapshot)
    snapshot.drop_pod("default", "second")

    assert (both, one, slots(snapshot)) == ((1, 0), (1, 0), (0, 0))


def test_a_csinode_may_come_before_its_node() -> None:
    assert limit(Snapshot.of([csinode("n1", {EBS: 5}), node("n1")])) == 5


def test_a_limit_changes_with_its_csinode_and_goes_with_it() -> None:
    snapshot = Snapshot.of([node("n1"), csinode("n1", {EBS: 5})])
    snapshot.apply("MODIFIED", csinode("n1", {EBS: 7}))
    changed = limit(snapshot)
    snapshot.apply("DELETED", csinode("n1"))

    assert (changed, limit(snapshot)) == (7, UNLIMITED)


def test_a_pod_that_finishes_is_as_good_as_gone() -> None:
    snapshot = Snapshot.of([node("n1"), USER])
    snapshot.apply("MODIFIED", pod("db", on="n1", cpu=1, phase="Succeeded"))

    assert used_cpu(snapshot) == 0
    assert "default/db" not in snapshot.pods


def test_a_pod_that_is_bound_leaves_the_queue() -> None:
    snapshot = Snapshot.of([node("n1"), pod("db", cpu=1)])
    waiting = [record.key for record in snapshot.pending_pods()]
    snapshot.apply("MODIFIED", USER)

    assert (waiting, list(snapshot.pending_pods())) == (["default/db"], [])
    assert used_cpu(snapshot) == 1000


def test_a_pod_without_a_node_that_is_being_deleted_does_not_wait() -> None:
    assert list(Snapshot.of([pod("web", deleting=True)]).pending_pods()) == []


def test_a_resized_pod_uses_what_it_uses_now() -> None:
    snapshot = Snapshot.of([node("n1"), USER])
    snapshot.apply("MODIFIED", pod("db", on="n1", cpu=3))

    assert used_cpu(snapshot) == 3000


def test_a_changed_node_keeps_what_its_pods_use() -> None:
    snapshot = Snapshot.of([node("n1", zone="a"), USER])
    snapshot.apply("MODIFIED", node("n1", cpu="8", zone="b"))
    row = snapshot.nodes["n1"].row

    assert used_cpu(snapshot) == 1000
    assert int(snapshot.columns.allocatable[CPU].data[row]) == 8000
    assert snapshot.columns.labels.equal({"topology.kubernetes.io/zone": "b"}).tolist() == [True]


def test_a_label_that_is_taken_off_a_node_is_gone() -> None:
    snapshot = Snapshot.of([node("n1", zone="a")])
    snapshot.apply("MODIFIED", node("n1"))

    assert snapshot.columns.labels.equal({"topology.kubernetes.io/zone": "a"}).tolist() == [False]


def test_a_node_keeps_its_place_in_the_order_when_it_changes() -> None:
    snapshot = Snapshot.of([node("z"), node("a")])
    snapshot.apply("MODIFIED", node("z", zone="a"))

    assert [record.name for record in snapshot.ordered_nodes()] == ["z", "a"]


def test_kinds_that_do_not_matter_are_passed_over() -> None:
    budget = PodDisruptionBudget(metadata=ObjectMeta(name="budget", namespace="default"))

    assert dump(Snapshot.of([budget])) == dump(Snapshot())


@pytest.mark.parametrize(
    "unknown",
    [
        pytest.param(one, id=type(one).__name__)
        for one in (
            node("x"),
            pod("x"),
            csinode("x"),
            pvc("x"),
            pv("x"),
            storage_class("x", EBS),
            csidriver("x"),
            capacity("x", "y"),
            namespace("x"),
            attachment("x", "y", attacher=EBS),
        )
    ],
)
def test_deleting_what_was_never_there_changes_nothing(unknown) -> None:
    snapshot = Snapshot.of([node("n1"), CLAIM, VOLUME, USER, ATTACHED])
    before = dump(snapshot)
    snapshot.apply("DELETED", unknown)

    assert differences(before, dump(snapshot)) == {}


def test_two_attachments_of_one_volume_hold_one_slot_until_both_are_gone() -> None:
    second = VolumeAttachment(metadata=ObjectMeta(name="second"), spec=ATTACHED.spec)
    snapshot = Snapshot.of([node("n1"), VOLUME, ATTACHED, second])
    both = slots(snapshot)
    snapshot.apply("DELETED", ATTACHED)

    assert (both, slots(snapshot)) == ((0, 1), (0, 1))


def promised(one: Pod, name: str) -> Pod:
    status = msgspec.structs.replace(one.status, nominated_node_name=name)
    return msgspec.structs.replace(one, status=status)


def answers(snapshot: Snapshot, *changes: tuple[Change, object]) -> list[bool]:
    """Whether the pod `web` fits anywhere, before the changes and after each of them."""
    fits = []
    for change in (None, *changes):
        if change is not None:
            snapshot.apply(*change)
        asked = pipeline.evaluate(snapshot, snapshot.pods["default/web"], features.of_version())
        fits.append(bool(asked.fits.any()))
    return fits


def test_an_answer_follows_the_labels_of_namespaces() -> None:
    """Pods of another namespace keep out those of namespaces with a label."""
    alone = PodAffinityTerm(
        topology_key="kubernetes.io/hostname",
        label_selector=selecting({"app": "web"}),
        namespace_selector=selecting({"team": "red"}),
    )
    snapshot = Snapshot.of(
        [
            node("n1"),
            namespace("default"),
            pod("alone", namespace="other", on="n1", apart=[alone]),
            pod("web", labels={"app": "web"}),
        ]
    )

    assert answers(
        snapshot,
        ("MODIFIED", namespace("default", {"team": "red"})),
        ("DELETED", namespace("default")),
    ) == [True, False, True]


def test_an_answer_follows_published_capacities() -> None:
    snapshot = Snapshot.of(
        [
            node("n1"),
            csidriver(EBS, storage_capacity=True),
            storage_class("ebs", EBS),
            pvc("data", storage_class="ebs", size="2Gi"),
            pod("web", pvcs=["data"]),
        ]
    )

    assert answers(
        snapshot,
        ("ADDED", capacity("c", "ebs", free="5Gi")),
        ("MODIFIED", capacity("c", "ebs", free="1Gi")),
        ("DELETED", csidriver(EBS)),
    ) == [False, True, False, True]


def test_an_answer_follows_taints_and_cordons() -> None:
    tainted = node("n1", taints=[Taint(key="x", effect="NoSchedule")])
    snapshot = Snapshot.of([node("n1"), pod("web")])

    assert answers(
        snapshot,
        ("MODIFIED", tainted),
        ("MODIFIED", node("n1", unschedulable=True)),
        ("MODIFIED", node("n1")),
    ) == [True, False, False, True]


def test_a_promise_of_preemption_is_kept_until_the_pod_is_bound() -> None:
    snapshot = Snapshot.of([node("n1"), promised(pod("db"), "n1")])
    before = {name: list(pods) for name, pods in snapshot.nominated_pods.items()}
    snapshot.apply("MODIFIED", USER)

    assert (before, snapshot.nominated_pods) == ({"n1": ["default/db"]}, {})


def test_which_of_two_equal_volumes_is_taken_does_not_depend_on_changes_to_them() -> None:
    plain = pv("plain", driver=EBS, storage_class="static")
    objects = [
        node("n1"),
        storage_class("static", "kubernetes.io/no-provisioner"),
        plain,
        pv("fast", driver=EBS, storage_class="static", labels={"kind": "fast"}),
        pvc("any", storage_class="static"),
        pvc("fast", storage_class="static", selector=selecting({"kind": "fast"})),
        pod("web", pvcs=["any", "fast"]),
    ]
    once, twice = Snapshot.of(objects), Snapshot.of(objects)
    twice.apply("MODIFIED", plain)
    gates = features.of_version()

    assert told_waiting(once, gates) == told_waiting(twice, gates)

"""The ledger of storage: what rows have, what is taken of it, and what comes back."""

import numpy as np
import pytest

from tests.snapshot.dumping import differences, dump
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.storage import StorageClass
from tonnage.snapshot import imagined, published_storage
from tonnage.snapshot.imagined import Footprint
from tonnage.snapshot.snapshot import Snapshot
from tonnage.snapshot.storage_ledger import POOL_ANNOTATION, Room, StorageLedger
from tonnage.testing import builders as make

GIB = 2**30
LOCAL = "local.example.com"
HOST = "kubernetes.io/hostname"
BASE: tuple[KubeObject, ...] = (
    make.csidriver(LOCAL, storage_capacity=True),
    make.storage_class("local", LOCAL),
    make.node("a", zone="z1"),
    make.node("b", zone="z1"),
    make.node("c", zone="z2"),
)


def opened(*objects: KubeObject, classes: tuple[str, ...] = ("local",)) -> Snapshot:
    snapshot = Snapshot.of((*BASE, *objects))
    published_storage.open_ledger(snapshot, classes, templates={}, coming_up={})
    return snapshot


def ledger_of(snapshot: Snapshot) -> StorageLedger:
    assert snapshot.storage_ledger.class_names
    return snapshot.storage_ledger


def left(snapshot: Snapshot, name: str = "local") -> dict[str, float]:
    """GiB left by node, where there is anything at all."""
    ledger = ledger_of(snapshot)
    return {
        node: int(ledger.left(name)[record.row]) / GIB
        for node, record in snapshot.nodes.items()
        if ledger.largest(name)[record.row] >= 0
    }


def take(snapshot: Snapshot, node: str, gib: int, name: str = "local") -> None:
    row = np.array([snapshot.nodes[node].row])
    ledger_of(snapshot).take(row, np.ones(1, dtype=np.int64), {name: gib * GIB})


def on_host(node: str, free: str, storage_class: str = "local") -> KubeObject:
    return make.capacity(f"{storage_class}-{node}", storage_class, free=free, topology={HOST: node})


def in_zone(zone: str, free: str) -> KubeObject:
    return make.capacity(f"in-{zone}", "local", free=free, topology={make.ZONE: zone})


def annotated(name: str, pool: str) -> StorageClass:
    return StorageClass(
        metadata=ObjectMeta(name=name, annotations={POOL_ANNOTATION: pool}),
        provisioner=LOCAL,
        volume_binding_mode="WaitForFirstConsumer",
    )


def test_a_node_has_what_is_published_for_it() -> None:
    assert left(opened(on_host("a", "10Gi"), on_host("b", "20Gi"))) == {"a": 10, "b": 20}


def test_what_is_taken_of_a_disk_is_missing_there_and_nowhere_else() -> None:
    snapshot = opened(on_host("a", "10Gi"), on_host("b", "20Gi"))

    take(snapshot, "a", 4)

    assert left(snapshot) == {"a": 6, "b": 20}


def test_nodes_of_one_topology_take_of_the_same_storage() -> None:
    snapshot = opened(in_zone("z1", "10Gi"))

    take(snapshot, "a", 4)

    assert left(snapshot) == {"a": 6, "b": 6}


def test_a_disk_of_its_own_comes_before_storage_that_a_node_shares() -> None:
    assert left(opened(in_zone("z1", "10Gi"), on_host("a", "3Gi"))) == {"a": 3, "b": 10}


def test_several_objects_for_one_node_are_several_disks() -> None:
    second = make.capacity("second", "local", free="5Gi", topology={HOST: "a"})

    assert left(opened(on_host("a", "10Gi"), second)) == {"a": 15}


def test_a_topology_of_several_labels_may_speak_of_one_node() -> None:
    both = make.capacity("both", "local", free="7Gi", topology={HOST: "c", make.ZONE: "z2"})
    snapshot = opened(both)

    take(snapshot, "c", 2)

    assert left(snapshot) == {"c": 5}


@pytest.mark.parametrize(
    ("objects", "shared"),
    [
        pytest.param(
            (make.storage_class("xfs", LOCAL), on_host("a", "10Gi", "xfs")),
            True,
            id="the same driver publishes the same amount for both",
        ),
        pytest.param(
            (make.storage_class("xfs", LOCAL), on_host("a", "90Gi", "xfs")),
            False,
            id="the same driver publishes another amount",
        ),
        pytest.param(
            (make.storage_class("xfs", LOCAL), make.storage_class("other", "else.example.com")),
            False,
            id="nothing is published for the other class",
        ),
    ],
)
def test_classes_share_a_pool_if_they_show_the_same(
    objects: tuple[KubeObject, ...], shared: bool
) -> None:
    snapshot = opened(on_host("a", "10Gi"), *objects, classes=("local", "xfs"))

    take(snapshot, "a", 4, name="xfs")

    assert left(snapshot)["a"] == (6 if shared else 10)


def test_an_annotation_says_which_classes_share() -> None:
    classes = (annotated("local", "nvme"), annotated("xfs", "nvme"), annotated("hdd", "disk"))
    disks = [on_host("a", free, name) for name, free in (("local", "9Gi"), ("xfs", "8Gi"))]
    snapshot = opened(*classes, *disks, on_host("a", "9Gi", "hdd"), classes=("local", "xfs", "hdd"))

    take(snapshot, "a", 4)

    assert [left(snapshot, name)["a"] for name in ("local", "xfs", "hdd")] == [5, 4, 9]


def test_pods_that_have_a_node_and_no_volume_yet_have_taken_theirs() -> None:
    claim = make.pvc("data", storage_class="local", size="3Gi")

    snapshot = opened(on_host("a", "10Gi"), claim, make.pod("db", on="a", pvcs=["data"]))

    assert left(snapshot) == {"a": 7}


def test_a_template_that_is_furnished_passes_it_on_to_every_copy() -> None:
    snapshot = Snapshot.of(BASE)
    template = imagined.add_template(snapshot, make.node("template"), None, [])
    rooms = {template.row: [Room("local", 5 * GIB, 5 * GIB)]}
    published_storage.open_ledger(snapshot, ["local"], templates=rooms, coming_up={})

    imagined.add_copies(snapshot, template, ["new-1", "new-2"])
    take(snapshot, "new-1", 2)

    assert left(snapshot) == {"new-1": 3, "new-2": 5}


def test_a_node_that_comes_up_has_its_templates_storage_until_it_publishes_its_own() -> None:
    snapshot = Snapshot.of((*BASE, on_host("a", "2Gi")))
    rows = {snapshot.nodes[name].row: [Room("local", 5 * GIB, 5 * GIB)] for name in ("a", "b")}

    published_storage.open_ledger(snapshot, ["local"], templates={}, coming_up=rows)

    assert left(snapshot) == {"a": 2, "b": 5}


def test_what_pods_held_on_rows_take_is_given_back_by_a_revert() -> None:
    snapshot = opened(on_host("a", "10Gi"), in_zone("z2", "10Gi"))
    before = left(snapshot)
    held = Footprint(snapshot.record_of(make.pod("db")).pod_class, {}, {"local": 2 * GIB})
    rows = np.array([snapshot.nodes["a"].row, snapshot.nodes["c"].row])

    with snapshot.trial():
        imagined.place(snapshot, held, rows, np.array([3, 1]))
        taken = left(snapshot)

    assert (taken, left(snapshot)) == ({"a": 4, "c": 8}, before)


def test_closing_a_ledger_leaves_no_trace() -> None:
    plain = Snapshot.of((*BASE, on_host("a", "10Gi")))
    columns = len(plain.table._columns)
    before = dump(plain)

    with plain.trial():
        published_storage.open_ledger(plain, ["local"], templates={}, coming_up={})

    assert not plain.storage_ledger.class_names
    assert len(plain.table._columns) == columns
    assert differences(before, dump(plain)) == {}


def test_rows_that_share_are_cut_off_where_those_before_used_it_up() -> None:
    snapshot = opened(in_zone("z1", "5Gi"), on_host("c", "4Gi"))
    room = np.full(snapshot.table.size, 3, dtype=np.int64)

    cut = ledger_of(snapshot).within_shared({"local": GIB}, room, np.arange(snapshot.table.size))

    assert {name: int(cut[one.row]) for name, one in snapshot.nodes.items()} == {
        "a": 3,
        "b": 2,
        "c": 3,
    }

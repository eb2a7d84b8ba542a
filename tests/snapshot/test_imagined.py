"""Imagined nodes and pods: as good as real ones to everybody who asks."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given

from tests.snapshot.dumping import differences, exact, told, told_waiting
from tests.snapshot.histories import cluster_of, lean, seeds
from tonnage.errors import InputError
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod, PodAffinityTerm, TopologySpreadConstraint
from tonnage.objects.storage import CSINode
from tonnage.rules import features, pipeline
from tonnage.snapshot import imagined
from tonnage.snapshot.imagined import Footprint
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing.builders import (
    HOSTNAME,
    ZONE,
    csinode,
    node,
    pod,
    pvc,
    selecting,
    storage_class,
)

NEWEST = features.of_version()
EBS = "ebs.csi.aws.com"
CPU = 0


def without_volumes(objects: tuple[Any, ...]) -> list[Pod]:
    """What an imagined pod holds of volumes is told by number only, so these come without."""
    return [one for one in objects if isinstance(one, Pod) and not one.spec.volumes]


def copy_of(model: Node, name: str) -> Node:
    labels = {**model.metadata.labels}
    if HOSTNAME in labels:
        labels[HOSTNAME] = name
    meta = msgspec.structs.replace(model.metadata, name=name, labels=labels)
    return msgspec.structs.replace(model, metadata=meta)


def on(one: Pod, node_name: str, name: str) -> Pod:
    meta = msgspec.structs.replace(one.metadata, name=name, deletion_timestamp=None)
    spec = msgspec.structs.replace(one.spec, node_name=node_name)
    status = msgspec.structs.replace(one.status, phase="Running")
    return msgspec.structs.replace(one, metadata=meta, spec=spec, status=status)


def renamed(found: CSINode, name: str) -> CSINode:
    return msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, name=name)
    )


@given(seeds)
@lean(60)
def test_copies_of_a_template_are_as_good_as_real_nodes(seed) -> None:
    objects, gates = cluster_of(seed)
    dreamt, real = Snapshot.of(objects), Snapshot.of(objects)
    model = dreamt.ordered_nodes()[seed % len(dreamt.nodes)].node
    said = dreamt.csinodes.get(model.metadata.name)
    starting = without_volumes(objects)[:2]
    names = ["copy-1", "copy-2", "copy-3"]

    template = imagined.add_template(dreamt, model, said, [(one, {}) for one in starting])
    imagined.add_copies(dreamt, template, names)
    for name in names:
        real.put_node(copy_of(model, name))
        if said is not None:
            real.put_csinode(renamed(said, name))
        for number, one in enumerate(starting):
            real.put_pod(on(one, name, f"{name}-{number}"))

    assert differences(told_waiting(dreamt, gates), told_waiting(real, gates)) == {}


@given(seeds)
@lean(60)
def test_held_pods_are_as_good_as_placed_ones(seed) -> None:
    objects, gates = cluster_of(seed)
    dreamt, real = Snapshot.of(objects), Snapshot.of(objects)
    names = sorted(dreamt.nodes)[:3]
    rows = np.array([dreamt.nodes[name].row for name in names], dtype=np.intp)
    counts = np.arange(1, len(names) + 1, dtype=np.int64)
    for one in without_volumes(objects)[:3]:
        group = Footprint(dreamt.record_of(on(one, "", "x")).pod_class, {})
        imagined.place(dreamt, group, rows, counts)
        for name, count in zip(names, counts.tolist(), strict=True):
            for number in range(count):
                real.put_pod(on(one, name, f"{one.metadata.name}-{name}-{number}"))

    assert differences(told_waiting(dreamt, gates), told_waiting(real, gates)) == {}


@given(seeds)
@lean(40)
def test_a_template_changes_nothing_for_the_nodes_there_are(seed) -> None:
    objects, gates = cluster_of(seed)
    snapshot = Snapshot.of(objects)
    before = told_waiting(snapshot, gates)
    model = snapshot.ordered_nodes()[0].node
    said = snapshot.csinodes.get(model.metadata.name)
    starting = [(one, {EBS: 1}) for one in without_volumes(objects)[:2]]
    imagined.add_template(snapshot, model, said, starting)

    assert differences(before, told_waiting(snapshot, gates)) == {}


def used(snapshot: Snapshot, row: int) -> tuple[int, int]:
    slots = snapshot.slots.driver(EBS)
    return int(snapshot.columns.used[CPU].data[row]), int(slots.used.data[row])


def test_a_template_starts_with_what_its_pods_use() -> None:
    snapshot = Snapshot()
    template = imagined.add_template(
        snapshot, node("t"), csinode("t", {EBS: 5}), [(pod("daemon", cpu=1), {EBS: 2})]
    )

    assert used(snapshot, template.row) == (1000, 2)


def test_copies_start_with_what_the_template_starts_with() -> None:
    snapshot = Snapshot()
    template = imagined.add_template(
        snapshot, node("t"), csinode("t", {EBS: 5}), [(pod("daemon", cpu=1), {EBS: 2})]
    )
    rows = imagined.add_copies(snapshot, template, ["c1", "c2"])

    assert [used(snapshot, row) for row in range(rows.start, rows.stop)] == [(1000, 2)] * 2


def test_copies_have_names_of_their_own() -> None:
    snapshot = Snapshot()
    template = imagined.add_template(snapshot, node("t"), None, [])
    rows = imagined.add_copies(snapshot, template, ["c1", "c2"])

    assert [snapshot.name_of(row) for row in range(rows.start, rows.stop)] == ["c1", "c2"]
    assert snapshot.columns.labels.equal({HOSTNAME: "c2"})[rows].tolist() == [False, True]


def test_a_copy_of_a_template_without_a_hostname_has_none() -> None:
    bare = msgspec.structs.replace(
        node("t"), metadata=msgspec.structs.replace(node("t").metadata, labels={})
    )
    snapshot = Snapshot()
    template = imagined.add_template(snapshot, bare, None, [])
    rows = imagined.add_copies(snapshot, template, ["c1"])

    assert snapshot.columns.labels.equal({HOSTNAME: "c1"})[rows].tolist() == [False]


def test_held_pods_take_slots_until_there_are_none() -> None:
    wanting = pod("db", pvcs=["data"])
    snapshot = Snapshot.of(
        [
            node("n1"),
            csinode("n1", {EBS: 3}),
            storage_class("ebs", EBS),
            pvc("data", storage_class="ebs"),
            wanting,
        ]
    )
    record = snapshot.pods["default/db"]
    imagined.place(snapshot, Footprint(record.pod_class, {EBS: 1}), np.array([0]), np.array([2]))
    room_left = pipeline.evaluate(snapshot, record, NEWEST).fits.tolist()
    imagined.place(snapshot, Footprint(record.pod_class, {EBS: 1}), np.array([0]), np.array([1]))

    assert room_left == [True]
    assert pipeline.evaluate(snapshot, record, NEWEST).on("n1").texts == [
        "node(s) exceed max volume count"
    ]


def test_a_held_pod_holds_its_host_port() -> None:
    wanting = pod("web", host_ports=[80])
    snapshot = Snapshot.of([node("n1"), wanting])
    record = snapshot.pods["default/web"]
    imagined.place(snapshot, Footprint(record.pod_class, {}), np.array([0]), np.array([1]))

    assert told(snapshot, NEWEST, [record])["default/web"]["n1"][2] == "NodePorts"


def test_a_template_in_a_zone_of_its_own_is_no_empty_zone_to_spread_into() -> None:
    even = TopologySpreadConstraint(
        max_skew=1, topology_key=ZONE, label_selector=selecting({"app": "db"})
    )
    snapshot = Snapshot.of(
        [
            node("n1", zone="a"),
            pod("db-0", on="n1", labels={"app": "db"}),
            pod("db-1", labels={"app": "db"}, spread=[even]),
        ]
    )
    template = imagined.add_template(snapshot, node("t", zone="b"), None, [])
    beside_template = told_waiting(snapshot, NEWEST)["default/db-1"]["n1"][0]
    imagined.add_copies(snapshot, template, ["c1"])

    assert beside_template == "Success"
    assert told_waiting(snapshot, NEWEST)["default/db-1"]["n1"][0] == "Unschedulable"


@pytest.mark.parametrize("count", [1, 64, 200])
def test_any_number_of_copies_lie_side_by_side(count) -> None:
    snapshot = Snapshot.of([node("n1"), node("n2")])
    snapshot.drop_node("n1")
    template = imagined.add_template(snapshot, node("t"), None, [])
    rows = imagined.add_copies(snapshot, template, [f"c{number}" for number in range(count)])

    assert rows.stop - rows.start == count
    assert {snapshot.nodes[f"c{number}"].row for number in range(count)} == set(
        range(rows.start, rows.stop)
    )


INDEX = "apps.kubernetes.io/pod-index"
ASKING = pod(
    "web",
    apart=[PodAffinityTerm(topology_key=HOSTNAME, label_selector=selecting({INDEX: "1"}))],
)


def test_held_pods_are_told_apart_by_labels_that_a_selector_names() -> None:
    snapshot = Snapshot.of([node("n1"), ASKING, *replicas("0", "1")])
    asking = snapshot.pods["default/web"]
    imagined.place(snapshot, group_of(snapshot, "db-0"), np.array([0]), np.array([1]))
    beside_another = pipeline.evaluate(snapshot, asking, NEWEST).fits.tolist()
    imagined.place(snapshot, group_of(snapshot, "db-1"), np.array([0]), np.array([1]))

    assert beside_another == [True]
    assert pipeline.evaluate(snapshot, asking, NEWEST).fits.tolist() == [False]


def test_held_pods_cannot_be_told_apart_afterwards() -> None:
    """A hold is so many of a class: nobody knows whether db-0 or db-1 is the one on n1."""
    snapshot = Snapshot.of([node("n1"), *replicas("0", "1")])
    imagined.place(snapshot, group_of(snapshot, "db-0"), np.array([0]), np.array([1]))
    before = exact(snapshot)

    with pytest.raises(InputError, match=f"names the label {INDEX}.* before holding others"):
        snapshot.put_pod(ASKING)
    assert differences(before, exact(snapshot)) == {}


def test_a_selector_may_name_a_label_that_no_held_pod_has() -> None:
    snapshot = Snapshot.of([node("n1"), pod("plain")])
    imagined.place(snapshot, group_of(snapshot, "plain"), np.array([0]), np.array([1]))

    assert pipeline.evaluate(snapshot, snapshot.record_of(ASKING), NEWEST).fits.tolist() == [True]


def test_a_selector_may_name_any_label_once_held_pods_are_gone() -> None:
    snapshot = Snapshot.of([node("n1"), *replicas("1")])
    with snapshot.trial():
        imagined.place(snapshot, group_of(snapshot, "db-1"), np.array([0]), np.array([1]))

    assert pipeline.evaluate(snapshot, snapshot.record_of(ASKING), NEWEST).fits.tolist() == [True]


def replicas(*indexes: str) -> list[Pod]:
    return [pod(f"db-{index}", labels={INDEX: index}) for index in indexes]


def group_of(snapshot: Snapshot, name: str) -> Footprint:
    return Footprint(snapshot.pods[f"default/{name}"].pod_class, {})

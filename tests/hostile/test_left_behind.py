"""What a tenant brings goes when it goes, and never makes a column over all nodes."""

from tonnage.objects.meta import ResourceList
from tonnage.rules import features, pipeline
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing.builders import node, pod

NEWEST = features.of_version()
NODES = [node(f"n{number}") for number in range(300)]


def test_resource_names_without_number_make_no_columns() -> None:
    """Sixty thousand of them, on a pod that waits and on one that has a node."""
    snapshot = Snapshot.of(NODES)
    columns = len(snapshot.table._columns)
    greedy: ResourceList = {f"vendor.example.com/r{number}": 1 for number in range(60_000)}
    snapshot.put_pod(pod("waits", requests=greedy))
    snapshot.put_pod(pod("runs", on="n0", requests=greedy))

    assert len(snapshot.table._columns) == columns
    assert not pipeline.evaluate(snapshot, snapshot.pods["default/waits"], NEWEST).fits.any()


def test_pods_that_came_and_went_leave_no_classes() -> None:
    snapshot = Snapshot.of(NODES)
    most = 0
    for number in range(5_000):
        snapshot.put_pod(pod("p", on="n0", labels={"build": str(number)}))
        snapshot.drop_pod("default", "p")
        if snapshot.cluttered:
            snapshot.tidy()
        most = max(most, len(snapshot.classes))

    assert most < 2_000
    snapshot.tidy()
    assert snapshot.classes == {}


def test_a_large_question_is_forgotten_sooner_than_small_ones() -> None:
    snapshot = Snapshot.of(NODES)
    for number in range(3):
        snapshot.record_of(pod("asked", labels={f"{number}-{one}": "x" for one in range(60_000)}))

    assert snapshot.cluttered
    snapshot.tidy()
    assert snapshot.classes == {}


def test_labels_that_are_only_asked_for_make_no_columns() -> None:
    snapshot = Snapshot.of(NODES)
    columns = len(snapshot.table._columns)
    for number in range(200):
        asked = snapshot.record_of(pod("asked", node_selector={f"key-{number}": "x"}))
        assert not pipeline.evaluate(snapshot, asked, NEWEST).fits.any()

    assert len(snapshot.table._columns) == columns

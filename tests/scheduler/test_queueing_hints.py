"""Which events a change comes to, and whom they help."""

import msgspec
import pytest

from tonnage.objects.nodes import Taint
from tonnage.objects.pods import PodAffinityTerm
from tonnage.objects.storage import CSINode
from tonnage.rules.features import Features
from tonnage.rules.framework import EventKind
from tonnage.rules.registry import rules
from tonnage.scheduler.queueing_hints import ClusterEvent, cured, happenings, worth_another_try
from tonnage.snapshot.snapshot import PodRecord, Snapshot
from tonnage.testing import builders

D = "d"


def told(old: object | None, new: object | None) -> list[str]:
    return [one.event for one in happenings(old, new)]


def csinode(**drivers: int | None) -> CSINode:
    return builders.csinode("n", drivers)


FEATURES = Features()


def record(snapshot: Snapshot, name: str) -> PodRecord:
    return snapshot.pods[f"default/{name}"]


@pytest.mark.parametrize(
    ("old", "new", "events"),
    [
        (csinode(), csinode(d=None), ["CSINode.update"]),
        (csinode(), csinode(d=5), ["CSINode.update"]),
        (csinode(d=1), csinode(d=2), ["CSINode.update"]),
        (csinode(d=1), csinode(d=None), ["CSINode.update"]),
        (csinode(d=1), csinode(), ["CSINode.update"]),
        (csinode(d=2), csinode(d=1), []),
        (csinode(d=1), csinode(d=1), []),
        (csinode(d=None), csinode(d=1), []),
        (None, csinode(), ["CSINode.add"]),
        (csinode(d=1), None, ["CSINode.update"]),
    ],
    ids=lambda one: (
        str([(d.name, d.limit) for d in one.spec.drivers]) if isinstance(one, CSINode) else str(one)
    ),
)
def test_a_csinode_tells_of_slots_that_were_not_there_before(
    old: CSINode | None, new: CSINode | None, events: list[str]
) -> None:
    assert told(old, new) == events


@pytest.mark.parametrize(
    ("change", "event"),
    [
        ({"labels": {"a": "b"}}, "Node.label"),
        ({"taints": [Taint(key="k", effect="NoSchedule")]}, "Node.taint"),
        ({"unschedulable": True}, "Node.taint"),
        ({"cpu": "9"}, "Node.allocatable"),
        ({"features": ["f"]}, "Node.declaredFeatures"),
    ],
)
def test_a_node_tells_what_changed(change: dict[str, object], event: str) -> None:
    assert told(builders.node("n"), builders.node("n", **change)) == [event]  # type: ignore[arg-type]


def test_a_heartbeat_tells_nothing() -> None:
    node = builders.node("n")
    meta = msgspec.structs.replace(node.metadata, resource_version="2")
    assert told(node, msgspec.structs.replace(node, metadata=meta)) == []


def test_a_csidriver_that_goes_takes_its_wishes_with_it() -> None:
    assert told(builders.csidriver(D, opt_in=True), None) == ["CSIDriver.update"]


def test_an_attachment_that_is_reported_attached_frees_nothing() -> None:
    before = builders.attachment("v", "n", attacher=D, attached=False)
    assert told(before, builders.attachment("v", "n", attacher=D)) == []
    assert told(before, None) == ["VolumeAttachment.delete"]


def test_a_new_node_can_cure_every_refusal() -> None:
    assert set(cured(EventKind.NODE_ADDED, FEATURES)) == {one.name for one in rules(FEATURES)}


def test_an_event_cures_the_filters_that_name_it() -> None:
    assert cured(EventKind.ATTACHMENT_DELETED, FEATURES) == ("NodeVolumeLimits", "SlotPools")


def test_a_claim_helps_only_the_pods_that_use_it() -> None:
    snapshot = Snapshot.of([builders.pod("user", pvcs=["c"]), builders.pod("other", pvcs=["x"])])
    came = ClusterEvent(EventKind("PersistentVolumeClaim.add"), builders.pvc("c"))
    assert worth_another_try(came, "VolumeBinding", record(snapshot, "user"), snapshot, FEATURES)
    assert not worth_another_try(
        came, "VolumeBinding", record(snapshot, "other"), snapshot, FEATURES
    )


def test_a_pod_without_volumes_frees_no_slot() -> None:
    snapshot = Snapshot.of(
        [builders.pod("w", pvcs=["c"]), builders.pod("plain"), builders.pod("db", pvcs=["x"])]
    )
    waiting = record(snapshot, "w")
    for name, helps in (("plain", False), ("db", True)):
        gone = ClusterEvent(EventKind("Pod.delete"), record(snapshot, name))
        assert worth_another_try(gone, "NodeVolumeLimits", waiting, snapshot, FEATURES) is helps


def test_a_driver_that_changes_its_mind_helps_only_users_of_its_volumes() -> None:
    snapshot = Snapshot.of(
        [
            builders.storage_class("fast", D),
            builders.pvc("c", storage_class="fast"),
            builders.pod("user", pvcs=["c"]),
        ]
    )
    waiting = record(snapshot, "user")
    for name, helps in ((D, True), ("e", False)):
        changed = ClusterEvent(EventKind("CSIDriver.update"), builders.csidriver(name))
        assert worth_another_try(changed, "NodeVolumeLimits", waiting, snapshot, FEATURES) is helps


def test_a_pod_wakes_those_who_want_to_be_near_it() -> None:
    near = PodAffinityTerm(
        topology_key=builders.HOSTNAME, label_selector=builders.selecting({"app": "a"})
    )
    snapshot = Snapshot.of(
        [
            builders.pod("w", near=[near]),
            builders.pod("a", labels={"app": "a"}),
            builders.pod("b", labels={"app": "b"}),
        ]
    )
    waiting = record(snapshot, "w")
    for name, helps in (("a", True), ("b", False)):
        came = ClusterEvent(EventKind("Pod.add"), record(snapshot, name))
        assert worth_another_try(came, "InterPodAffinity", waiting, snapshot, FEATURES) is helps

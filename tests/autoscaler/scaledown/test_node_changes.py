"""Marks of nodes as changes, and pods of a node by what becomes of them."""

import msgspec
import pytest

from tonnage.autoscaler.scaledown import drain_priority, node_pods, taints
from tonnage.errors import InputError
from tonnage.groups.passing_taints import DELETION_CANDIDATE, TO_BE_DELETED
from tonnage.objects.meta import OwnerReference
from tonnage.objects.nodes import Node, Taint
from tonnage.objects.pods import Container, Pod
from tonnage.service.moving_pods import NOTE
from tonnage.testing import builders as make

NOW = 1_800_000_000.7
OTHER = Taint(key="other", effect="NoSchedule")


def changed(node: Node, change: object) -> Node:
    """What a merge patch makes of a node."""
    tree = msgspec.to_builtins(node)
    return msgspec.convert(_merged(tree, change), Node)


def _merged(tree: object, change: object) -> object:
    if not isinstance(change, dict) or not isinstance(tree, dict):
        return change
    both = {**tree}
    for key, value in change.items():
        if value is None:
            both.pop(key, None)
        else:
            both[key] = _merged(both.get(key, {}), value)
    return both


def owner(kind: str) -> OwnerReference:
    return OwnerReference(kind=kind, name="owner", uid="uid", controller=True)


def test_the_deletion_taint_stands_beside_others_with_the_seconds_as_its_value() -> None:
    node = make.node("n", taints=(OTHER,))
    marked = changed(node, taints.to_be_deleted(node, now=NOW, cordon=True))
    assert marked.spec.taints == (
        OTHER, Taint(key=TO_BE_DELETED, value="1800000000", effect="NoSchedule"),
    )  # fmt: skip
    assert marked.spec.unschedulable


def test_taking_the_marks_off_leaves_the_node_as_it_was() -> None:
    node = make.node("n", taints=(OTHER,))
    marked = changed(node, taints.to_be_deleted(node, now=NOW, cordon=True))
    assert changed(marked, taints.not_deleted(marked)) == node


def test_a_cordon_of_somebody_else_stays() -> None:
    node = make.node("n")
    node = msgspec.structs.replace(
        node, spec=msgspec.structs.replace(node.spec, unschedulable=True)
    )
    marked = changed(node, taints.to_be_deleted(node, now=NOW, cordon=True))
    assert changed(marked, taints.not_deleted(marked)) == node


def test_the_note_of_pods_that_move_comes_with_the_marks_and_goes_with_them() -> None:
    node = make.node("n")
    change = taints.to_be_deleted(node, now=5.5, cordon=False, note="who goes where")
    assert change is not None
    marked = changed(node, change)
    assert marked.metadata.annotations == {NOTE: "who goes where"}
    assert taints.to_be_deleted(marked, now=6, cordon=False, note="who goes where") is None
    renewed = taints.to_be_deleted(marked, now=6, cordon=False, note="anew")
    assert renewed == {"metadata": {"annotations": {NOTE: "anew"}}}
    assert changed(marked, taints.not_deleted(marked)) == node


def test_what_is_marked_is_not_marked_again() -> None:
    node = make.node("n", taints=(Taint(key=TO_BE_DELETED, effect="NoSchedule"),))
    assert taints.to_be_deleted(node, now=NOW, cordon=True) is None


def test_the_soft_taint_comes_and_goes() -> None:
    node = make.node("n", taints=(OTHER,))
    soft = changed(node, taints.candidate(node, now=NOW))
    assert soft.spec.taints[1] == Taint(
        key=DELETION_CANDIDATE, value="1800000000", effect="PreferNoSchedule"
    )
    assert taints.since(soft, DELETION_CANDIDATE) == 1_800_000_000
    assert changed(soft, taints.no_candidate(soft)) == node


def test_daemons_go_with_their_node_and_drivers_last() -> None:
    app = make.pod("app", owner=owner("ReplicaSet"))
    log = make.pod("log", owner=owner("DaemonSet"))
    csi = make.pod("csi", owner=owner("DaemonSet"))
    spec = msgspec.structs.replace(csi.spec, containers=(Container(name="node-driver-registrar"),))
    csi = msgspec.structs.replace(csi, spec=spec)
    assert node_pods.sort((csi, log, app), now=NOW) == ((app,), (log,), (csi,))


def test_a_pod_that_should_have_ended_long_ago_is_not_waited_for() -> None:
    pod = make.pod("old")
    meta = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    assert node_pods.sort((msgspec.structs.replace(pod, metadata=meta),), now=NOW).workload == ()


def prioritised(name: str, priority: int) -> Pod:
    return make.pod(name, priority=priority)


def test_lower_priorities_are_evicted_first() -> None:
    low, high, higher = (prioritised(str(one), one) for one in (5, 100, 150))
    rounds = drain_priority.rounds("100:20,0:60", grace=600)
    assert drain_priority.sorted_into((higher, low, high), rounds) == [
        ((0, 60), [low]),
        ((100, 20), [higher, high]),
    ]


def test_without_priorities_all_are_evicted_together() -> None:
    assert drain_priority.rounds("", grace=600) == ((0, 600),)


def test_a_priority_without_seconds_is_refused() -> None:
    with pytest.raises(InputError, match=r"drainPriorityConfig.*'100'.*PRIORITY:SECONDS"):
        drain_priority.rounds("0:60,100", grace=600)


def test_a_priority_with_two_signs_is_refused() -> None:
    with pytest.raises(InputError, match="PRIORITY:SECONDS"):
        drain_priority.rounds("--5:60", grace=600)

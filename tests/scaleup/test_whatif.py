"""Changes that somebody only thinks about."""

from collections.abc import Iterable
from typing import TypeVar

import msgspec
import pytest

from tests.scaleup.groups import DRIVER, group, owned_by
from tonnage.errors import InputError
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import Namespace, Node
from tonnage.objects.pods import Pod
from tonnage.objects.scenarios import NodeGroup
from tonnage.objects.storage import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
)
from tonnage.scaleup import whatif
from tonnage.scaleup.whatif import AddPods, Change, Changed, OptIn, RemoveNode, SetLimit
from tonnage.testing import builders as make

T = TypeVar("T")
STATEFUL = owned_by("StatefulSet")


def after(objects: Iterable[KubeObject], *changes: Change) -> Changed:
    return whatif.apply(objects, changes)


def of(kind: type[T], changed: Changed) -> list[T]:
    return [one for one in changed.objects if isinstance(one, kind)]


def limit_of(csinode: CSINode | None, driver: str = DRIVER) -> int | None:
    assert csinode is not None
    return {one.name: one.limit for one in csinode.spec.drivers}[driver]


# Reading what was asked for.


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("limit=disk.example.com:25", SetLimit("disk.example.com", 25)),
        ("limit=disk.example.com:0", SetLimit("disk.example.com", 0)),
        ("remove-node=n1", RemoveNode("n1")),
        ("opt-in=disk.example.com", OptIn("disk.example.com")),
    ],
)
def test_a_change_is_read(text: str, change: Change) -> None:
    assert whatif.parse(text, read=lambda _: []) == change


def test_the_file_of_added_pods_is_read() -> None:
    files = {"more.yaml": [make.pod("web")]}
    change = whatif.parse("add-pods=more.yaml", read=files.__getitem__)
    assert change == AddPods("more.yaml", (make.pod("web"),))


@pytest.mark.parametrize("text", ["", "nonsense", "remove-node", "remove-node=", "add-pods=", "=x"])
def test_another_form_is_refused_with_all_forms(text: str) -> None:
    with pytest.raises(
        InputError, match=r"expected one of add-pods=FILE, limit=DRIVER:N.*ignore-pdb"
    ):
        whatif.parse(text, read=lambda _: [])


@pytest.mark.parametrize("text", ["limit=d", "limit=d:", "limit=:5", "limit=d:-1", "limit=d:many"])
def test_a_limit_without_driver_or_number_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=f"what-if {text}: expected limit=DRIVER:N"):
        whatif.parse(text, read=lambda _: [])


# Adding pods.


def test_added_pods_wait_even_if_they_run_where_they_come_from() -> None:
    running = make.pod("web", on="elsewhere")
    pods = of(Pod, after([], AddPods("f", (running,))))
    assert [(pod.spec.node_name, pod.status.phase) for pod in pods] == [("", "Pending")]


def test_added_pods_bring_their_claims() -> None:
    claim = make.pvc("data", storage_class="disks")
    changed = after([], AddPods("f", (make.pod("db", pvcs=["data"]), claim)))
    assert of(PersistentVolumeClaim, changed) == [claim]


def test_added_pods_that_have_finished_are_left_out_and_noted() -> None:
    done = make.pod("done", phase="Succeeded")
    changed = after([], AddPods("f", (make.pod("web"), done)))
    assert [pod.metadata.name for pod in of(Pod, changed)] == ["web"]
    assert changed.notes == ["what-if add-pods=f: 1 pod left out, having finished"]


def test_a_pod_of_the_same_name_is_replaced_and_noted() -> None:
    changed = after([make.pod("web", cpu="1")], AddPods("f", (make.pod("web", cpu="2"),)))
    assert of(Pod, changed) == [make.pod("web", cpu="2")]
    assert changed.notes == ["what-if add-pods=f: in place of what is there: default/web"]


def test_the_namespace_of_an_added_pod_is_assumed_with_its_one_label() -> None:
    changed = after([], AddPods("f", (make.pod("web", namespace="shop"),)))
    assert of(Namespace, changed) == [make.namespace("shop")]


def test_a_namespace_that_is_there_keeps_its_labels() -> None:
    there = make.namespace("shop", {"team": "blue"})
    added = (make.pod("web", namespace="shop"), make.namespace("shop"))
    assert of(Namespace, after([there], AddPods("f", added))) == [there]


def test_a_file_without_pods_is_refused() -> None:
    with pytest.raises(InputError, match="what-if add-pods=f: nothing in it adds a pod: 1 object"):
        after([], AddPods("f", (make.namespace("shop"),)))


# Another limit.


def test_a_limit_is_set_on_nodes_that_list_the_driver() -> None:
    objects: list[KubeObject] = [
        make.node("n1"),
        make.csinode("n1", {DRIVER: 5, "other": 7}),
        make.node("n2"),
        make.csinode("n2", {"other": 7}),
    ]
    assert of(CSINode, after(objects, SetLimit(DRIVER, 9))) == [
        make.csinode("n1", {DRIVER: 9, "other": 7}),
        make.csinode("n2", {"other": 7}),
    ]


def test_a_limit_is_set_where_the_driver_is_listed_without_one() -> None:
    changed = after([make.node("n1"), make.csinode("n1", {DRIVER: None})], SetLimit(DRIVER, 9))
    assert limit_of(of(CSINode, changed)[0]) == 9


def test_a_limit_is_set_in_templates_and_overrides() -> None:
    objects: list[KubeObject] = [group("g", slots={DRIVER: 5}, limits={DRIVER: 3})]
    (found,) = of(NodeGroup, after(objects, SetLimit(DRIVER, 9)))
    assert found.spec.template is not None
    assert (limit_of(found.spec.template.csi_node), found.spec.limits) == (9, {DRIVER: 9})


def test_a_group_whose_nodes_do_not_have_the_driver_does_not_get_it() -> None:
    bare = group("bare", nodes=["n1"], slots={"other": 7})
    objects: list[KubeObject] = [
        make.node("n1"),
        make.csinode("n1", {"other": 7}),
        group("g", slots={DRIVER: 5}),
    ]
    changed = after([*objects, bare], SetLimit(DRIVER, 9))
    assert of(NodeGroup, changed)[1] == bare


def test_a_limit_that_the_catalogue_gives_is_overridden() -> None:
    ebs = "ebs.csi.aws.com"
    from_type = group("g", labels={"node.kubernetes.io/instance-type": "m5.large"})
    listed = group("listed", slots={ebs: 5})
    changed = after([from_type, listed], SetLimit(ebs, 9))
    assert of(NodeGroup, changed)[0].spec.limits == {ebs: 9}


def test_a_driver_that_only_a_class_speaks_of_is_limited_on_new_nodes_with_a_note() -> None:
    objects: list[KubeObject] = [make.storage_class("disks", DRIVER), group("g")]
    changed = after(objects, SetLimit(DRIVER, 9))
    assert of(NodeGroup, changed)[0].spec.limits == {DRIVER: 9}
    assert "nodes that are there stay without a limit" in changed.notes[0]


def test_a_limit_says_where_it_was_set() -> None:
    objects: list[KubeObject] = [
        make.node("n1"),
        make.csinode("n1", {DRIVER: 5}),
        group("g", slots={DRIVER: 5}),
    ]
    assert after(objects, SetLimit(DRIVER, 9)).notes == [
        f"what-if limit={DRIVER}:9: set on 1 node and 1 node group"
    ]


def test_the_limit_of_an_unknown_driver_is_refused_with_near_matches() -> None:
    objects: list[KubeObject] = [make.node("n1"), make.csinode("n1", {DRIVER: 5})]
    with pytest.raises(InputError, match=r"no driver 'disks.example.com' .*: disk.example.com"):
        after(objects, SetLimit("disks.example.com", 9))


# A node less.


def on_node(name: str, **facts: object) -> list[KubeObject]:
    return [make.node("n1"), make.csinode("n1", {DRIVER: 5}), make.pod(name, on="n1", **facts)]  # type: ignore[arg-type]


def test_a_removed_node_is_gone_with_its_drivers_and_attachments() -> None:
    objects: list[KubeObject] = [
        *on_node("db", owner=STATEFUL),
        make.attachment("v", "n1", attacher=DRIVER),
    ]
    changed = after(objects, RemoveNode("n1"))
    assert [of(kind, changed) for kind in (Node, CSINode, VolumeAttachment)] == [[], [], []]


def test_its_pods_with_a_controller_wait_again() -> None:
    (pod,) = of(Pod, after(on_node("db", owner=STATEFUL), RemoveNode("n1")))
    assert (pod.spec.node_name, pod.status.phase) == ("", "Pending")


def mirror_pod(name: str, *, on: str) -> Pod:
    """What the kubelet shows of a pod it runs from a file."""
    pod = make.pod(name, on=on, owner=owned_by("Node", on))
    notes = {"kubernetes.io/config.mirror": "hash"}
    metadata = msgspec.structs.replace(pod.metadata, annotations=notes)
    return msgspec.structs.replace(pod, metadata=metadata)


@pytest.mark.parametrize(
    "pod",
    [
        make.pod("agent", on="n1", owner=owned_by("DaemonSet")),
        make.pod("bare", on="n1"),
        make.pod("done", on="n1", owner=STATEFUL, phase="Succeeded"),
        make.pod("leaving", on="n1", owner=STATEFUL, deleting=True),
        mirror_pod("kube-proxy", on="n1"),
    ],
    ids=lambda pod: pod.metadata.name,
)
def test_pods_that_nobody_would_create_elsewhere_are_gone(pod: Pod) -> None:
    assert of(Pod, after([make.node("n1"), pod], RemoveNode("n1"))) == []


def test_pods_that_are_lost_are_named() -> None:
    (note,) = after(on_node("bare"), RemoveNode("n1")).notes
    assert note.endswith("wait again: 0; lost, having no controller: default/bare")


def test_pods_of_other_nodes_stay() -> None:
    other = make.pod("web", on="n2", owner=STATEFUL)
    assert of(Pod, after([make.node("n1"), make.node("n2"), other], RemoveNode("n1"))) == [other]


def test_the_group_of_a_removed_node_wants_one_less() -> None:
    objects: list[KubeObject] = [
        make.node("n1"),
        make.node("n2"),
        group("g", nodes=["n1", "n2"], target=3),
    ]
    (found,) = of(NodeGroup, after(objects, RemoveNode("n1")))
    assert (found.spec.nodes, found.spec.target_size) == (("n2",), 2)


def test_other_groups_are_as_they_were() -> None:
    other = group("other", nodes=["n2"], target=1)
    objects: list[KubeObject] = [make.node("n1"), make.node("n2"), group("g", nodes=["n1"]), other]
    assert of(NodeGroup, after(objects, RemoveNode("n1")))[1] == other


def test_an_ephemeral_volume_is_made_anew_with_its_pod() -> None:
    pod = make.pod("cache", on="n1", owner=owned_by("ReplicaSet"), ephemeral=["scratch"])
    claim = make.pvc("cache-scratch", storage_class="disks", volume="v", owner=pod)
    objects: list[KubeObject] = [
        make.node("n1"),
        pod,
        claim,
        make.pv("v", driver=DRIVER, claim=claim),
    ]
    changed = after(objects, RemoveNode("n1"))
    assert of(PersistentVolumeClaim, changed) == [
        make.pvc("cache-scratch", storage_class="disks", owner=pod)
    ]
    assert of(PersistentVolume, changed) == []


def test_a_claim_of_its_own_stays_bound() -> None:
    claim = make.pvc("data", storage_class="disks", volume="v")
    volume = make.pv("v", driver=DRIVER, claim=claim)
    changed = after(
        [*on_node("db", owner=STATEFUL, pvcs=["data"]), claim, volume], RemoveNode("n1")
    )
    assert of(PersistentVolumeClaim, changed) == [claim]
    assert of(PersistentVolume, changed) == [volume]


def test_an_unbound_claim_forgets_that_the_node_was_chosen_for_it() -> None:
    claim = make.pvc("data", storage_class="disks", selected_node="n1")
    changed = after([make.node("n1"), claim], RemoveNode("n1"))
    assert of(PersistentVolumeClaim, changed) == [make.pvc("data", storage_class="disks")]


def test_an_unknown_node_is_refused_with_near_matches() -> None:
    with pytest.raises(InputError, match="no such node in the input; near matches: node-1"):
        after([make.node("node-1")], RemoveNode("node-11"))


# Opting in.


def test_opting_in_sets_the_field_of_the_driver() -> None:
    changed = after([make.csidriver(DRIVER, storage_capacity=True)], OptIn(DRIVER))
    assert of(CSIDriver, changed) == [make.csidriver(DRIVER, opt_in=True, storage_capacity=True)]


def test_a_driver_without_an_object_gets_one_with_a_note() -> None:
    changed = after([], OptIn(DRIVER))
    assert of(CSIDriver, changed) == [make.csidriver(DRIVER, opt_in=True)]
    assert "one is assumed" in changed.notes[0]


def test_a_driver_that_is_opted_in_already_is_noted() -> None:
    changed = after([make.csidriver(DRIVER, opt_in=True)], OptIn(DRIVER))
    assert changed.notes == [f"what-if opt-in={DRIVER}: it is opted in already"]


# All together.


def test_changes_are_made_in_their_order() -> None:
    changed = after(
        [make.node("n1"), make.csinode("n1", {DRIVER: 5})],
        AddPods("f", (make.node("n2"), make.csinode("n2", {DRIVER: 5}), make.pod("web"))),
        SetLimit(DRIVER, 9),
        RemoveNode("n1"),
    )
    assert [(one.metadata.name, limit_of(one)) for one in of(CSINode, changed)] == [("n2", 9)]


def test_what_was_given_is_left_as_it_was() -> None:
    objects: list[KubeObject] = [*on_node("db", owner=STATEFUL), group("g", slots={DRIVER: 5})]
    copy = list(objects)
    after(objects, SetLimit(DRIVER, 9), RemoveNode("n1"), OptIn(DRIVER))
    assert objects == copy

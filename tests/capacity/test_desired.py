"""What should be published, and what is reported."""

import msgspec
import pytest

from tests.capacity.capacity_objects import (
    NAMESPACE,
    RULES,
    a_class,
    a_group,
    a_node,
    its_disk,
    published,
    reasons,
    sizes,
    world,
)
from tonnage.capacity import node_kinds
from tonnage.capacity.conventions import LOCAL_CSI_DRIVER
from tonnage.capacity.desired import Desired, ProblemReason, Rules, SizeSource, desired
from tonnage.capacity.observed_sizes import LEARNED_ANNOTATION
from tonnage.errors import InputError
from tonnage.groups.model import TEMPLATE_NODE_LABEL
from tonnage.objects.labels import HOSTNAME, INSTANCE_TYPE, ZONE
from tonnage.objects.meta import ObjectMeta
from tonnage.testing import builders


def wanted(*objects: object, rules: Rules = RULES) -> Desired:
    return desired(world(*objects), rules)


def test_there_is_one_object_for_each_class_that_asks_and_each_group() -> None:
    found = wanted(
        a_class("fast", "1Ti"), a_class("slow", "2Ti"), a_class("network", None),
        a_node("n1", "m5"), a_node("n2", "m5"), a_node("n3", "c5"),
    )  # fmt: skip
    assert sizes(found) == {
        ("fast", "m5"): "1Ti", ("fast", "c5"): "1Ti",
        ("slow", "m5"): "2Ti", ("slow", "c5"): "2Ti",
    }  # fmt: skip
    assert not found.problems


def test_an_object_matches_imagined_nodes_of_the_group_only() -> None:
    (entry,) = wanted(a_class(), a_node("n1")).entries.values()
    assert entry.object.node_topology is not None
    assert entry.object.node_topology.match_labels == {
        INSTANCE_TYPE: "m5",
        TEMPLATE_NODE_LABEL: "true",
    }


def test_an_object_says_what_it_is_for() -> None:
    (entry,) = wanted(a_class(), a_node("n1")).entries.values()
    assert entry.object.metadata.namespace == NAMESPACE
    assert entry.object.metadata.labels == {
        "tonnage.dev/managed-by": "capacity-templates",
        "tonnage.dev/storage-class": "fast",
        "tonnage.dev/node-group": "m5",
    }


def test_the_vendors_convention_looks_at_its_own_classes_alone() -> None:
    rules = Rules(namespace="kube-system", convention=LOCAL_CSI_DRIVER)
    vendor = LOCAL_CSI_DRIVER.provisioner
    annotation = LOCAL_CSI_DRIVER.annotation
    found = wanted(
        a_class("local", "1800Gi", annotation=annotation, driver=vendor),
        a_class("other", "1800Gi", annotation=annotation),
        a_class("ours", "1800Gi", driver=vendor),
        a_node("n1", "Standard_L8s_v3"),
        builders.csidriver(vendor, storage_capacity=True),
        rules=rules,
    )
    (entry,) = found.entries.values()
    assert entry.object.metadata.name == "local-csi-template-local-standard-l8s-v3"
    assert entry.object.metadata.labels == {
        "localdisk.csi.acstor.io/managed-by": "capacitytemplate",
        "localdisk.csi.acstor.io/storageclass": "local",
        "localdisk.csi.acstor.io/node-group": "Standard_L8s_v3",
    }


def test_a_node_without_the_label_is_in_no_group() -> None:
    assert not wanted(a_class(), builders.node("n1"), a_node("n2", "")).entries


def test_several_labels_may_make_groups_together() -> None:
    rules = Rules(namespace=NAMESPACE, groupings=node_kinds.parse([f"{INSTANCE_TYPE},{ZONE}"]))
    nodes = [builders.node(f"n{z}", zone=z, labels={INSTANCE_TYPE: "m5"}) for z in "ab"]
    found = wanted(a_class("fast", '{"m5,a": 1Gi, "*": 2Gi}'), *nodes, rules=rules)
    assert sizes(found) == {("fast", "m5,a"): "1Gi", ("fast", "m5,b"): "2Gi"}


def test_several_labels_may_each_make_groups() -> None:
    rules = Rules(namespace=NAMESPACE, groupings=node_kinds.parse([INSTANCE_TYPE, ZONE]))
    node = builders.node("n1", zone="a", labels={INSTANCE_TYPE: "m5"})
    found = wanted(a_class("fast", f'{{"{ZONE}=a": 1Gi, "*": 2Gi}}'), node, rules=rules)
    assert sizes(found) == {("fast", "m5"): "2Gi", ("fast", "a"): "1Gi"}


@pytest.mark.parametrize("text", ["", "a b", "a,a", "a,", TEMPLATE_NODE_LABEL, HOSTNAME])
def test_a_label_that_cannot_make_groups_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="node group label"):
        node_kinds.parse([text])


def test_a_node_group_without_nodes_has_its_object() -> None:
    found = wanted(a_class(), a_group("empty", "i3"))
    assert sizes(found) == {("fast", "i3"): "100Gi"}


def test_a_node_group_that_no_label_reaches_is_reported() -> None:
    found = wanted(a_class(), a_group("bare", None), a_group("fine", "m5"))
    assert reasons(found) == [ProblemReason.NODE_GROUP]
    assert "node groups bare" in found.problems[0].message


# Where sizes come from


def test_the_most_that_a_live_node_has_free_is_learned() -> None:
    found = wanted(
        a_class("fast", "auto"), a_node("n1"), a_node("n2"), a_node("n3", "c5"),
        its_disk("n1", "40Gi"), its_disk("n2", "90Gi"), its_disk("n3", "500Gi"),
    )  # fmt: skip
    assert sizes(found) == {("fast", "m5"): "90Gi", ("fast", "c5"): "500Gi"}
    assert {entry.source for entry in found.entries.values()} == {SizeSource.LIVE}


def test_the_largest_volume_is_learned_too() -> None:
    found = wanted(a_class("fast", "auto"), a_node("n1"), its_disk("n1", "90Gi", largest="30Gi"))
    (entry,) = found.entries.values()
    assert entry.object.maximum_volume_size == "30Gi"


def test_what_is_shared_by_several_nodes_is_not_learned() -> None:
    shared = builders.capacity("z", "fast", free="9Ti", topology={INSTANCE_TYPE: "m5"})
    found = wanted(a_class("fast", "auto"), a_node("n1"), a_node("n2"), shared)
    assert not found.entries
    assert reasons(found) == [ProblemReason.UNKNOWN]


def test_what_was_learned_stays_when_disks_fill_up() -> None:
    asks = a_class("fast", "auto")
    before = published(asks, a_node("n1"), its_disk("n1", "90Gi"))
    found = wanted(asks, a_node("n1"), its_disk("n1", "5Gi"), *before)
    assert sizes(found) == {("fast", "m5"): "90Gi"}


def test_what_was_learned_outlives_the_nodes_of_a_node_group() -> None:
    asks = a_class("fast", "auto")
    before = published(asks, a_node("n1"), its_disk("n1", "90Gi", largest="80Gi"))
    found = wanted(asks, a_group("g"), *before)
    (entry,) = found.entries.values()
    assert (entry.object, entry.source) == (_plain(before[0]), SizeSource.REMEMBERED)


def _plain(obj: object) -> object:
    meta = obj.metadata  # type: ignore[attr-defined]
    unstored = msgspec.structs.replace(meta, uid="", resource_version="")
    return msgspec.structs.replace(obj, metadata=unstored)  # type: ignore[type-var]


def test_what_somebody_edits_is_not_what_was_learned() -> None:
    asks = a_class("fast", "auto")
    (before,) = published(asks, a_node("n1"), its_disk("n1", "90Gi"))
    edited = msgspec.structs.replace(before, capacity="900Gi")
    found = wanted(asks, a_node("n1"), its_disk("n1", "90Gi"), edited)
    assert sizes(found) == {("fast", "m5"): "90Gi"}


def test_a_largest_volume_that_was_asked_for_is_not_taken_for_learned() -> None:
    here = (a_node("n1"), its_disk("n1", "90Gi"))
    before = published(a_class("fast", '{"*": {capacity: auto, maximumVolumeSize: 5Gi}}'), *here)
    assert before[0].maximum_volume_size == "5Gi"
    (entry,) = wanted(a_class("fast", "auto"), *here, *before).entries.values()
    assert entry.object.maximum_volume_size is None


def test_a_template_that_cannot_be_read_is_as_if_it_said_nothing() -> None:
    found = wanted(a_class("fast", '{"*": {resource: disk}}'), a_group("g", offers={"disk": "x"}))
    assert reasons(found) == [ProblemReason.UNKNOWN]


def test_only_what_is_learned_is_noted_on_the_object() -> None:
    (entry,) = wanted(a_class("fast", "1Gi"), a_node("n1")).entries.values()
    assert LEARNED_ANNOTATION not in entry.object.metadata.annotations


def test_what_the_template_declares_for_the_class_goes_before_what_live_nodes_have_left() -> None:
    found = wanted(
        a_class("fast", "auto"), a_node("n1"), its_disk("n1", "10Gi"),
        a_group("g", declares={"fast": "200Gi"}),
    )  # fmt: skip
    assert sizes(found) == {("fast", "m5"): "200Gi"}


def test_a_resource_of_the_template_may_be_the_size() -> None:
    found = wanted(
        a_class("fast", '{"*": {resource: ephemeral-storage, maximumVolumeSize: 10Gi}}'),
        a_group("g", offers={"ephemeral-storage": "75Gi"}),
    )
    (entry,) = found.entries.values()
    assert (entry.object.capacity, entry.object.maximum_volume_size) == ("75Gi", "10Gi")
    assert entry.source is SizeSource.TEMPLATE


def test_where_templates_of_a_group_differ_the_least_counts() -> None:
    asks = a_class("fast", '{"*": {resource: disk}}')
    groups = [a_group("a", offers={"disk": "75Gi"}), a_group("b", offers={"disk": "50Gi"})]
    assert sizes(wanted(asks, *groups)) == {("fast", "m5"): "50Gi"}


def test_a_size_that_nobody_knows_is_reported_with_the_groups() -> None:
    found = wanted(a_class("fast", "auto"), *(a_node(f"n{n}", f"t{n}") for n in range(5)))
    assert reasons(found) == [ProblemReason.UNKNOWN]
    assert "t0, instance-type=t1, instance-type=t2 and 2 more" in found.problems[0].message


# What is wrong


def test_a_wrong_annotation_keeps_its_objects_and_leaves_others_alone() -> None:
    found = wanted(a_class("bad", "lots"), a_class("fast"), a_node("n1"))
    assert sizes(found) == {("fast", "m5"): "100Gi"}
    assert found.kept == {"bad"}
    assert reasons(found) == [ProblemReason.INVALID]
    assert "quantity 'lots'" in found.problems[0].message


def test_a_driver_whose_capacity_nobody_looks_at_is_reported() -> None:
    found = wanted(a_class("fast", driver="other.example.com"), a_node("n1"))
    assert reasons(found) == [ProblemReason.IGNORED]
    assert len(found.entries) == 1


def test_another_publisher_for_the_same_imagined_nodes_is_reported() -> None:
    theirs = builders.capacity(
        "local-csi-template-fast-m5", "fast", free="1Ti",
        topology={INSTANCE_TYPE: "m5", TEMPLATE_NODE_LABEL: "true"},
    )  # fmt: skip
    found = wanted(a_class(), a_node("n1"), theirs)
    assert reasons(found) == [ProblemReason.CONFLICT]
    assert "default/local-csi-template-fast-m5" in found.problems[0].message
    assert "instance-type=m5" in found.problems[0].message


def test_capacity_of_live_nodes_is_no_conflict() -> None:
    assert not wanted(a_class(), a_node("n1"), its_disk("n1", "1Gi")).problems


def test_a_real_node_with_the_label_of_imagined_ones_is_reported() -> None:
    node = builders.node("n1", labels={INSTANCE_TYPE: "m5", TEMPLATE_NODE_LABEL: "true"})
    found = wanted(a_class(), node)
    assert reasons(found) == [ProblemReason.REAL_NODE]


def test_a_class_name_beyond_a_labels_length_is_cut_with_a_hash() -> None:
    names = ["a" * 200 + "x", "a" * 200 + "y"]
    found = wanted(*(a_class(name) for name in names), a_node("n1"))
    labels = [
        entry.object.metadata.labels["tonnage.dev/storage-class"]
        for entry in found.entries.values()
    ]
    assert len(set(labels)) == 2
    assert all(len(label) <= 63 for label in labels)


def test_nothing_follows_from_the_order_of_what_is_known() -> None:
    objects = [a_class("a"), a_class("b", "auto"), a_node("n1"), a_node("n2", "c5")]
    disks = [its_disk("n1", "1Gi", of="b"), its_disk("n2", "2Gi", of="b")]
    there, back = wanted(*objects, *disks), wanted(*reversed([*objects, *disks]))
    assert there.entries == back.entries


def test_metadata_of_a_class_may_be_anything_else() -> None:
    bare = msgspec.structs.replace(a_class(), metadata=ObjectMeta(name="fast"))
    assert not wanted(bare, a_node("n1")).entries

"""Findings about capacity objects, whoever published them."""

import msgspec

from tests.capacity.capacity_objects import (
    a_class,
    a_group,
    a_node,
    driver,
    its_disk,
    published,
)
from tests.doctor import broken_clusters
from tonnage.doctor.findings import Finding
from tonnage.groups.model import TEMPLATE_NODE_LABEL
from tonnage.objects.kinds import KubeObject
from tonnage.objects.labels import INSTANCE_TYPE
from tonnage.objects.meta import LabelRequirement, ObjectMeta
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.objects.storage import CSIStorageCapacity
from tonnage.testing import builders

UNCOVERED, UNMATCHED, DIFFERING = "TON701", "TON702", "TON703"


def found(code: str, *objects: KubeObject) -> list[Finding]:
    """What is found where another autoscaler runs, which learns nothing from live nodes."""
    return broken_clusters.found(code, driver(), *objects, beside=[broken_clusters.upstream()])


def a_node_group(name: str, instance: str) -> NodeGroup:
    """The same as `a_group`, as it is declared."""
    template = GroupTemplate(node=builders.node("t", labels={INSTANCE_TYPE: instance}))
    return NodeGroup(
        metadata=ObjectMeta(name=name), spec=NodeGroupSpec(max_size=10, template=template)
    )


def test_an_object_for_a_group_that_is_gone_matches_nothing() -> None:
    (gone,) = published(a_class(), a_node("n1", "c5"))
    (finding,) = found(UNMATCHED, a_class(), a_node("n1", "m5"), gone)
    assert finding.object == f"CSIStorageCapacity {gone.metadata.key}"


def test_an_object_for_a_node_group_without_nodes_matches_it() -> None:
    there = published(a_class(), a_group("g", "c5"))
    assert found(UNMATCHED, a_class(), a_node_group("g", "c5"), *there) == []


def test_capacity_of_live_nodes_is_no_object_for_imagined_ones() -> None:
    assert found(UNMATCHED, a_class(), its_disk("gone", "1Gi")) == []


def test_a_class_with_capacity_per_node_and_no_template_objects_is_found() -> None:
    here = (a_class("fast", None), a_node("n1"), its_disk("n1", "1Gi"))
    (finding,) = found(UNCOVERED, *here)
    assert (finding.object, finding.facts["groups"]) == ("StorageClass fast", ["instance-type=m5"])


def test_a_class_with_template_objects_for_all_its_groups_is_fine() -> None:
    here = (a_class(), a_node("n1"), its_disk("n1", "1Gi"))
    assert found(UNCOVERED, *here, *published(*here)) == []


def test_a_group_without_such_disks_needs_no_object() -> None:
    here = (a_class(), a_node("n1"), its_disk("n1", "1Gi"))
    assert found(UNCOVERED, *here, *published(*here), a_node("n2", "c5")) == []


def test_a_class_whose_driver_reports_no_capacity_is_fine() -> None:
    here = (a_class("fast", None, driver="x"), a_node("n1"), its_disk("n1", "1Gi"))
    assert found(UNCOVERED, *here) == []


def test_a_size_far_from_what_live_nodes_have_is_found() -> None:
    here = (a_class("fast", "100Gi"), a_node("n1"), a_node("n2"))
    disks = (its_disk("n1", "20Gi"), its_disk("n2", "50Gi"))
    (finding,) = found(DIFFERING, *here, *disks, *published(*here))
    assert finding.facts == {"published": "100Gi", "live": "50Gi", "node": "n2"}


def test_a_size_near_what_live_nodes_have_is_fine() -> None:
    here = (a_class("fast", "100Gi"), a_node("n1"), its_disk("n1", "95Gi"))
    assert found(DIFFERING, *here, *published(*here)) == []


def expressed(key: str, operator: str, *values: str) -> CSIStorageCapacity:
    """An object for template nodes, which it knows by an expression, as it does their type."""
    topology = builders.selecting(
        {},
        LabelRequirement(key=TEMPLATE_NODE_LABEL, operator="Exists"),
        LabelRequirement(key=key, operator=operator, values=values),
    )
    made = builders.capacity("by-hand", "fast", free="100Gi")
    return msgspec.structs.replace(made, node_topology=topology)


def test_an_object_that_selects_by_expressions_is_held_against_groups_too() -> None:
    here = (a_class("fast", None), a_node("n1", "m5"))
    assert found(UNMATCHED, *here, expressed(INSTANCE_TYPE, "In", "m5", "c5")) == []
    assert len(found(UNMATCHED, *here, expressed(INSTANCE_TYPE, "NotIn", "m5"))) == 1


def test_an_object_that_selects_by_expressions_covers_the_groups_it_matches() -> None:
    here = (a_class("fast", None), a_node("n1"), its_disk("n1", "1Gi"))
    assert found(UNCOVERED, *here, expressed("diskless", "DoesNotExist")) == []


def test_a_size_far_off_is_found_in_an_object_that_selects_by_expressions() -> None:
    here = (a_class("fast", None), a_node("n1"), its_disk("n1", "50Gi"))
    (finding,) = found(DIFFERING, *here, expressed(INSTANCE_TYPE, "In", "m5", "c5"))
    assert finding.facts == {"published": "100Gi", "live": "50Gi", "node": "n1"}

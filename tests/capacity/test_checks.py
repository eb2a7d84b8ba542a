"""Findings about capacity objects, whoever published them."""

import msgspec

from tests.capacity.capacity_objects import (
    RULES,
    a_class,
    a_group,
    a_node,
    its_disk,
    published,
    world,
)
from tonnage.capacity import checks
from tonnage.groups.model import TEMPLATE_NODE_LABEL
from tonnage.objects.labels import INSTANCE_TYPE
from tonnage.objects.meta import LabelRequirement
from tonnage.objects.storage import CSIStorageCapacity
from tonnage.testing import builders


def of_templates(*objects: object) -> list[CSIStorageCapacity]:
    return published(*objects)


def test_an_object_for_a_group_that_is_gone_matches_nothing() -> None:
    gone = of_templates(a_class(), a_node("n1", "c5"))
    found = checks.unmatched(world(a_class(), a_node("n1", "m5"), *gone))
    assert found == gone


def test_an_object_for_a_node_group_without_nodes_matches_it() -> None:
    there = of_templates(a_class(), a_group("g", "c5"))
    assert checks.unmatched(world(a_class(), a_group("g", "c5"), *there)) == []


def test_capacity_of_live_nodes_is_no_object_for_imagined_ones() -> None:
    assert checks.unmatched(world(a_class(), its_disk("gone", "1Gi"))) == []


def test_a_class_with_capacity_per_node_and_no_template_objects_is_found() -> None:
    now = world(a_class("fast", None), a_node("n1"), its_disk("n1", "1Gi"))
    (found,) = checks.uncovered(now, RULES.groupings)
    assert (found.storage_class, found.groups) == ("fast", ("instance-type=m5",))


def test_a_class_with_template_objects_for_all_its_groups_is_fine() -> None:
    here = (a_class(), a_node("n1"), its_disk("n1", "1Gi"))
    assert checks.uncovered(world(*here, *published(*here)), RULES.groupings) == []


def test_a_group_without_such_disks_needs_no_object() -> None:
    here = (a_class(), a_node("n1"), its_disk("n1", "1Gi"))
    now = world(*here, *published(*here), a_node("n2", "c5"))
    assert checks.uncovered(now, RULES.groupings) == []


def test_a_class_whose_driver_reports_no_capacity_is_fine() -> None:
    now = world(a_class("fast", None, driver="x"), a_node("n1"), its_disk("n1", "1Gi"))
    assert checks.uncovered(now, RULES.groupings) == []


def test_a_size_far_from_what_live_nodes_have_is_found() -> None:
    here = (a_class("fast", "100Gi"), a_node("n1"), a_node("n2"))
    disks = (its_disk("n1", "20Gi"), its_disk("n2", "50Gi"))
    (found,) = checks.differing(world(*here, *disks, *published(*here)))
    assert (found.published, found.live, found.node) == ("100Gi", "50Gi", "n2")


def test_a_size_near_what_live_nodes_have_is_fine() -> None:
    here = (a_class("fast", "100Gi"), a_node("n1"), its_disk("n1", "95Gi"))
    assert checks.differing(world(*here, *published(*here))) == []


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
    matching = expressed(INSTANCE_TYPE, "In", "m5", "c5")
    other = expressed(INSTANCE_TYPE, "NotIn", "m5")
    assert checks.unmatched(world(*here, matching)) == []
    assert checks.unmatched(world(*here, other)) == [other]


def test_an_object_that_selects_by_expressions_covers_the_groups_it_matches() -> None:
    here = (a_class("fast", None), a_node("n1"), its_disk("n1", "1Gi"))
    now = world(*here, expressed("diskless", "DoesNotExist"))
    assert checks.uncovered(now, RULES.groupings) == []


def test_a_size_far_off_is_found_in_an_object_that_selects_by_expressions() -> None:
    here = (a_class("fast", None), a_node("n1"), its_disk("n1", "50Gi"))
    (found,) = checks.differing(world(*here, expressed(INSTANCE_TYPE, "In", "m5", "c5")))
    assert (found.published, found.live, found.node) == ("100Gi", "50Gi", "n1")

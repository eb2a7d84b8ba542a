"""Which of its nodes' numbers a group goes by."""

from tests.groups.group_objects import (
    EBS,
    NOW,
    TYPE,
    aged,
    assess,
    build,
    counts,
    group,
    sources,
    template,
)
from tonnage.groups.policy import GroupPolicy
from tonnage.groups.readiness import READY
from tonnage.objects.nodes import Node
from tonnage.testing.builders import csinode, node


def settled(name: str, kind: str = "") -> Node:
    return aged(node(name, labels={TYPE: kind} if kind else None), ready="True", since=3600)


def fresh(name: str) -> Node:
    return aged(node(name), ready="True", since=5)


def test_a_node_that_has_only_just_become_ready_has_no_say() -> None:
    made = template(
        group(nodes=["n1", "n2", "n3"]),
        nodes=[settled("n1"), fresh("n2"), fresh("n3")],
        csinodes=[csinode("n1", {EBS: 26}), csinode("n2", {EBS: 2}), csinode("n3", {EBS: 2})],
    )
    assert sources(made) == {EBS: (26, "live")}
    assert counts(made) == {EBS: 26}


def test_where_no_stable_node_has_a_number_those_that_are_ready_tell() -> None:
    made = template(
        group(nodes=["n1", "n2"]),
        nodes=[settled("n1"), fresh("n2")],
        csinodes=[csinode("n1", {EBS: None}), csinode("n2", {EBS: 24})],
    )
    assert sources(made) == {EBS: (24, "live")}


def test_nodes_of_another_instance_type_have_no_say() -> None:
    made = template(
        group(nodes=["n1", "n2", "n3"]),
        nodes=[settled("n1", "m5.large"), settled("n2", "i3.large"), settled("n3", "i3.large")],
        csinodes=[csinode("n1", {EBS: 26}), csinode("n2", {EBS: 18}), csinode("n3", {EBS: 18})],
    )
    assert sources(made) == {EBS: (26, "live")}


def test_a_number_among_a_nodes_resources_is_not_waited_for_in_its_csinode() -> None:
    keyed = aged(
        node("n1", allocatable={f"attachable-volumes-csi-{EBS}": 3}), ready="True", since=3600
    )
    found = assess(
        group(nodes=["n1"]),
        nodes=[keyed],
        csinodes=[csinode("n1", {EBS: None})],
        policy=GroupPolicy(require_driver_counts=True),
    )
    assert found.nodes["n1"].state == READY


def test_what_most_said_is_what_is_remembered() -> None:
    before = build(
        group(nodes=["n1", "n2", "n3"]),
        nodes=[settled("n1"), settled("n2"), settled("n3")],
        csinodes=[csinode("n1", {EBS: 2}), csinode("n2", {EBS: 26}), csinode("n3", {EBS: 26})],
    )
    made = template(group(), memory=before.memory, now=NOW + 3600)
    assert sources(made) == {EBS: (26, "remembered")}

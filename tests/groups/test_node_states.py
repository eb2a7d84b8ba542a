"""The states of all nodes, read once from each version of a node."""

import msgspec

from tonnage.groups import node_state
from tonnage.groups.policy import GroupPolicy
from tonnage.objects.meta import Condition
from tonnage.objects.nodes import Node
from tonnage.testing import builders


def a_node(name: str = "n", *, ready: str = "True") -> Node:
    node = builders.node(name)
    condition = Condition(type="Ready", status=ready)
    return msgspec.structs.replace(
        node, status=msgspec.structs.replace(node.status, conditions=(condition,))
    )


def test_states_are_those_of_each_node() -> None:
    nodes = [a_node("up"), a_node("down", ready="False")]
    found = node_state.States().of(nodes, GroupPolicy())
    assert found == {one.metadata.name: node_state.of(one, GroupPolicy()) for one in nodes}


def test_a_node_that_is_as_it_was_is_not_read_again() -> None:
    states, node = node_state.States(), a_node()
    first = states.of([node], GroupPolicy())
    assert states.of([node], GroupPolicy())["n"] is first["n"]


def test_a_node_that_changed_is_read_again() -> None:
    states = node_state.States()
    states.of([a_node()], GroupPolicy())
    assert not states.of([a_node(ready="False")], GroupPolicy())["n"].ready


def test_other_rules_read_every_node_again() -> None:
    states, node = node_state.States(), builders.node("n")
    assert states.of([node], GroupPolicy())["n"].ready
    assert not states.of([node], GroupPolicy(conditions_required=True))["n"].ready


def test_a_node_that_is_gone_is_not_among_them() -> None:
    states = node_state.States()
    states.of([a_node("a"), a_node("b")], GroupPolicy())
    assert list(states.of([a_node("b")], GroupPolicy())) == ["b"]

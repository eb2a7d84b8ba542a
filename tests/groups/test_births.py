"""When nodes were born that say of themselves what cannot be true."""

import msgspec
import pytest

from tonnage.groups import births, node_state
from tonnage.groups.node_state import NodeState
from tonnage.groups.policy import GroupPolicy
from tonnage.objects import timestamps
from tonnage.objects.meta import Condition
from tonnage.objects.nodes import Node
from tonnage.testing import builders

NOON = timestamps.parse("2026-11-18T12:00:00Z")


def a_node(made: str | None, *, uid: str = "") -> Node:
    node = builders.node("n")
    meta = msgspec.structs.replace(node.metadata, creation_timestamp=made, uid=uid)
    return msgspec.structs.replace(node, metadata=meta)


def noted(node: Node, *, there: frozenset[str] | None = frozenset()) -> dict[str, float]:
    return births.noted({}, [node], then=NOON - 60, there=there, now=NOON)


@pytest.mark.parametrize(
    ("made", "found"),
    [
        pytest.param("2026-11-18T11:59:30Z", {}, id="since the last look"),
        pytest.param("2026-11-18T11:58:30Z", {}, id="a little before: news are late"),
        pytest.param("2026-11-18T11:00:00Z", {"n": NOON}, id="long before a look without it"),
        pytest.param("2026-11-18T12:00:30Z", {}, id="in a moment: clocks differ"),
        pytest.param("2026-11-18T13:00:00Z", {"n": NOON}, id="in an hour"),
        pytest.param(None, {}, id="it does not say"),
    ],
)
def test_a_node_that_was_not_there_at_the_last_look(
    made: str | None, found: dict[str, float]
) -> None:
    assert noted(a_node(made)) == found


def test_the_first_look_believes_every_age() -> None:
    assert noted(a_node("2026-11-18T11:00:00Z"), there=None) == {}
    assert noted(a_node("2026-11-18T13:00:00Z"), there=None) == {"n": NOON}


def test_a_node_that_was_there_is_believed() -> None:
    assert noted(a_node("2026-11-18T11:00:00Z"), there=frozenset({"n"})) == {}


def test_a_birth_is_kept_while_the_node_is_there() -> None:
    node = a_node("2026-11-18T11:00:00Z", uid="one")
    # Another one of its name says what is true.
    other = a_node("2026-11-18T12:00:30Z", uid="two")

    before, there = noted(node), frozenset({"one"})

    def later(node: Node) -> dict[str, float]:
        return births.noted(before, [node], then=NOON, there=there, now=NOON + 60)

    assert later(node) == before == {"one": NOON}
    assert later(other) == {}


def a_state(node: Node, condition: Condition, found: dict[str, float]) -> NodeState:
    status = msgspec.structs.replace(node.status, conditions=(condition,))
    node = msgspec.structs.replace(node, status=status)
    read = {"n": node_state.of(node, GroupPolicy())}
    return births.corrected(read, {"n": node}, found)["n"]


@pytest.mark.parametrize(
    ("changed", "since"),
    [("2026-11-18T11:00:30Z", NOON), ("2026-11-18T12:00:30Z", NOON + 30)],
)
def test_a_state_is_no_older_than_the_node(changed: str, since: float) -> None:
    ready = Condition(type="Ready", status="True", last_transition_time=changed)
    state = a_state(a_node("2026-11-18T11:00:00Z"), ready, {"n": NOON})
    assert (state.created, state.since) == (NOON, since)

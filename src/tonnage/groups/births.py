"""When nodes were born that say of themselves what cannot be true.

A node's creation time is told by the clock of the API server. If that clock jumps, a node that has
just come says that it is an hour old, and has had all the time that nodes have to come up; or it
is of a time that is yet to come, and would be waited for until then. Upstream believes either.
"""

from collections.abc import Container, Iterable, Mapping

import msgspec

from tonnage.groups.node_state import NodeState
from tonnage.objects import timestamps
from tonnage.objects.nodes import Node

_APART = 60.0
"""Seconds by which clocks may differ, and news be late."""


def noted(
    births: Mapping[str, float],
    nodes: Iterable[Node],
    *,
    then: float,
    there: Container[str] | None,
    now: float,
) -> dict[str, float]:
    """When nodes were first seen that say they were made before a look that has not found them.

    That look was the last one, `then`, and it found `there`; `None`: this is the first look. The
    same goes for nodes that say they will be made later. Those that are gone are left out.
    """
    found = {}
    for node in nodes:
        name = key(node)
        if name in births:
            found[name] = births[name]
        elif there is None or name not in there:
            said = timestamps.moment(node.metadata.creation_timestamp)
            since = -float("inf") if there is None else then - _APART
            if said is not None and not since <= said <= now + _APART:
                found[name] = now
    return found


def corrected(
    states: Mapping[str, NodeState], nodes: Mapping[str, Node], births: Mapping[str, float]
) -> Mapping[str, NodeState]:
    """The states, by name of the node, with its birth as it was seen."""
    if not births:
        return states
    return {name: _born(state, births.get(key(nodes[name]))) for name, state in states.items()}


def key(node: Node) -> str:
    """What a node has that another one of its name has not."""
    return node.metadata.uid or node.metadata.name


def _born(state: NodeState, birth: float | None) -> NodeState:
    if birth is None:
        return state
    # What it is ready by cannot have changed before either.
    since = max(state.since, birth) if state.since is not None else None
    return msgspec.structs.replace(state, created=birth, since=since)

"""Nodes of a plan by what begins and goes together."""

from collections.abc import Iterator, Mapping, Sequence

from tonnage.groups.model import Group
from tonnage.scaledown.plan import Action, NodeDecision


def begins(one: NodeDecision) -> int:
    """The wave in which the first of its pods is evicted, or an empty node goes."""
    return min((move.wave for move in one.moves), default=one.wave or 1)


def units(
    going: Sequence[NodeDecision], groups: Mapping[str, Group]
) -> Iterator[list[NodeDecision]]:
    """Nodes that go together: all of a group that has all or none, and else each alone.

    Empty ones come first.
    """
    whole: dict[str, list[NodeDecision]] = {}
    single: list[NodeDecision] = []
    for one in going:
        if one.group is not None and groups[one.group].all_or_nothing:
            whole.setdefault(one.group, []).append(one)
        else:
            single.append(one)
    yield from whole.values()
    for action in (Action.DELETE, Action.DRAIN):
        yield from ([one] for one in single if one.action is action)


def beginning(one: NodeDecision) -> str:
    """What is told when a node begins to go, in upstream's words."""
    if one.action is Action.DELETE:
        return f"Scale-down: removing empty node {one.node!r}".replace("'", '"')
    used = one.utilisation
    told = f"{{{used.resource} {used.value:.3f}}}" if used is not None else "unknown"
    pods = ",".join(move.pod for move in one.moves)
    return f"Scale-down: removing node {one.node}, utilization: {told}, pods to reschedule: {pods}"

"""What the nodes of a group say of a driver's limit when they do not all say the same.

One odd node must not decide for all new ones: a driver that counted foreign volumes when it was
restarted, or one of another version. So most stable nodes decide; of numbers that are equally
common the lowest, which costs a node at worst and never leaves a pod hanging.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tonnage.groups import limits
from tonnage.groups.drivers import Member
from tonnage.objects.nodes import Node


class Vote(NamedTuple):
    """The number most nodes say, how many say it of how many, and which say otherwise."""

    slots: int
    votes: int
    voters: int
    odd: Mapping[str, int]


def of_group(members: Sequence[Member], *, kind: str, now: float) -> dict[str, Vote]:
    """By driver, what the group's stable nodes of an instance type say; else its ready ones.

    Nodes without the label of their type are taken for nodes of it.
    """
    ready = [member for member in members if member.counts and _is_of(member.node, kind)]
    stable = [member for member in ready if member.state.is_stable(now)]
    return {**_count(ready), **_count(stable)}


def _count(members: Iterable[Member]) -> dict[str, Vote]:
    said: dict[str, dict[str, int]] = defaultdict(dict)
    for member in members:
        for driver in member.csinode.spec.drivers if member.csinode is not None else ():
            if driver.limit is not None:
                said[driver.name].setdefault(member.node.metadata.name, driver.limit)
    return {driver: _vote(by_node) for driver, by_node in said.items()}


def _vote(by_node: Mapping[str, int]) -> Vote:
    slots = limits.typical(by_node.values())
    assert slots is not None
    odd = {node: number for node, number in by_node.items() if number != slots}
    return Vote(slots, len(by_node) - len(odd), len(by_node), odd)


def _is_of(node: Node, kind: str) -> bool:
    own = limits.instance_type(node)
    return not kind or not own or own == kind

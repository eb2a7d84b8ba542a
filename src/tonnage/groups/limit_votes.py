"""What the nodes of a group say of a driver's limit when they do not all say the same.

One odd node must not decide for all new ones: a driver that counted foreign volumes when it was
restarted, or one of another version. So most stable nodes decide; of numbers that are equally
common the lowest, which costs a node at worst and never leaves a pod hanging.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tonnage.groups import limits
from tonnage.groups.drivers import Member, by_name
from tonnage.objects import limit_keys
from tonnage.objects.nodes import Node


class Vote(NamedTuple):
    """The number most nodes say, how many say it of how many, and which say otherwise.

    `key` is the resource it was read from, `None` where a CSINode says it.
    """

    slots: int
    votes: int
    voters: int
    odd: Mapping[str, int]
    key: str | None


def of_group(
    members: Sequence[Member],
    *,
    kind: str,
    wanted: Sequence[str],
    own_keys: Mapping[str, str],
    now: float,
) -> dict[str, Vote]:
    """By driver, what the group's stable nodes of an instance type say; else its ready ones.

    Nodes without the label of their type are taken for nodes of it. A CSINode's number goes before
    one among the node's resources, where drivers are looked for by the keys that CSIDrivers name.
    """
    ready = [member for member in members if member.counts and _is_of(member.node, kind)]
    stable = [member for member in ready if member.state.is_stable(now)]
    said = {member.node.metadata.name: _said(member, wanted, own_keys) for member in ready}
    names = [member.node.metadata.name for member in stable]
    return {**_count(said), **_count({name: said[name] for name in names})}


def _said(
    member: Member, wanted: Sequence[str], own_keys: Mapping[str, str]
) -> dict[str, tuple[int, str | None]]:
    """By driver, what a node says and under which key; none is its CSINode."""
    listed = by_name(member.csinode)
    keys = limit_keys.published(member.node.status.allocatable, (*listed, *wanted), own_keys)
    found: dict[str, tuple[int, str | None]] = {**keys}
    found |= {
        name: (driver.limit, None) for name, driver in listed.items() if driver.limit is not None
    }
    return found


def _count(said: Mapping[str, Mapping[str, tuple[int, str | None]]]) -> dict[str, Vote]:
    by_driver: dict[str, dict[str, tuple[int, str | None]]] = defaultdict(dict)
    for node, numbers in said.items():
        for driver, number in numbers.items():
            by_driver[driver][node] = number
    return {driver: _vote(by_node) for driver, by_node in by_driver.items()}


def _vote(by_node: Mapping[str, tuple[int, str | None]]) -> Vote:
    slots = limits.typical(number for number, _ in by_node.values())
    assert slots is not None
    odd = {node: number for node, (number, _) in by_node.items() if number != slots}
    key = next(key for number, key in by_node.values() if number == slots)
    return Vote(slots, len(by_node) - len(odd), len(by_node), odd, key)


def _is_of(node: Node, kind: str) -> bool:
    own = limits.instance_type(node)
    return not kind or not own or own == kind

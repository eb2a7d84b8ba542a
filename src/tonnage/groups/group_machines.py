"""The machines of a group, and which of them have a node."""

from collections.abc import Sequence, Set
from typing import NamedTuple

from tonnage.objects.meta import Record


class Failure(Record, frozen=True, kw_only=True):
    """Why nodes did not come: `error_class` is outOfResources, quota or other."""

    error_class: str = "other"
    code: str = ""
    message: str = ""


class GroupMachine(NamedTuple):
    """A group's machine as its provider tells it; `name` is what it is deleted by.

    `creating` is one that has no name of its own yet, only a number; the state `creating` with a
    node's name is neither that nor `running`.
    """

    id: str
    name: str
    creating: bool = False
    running: bool = False
    deleting: bool = False
    failure: Failure | None = None


class SortedMachines(NamedTuple):
    """Machines of a group. Of `staying` ones, nodes have registered for those that are `there`;
    for those `leaving`, nodes are still registered. Failed ones are not `without_node`.
    """

    all: Sequence[GroupMachine]
    registered: frozenset[str]
    without_node: Sequence[GroupMachine]
    failed: Sequence[GroupMachine]
    staying: int
    there: int
    leaving: int


def sort(machines: Sequence[GroupMachine], registered: frozenset[str]) -> SortedMachines:
    """By whether a node has registered for them."""
    staying = [one for one in machines if not one.deleting]
    absent = [one for one in staying if not is_among(one, registered)]
    return SortedMachines(
        machines,
        registered,
        without_node=[one for one in absent if one.failure is None],
        failed=[one for one in machines if one.failure is not None],
        staying=len(staying),
        there=len(staying) - len(absent),
        leaving=sum(one.deleting and is_among(one, registered) for one in machines),
    )


def is_among(machine: GroupMachine, registered: Set[str]) -> bool:
    """Whether a node has registered for the machine."""
    return machine.id in registered or machine.name in registered

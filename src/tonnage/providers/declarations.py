"""NodeGroups as somebody wrote them down: those that can be used, and what is wrong with the rest.

A slip of the pen is not a decision. A group that was understood and no longer is stays what it was:
if it were taken to be gone, its nodes would be nobody's, and what was asked for it forgotten.
"""

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from tonnage.errors import InputError
from tonnage.objects.scenarios import NodeGroup

_NOTHING: Mapping[str, NodeGroup] = MappingProxyType({})

_log = logging.getLogger(__name__)


class Declarations(NamedTuple):
    """One reading. Only a group that nobody can have meant any more is gone.

    `misspelt` are the names of groups that are written down and cannot be used. If something is
    `illegible`, not even its name is known, and any group may be the one that is meant.
    """

    groups: tuple[NodeGroup, ...]
    problems: tuple[str, ...] = ()
    misspelt: frozenset[str] = frozenset()
    illegible: bool = False

    def checked(self, check: Callable[[NodeGroup], object]) -> "Declarations":
        """Without the groups that `check` refuses by an `InputError`."""
        good: list[NodeGroup] = []
        problems, misspelt = list(self.problems), set(self.misspelt)
        for group in self.groups:
            try:
                check(group)
            except InputError as error:
                problems.append(str(error))
                misspelt.add(group.metadata.name)
            else:
                good.append(group)
        return Declarations(tuple(good), tuple(problems), frozenset(misspelt), self.illegible)


class LastGood:
    """What counts after several readings: a group that cannot be used stays what it was.

    `groups` are by name, `problems` those of the last reading, each of which is logged once.
    """

    def __init__(self) -> None:
        self.groups: dict[str, NodeGroup] = {}
        self.problems: tuple[str, ...] = ()

    def take(self, told: Declarations, *, noted: Mapping[str, NodeGroup] = _NOTHING) -> None:
        """Go by another reading; `noted` is what was last good for whoever was here before us."""
        found = {group.metadata.name: group for group in told.groups}
        before = {**self.groups, **noted}
        # In the old order, so that a group does not change its place for being misspelt.
        stay = {
            name: group
            for name, group in before.items()
            if name in found or name in told.misspelt or told.illegible
        }
        self.groups = {**stay, **found}
        for problem in told.problems:
            if problem not in self.problems:
                _log.error("node group not read", extra={"error": problem})
        self.problems = told.problems

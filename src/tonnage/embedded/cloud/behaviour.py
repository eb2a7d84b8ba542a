"""What the cloud is like: how long machines take, and which of them never come.

Groups, zones and instance types are meant by patterns (`*`, `?`, `[...]`). Times are seconds from
the moment the cloud was made.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase

import msgspec

from tonnage.embedded.world.behaviour import Delay, check_chances
from tonnage.errors import InputError
from tonnage.objects.labels import INSTANCE_TYPE, ZONE
from tonnage.objects.nodes import Taint
from tonnage.objects.scenarios import NodeGroup
from tonnage.providers.protocol import ErrorClass

_CODES: dict[ErrorClass, str] = {
    "outOfResources": "OutOfStock",
    "quota": "QuotaExceeded",
    "other": "InvalidMachine",
}


class _Window(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    since: float = 0.0
    until: float | None = None

    def __post_init__(self) -> None:
        if self.since < 0 or (self.until is not None and self.until <= self.since):
            raise InputError(
                f"from {self.since:g} to {self.until} s: expected 0 <= since < until, or no until"
            )

    def is_open(self, seconds: float) -> bool:
        return self.since <= seconds and (self.until is None or seconds < self.until)


class CloudOutage(_Window, frozen=True, kw_only=True):
    """A time in which the cloud answers no request; asking again later helps."""


class CapacityShortage(_Window, frozen=True, kw_only=True):
    """Machines that do not come: out of stock, beyond a quota, or of a type that never works.

    Of all machines it is about, together, `left` can be there; those asked for beyond fail.
    """

    groups: tuple[str, ...] = ("*",)
    zones: tuple[str, ...] = ("*",)
    instance_types: tuple[str, ...] = ("*",)
    left: int = 0
    error: ErrorClass = "outOfResources"
    code: str = ""
    message: str = ""

    def is_about(self, group: NodeGroup) -> bool:
        return (
            _fits(group.metadata.name, self.groups)
            and _fits(label(group, ZONE), self.zones)
            and _fits(label(group, INSTANCE_TYPE), self.instance_types)
        )

    @property
    def error_code(self) -> str:
        return self.code or _CODES[self.error]


class CloudBehaviour(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Everything about the cloud that a scenario may choose."""

    start: Delay = Delay(60.0)
    """From the request to the machine running and its Node being there, not Ready yet."""
    stop: Delay = Delay(10.0)
    """From the request to the machine and its Node being gone."""
    fails_after: Delay = Delay(5.0)
    """From the request to knowing that the machine does not come."""
    failure_chance: float = 0.0
    """That a machine fails all by itself, each on its own."""
    shortages: tuple[CapacityShortage, ...] = ()
    outages: tuple[CloudOutage, ...] = ()
    never_register: tuple[str, ...] = ()
    """Groups whose machines run and never become nodes."""
    never_register_chance: float = 0.0
    startup_taints: tuple[Taint, ...] = ()
    """On every new node, beside those of its group's template."""

    def __post_init__(self) -> None:
        check_chances(
            failure_chance=self.failure_chance,
            never_register_chance=self.never_register_chance,
        )

    def never_registers(self, group: str) -> bool:
        return _fits(group, self.never_register)


def label(group: NodeGroup, key: str) -> str:
    """A label of the group's new nodes, empty if they have none."""
    template = group.spec.template
    return "" if template is None else template.node.metadata.labels.get(key, "")


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)

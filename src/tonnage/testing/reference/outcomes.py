"""What a plugin may answer, in the words of kube-scheduler's framework."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from tonnage.errors import TonnageError
from tonnage.testing.reference.inventory import HostedNode

SUCCESS = "Success"
UNSCHEDULABLE = "Unschedulable"
UNRESOLVABLE = "UnschedulableAndUnresolvable"
ERROR = "Error"


class PluginRefusal(msgspec.Struct, frozen=True):
    """A plugin's no: for one node, or for the pod before any node was looked at."""

    code: str
    reasons: tuple[str, ...]


class AttemptError(TonnageError):
    """A plugin could not tell; upstream gives up the whole attempt for the pod."""


Check: TypeAlias = Callable[[HostedNode], PluginRefusal | None]


class Stance(msgspec.Struct, frozen=True):
    """What a plugin's PreFilter makes of a pod.

    No `check` is upstream's Skip. `only` narrows the nodes that are looked at.
    """

    check: Check | None = None
    only: frozenset[str] | None = None
    refusal: PluginRefusal | None = None


SKIP = Stance()


def unschedulable(*reasons: str) -> PluginRefusal:
    """Preemption might help."""
    return PluginRefusal(UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> PluginRefusal:
    """Preemption cannot help."""
    return PluginRefusal(UNRESOLVABLE, reasons)

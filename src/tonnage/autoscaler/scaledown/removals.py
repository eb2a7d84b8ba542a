"""Removals under way, as they are written down: what a new leader goes on from."""

from enum import StrEnum

from tonnage.autoscaler.consolidation.memory import ConsolidationMemory, Surge
from tonnage.autoscaler.scaledown.windows import Reason
from tonnage.errors import TonnageError
from tonnage.objects.meta import Record
from tonnage.scaledown.state import CoolDowns


class Stage(StrEnum):
    """How far a removal has come."""

    MARKED = "marked"
    """To be marked, or marked: no pod comes to the node any more."""
    DRAINING = "draining"
    DETACHING = "detaching"
    DELETED = "deleted"
    """Its provider was told; the node is still to be seen."""


class NodeRemoval(Record, frozen=True, kw_only=True):
    """One node that goes. `moves` are the places of its pods, by namespace/name, and `waves` in
    which of them each is evicted.

    `since` is when it was first unneeded, `at` when the removal, or its last stage, began.
    """

    node: str
    uid: str
    group: str
    reason: Reason
    drain: bool
    since: float
    started: float
    at: float
    stage: Stage = Stage.MARKED
    moves: dict[str, str] = {}
    waves: dict[str, int] = {}
    saves: str | None = None
    whole_group: bool = False
    """Its group has all of its nodes or none: they are deleted together."""


class RemovalMemory(Record, frozen=True, kw_only=True):
    """What scale-down has to know after a restart: timers, cool-downs and removals under way."""

    unneeded: dict[str, float] = {}
    cool_downs: CoolDowns = CoolDowns()
    removals: dict[str, NodeRemoval] = {}
    nominated: dict[str, float] = {}
    """When pods without a node were nominated for the place of the one before them."""
    consolidation: ConsolidationMemory = ConsolidationMemory()
    surges: dict[str, Surge] = {}
    """Second replicas that were started, by the UID of the pod that they stand in for."""


class RemovalCancelled(TonnageError):  # noqa: N818 - nothing went wrong: the node is needed.
    """The node stays after all; the text says why."""


class RemovalFailed(TonnageError):  # noqa: N818 - beside the one above.
    """The node should go and cannot; the text says why."""

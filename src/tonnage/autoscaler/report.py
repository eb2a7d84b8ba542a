"""One round of the loop as data: what was found, decided and done. Status and metrics read it."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

from tonnage.autoscaler.provider_state import ProviderState
from tonnage.autoscaler.scaledown.report import ScaleDownReport
from tonnage.autoscaler.volume_causes import Blame
from tonnage.cluster.errors import Forbidden
from tonnage.groups.readiness import Readiness
from tonnage.groups.registry import Observation
from tonnage.objects.meta import Record
from tonnage.scaleup.plan import Plan
from tonnage.service.live_cluster import Trust

Deed: TypeAlias = Literal["increase", "delete", "decreaseTarget"]


class Done(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One thing asked of the provider, or that would have been in earnest."""

    deed: Deed
    group: str
    nodes: int
    reason: str
    names: tuple[str, ...] = ()
    error: str = ""
    dry_run: bool = False


class LoggedDecision(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A plan that asked for something or left somebody out, and what became of it.

    `recording` is what it came from, packed as `recordings` does it; without it,
    `not_recorded` says why.
    """

    time: str
    plan: Plan
    done: tuple[Done, ...] = ()
    recording: bytes = b""
    not_recorded: str = ""


class RoundReport(NamedTuple):
    """`held` says why nothing was decided; what comes after it is then missing or from before."""

    now: float
    held: str
    trust: Trust
    provided: ProviderState | None = None
    readiness: Readiness | None = None
    observation: Observation | None = None
    plan: Plan | None = None
    done: tuple[Done, ...] = ()
    waiting: int = 0
    waiting_with_volumes: int = 0
    because_of_volumes: "Mapping[Blame, int] | None" = None
    problems: tuple[str, ...] = ()
    slots: "Mapping[tuple[str, str], SlotCount] | None" = None
    refused: tuple[Forbidden, ...] = ()
    """Rights to write that are missing; those to read are in `trust`."""
    scale_down: ScaleDownReport = ScaleDownReport()


class SlotCount(NamedTuple):
    """Of one driver on the nodes of one group; `limit` counts only nodes that give a number."""

    used: int
    limit: int
    free: int
    unlimited_nodes: int

"""What the planner is asked: the cluster as it is to be taken, and how to decide."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from tonnage.groups.model import Group, Purchase, Template
from tonnage.groups.options import Options
from tonnage.rules.features import Features
from tonnage.scaleup.costly_pods import OwnTime
from tonnage.scaleup.expanders import Expander
from tonnage.scaleup.freed_room import FreedRoom
from tonnage.scaleup.gangs import Gang
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.snapshot.reservations import Reservations
from tonnage.snapshot.snapshot import PodRecord, Snapshot

AskingOutside: TypeAlias = Callable[[Callable[[str], Sequence[PodRecord]]], Mapping[str, Expander]]
"""Makes expanders that ask somebody else, from a way to ask for the pods of a group's option."""


class GangRequest(msgspec.Struct, frozen=True):
    """A gang, with its pods in groups: those it needs first, then those it could do without."""

    gang: Gang
    groups: Sequence[PodGroup]
    shape: Hashable


class Request(msgspec.Struct, frozen=True):
    """Everything a decision is made from. `out_of_time` may end it early with a partial plan.

    `own_time` is what pods have that are set apart for their complexity. Pods of `gangs` are not
    among the pending ones.

    `upcoming` are nodes to count on that are not there yet, by group; `coming_up` nodes that are
    there in part, each with its group; `purchases` what of it was asked for by ourselves, and for
    whom. `reservations` is what others have taken already; pods
    whose node is known are on it in the snapshot. `headroom` are chunks of room to be kept ready
    when all others have what they get. `solver_work` is how much the solver of `least-cost` did
    when the same was asked before; without it, as much as its option says.
    """

    snapshot: Snapshot
    pending: Sequence[PodGroup]
    groups: Sequence[Group]
    templates: Mapping[str, Template]
    skipped: Mapping[str, str]
    upcoming: Mapping[str, int]
    options: Options
    features: Features
    reservations: Reservations
    coming_up: Mapping[str, str] = MappingProxyType({})
    purchases: Mapping[str, Purchase] = MappingProxyType({})
    headroom: Sequence[PodGroup] = ()
    gangs: Sequence[GangRequest] = ()
    freed_room: FreedRoom | None = None
    warnings: Sequence[str] = ()
    out_of_time: Callable[[], bool] = lambda: False
    own_time: OwnTime = OwnTime()
    solver_work: int | None = None
    outside: AskingOutside = lambda _: {}

"""A plan: what to buy, for whom, and who is left out; versioned output."""

from collections.abc import Callable, Iterable

import msgspec

from tonnage.objects.meta import Record, WholeRecord
from tonnage.objects.phrases import listed
from tonnage.objects.scenarios import API_VERSION


class GroupDelta(WholeRecord, frozen=True, kw_only=True):
    group: str
    delta: int


class Placement(WholeRecord, frozen=True, kw_only=True):
    pod: str
    node: str


class Step(WholeRecord, frozen=True, kw_only=True):
    """One choice: the group that won, what is bought for it, and the pods it is for.

    Some of the pods may find room on nodes that were there, once the others are placed: with
    spread over zones, for example, when another zone has caught up. These are in `fit_on_existing`.
    """

    chosen: str
    scale_ups: tuple[GroupDelta, ...]
    pods: tuple[str, ...]
    fit_on_existing: tuple[Placement, ...] = ()
    reason: str = ""
    headroom: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """The kept rooms it is for, beside the pods."""


class NewNode(WholeRecord, frozen=True, kw_only=True):
    name: str
    pods: tuple[str, ...]


class ScaleUp(WholeRecord, frozen=True, kw_only=True):
    """All that is bought of one group over the whole plan.

    `binding` is the resource or driver its new nodes are fullest of.
    """

    group: str
    delta: int
    nodes: tuple[NewNode, ...]
    binding: str = ""


class Nearest(WholeRecord, frozen=True, kw_only=True):
    """The group that comes nearest to holding a pod, and what it lacks."""

    group: str
    resource: str
    wanted: int
    available: int


class GroupReason(WholeRecord, frozen=True, kw_only=True):
    """Why one group does not help a pod."""

    group: str
    plugin: str | None = None
    code: str | None = None
    reasons: tuple[str, ...] = ()


class NotHelped(WholeRecord, frozen=True, kw_only=True):
    pod: str
    never_fits: bool = False
    nearest: Nearest | None = None
    reasons: tuple[GroupReason, ...] = ()


class ChunksOnNode(WholeRecord, frozen=True, kw_only=True):
    node: str
    chunks: int


class GangOutcome(WholeRecord, frozen=True, kw_only=True):
    """A gang among the pods: helped whole, or not at all and why.

    A ProvisioningRequest has no pods yet; `nodes` are those that it has room on.
    """

    gang: str
    minimum: int
    running: int
    pods: tuple[str, ...]
    helped: bool
    reason: str = ""
    nodes: tuple[ChunksOnNode, ...] | msgspec.UnsetType = msgspec.UNSET


class FreedRoomWait(WholeRecord, frozen=True, kw_only=True):
    """A pod that no node is bought for, because room on a node is free sooner.

    `seconds` is until then, `newNode` what a node would take that is bought now, and `freedBy` are
    the pods and volumes that leave.
    """

    pod: str
    node: str
    seconds: float
    new_node: float
    freed_by: tuple[str, ...]

    @property
    def reason(self) -> str:
        """Why nothing is bought, in one line."""
        return (
            f"room on {self.node} is free in about {self.seconds:.0f} s"
            f" ({listed(self.freed_by)}), and a new node takes {self.new_node:.0f} s"
        )


class SetApart(WholeRecord, frozen=True, kw_only=True):
    """A pod that was decided on after all others and alone, or not at all for want of time."""

    pod: str
    complexity: int
    reason: str
    decided: bool


class GroupLimit(Record, frozen=True, kw_only=True):
    """The slots a new node of a group has for a driver, and who says so.

    Where live nodes do, `votes` of `voters` nodes say this number. `key` is the resource of a node
    it was read from, if it was not its CSINode.
    """

    group: str
    driver: str
    count: int | None
    source: str
    votes: int | None = None
    voters: int | None = None
    key: str | None = None


class GroupStorage(WholeRecord, frozen=True, kw_only=True):
    """Bytes a new node of a group has for a storage class that pods want, and who says so."""

    group: str
    storage_class: str
    capacity: int
    largest: int
    source: str


class GroupPool(WholeRecord, frozen=True, kw_only=True):
    """Slots that the drivers of a pool share on a new node of a group, and who says so."""

    group: str
    pool: str
    free: int
    source: str


class KeptRoomPlan(WholeRecord, frozen=True, kw_only=True):
    """What becomes of room that is kept ready.

    `kept` chunks have room on nodes that are there or coming, `bought` ones on new nodes; for
    `missing` ones there is none, and `reasons` say why. `waiting` ones wait for room that is being
    freed.
    """

    name: str
    chunks: int
    kept: int
    bought: int
    missing: int
    waiting: int | msgspec.UnsetType = msgspec.UNSET
    nodes: tuple[ChunksOnNode, ...] = ()
    reasons: tuple[GroupReason, ...] = ()


class Bounds(WholeRecord, frozen=True, kw_only=True):
    """No plan for the same pods buys less than this, of whatever groups could be bought from.

    `cost_per_hour` is over the groups that have a price; `gap` is that of the nodes.
    """

    nodes: int
    cost_per_hour: float | None
    gap: float


NO_BOUNDS = Bounds(nodes=0, cost_per_hour=None, gap=0.0)


class Optimisation(WholeRecord, frozen=True, kw_only=True):
    """What came of looking at all groups together (expander `least-cost`).

    `cost` is that of the plan and `greedy` that of the plan it began with, in prices an hour, or
    in nodes where there are no prices (`unit`); no plan for the same pods costs less than `bound`,
    and the plan is `gap` above it, as a part of the bound (1 if that is 0 and the cost is not).
    `stopped` says that time ran out.
    `work` is what the solver has done; the same work gives the same plan.
    """

    unit: str
    cost: float
    greedy: float
    bound: float
    gap: float
    stopped: bool
    work: int


class Plan(WholeRecord, frozen=True, kw_only=True):
    api_version: str = API_VERSION
    kind: str = "Plan"
    steps: tuple[Step, ...] = ()
    scale_ups: tuple[ScaleUp, ...] = ()
    fit_on_existing: tuple[Placement, ...] = ()
    not_helped: tuple[NotHelped, ...] = ()
    limits: tuple[GroupLimit, ...] = ()
    pools: tuple[GroupPool, ...] = ()
    storage: tuple[GroupStorage, ...] = ()
    bounds: Bounds = NO_BOUNDS
    partial: bool = False
    set_apart: tuple[SetApart, ...] = ()
    warnings: tuple[str, ...] = ()
    headroom: tuple[KeptRoomPlan, ...] | msgspec.UnsetType = msgspec.UNSET
    """Only where room is to be kept ready."""
    gangs: tuple[GangOutcome, ...] | msgspec.UnsetType = msgspec.UNSET
    """There only where pods of gangs wait."""
    waits: tuple[FreedRoomWait, ...] | msgspec.UnsetType = msgspec.UNSET
    """There only where pods wait for room that is being freed."""
    optimisation: Optimisation | msgspec.UnsetType = msgspec.UNSET
    """There only where `least-cost` was looked for."""

    @property
    def gang_outcomes(self) -> tuple[GangOutcome, ...]:
        return self.gangs if self.gangs is not msgspec.UNSET else ()

    @property
    def kept_rooms(self) -> tuple[KeptRoomPlan, ...]:
        return self.headroom if self.headroom is not msgspec.UNSET else ()

    @property
    def waiting(self) -> tuple[FreedRoomWait, ...]:
        """Who waits for room that is being freed."""
        return () if isinstance(self.waits, msgspec.UnsetType) else self.waits

    @property
    def all_on_existing(self) -> tuple[Placement, ...]:
        """Every pod on a node that is there or coming up, before any step or after one."""
        later = (one for step in self.steps for one in step.fit_on_existing)
        return (*self.fit_on_existing, *later)

    def only(self, wanted: Callable[[str], bool]) -> "Plan":
        """The plan without pods that are not wanted; what is bought stays."""

        def kept(placed: Iterable[Placement]) -> tuple[Placement, ...]:
            return tuple(one for one in placed if wanted(one.pod))

        steps = (
            msgspec.structs.replace(
                step,
                pods=tuple(filter(wanted, step.pods)),
                fit_on_existing=kept(step.fit_on_existing),
            )
            for step in self.steps
        )
        scale_ups = (
            msgspec.structs.replace(
                one,
                nodes=tuple(
                    NewNode(name=node.name, pods=tuple(filter(wanted, node.pods)))
                    for node in one.nodes
                ),
            )
            for one in self.scale_ups
        )
        return msgspec.structs.replace(
            self,
            steps=tuple(steps),
            scale_ups=tuple(scale_ups),
            fit_on_existing=kept(self.fit_on_existing),
            not_helped=tuple(one for one in self.not_helped if wanted(one.pod)),
        )

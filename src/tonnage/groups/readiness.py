"""Which nodes are ready, coming up, unready or leaving, and whether groups may be scaled up.

A node that is Ready but lacks a driver its group's template expects is coming up: it counts as
capacity on its way, and past a deadline as unready. The deadline runs from the node's birth, or
from when it was first seen without the driver, whichever is later: a driver that restarts does not
make an old node unready. Upstream knows such nodes only where the provider's template lists the
drivers, and its deadline always runs from birth.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from tonnage.groups import drivers, node_state
from tonnage.groups.drivers import Member
from tonnage.groups.inputs import Inputs
from tonnage.groups.memory import Absences
from tonnage.groups.model import LIVE, PROVIDER, REMEMBERED, Group, Template
from tonnage.groups.node_state import NodeState
from tonnage.groups.policy import GroupPolicy
from tonnage.objects.meta import Record
from tonnage.objects.storage import CSINode

State: TypeAlias = Literal["ready", "coming-up", "unready", "deleting"]

READY: State = "ready"
COMING_UP: State = "coming-up"
UNREADY: State = "unready"
DELETING: State = "deleting"

NOT_READY_FOR_SCALE_UP = "not ready for scale-up"
"""Upstream's reason for passing over a group that is not healthy."""

_UPSTREAM_AGE = 3600.0
"""Of a node that has no creation time, when comparing with upstream."""

_SUSPENDED = "condition Suspended is True"


class LackingNode(msgspec.Struct, frozen=True):
    """A node that lacks drivers; `lost` says that it was up before, `late` that its time is up."""

    group: str | None
    drivers: tuple[str, ...]
    lost: bool
    late: bool


class DriverOutage(Record, frozen=True, kw_only=True):
    """A driver that more nodes lack than have.

    `late` of the nodes that lack it are past their deadline. `groups` are theirs. `proven` is
    false where a single node that never had the driver is all there is to go by: that may as well
    be the node.
    """

    driver: str
    lacking: int
    late: int
    registered: int
    groups: tuple[str, ...] = ()
    proven: bool = True

    @property
    def total(self) -> bool:
        """Whether it is the driver for sure, and no node of the cluster has it."""
        return self.proven and self.registered == 0

    def __str__(self) -> str:
        if self.registered == 0:
            return f"driver {self.driver} is registered on no node of the cluster"
        nodes = self.lacking + self.registered
        return f"driver {self.driver} is missing on {self.lacking} of {nodes} nodes"

    def warnings(self) -> Iterator[str]:
        """What is wrong, for every group that expects the driver of its nodes."""
        for group in self.groups:
            yield f"group {group}: {self}, and expected of this group's nodes"


def outages_of(
    lacking: Iterable[LackingNode],
    csinodes: Mapping[str, CSINode],
    states: Mapping[str, NodeState],
) -> tuple[DriverOutage, ...]:
    """The outages, in order of driver."""
    without: defaultdict[str, list[LackingNode]] = defaultdict(list)
    for node in lacking:
        for driver in node.drivers:
            without[driver].append(node)
    if not without:
        return ()
    registered = Counter(
        name
        for node, state in states.items()
        if not state.deleting
        for name in drivers.by_name(csinodes.get(node))
    )
    return tuple(
        DriverOutage(
            driver=driver,
            lacking=len(nodes),
            late=sum(node.late for node in nodes),
            registered=registered[driver],
            groups=tuple(sorted({node.group for node in nodes if node.group is not None})),
            proven=len(nodes) > 1 or any(node.lost for node in nodes),
        )
        for driver, nodes in sorted(without.items())
        if len(nodes) > registered[driver]
    )


class NodeReadiness(Record, frozen=True, kw_only=True):
    """One node's state, and why it is not ready.

    `missing_drivers` are those it is not ready without; `lost` says that it was there for a while
    before it was first seen without them. `deadline` is when a node that is coming up counts as
    unready, in seconds since 1970. `in_doubt` is one of these that has been up before: it may come
    back, and nothing is to be promised on it.
    """

    node: str
    state: State
    group: str | None = None
    reason: str = ""
    missing_drivers: tuple[str, ...] = ()
    lost: bool = False
    deadline: float | None = None
    in_doubt: bool = False


class GroupReadiness(Record, frozen=True, kw_only=True):
    """A group's nodes by state.

    `upcoming` is the capacity to count on beside the ready nodes: nodes asked for and not
    registered, and those coming up, whose names are in `coming_up_nodes`. `not_awaited` of them no
    purchase waits for: they have been up before, or lack only drivers that no node has.
    `skip_reason` is empty for a healthy group. `suspended` nodes are unready and nobody's fault;
    `blameless` ones are unready for want of drivers that no node has.
    """

    group: str
    ready: int = 0
    unready: int = 0
    coming_up: int = 0
    deleting: int = 0
    suspended: int = 0
    blameless: int = 0
    upcoming: int = 0
    not_awaited: int = 0
    coming_up_nodes: tuple[str, ...] = ()
    healthy: bool = True
    skip_reason: str = ""


class Readiness(Record, frozen=True, kw_only=True):
    """All nodes by name, all groups by id, and whether the cluster is in a state to be scaled.

    `absences` is for the next look.
    """

    nodes: dict[str, NodeReadiness] = {}
    groups: dict[str, GroupReadiness] = {}
    outages: tuple[DriverOutage, ...] = ()
    healthy: bool = True
    reason: str = ""
    absences: dict[str, dict[str, float]] = {}


def assess(inputs: Inputs, templates: Mapping[str, Template]) -> Readiness:
    """Sort the nodes by state and weigh the groups; `templates` are those of `templates.build`.

    In a file nobody has looked before: what a node lacks it has lacked from its birth.
    """
    policy = inputs.policy
    before = inputs.memory.absences if inputs.live and not policy.as_upstream else None
    look = _Look(not inputs.csinodes, policy, inputs.now, before)
    found: dict[str, NodeReadiness] = {}
    for name in inputs.nodes:
        group = inputs.group_of.get(name)
        template = templates.get(group.id) if group is not None else None
        found[name] = look.node(inputs.member(name), group, template)
    outages: tuple[DriverOutage, ...] = ()
    if not policy.as_upstream:
        outages = outages_of(look.lacking, inputs.csinodes, inputs.states)
    reason = _cluster_trouble(found.values(), _absent(outages), policy)
    return Readiness(
        nodes=found,
        groups=_by_group(inputs.groups, found.values(), _absent(outages), policy),
        outages=outages,
        healthy=not reason,
        reason=reason,
        absences=look.absences,
    )


def with_targets(found: Readiness, inputs: Inputs) -> Readiness:
    """The same nodes in the same groups, of which other sizes are wanted now."""
    absent = _absent(found.outages)
    weighed = _by_group(inputs.groups, found.nodes.values(), absent, inputs.policy)
    return msgspec.structs.replace(found, groups=weighed)


def given_up(found: Readiness, policy: GroupPolicy) -> frozenset[str]:
    """Drivers that no node has, and that so many have waited for in vain that one more is no use.

    Otherwise nodes would be bought for their pods until every group is at its maximum.
    """
    most = policy.ok_total_unready_count
    return frozenset(
        outage.driver for outage in found.outages if outage.total and outage.late > most
    )


class _Look:
    """One look at all nodes; `absences` and `lacking` are what it found."""

    def __init__(
        self, blind: bool, policy: GroupPolicy, now: float, before: Absences | None
    ) -> None:
        self._blind = blind
        self._policy = policy
        self._now = now
        self._before = before
        # Who sees no CSINode at all learns nothing.
        known = before if before is not None and blind else {}
        self.absences = {driver: dict(nodes) for driver, nodes in known.items()}
        self.lacking: list[LackingNode] = []
        """But for nodes that may not have got so far: they are no evidence against a driver."""

    def node(self, member: Member, group: Group | None, template: Template | None) -> NodeReadiness:
        state, policy = member.state, self._policy
        name = member.node.metadata.name
        belongs_to = group.id if group is not None else None
        if state.deleting:
            return NodeReadiness(node=name, group=belongs_to, state=DELETING)
        missing, reason = self._missing(member, _expected(group, template, policy), template)
        born = _born(member, policy, self._now)
        since = max(born, self._first_missed(name, missing))
        if state.suspended:
            return NodeReadiness(node=name, group=belongs_to, state=UNREADY, reason=_SUSPENDED)
        if state.ready and not missing:
            return NodeReadiness(node=name, group=belongs_to, state=READY)
        if not state.ready:
            missing, reason = (), state.reason
        in_time = state.ready and not policy.as_upstream
        deadline = (
            since + policy.driver_registration_timeout
            if in_time
            else born + policy.max_node_startup_time
        )
        coming_up = deadline > self._now
        lost = bool(missing) and since > born + node_state.STABLE_AFTER
        grown = state.is_seasoned(self._now, policy.driver_registration_timeout)
        if missing and (not coming_up or (lost and grown)):
            self.lacking.append(LackingNode(belongs_to, missing, lost=lost, late=not coming_up))
        return NodeReadiness(
            node=name,
            group=belongs_to,
            state=COMING_UP if coming_up else UNREADY,
            reason=reason,
            missing_drivers=missing,
            lost=lost,
            deadline=deadline if coming_up else None,
            in_doubt=coming_up and (lost or state.was_up),
        )

    def _missing(
        self, member: Member, expected: frozenset[str], template: Template | None
    ) -> tuple[tuple[str, ...], str]:
        """What the node is not ready without, and the words for it."""
        policy = self._policy
        missing = drivers.missing_on(
            member, expected, blind=self._blind, policy=policy, now=self._now
        )
        if missing:
            return missing, f"not registered: {', '.join(missing)}"
        if policy.require_driver_counts and not policy.as_upstream:
            missing = _without_count(member, template)
        return missing, f"registered without a limit: {', '.join(missing)}" if missing else ""

    def _first_missed(self, node: str, missing: Iterable[str]) -> float:
        """When the node was first seen without one of the drivers that it lacks now."""
        if self._before is None:
            return -math.inf
        first = -math.inf
        for driver in missing:
            known = self._before.get(driver, {}).get(node, self._now)
            at = self.absences.setdefault(driver, {})[node] = min(known, self._now)
            first = at if first == -math.inf else min(first, at)
        return first


def _absent(outages: Iterable[DriverOutage]) -> frozenset[str]:
    """Drivers that no node has, through no fault of the nodes."""
    return frozenset(outage.driver for outage in outages if outage.total)


def _expected(
    group: Group | None, template: Template | None, policy: GroupPolicy
) -> frozenset[str]:
    if policy.as_upstream:
        provider = group.provider_template if group is not None else None
        return frozenset(drivers.by_name(provider.csi_node if provider is not None else None))
    return frozenset(template.expected_drivers if template is not None else ())


def _without_count(member: Member, template: Template | None) -> tuple[str, ...]:
    """Expected drivers that give a number elsewhere in the group, or to its provider, not here.

    What is among a node's resources is not waited for in its CSINode.
    """
    if template is None or member.csinode is None:
        return ()
    registered = drivers.by_name(member.csinode)
    return tuple(
        limit.driver
        for limit in template.limits
        if limit.count is not None
        and limit.source in (LIVE, PROVIDER, REMEMBERED)
        and limit.key is None
        and limit.driver in template.expected_drivers
        and limit.driver in registered
        and registered[limit.driver].limit is None
    )


def _born(member: Member, policy: GroupPolicy, now: float) -> float:
    created = member.state.created
    if created is None and not policy.as_upstream and member.state.ready:
        created = member.state.since
    if created is not None:
        return created
    return now - _UPSTREAM_AGE if policy.as_upstream else -math.inf


def _by_group(
    groups: Sequence[Group],
    nodes: Iterable[NodeReadiness],
    absent: frozenset[str],
    policy: GroupPolicy,
) -> dict[str, GroupReadiness]:
    members: defaultdict[str, list[NodeReadiness]] = defaultdict(list)
    for node in nodes:
        if node.group is not None:
            members[node.group].append(node)
    return {group.id: _group(group, members[group.id], absent, policy) for group in groups}


def _group(
    group: Group,
    nodes: Sequence[NodeReadiness],
    absent: frozenset[str],
    policy: GroupPolicy,
) -> GroupReadiness:
    coming_up = [node for node in nodes if node.state == COMING_UP]
    suspended = sum(node.reason == _SUSPENDED for node in nodes)
    ready = sum(node.state == READY for node in nodes)
    unready = sum(node.state == UNREADY for node in nodes) - suspended
    blameless = sum(node.state == UNREADY and _is_blameless(node, absent) for node in nodes)
    missing = max(0, group.target - len(nodes))
    # Nodes that are on their way are as they should be, but to upstream, which knows of none.
    amiss = max(0, group.target - ready - suspended) if policy.as_upstream else unready - blameless
    registered = ready + unready + len(coming_up) + suspended
    share = policy.max_total_unready_percentage / 100
    healthy = amiss <= policy.ok_total_unready_count or amiss <= share * registered
    if policy.as_upstream and not nodes:
        healthy = group.target == 0
    return GroupReadiness(
        group=group.id,
        ready=ready,
        unready=unready,
        coming_up=len(coming_up),
        deleting=sum(node.state == DELETING for node in nodes),
        suspended=suspended,
        blameless=blameless,
        upcoming=0 if policy.as_upstream else missing + len(coming_up),
        not_awaited=sum(one.lost or _is_blameless(one, absent) for one in coming_up),
        coming_up_nodes=tuple(one.node for one in coming_up),
        healthy=healthy,
        skip_reason="" if healthy else NOT_READY_FOR_SCALE_UP,
    )


def _is_blameless(one: NodeReadiness, absent: frozenset[str]) -> bool:
    """Whether all that the node lacks is drivers that no node has."""
    return bool(one.missing_drivers) and absent.issuperset(one.missing_drivers)


def _cluster_trouble(
    nodes: Iterable[NodeReadiness], absent: frozenset[str], policy: GroupPolicy
) -> str:
    """Why the whole cluster is not to be scaled, or nothing."""
    total = unready = 0
    for node in nodes:
        total += 1
        if node.state == UNREADY and node.reason != _SUSPENDED:
            unready += not _is_blameless(node, absent)
    share = policy.max_total_unready_percentage / 100
    if unready <= policy.ok_total_unready_count or unready <= share * total:
        return ""
    return (
        f"{unready} of {total} nodes are unready, more than {policy.ok_total_unready_count} and "
        f"more than {policy.max_total_unready_percentage:g} %"
    )

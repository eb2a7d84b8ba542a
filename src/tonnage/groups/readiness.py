"""Which nodes are ready, coming up, unready or leaving, and whether groups may be scaled up.

A node that is Ready but lacks a driver its group's template expects is coming up: it counts as
capacity on its way, and past a deadline as unready. Upstream knows such nodes only where the
provider's template lists the drivers.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from tonnage.groups import drivers, nodestate
from tonnage.groups.drivers import Member
from tonnage.groups.model import LIVE, PROVIDER, REMEMBERED, Group, Template
from tonnage.groups.nodestate import NodeState
from tonnage.groups.policy import GroupPolicy
from tonnage.objects.meta import Record
from tonnage.objects.nodes import Node
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


class NodeReadiness(Record, frozen=True, kw_only=True):
    """One node's state, and why it is not ready.

    `missing_drivers` are those it is not ready without. `deadline` is when a node that is coming
    up counts as unready, in seconds since 1970.
    """

    node: str
    state: State
    group: str | None = None
    reason: str = ""
    missing_drivers: tuple[str, ...] = ()
    deadline: float | None = None


class GroupReadiness(Record, frozen=True, kw_only=True):
    """A group's nodes by state.

    `upcoming` is the capacity to count on beside the ready nodes: nodes asked for and not
    registered, and those coming up, whose names are in `coming_up_nodes`. `skip_reason` is empty
    for a healthy group. `suspended` nodes are unready and nobody's fault.
    """

    group: str
    ready: int = 0
    unready: int = 0
    coming_up: int = 0
    deleting: int = 0
    suspended: int = 0
    upcoming: int = 0
    coming_up_nodes: tuple[str, ...] = ()
    healthy: bool = True
    skip_reason: str = ""


class Readiness(Record, frozen=True, kw_only=True):
    """All nodes by name, all groups by id, and whether the cluster is in a state to be scaled."""

    nodes: dict[str, NodeReadiness] = {}
    groups: dict[str, GroupReadiness] = {}
    healthy: bool = True
    reason: str = ""


def assess(
    groups: Sequence[Group],
    templates: Mapping[str, Template],
    *,
    nodes: Iterable[Node],
    csinodes: Iterable[CSINode],
    policy: GroupPolicy,
    now: float,
    states: Mapping[str, NodeState] | None = None,
) -> Readiness:
    """Sort the nodes by state and weigh the groups; `templates` are those of `templates.build`.

    `states` are what the nodes say of themselves, for callers who have that at hand.
    """
    by_name = {csinode.metadata.name: csinode for csinode in csinodes}
    group_of = {name: group for group in groups for name in group.nodes}
    found: dict[str, NodeReadiness] = {}
    per_group: defaultdict[str, list[NodeReadiness]] = defaultdict(list)
    for node in nodes:
        name = node.metadata.name
        state = states[name] if states is not None else nodestate.of(node, policy)
        member = Member(node, state, by_name.get(name))
        group = group_of.get(name)
        template = templates.get(group.id) if group is not None else None
        one = found[name] = _node(
            member, group, template, blind=not by_name, policy=policy, now=now
        )
        if group is not None:
            per_group[group.id].append(one)
    reason = _cluster_trouble(found.values(), policy)
    return Readiness(
        nodes=found,
        groups={group.id: _group(group, per_group[group.id], policy) for group in groups},
        healthy=not reason,
        reason=reason,
    )


def with_targets(found: Readiness, groups: Sequence[Group], *, policy: GroupPolicy) -> Readiness:
    """The same nodes in the same groups, of which other sizes are wanted now."""
    per_group: defaultdict[str, list[NodeReadiness]] = defaultdict(list)
    for one in found.nodes.values():
        if one.group is not None:
            per_group[one.group].append(one)
    weighed = {group.id: _group(group, per_group[group.id], policy) for group in groups}
    return msgspec.structs.replace(found, groups=weighed)


def _node(
    member: Member,
    group: Group | None,
    template: Template | None,
    *,
    blind: bool,
    policy: GroupPolicy,
    now: float,
) -> NodeReadiness:
    state = member.state
    name = member.node.metadata.name
    belongs_to = group.id if group is not None else None
    if state.deleting:
        return NodeReadiness(node=name, group=belongs_to, state=DELETING)
    if state.suspended:
        return NodeReadiness(node=name, group=belongs_to, state=UNREADY, reason=_SUSPENDED)
    missing: tuple[str, ...] = ()
    reason, patience = state.reason, policy.max_node_startup_time
    if state.ready:
        expected = _expected(group, template, policy)
        missing = drivers.missing_on(member, expected, blind=blind, policy=policy, now=now)
        reason = f"not registered: {', '.join(missing)}" if missing else ""
        if not missing and policy.require_driver_counts and not policy.as_upstream:
            missing = _without_count(member, template)
            reason = f"registered without a limit: {', '.join(missing)}" if missing else ""
        if not missing:
            return NodeReadiness(node=name, group=belongs_to, state=READY)
        if not policy.as_upstream:
            patience = policy.driver_registration_timeout
    deadline = _born(member, policy, now) + patience
    return NodeReadiness(
        node=name,
        group=belongs_to,
        state=COMING_UP if deadline > now else UNREADY,
        reason=reason,
        missing_drivers=missing,
        deadline=deadline if deadline > now else None,
    )


def _expected(
    group: Group | None, template: Template | None, policy: GroupPolicy
) -> frozenset[str]:
    if policy.as_upstream:
        provider = group.provider_template if group is not None else None
        return frozenset(drivers.by_name(provider.csi_node if provider is not None else None))
    return frozenset(template.expected_drivers if template is not None else ())


def _without_count(member: Member, template: Template | None) -> tuple[str, ...]:
    """Expected drivers that give a number elsewhere in the group, or to its provider, not here."""
    if template is None or member.csinode is None:
        return ()
    registered = drivers.by_name(member.csinode)
    return tuple(
        limit.driver
        for limit in template.limits
        if limit.count is not None
        and limit.source in (LIVE, PROVIDER, REMEMBERED)
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


def _group(group: Group, nodes: Sequence[NodeReadiness], policy: GroupPolicy) -> GroupReadiness:
    coming_up = tuple(one.node for one in nodes if one.state == COMING_UP)
    suspended = sum(one.reason == _SUSPENDED for one in nodes)
    ready = sum(one.state == READY for one in nodes)
    unready = sum(one.state == UNREADY for one in nodes) - suspended
    missing = max(0, group.target - len(nodes))
    # Nodes that are on their way are as they should be, but to upstream, which knows of none.
    amiss = max(0, group.target - ready - suspended) if policy.as_upstream else unready
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
        deleting=sum(one.state == DELETING for one in nodes),
        suspended=suspended,
        upcoming=0 if policy.as_upstream else missing + len(coming_up),
        coming_up_nodes=coming_up,
        healthy=healthy,
        skip_reason="" if healthy else NOT_READY_FOR_SCALE_UP,
    )


def _cluster_trouble(nodes: Iterable[NodeReadiness], policy: GroupPolicy) -> str:
    """Why the whole cluster is not to be scaled, or nothing."""
    total = unready = 0
    for one in nodes:
        total += 1
        unready += one.state == UNREADY and one.reason != _SUSPENDED
    share = policy.max_total_unready_percentage / 100
    if unready <= policy.ok_total_unready_count or unready <= share * total:
        return ""
    return (
        f"{unready} of {total} nodes are unready, more than {policy.ok_total_unready_count} and "
        f"more than {policy.max_total_unready_percentage:g} %"
    )

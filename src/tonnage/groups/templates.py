"""The template of each group: what its next node would be.

In this order: a stable live node of the group; the last good one it had; the provider's; a node
that is not ready, rather than nothing. Then, unless upstream is followed to the
letter, `template_completion` adds what is known of drivers, their limits and their labels.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from tonnage.groups import (
    daemons,
    drivers,
    enforced_limits,
    limit_votes,
    limits,
    node_sanitiser,
    node_state,
    template_completion,
    topology,
)
from tonnage.groups import memory as memories
from tonnage.groups.drivers import Evidence, Member, UsualDrivers
from tonnage.groups.enforced_limits import ReadLimits
from tonnage.groups.limit_votes import Vote
from tonnage.groups.memory import RememberedGroup, TemplateMemory
from tonnage.groups.model import (
    LIVE,
    PROVIDER,
    REMEMBERED,
    UNKNOWN,
    Group,
    Limit,
    Template,
)
from tonnage.groups.node_state import NodeState
from tonnage.groups.policy import GroupPolicy
from tonnage.groups.template_completion import Surroundings
from tonnage.objects import limit_keys
from tonnage.objects.meta import Record
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.scenarios import GroupTemplate
from tonnage.objects.storage import CSINode
from tonnage.objects.workloads import DaemonSet


class Templates(Record, frozen=True, kw_only=True):
    """Templates by group, what was wrong with which group, and the memory for the next round.

    A group without a template is absent from `by_group` and says why in `problems`, which holds
    `Group.problems` too. `warnings` are about nodes or the cluster, not about one group. Every
    text names its object.
    """

    by_group: dict[str, Template] = {}
    problems: dict[str, tuple[str, ...]] = {}
    warnings: tuple[str, ...] = ()
    memory: TemplateMemory = TemplateMemory()


def build(
    groups: Sequence[Group],
    *,
    nodes: Iterable[Node],
    csinodes: Iterable[CSINode],
    pods_by_node: Mapping[str, Iterable[Pod]],
    daemonsets: Iterable[DaemonSet],
    memory: TemplateMemory,
    policy: GroupPolicy,
    now: float,
    wanted: Iterable[str] = (),
    states: Mapping[str, NodeState] | None = None,
    own_keys: Mapping[str, str] = MappingProxyType({}),
    enforced: ReadLimits | None = None,
) -> Templates:
    """The templates of all groups.

    `pods_by_node` are the pods on nodes; only those of nodes that become templates are looked
    at. `wanted` are the drivers that pending pods want, for which every template gets a limit;
    in-tree plugins among them have one where `enforced` reads what nodes are judged by. `own_keys`
    are the resources by which CSIDrivers name their limits.
    `states` are those of the nodes, for callers who have them at hand.
    """
    by_name = {node.metadata.name: node for node in nodes}
    if states is None:
        states = node_state.States().of(by_name.values(), policy)
    cluster = _Cluster(
        nodes=by_name,
        states=states,
        csinodes={csinode.metadata.name: csinode for csinode in csinodes},
        pods_by_node=pods_by_node,
        daemon_sets=tuple(daemonsets),
        group_of={name: group.id for group in groups for name in group.nodes},
        policy=policy,
        now=now,
    )
    names = set(wanted)
    surroundings = Surroundings(
        cluster.registered,
        tuple(sorted(names - limit_keys.INTREE_KEYS.keys())),
        own_keys=own_keys,
        lessons=memory.lessons,
        usual=UsualDrivers(cluster.everybody(), policy=policy, now=now),
    )
    made = {
        group.id: _make(group, cluster, surroundings, past=memory.groups.get(group.id))
        for group in groups
    }
    problems = {
        group.id: (*group.problems, *(f"group {group.id}: {p}" for p in made[group.id].problems))
        for group in groups
    }
    return Templates(
        by_group={
            name: one.template
            if enforced is None
            else enforced_limits.stated(
                one.template,
                plugins=names & limit_keys.INTREE_KEYS.keys(),
                own=own_keys,
                read=enforced,
            )
            for name, one in made.items()
            if one.template is not None
        },
        problems={name: found for name, found in problems.items() if found},
        warnings=tuple(_warnings(cluster, made)),
        memory=TemplateMemory(
            groups={
                name: one.remembered for name, one in made.items() if one.remembered is not None
            },
            lessons=memory.lessons,
            absences=memory.absences,
        ),
    )


def without_drivers(built: Templates, names: frozenset[str]) -> Templates:
    """The same templates for nodes on which these drivers will not register."""
    if not names:
        return built
    return msgspec.structs.replace(
        built, by_group={name: _without(one, names) for name, one in built.by_group.items()}
    )


def _without(template: Template, names: frozenset[str]) -> Template:
    csinode = template.csinode
    if csinode is not None:
        kept = tuple(driver for driver in csinode.spec.drivers if driver.name not in names)
        spec = msgspec.structs.replace(csinode.spec, drivers=kept)
        csinode = msgspec.structs.replace(csinode, spec=spec)
    found = tuple(
        Limit(driver=one.driver, count=None, source=UNKNOWN) if one.driver in names else one
        for one in template.limits
    )
    return msgspec.structs.replace(template, csinode=csinode, limits=found)


class _Cluster(NamedTuple):
    """The cluster by name, and how it is to be looked at."""

    nodes: Mapping[str, Node]
    states: Mapping[str, NodeState]
    csinodes: Mapping[str, CSINode]
    pods_by_node: Mapping[str, Iterable[Pod]]
    daemon_sets: tuple[DaemonSet, ...]
    group_of: Mapping[str, str]
    policy: GroupPolicy
    now: float

    def members(self, group: Group) -> list[Member]:
        return [self._member(name) for name in group.nodes if name in self.nodes]

    def everybody(self) -> Iterator[Member]:
        """All nodes, of whatever group."""
        return map(self._member, self.nodes)

    def _member(self, name: str) -> Member:
        return Member(self.nodes[name], self.states[name], self.csinodes.get(name))

    def registered(self) -> Iterator[limits.Registered]:
        """The ready nodes that have a CSINode."""
        for name, csinode in self.csinodes.items():
            if name in self.nodes and self.states[name].ready:
                yield limits.Registered(self.nodes[name], csinode, self.group_of.get(name))


class _Made(NamedTuple):
    """What a round makes of one group."""

    template: Template | None
    problems: tuple[str, ...]
    remembered: RememberedGroup | None


def _make(
    group: Group, cluster: _Cluster, surroundings: Surroundings, *, past: RememberedGroup | None
) -> _Made:
    policy = cluster.policy
    problems: list[str] = []
    members = cluster.members(group)
    past = _still_true(past, group, policy)
    evidence = _evidence(group, members, cluster, surroundings, past)
    live = _from_stable(group, members, evidence, cluster)
    chosen = (
        live
        or _recalled(past)
        or _declared(group, policy, problems)
        or _from_unfit(group, members, evidence, cluster, problems)
    )
    seen = {**evidence.seen, **drivers.by_name(live.csinode if live is not None else None)}
    shown = _votes(chosen, members, cluster, surroundings)
    told = (
        drivers.with_count(driver, shown[name].slots) if name in shown else driver
        for name, driver in seen.items()
    )
    remembered = memories.renewed(past, live, told, now=cluster.now)
    if chosen is None:
        problems.append(
            "no template: it has no node, had none before, and its provider describes none"
        )
        return _Made(None, tuple(problems), remembered)
    if not policy.csi_aware or policy.as_upstream:
        csinode = chosen.csinode if policy.csi_aware else None
        found = limits.as_listed(csinode, chosen.source, surroundings.wanted)
        chosen = msgspec.structs.replace(chosen, csinode=csinode, limits=found)
    else:
        chosen, unknown = template_completion.complete(
            chosen,
            group=group,
            evidence=evidence,
            past=past.drivers if past is not None else {},
            votes=shown,
            overrides=policy.limits,
            surroundings=surroundings,
        )
        problems.extend(unknown)
    return _Made(_with_daemons(chosen, cluster), tuple(problems), remembered)


def _evidence(
    group: Group,
    members: Sequence[Member],
    cluster: _Cluster,
    surroundings: Surroundings,
    past: RememberedGroup | None,
) -> Evidence:
    provider = group.provider_template.csi_node if group.provider_template is not None else None
    if cluster.policy.as_upstream or not cluster.policy.csi_aware:
        return Evidence(frozenset(drivers.by_name(provider)), {}, conclusive=False)
    return drivers.evidence(
        members,
        provider=provider,
        remembered=past.drivers if past is not None else {},
        policy=cluster.policy,
        now=cluster.now,
        usual=lambda: surroundings.usual.of(limits.instance_type(members[0].node)),
    )


def _votes(
    chosen: Template | None,
    members: Sequence[Member],
    cluster: _Cluster,
    surroundings: Surroundings,
) -> Mapping[str, Vote]:
    """What nodes like the chosen one say of limits; upstream goes by the one it copies."""
    if cluster.policy.as_upstream or not cluster.policy.csi_aware:
        return {}
    kind = limits.instance_type(chosen.node) if chosen is not None else ""
    return limit_votes.of_group(
        members,
        kind=kind,
        wanted=surroundings.wanted,
        own_keys=surroundings.own_keys,
        now=cluster.now,
    )


def _still_true(
    past: RememberedGroup | None, group: Group, policy: GroupPolicy
) -> RememberedGroup | None:
    """What is remembered, unless the provider says that the machines are of another type now."""
    if past is None or policy.as_upstream or group.provider_template is None:
        return past
    today = limits.instance_type(group.provider_template.node)
    then = limits.instance_type(past.template.node)
    return past if not today or not then or today == then else None


def _from_stable(
    group: Group, members: Sequence[Member], evidence: Evidence, cluster: _Cluster
) -> Template | None:
    """The group's first node that has been ready for a while and lacks no driver."""
    for member in members:
        if not _unfit(member, evidence, cluster):
            return _copied(group, member, members, cluster)
    return None


def _unfit(member: Member, evidence: Evidence, cluster: _Cluster) -> str:
    """Why a node cannot stand for its group, or nothing."""
    state = member.state
    if state.deleting or member.node.spec.unschedulable:
        return "it is being deleted" if state.deleting else "it is cordoned"
    if not state.is_stable(cluster.now):
        return state.reason or "it is not ready for long"
    missing = drivers.missing_on(
        member,
        evidence.expected,
        blind=not cluster.csinodes,
        policy=cluster.policy,
        now=cluster.now,
    )
    return f"it lacks {', '.join(missing)}" if missing else ""


def _from_unfit(
    group: Group,
    members: Sequence[Member],
    evidence: Evidence,
    cluster: _Cluster,
    problems: list[str],
) -> Template | None:
    """A node that is not fit to be a template, rather than none; those being deleted last."""
    member = min(members, key=lambda member: member.state.deleting, default=None)
    if member is None:
        return None
    problems.append(
        f"its template is copied from node {member.node.metadata.name} for want of a better one: "
        f"{_unfit(member, evidence, cluster)}"
    )
    return _copied(group, member, members, cluster)


def _copied(
    group: Group, member: Member, siblings: Sequence[Member], cluster: _Cluster
) -> Template:
    name = node_sanitiser.template_name(group.id)
    csinode = member.csinode
    host_keys: tuple[str, ...] = ()
    if csinode is not None and not cluster.policy.as_upstream:
        nodes = (sibling.node for sibling in siblings)
        host_keys = topology.host_keys(member.node, csinode.spec.drivers, nodes)
    pods = cluster.pods_by_node.get(member.node.metadata.name, ())
    return Template(
        group=group.id,
        node=node_sanitiser.node(member.node, name, host_keys=host_keys, policy=cluster.policy),
        csinode=node_sanitiser.csinode(csinode, name) if csinode is not None else None,
        daemon_pods=tuple(daemons.moved(pod, name) for pod in daemons.staying(pods)),
        source=LIVE,
        host_keys=host_keys,
    )


def _recalled(past: RememberedGroup | None) -> Template | None:
    if past is None:
        return None
    return msgspec.structs.replace(past.template, source=REMEMBERED)


def _declared(group: Group, policy: GroupPolicy, problems: list[str]) -> Template | None:
    """The template that the provider describes."""
    declared = group.provider_template
    if declared is None or not _has_resources(declared, problems):
        return None
    name = node_sanitiser.template_name(group.id)
    csinode = declared.csi_node
    host_keys: tuple[str, ...] = ()
    if csinode is not None and not policy.as_upstream:
        host_keys = topology.host_keys(declared.node, csinode.spec.drivers, ())
    node = node_sanitiser.node(declared.node, name, host_keys=host_keys, policy=policy)
    node = node_sanitiser.with_deprecated_labels(node)
    return Template(
        group=group.id,
        node=node if policy.as_upstream else node_sanitiser.with_room(node),
        csinode=node_sanitiser.csinode(csinode, name) if csinode is not None else None,
        source=PROVIDER,
        host_keys=host_keys,
    )


def _has_resources(declared: GroupTemplate, problems: list[str]) -> bool:
    status = declared.node.status
    if status.allocatable or status.capacity:
        return True
    problems.append("the provider template's node has neither status.allocatable nor .capacity")
    return False


def _with_daemons(template: Template, cluster: _Cluster) -> Template:
    """The template with a pod of every DaemonSet that would run on it."""
    policy = cluster.policy
    of_a_node = template.source in (LIVE, REMEMBERED)
    added = daemons.missing(
        template.node,
        template.daemon_pods,
        cluster.daemon_sets,
        critical_only=policy.as_upstream and of_a_node and not policy.force_ds,
    )
    if not added:
        return template
    return msgspec.structs.replace(template, daemon_pods=(*template.daemon_pods, *added))


def _warnings(cluster: _Cluster, made: Mapping[str, _Made]) -> Iterator[str]:
    for state in cluster.states.values():
        yield from state.problems
    policy = cluster.policy
    for name in policy.limits.groups:
        if name not in made:
            yield f"limits.groups: there is no node group {name}"
    expecting = any(
        one.template is not None and one.template.expected_drivers for one in made.values()
    )
    if cluster.nodes and not cluster.csinodes and expecting and not policy.as_upstream:
        yield (
            "no CSINode is known, though drivers are expected: whether nodes have registered "
            "them is not checked, except on nodes that have only just been created"
        )

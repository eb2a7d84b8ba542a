"""The template of each group: what its next node would be.

In this order: a stable live node of the group; the last good one it had; the provider's; a node
that is not ready, rather than nothing. Then, unless upstream is followed to the
letter, `template_completion` adds what is known of drivers, their limits and their labels.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from tonnage.groups import (
    daemons,
    drivers,
    limit_votes,
    limits,
    node_sanitiser,
    template_completion,
    topology,
)
from tonnage.groups import memory as memories
from tonnage.groups.drivers import DriverEvidence, Member, UsualDrivers
from tonnage.groups.inputs import Inputs
from tonnage.groups.limit_votes import Vote
from tonnage.groups.memory import RememberedGroup, TemplateMemory
from tonnage.groups.model import (
    CATALOGUE,
    LIVE,
    OVERRIDE,
    PROVIDER,
    REMEMBERED,
    UNKNOWN,
    Group,
    Limit,
    Template,
)
from tonnage.groups.policy import GroupPolicy
from tonnage.groups.template_completion import CompletionContext
from tonnage.objects import limit_keys
from tonnage.objects.meta import Record
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import GroupTemplate
from tonnage.objects.storage import CSINode


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


def build(inputs: Inputs, *, wanted: Iterable[str] = ()) -> Templates:
    """The templates of all groups.

    Only pods of nodes that become templates are looked at. `wanted` are the drivers that pending
    pods want, for which every template gets a limit; in-tree plugins among them have one where
    nodes are judged by keys of their resources.
    """
    names, snapshot, memory = set(wanted), inputs.cluster.snapshot, inputs.memory
    plugins = names & limit_keys.INTREE_KEYS.keys()
    surroundings = CompletionContext(
        lambda: _registered(inputs),
        tuple(sorted(names - plugins)),
        own_keys=snapshot.own_keys,
        lessons=memory.lessons,
        usual=UsualDrivers(inputs.everybody(), policy=inputs.policy, now=inputs.now),
    )
    made = {
        group.id: _make(group, inputs, surroundings, past=memory.groups.get(group.id))
        for group in inputs.groups
    }
    problems = {
        group.id: (*group.problems, *(f"group {group.id}: {p}" for p in made[group.id].problems))
        for group in inputs.groups
    }
    by_group = {name: one.template for name, one in made.items() if one.template is not None}
    if snapshot.reads_keys:
        by_group = {
            name: _enforced(
                template, plugins=plugins, own=snapshot.own_keys, read=snapshot.limits_on
            )
            for name, template in by_group.items()
        }
    return Templates(
        by_group=by_group,
        problems={name: found for name, found in problems.items() if found},
        warnings=tuple(_warnings(inputs, made)),
        memory=msgspec.structs.replace(
            memory,
            groups={
                name: one.remembered for name, one in made.items() if one.remembered is not None
            },
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
        Limit(driver=limit.driver, count=None, source=UNKNOWN) if limit.driver in names else limit
        for limit in template.limits
    )
    return msgspec.structs.replace(template, csinode=csinode, limits=found)


_ReadLimits: TypeAlias = Callable[[Node, CSINode | None], Mapping[str, int]]
"""The limits that hold on a node, by driver and by in-tree plugin."""


def _enforced(
    template: Template, *, plugins: Iterable[str], own: Mapping[str, str], read: _ReadLimits
) -> Template:
    """The template, saying of its limits what holds on its node; `plugins` are wanted too."""
    numbers = read(template.node, template.csinode)
    drivers = [limit.driver for limit in template.limits]
    told = limit_keys.published(template.node.status.allocatable, drivers, own)
    found = [
        msgspec.structs.replace(
            limit,
            count=numbers[limit.driver],
            source=template.source,
            key=told[limit.driver].key,
        )
        if limit.count is None and limit.driver in numbers and limit.driver in told
        else limit
        for limit in template.limits
    ]
    found += _of_plugins(template.node, plugins, numbers)
    return msgspec.structs.replace(template, limits=tuple(found))


def _of_plugins(node: Node, plugins: Iterable[str], numbers: Mapping[str, int]) -> Iterator[Limit]:
    """What the scheduler says of in-tree volumes: the operator by its environment, else a table."""
    kind = limits.instance_type(node)
    for plugin in sorted(plugins):
        if plugin in numbers:
            by_table = limit_keys.intree_default(plugin, kind, None) == numbers[plugin]
            source = CATALOGUE if by_table else OVERRIDE
            yield Limit(driver=plugin, count=numbers[plugin], source=source)


def _registered(inputs: Inputs) -> Iterator[limits.Registered]:
    """The ready nodes that have a CSINode."""
    for name, csinode in inputs.csinodes.items():
        if name in inputs.nodes and inputs.states[name].ready:
            group = inputs.group_of.get(name)
            yield limits.Registered(inputs.nodes[name], csinode, group.id if group else None)


class _Made(msgspec.Struct, frozen=True):
    """What a round makes of one group."""

    template: Template | None
    problems: tuple[str, ...]
    remembered: RememberedGroup | None


def _make(
    group: Group, inputs: Inputs, surroundings: CompletionContext, *, past: RememberedGroup | None
) -> _Made:
    policy = inputs.policy
    problems: list[str] = []
    members = inputs.members(group)
    past = _still_true(past, group, policy)
    evidence = _evidence(group, members, inputs, surroundings, past)
    live = _from_stable(group, members, evidence, inputs)
    chosen = (
        live
        or _recalled(past)
        or _declared(group, policy, problems)
        or _from_unfit(group, members, evidence, inputs, problems)
    )
    seen = {**evidence.seen, **drivers.by_name(live.csinode if live is not None else None)}
    shown = _votes(chosen, members, inputs, surroundings)
    told = (
        drivers.with_count(driver, shown[name].slots) if name in shown else driver
        for name, driver in seen.items()
    )
    remembered = memories.renewed(past, live, told, now=inputs.now)
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
    return _Made(_with_daemons(chosen, inputs), tuple(problems), remembered)


def _evidence(
    group: Group,
    members: Sequence[Member],
    inputs: Inputs,
    surroundings: CompletionContext,
    past: RememberedGroup | None,
) -> DriverEvidence:
    provider = group.provider_template.csi_node if group.provider_template is not None else None
    if inputs.policy.as_upstream or not inputs.policy.csi_aware:
        return DriverEvidence(frozenset(drivers.by_name(provider)), {}, conclusive=False)
    return drivers.evidence(
        members,
        provider=provider,
        remembered=past.drivers if past is not None else {},
        policy=inputs.policy,
        now=inputs.now,
        usual=lambda: (
            surroundings.usual.of(limits.instance_type(members[0].node))
            | daemons.registering(members[0].node, inputs.cluster.daemon_sets, surroundings.wanted)
        ),
    )


def _votes(
    chosen: Template | None,
    members: Sequence[Member],
    inputs: Inputs,
    surroundings: CompletionContext,
) -> Mapping[str, Vote]:
    """What nodes like the chosen one say of limits; upstream goes by the one it copies."""
    if inputs.policy.as_upstream or not inputs.policy.csi_aware:
        return {}
    kind = limits.instance_type(chosen.node) if chosen is not None else ""
    return limit_votes.of_group(
        members,
        kind=kind,
        wanted=surroundings.wanted,
        own_keys=surroundings.own_keys,
        now=inputs.now,
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
    group: Group, members: Sequence[Member], evidence: DriverEvidence, inputs: Inputs
) -> Template | None:
    """The group's first node that has been ready for a while and lacks no driver."""
    for member in members:
        if not _unfit(member, evidence, inputs):
            return _copied(group, member, members, inputs)
    return None


def _unfit(member: Member, evidence: DriverEvidence, inputs: Inputs) -> str:
    """Why a node cannot stand for its group, or nothing."""
    state = member.state
    if state.deleting or member.node.spec.unschedulable:
        return "it is being deleted" if state.deleting else "it is cordoned"
    if not state.is_stable(inputs.now):
        return state.reason or "it is not ready for long"
    missing = drivers.missing_on(
        member,
        evidence.expected,
        blind=not inputs.csinodes,
        policy=inputs.policy,
        now=inputs.now,
    )
    return f"it lacks {', '.join(missing)}" if missing else ""


def _from_unfit(
    group: Group,
    members: Sequence[Member],
    evidence: DriverEvidence,
    inputs: Inputs,
    problems: list[str],
) -> Template | None:
    """A node that is not fit to be a template, rather than none; those being deleted last."""
    member = min(members, key=lambda member: member.state.deleting, default=None)
    if member is None:
        return None
    problems.append(
        f"its template is copied from node {member.node.metadata.name} for want of a better one: "
        f"{_unfit(member, evidence, inputs)}"
    )
    return _copied(group, member, members, inputs)


def _copied(group: Group, member: Member, siblings: Sequence[Member], inputs: Inputs) -> Template:
    name = node_sanitiser.template_name(group.id)
    csinode = member.csinode
    host_keys: tuple[str, ...] = ()
    if csinode is not None and not inputs.policy.as_upstream:
        nodes = (sibling.node for sibling in siblings)
        host_keys = topology.host_keys(member.node, csinode.spec.drivers, nodes)
    pods = inputs.cluster.pods_by_node.get(member.node.metadata.name, ())
    return Template(
        group=group.id,
        node=node_sanitiser.node(member.node, name, host_keys=host_keys, policy=inputs.policy),
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


def _with_daemons(template: Template, inputs: Inputs) -> Template:
    """The template with a pod of every DaemonSet that would run on it."""
    policy = inputs.policy
    of_a_node = template.source in (LIVE, REMEMBERED)
    added = daemons.missing(
        template.node,
        template.daemon_pods,
        inputs.cluster.daemon_sets,
        critical_only=policy.as_upstream and of_a_node and not policy.force_ds,
    )
    if not added:
        return template
    return msgspec.structs.replace(template, daemon_pods=(*template.daemon_pods, *added))


def _warnings(inputs: Inputs, made: Mapping[str, _Made]) -> Iterator[str]:
    for state in inputs.states.values():
        yield from state.problems
    policy = inputs.policy
    for name in policy.limits.groups:
        if name not in made:
            yield f"limits.groups: there is no node group {name}"
    expecting = any(
        one.template is not None and one.template.expected_drivers for one in made.values()
    )
    if inputs.nodes and not inputs.csinodes and expecting and not policy.as_upstream:
        yield (
            "no CSINode is known, though drivers are expected: whether nodes have registered "
            "them is not checked, except on nodes that have only just been created"
        )

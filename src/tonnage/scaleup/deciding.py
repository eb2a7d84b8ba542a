"""From a cluster to a plan: find what the planner needs, decide.

Of a file the objects are sorted first (`decide`); a live caller hands in the snapshot that its
watch feeds, and knows itself what was asked for (`look`, then `decide_standing`).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from tonnage.filters.features import Features
from tonnage.filters.node_volume_limits import opted_in
from tonnage.groups import learned, nodegroups, readiness, slot_pools, storage_rooms, templates
from tonnage.groups.memory import TemplateMemory
from tonnage.groups.model import TEMPLATE_NODE_LABEL, Group, Template
from tonnage.groups.policy import GroupPolicy
from tonnage.groups.readiness import Readiness
from tonnage.groups.templates import Templates
from tonnage.objects import timestamps, volumes
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.scenarios import NodeGroup
from tonnage.objects.storage import CSIDriver, CSINode
from tonnage.objects.workloads import DaemonSet
from tonnage.scaleup import durations, planning, podgroups
from tonnage.scaleup.expanders import Expander
from tonnage.scaleup.options import Options
from tonnage.scaleup.plan import Plan
from tonnage.snapshot import limits, storage_ledger
from tonnage.snapshot.imagined import HOSTNAME
from tonnage.snapshot.snapshot import FINISHED, PodRecord, Snapshot

T = TypeVar("T")

OutsideExpanders: TypeAlias = Callable[
    [Mapping[str, Node], Callable[[str], Iterable[Pod]]], Mapping[str, Expander]
]
"""Makes expanders that ask somebody else, from template nodes and the pods of a group's option."""

_DELAY_ANNOTATION = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"


def decide(
    objects: Iterable[object],
    *,
    options: Options,
    features: Features,
    now: float,
    memory: TemplateMemory | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
    outside: OutsideExpanders | None = None,
) -> Plan:
    """What to buy for the pods that wait in a cluster of these objects.

    `now` is in seconds since 1970; it matters only to objects that carry a time.
    """
    return planning.plan(
        prepare(
            objects,
            options=options,
            features=features,
            now=now,
            memory=memory,
            out_of_time=out_of_time,
            outside=outside,
        )
    )


def prepare(
    objects: Iterable[object],
    *,
    options: Options,
    features: Features,
    now: float,
    memory: TemplateMemory | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
    outside: OutsideExpanders | None = None,
) -> planning.Request:
    """Everything the decision needs: the snapshot, pods that count, templates, readiness."""
    held = list(objects)
    features = as_decided(features, options)
    cluster = cluster_of(held, options, features)
    memory = _with_refusals(memory or TemplateMemory(), cluster, options, now)
    found = look(cluster, options=options, now=now, memory=memory, live=False)
    upcoming = {name: group.upcoming for name, group in found.readiness.groups.items()}
    return _request(
        found,
        options=options,
        features=features,
        skipped=_skipped(found.readiness),
        upcoming=_complete_coming_up(found, options, upcoming),
        out_of_time=out_of_time,
        outside=outside,
    )


def _with_refusals(
    memory: TemplateMemory, cluster: "Cluster", options: Options, now: float
) -> TemplateMemory:
    """The memory with what attaches that were refused teach; live nodes speak for themselves."""
    lessons = learned.renewed(
        memory.lessons,
        nodes=cluster.nodes,
        csinodes=(),
        attachments=cluster.snapshot.attachments.values(),
        policy=policy_of(options),
        now=now,
        max_age=math.inf,
    )
    return msgspec.structs.replace(memory, lessons=lessons)


class Cluster(NamedTuple):
    """A cluster for one decision: the snapshot, and objects that templates are made from.

    `pods_by_node` and `pod`, by namespace/name, are asked for few pods only. The snapshot holds
    no finished and no expendable pods; `as_counted` says what it is fed.
    """

    snapshot: Snapshot
    groups: Sequence[Group]
    nodes: Collection[Node]
    csinodes: Collection[CSINode]
    daemonsets: Iterable[DaemonSet]
    drivers: Iterable[CSIDriver]
    pods_by_node: Mapping[str, Iterable[Pod]]
    pod: Callable[[str], Pod]


class Look(NamedTuple):
    """What was found before anything is decided."""

    cluster: Cluster
    pending: Sequence[PodRecord]
    templates: Templates
    readiness: Readiness
    warnings: Sequence[str]
    wanted: frozenset[str] = frozenset()
    """Drivers of the pods' volumes, for which every template got a limit."""


def look(
    cluster: Cluster,
    *,
    options: Options,
    now: float,
    memory: TemplateMemory,
    live: bool = True,
    unplaced: Iterable[PodRecord] | None = None,
    known: Iterable[Look] = (),
) -> Look:
    """Which pods count, what the next node of each group would be, how the nodes are.

    `live` says that the objects come from an API server, not from a file. `unplaced` are the
    pods to decide on, for callers who know better than "all that have no node". `known` are looks
    since which nothing has changed but targets that templates and readiness come from: if one was
    for the same drivers, what it found stays as it is.
    """
    snapshot = cluster.snapshot
    unplaced = snapshot.pending_pods() if unplaced is None else unplaced
    counted = [
        record
        for record in sorted(unplaced, key=lambda record: record.order)
        if not record.pods.gates and not _too_young(record, options, now)
    ]
    waiting = [record for record in counted if _claims_may_bind(record, snapshot, options, now)]
    pending = [record for record in counted if record not in waiting] if waiting else counted
    wanted = frozenset(_wanted_drivers(snapshot, pending))
    policy = policy_of(options, live=live)
    same = next((one for one in known if one.wanted == wanted), None)
    if same is None:
        built, assessed = _surroundings(cluster, options, policy, now, memory, wanted)
    elif same.cluster.groups == cluster.groups:
        built, assessed = same.templates, same.readiness
    else:
        built = same.templates
        assessed = readiness.with_targets(same.readiness, cluster.groups, policy=policy)
    told = tuple(_about_waiting(waiting, options))
    return Look(cluster, pending, built, assessed, told, wanted)


def _surroundings(
    cluster: Cluster,
    options: Options,
    policy: GroupPolicy,
    now: float,
    memory: TemplateMemory,
    wanted: frozenset[str],
) -> tuple[Templates, Readiness]:
    built = templates.build(
        cluster.groups,
        nodes=cluster.nodes,
        csinodes=cluster.csinodes,
        pods_by_node=cluster.pods_by_node,
        daemonsets=cluster.daemonsets,
        memory=memory,
        policy=policy,
        now=now,
        wanted=wanted,
    )
    if not options.as_upstream:
        built = storage_rooms.furnish(
            built,
            groups=cluster.groups,
            nodes=cluster.nodes,
            storage=cluster.snapshot.storage,
            memory=memory,
        )
    assessed = readiness.assess(
        cluster.groups,
        built.by_group,
        nodes=cluster.nodes,
        csinodes=cluster.csinodes,
        policy=policy,
        now=now,
    )
    return built, assessed


def decide_standing(
    found: Look,
    *,
    options: Options,
    features: Features,
    skipped: Mapping[str, str],
    upcoming: Mapping[str, int],
    out_of_time: Callable[[], bool] = lambda: False,
    outside: OutsideExpanders | None = None,
) -> Plan:
    """What to buy, on a snapshot that goes on living: it is left as it was.

    `skipped` are groups not to be bought from, with the reason, `upcoming` the nodes of each group
    to count on beside those that are ready: what whoever made the requests knows of both.
    """
    snapshot = found.cluster.snapshot
    snapshot.fork()
    try:
        upcoming = _complete_coming_up(found, options, upcoming)
        return planning.plan(
            _request(
                found,
                options=options,
                features=as_decided(features, options),
                skipped=skipped,
                upcoming=upcoming,
                out_of_time=out_of_time,
                outside=outside,
            )
        )
    finally:
        snapshot.revert()


def as_decided(features: Features, options: Options) -> Features:
    """The features a decision goes by: a returning volume is counted right, unlike upstream."""
    if options.as_upstream:
        return features
    return msgspec.structs.replace(features, returning_volume_once=True)


def as_counted(pod: Pod, options: Options) -> Pod | None:
    """The pod as the snapshot is to hold it; `None` if it is finished or expendable.

    A pod that preemption has promised a node counts as being there, as upstream counts it.
    """
    expendable = (pod.spec.priority or 0) < options.expendable_pods_priority_cutoff
    if pod.status.phase in FINISHED or expendable:
        return None
    if pod.spec.node_name or not pod.status.nominated_node_name:
        return pod
    spec = msgspec.structs.replace(pod.spec, node_name=pod.status.nominated_node_name)
    return msgspec.structs.replace(pod, spec=spec)


def empty_snapshot(features: Features) -> Snapshot:
    """A snapshot to be fed, that reads limits as the features say."""
    legacy = features.legacy_attach_limits and features.attach_volume_limit
    return Snapshot(
        version=features.version,
        limit_reader=limits.from_csinode_and_allocatable if legacy else limits.from_csinode,
    )


def policy_of(options: Options, *, live: bool = False) -> GroupPolicy:
    """The part of the options that templates and readiness go by."""
    shared = set(GroupPolicy.__struct_fields__) & set(Options.__struct_fields__)
    return GroupPolicy(
        as_upstream=options.as_upstream,
        conditions_required=live,
        **{name: getattr(options, name) for name in shared},
    )


def cluster_of(objects: Sequence[object], options: Options, features: Features) -> Cluster:
    """The objects of a file, sorted."""
    snapshot = empty_snapshot(features)
    nodes = list(_of(objects, Node))
    for one in objects:
        if not isinstance(one, Pod):
            snapshot.apply("ADDED", one)
    by_key: dict[str, Pod] = {}
    pods_by_node: dict[str, list[Pod]] = defaultdict(list)
    for pod in _of(objects, Pod):
        if pod.status.phase in FINISHED:
            continue
        by_key[f"{pod.metadata.namespace}/{pod.metadata.name}"] = pod
        node = pod.spec.node_name or pod.status.nominated_node_name
        if node:
            pods_by_node[node].append(pod)
        counted = as_counted(pod, options)
        if counted is not None:
            snapshot.apply("ADDED", counted)
    return Cluster(
        snapshot=snapshot,
        groups=nodegroups.from_objects(_of(objects, NodeGroup), nodes),
        nodes=nodes,
        csinodes=list(_of(objects, CSINode)),
        daemonsets=list(_of(objects, DaemonSet)),
        drivers=list(_of(objects, CSIDriver)),
        pods_by_node=pods_by_node,
        pod=by_key.__getitem__,
    )


def _request(
    found: Look,
    *,
    options: Options,
    features: Features,
    skipped: Mapping[str, str],
    upcoming: Mapping[str, int],
    out_of_time: Callable[[], bool],
    outside: OutsideExpanders | None,
) -> planning.Request:
    cluster = found.cluster
    return planning.Request(
        snapshot=cluster.snapshot,
        pending=podgroups.group(
            cluster.snapshot,
            found.pending,
            ledger=() if options.as_upstream else storage_ledger.tracked(cluster.snapshot.storage),
        ),
        groups=cluster.groups,
        templates=found.templates.by_group,
        skipped=skipped,
        upcoming=upcoming,
        coming_up={
            node: name
            for name, group in found.readiness.groups.items()
            for node in group.coming_up_nodes
        },
        options=options,
        features=features,
        warnings=(*_warnings(found, options, features), *found.warnings),
        out_of_time=out_of_time,
        outside=_outside(outside, found),
    )


def _outside(make: OutsideExpanders | None, found: Look) -> planning.OutsideExpanders:
    if make is None:
        return lambda _: {}
    nodes = {name: template.node for name, template in found.templates.by_group.items()}
    return lambda option: make(nodes, lambda name: [found.cluster.pod(p.key) for p in option(name)])


def _of(objects: Iterable[object], kind: type[T]) -> Iterator[T]:
    return (one for one in objects if isinstance(one, kind))


def _too_young(record: PodRecord, options: Options, now: float) -> bool:
    """Whether the pod is to be left to the scheduler for a while yet."""
    created = record.meta.creation_timestamp
    if created is None:
        return False
    delay = options.new_pod_scale_up_delay
    asked = durations.seconds(record.meta.annotations.get(_DELAY_ANNOTATION, ""))
    if asked is not None and asked >= delay:
        delay = asked
    try:
        return now - timestamps.parse(created) < delay
    except timestamps.TimestampError:
        return False


def _claims_may_bind(record: PodRecord, snapshot: Snapshot, options: Options, now: float) -> bool:
    """Whether a claim that is bound at once is so young that it may yet be."""
    if options.as_upstream:
        return False
    for volume in record.volumes:
        claim = snapshot.storage.claim(record.meta.namespace, volume.claim)
        if claim is None or claim.fully_bound or claim.metadata.creation_timestamp is None:
            continue
        storage_class = snapshot.storage.storage_class(claim.class_name)
        if storage_class is not None and storage_class.volume_binding_mode != "Immediate":
            continue
        try:
            age = now - timestamps.parse(claim.metadata.creation_timestamp)
        except timestamps.TimestampError:
            continue
        if age < options.claim_bind_wait:
            return True
    return False


def _about_waiting(waiting: list[PodRecord], options: Options) -> Iterator[str]:
    if waiting:
        names = ", ".join(record.key for record in waiting[:3])
        more = f" and {len(waiting) - 3} more" if len(waiting) > 3 else ""
        yield (
            f"{names}{more}: not counted while claims that are bound at once are younger than"
            f" {options.claim_bind_wait:g} s"
        )


def _wanted_drivers(snapshot: Snapshot, pending: Iterable[PodRecord]) -> set[str]:
    drivers: set[str] = set()
    for record in pending:
        if record.volumes:
            found = volumes.slots(record.meta, record.volumes, snapshot.storage, placed=True)
            drivers.update(use.driver for use in (*found.uses, *found.migrated))
    return drivers


def _complete_coming_up(
    found: Look, options: Options, upcoming: Mapping[str, int]
) -> dict[str, int]:
    """Take nodes that are coming up for what they will be; gives the nodes still to be imagined.

    Upstream leaves such a node as it is, with what it has so far.
    """
    left = dict(upcoming)
    if options.as_upstream:
        return left
    snapshot = found.cluster.snapshot
    for name, group in found.readiness.groups.items():
        template = found.templates.by_group.get(name)
        for node_name in group.coming_up_nodes if template is not None else ():
            record = snapshot.nodes.get(node_name)
            if record is None or template is None:
                continue
            node, csinode = completed(record.node, template)
            snapshot.put_node(node)
            if csinode is not None:
                snapshot.put_csinode(csinode)
            left[name] = max(left.get(name, 0) - 1, 0)
    return left


def completed(node: Node, template: Template) -> tuple[Node, CSINode | None]:
    """A node as it will be once it is up: what it lacks so far is its template's."""
    name = node.metadata.name
    own_names = (HOSTNAME, *template.host_keys)
    promised = {
        key: name if key in own_names else value
        for key, value in template.node.metadata.labels.items()
        if key != TEMPLATE_NODE_LABEL
    }
    csinode = template.csinode
    if csinode is not None:
        metadata = msgspec.structs.replace(csinode.metadata, name=name)
        csinode = msgspec.structs.replace(csinode, metadata=metadata)
    status = msgspec.structs.replace(
        node.status,
        capacity={**template.node.status.capacity, **node.status.capacity},
        allocatable={**template.node.status.allocatable, **node.status.allocatable},
        declared_features=node.status.declared_features or template.node.status.declared_features,
    )
    labels = {**promised, **node.metadata.labels}
    return (
        msgspec.structs.replace(
            node,
            metadata=msgspec.structs.replace(node.metadata, labels=labels),
            spec=msgspec.structs.replace(
                node.spec, taints=template.node.spec.taints, unschedulable=False
            ),
            status=status,
        ),
        csinode,
    )


def _skipped(assessed: Readiness) -> dict[str, str]:
    if not assessed.healthy:
        return dict.fromkeys(assessed.groups, assessed.reason)
    return {name: one.skip_reason for name, one in assessed.groups.items() if not one.healthy}


def _warnings(found: Look, options: Options, features: Features) -> Iterator[str]:
    yield from found.templates.warnings
    for problems in found.templates.problems.values():
        yield from problems
    if not options.as_upstream:
        yield from slot_pools.problems(found.cluster.nodes)
    if not found.readiness.healthy:
        yield f"nothing is bought: {found.readiness.reason}"
    if not options.csi_aware and features.volume_limit_scaling:
        drivers = sorted(
            driver.metadata.name for driver in found.cluster.drivers if opted_in(driver, features)
        )
        if drivers:
            yield (
                f"csiAware is off while {', '.join(drivers)} asks for"
                " preventPodSchedulingIfMissing: no group can help a pod with its volumes;"
                " switch csiAware on, or drop the opt-in first"
            )

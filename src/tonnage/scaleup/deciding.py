"""From a cluster's objects to a plan: sort the objects, build what the planner needs, decide."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias, TypeVar

import msgspec

from tonnage.filters.features import Features
from tonnage.filters.node_volume_limits import opted_in
from tonnage.groups import nodegroups, readiness, templates
from tonnage.groups.memory import TemplateMemory
from tonnage.groups.policy import GroupPolicy
from tonnage.groups.readiness import Readiness
from tonnage.groups.templates import Templates
from tonnage.objects import timestamps, volumes
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.scenarios import NodeGroup
from tonnage.objects.storage import CSIDriver, CSINode
from tonnage.objects.workloads import DaemonSet
from tonnage.scaleup import planning, podgroups
from tonnage.scaleup.expanders import Expander
from tonnage.scaleup.options import Options
from tonnage.scaleup.plan import Plan
from tonnage.snapshot import limits
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
    nodes = list(_of(held, Node))
    csinodes = list(_of(held, CSINode))
    pods = [_settled(pod) for pod in _of(held, Pod) if pod.status.phase not in FINISHED]
    policy = policy_of(options)
    groups = nodegroups.from_objects(_of(held, NodeGroup), nodes)
    if not options.as_upstream:
        features = msgspec.structs.replace(features, returning_volume_once=True)
    snapshot = _snapshot(held, pods, options, features)
    counted = [
        record
        for record in sorted(snapshot.pending_pods(), key=lambda record: record.order)
        if not record.pods.gates and not _too_young(record, options, now)
    ]
    waiting = [record for record in counted if _claims_may_bind(record, snapshot, options, now)]
    pending = [record for record in counted if record not in waiting] if waiting else counted
    pods_by_node: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.spec.node_name:
            pods_by_node[pod.spec.node_name].append(pod)
    built = templates.build(
        groups,
        nodes=nodes,
        csinodes=csinodes,
        pods_by_node=pods_by_node,
        daemonsets=_of(held, DaemonSet),
        memory=memory or TemplateMemory(),
        policy=policy,
        now=now,
        wanted=_wanted_drivers(snapshot, pending),
    )
    assessed = readiness.assess(
        groups, built.by_group, nodes=nodes, csinodes=csinodes, policy=policy, now=now
    )
    _replace_coming_up(snapshot, assessed, built)
    return planning.Request(
        snapshot=snapshot,
        pending=podgroups.group(snapshot, pending),
        groups=groups,
        templates=built.by_group,
        skipped=_skipped(assessed),
        upcoming={name: group.upcoming for name, group in assessed.groups.items()},
        options=options,
        features=features,
        warnings=(
            *_warnings(held, built, assessed, options, features),
            *_about_waiting(waiting, options),
        ),
        out_of_time=out_of_time,
        outside=_outside(outside, built, pods),
    )


def _outside(
    make: OutsideExpanders | None, built: Templates, pods: Iterable[Pod]
) -> planning.OutsideExpanders:
    if make is None:
        return lambda _: {}
    nodes = {name: template.node for name, template in built.by_group.items()}
    by_key = {f"{pod.metadata.namespace}/{pod.metadata.name}": pod for pod in pods}
    return lambda option: make(nodes, lambda name: [by_key[pod.key] for pod in option(name)])


def _of(objects: Iterable[object], kind: type[T]) -> Iterator[T]:
    return (one for one in objects if isinstance(one, kind))


def _settled(pod: Pod) -> Pod:
    """A pod that preemption has promised a node counts as being there, as upstream counts it."""
    if pod.spec.node_name or not pod.status.nominated_node_name:
        return pod
    spec = msgspec.structs.replace(pod.spec, node_name=pod.status.nominated_node_name)
    return msgspec.structs.replace(pod, spec=spec)


def policy_of(options: Options) -> GroupPolicy:
    """The part of the options that templates and readiness go by."""
    shared = set(GroupPolicy.__struct_fields__) & set(Options.__struct_fields__)
    return GroupPolicy(
        as_upstream=options.as_upstream, **{name: getattr(options, name) for name in shared}
    )


def _snapshot(
    objects: list[object], pods: list[Pod], options: Options, features: Features
) -> Snapshot:
    """The cluster without finished and expendable pods."""
    legacy = features.legacy_attach_limits and features.attach_volume_limit
    snapshot = Snapshot(
        version=features.version,
        limit_reader=limits.from_csinode_and_allocatable if legacy else limits.from_csinode,
    )
    for one in objects:
        if not isinstance(one, Pod):
            snapshot.apply("ADDED", one)
    for pod in pods:
        if (pod.spec.priority or 0) >= options.expendable_pods_priority_cutoff:
            snapshot.apply("ADDED", pod)
    return snapshot


def _too_young(record: PodRecord, options: Options, now: float) -> bool:
    """Whether the pod is to be left to the scheduler for a while yet."""
    created = record.meta.creation_timestamp
    if created is None:
        return False
    delay = options.new_pod_scale_up_delay
    asked = _seconds(record.meta.annotations.get(_DELAY_ANNOTATION, ""))
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


def _seconds(text: str) -> float | None:
    """A Go duration of whole or decimal units, such as 90s or 1m30s."""
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    total, number, rest = 0.0, "", text
    while rest:
        unit = next((one for one in units if rest.startswith(one) and number), None)
        if unit is not None:
            total += float(number) * units[unit]
            number, rest = "", rest[len(unit) :]
        elif rest[0].isdigit() or (rest[0] == "." and "." not in number):
            number, rest = number + rest[0], rest[1:]
        else:
            return None
    return total if text and not number else None


def _wanted_drivers(snapshot: Snapshot, pending: Iterable[PodRecord]) -> set[str]:
    drivers: set[str] = set()
    for record in pending:
        if record.volumes:
            found = volumes.slots(record.meta, record.volumes, snapshot.storage, placed=True)
            drivers.update(use.driver for use in (*found.uses, *found.migrated))
    return drivers


def _replace_coming_up(snapshot: Snapshot, assessed: Readiness, built: Templates) -> None:
    """A node that is coming up is counted by its template, not by what it has so far."""
    for name, group in assessed.groups.items():
        if name in built.by_group:
            for node in group.coming_up_nodes:
                snapshot.drop_node(node)


def _skipped(assessed: Readiness) -> dict[str, str]:
    if not assessed.healthy:
        return dict.fromkeys(assessed.groups, assessed.reason)
    return {name: one.skip_reason for name, one in assessed.groups.items() if not one.healthy}


def _warnings(
    objects: list[object],
    built: Templates,
    assessed: Readiness,
    options: Options,
    features: Features,
) -> Iterator[str]:
    yield from built.warnings
    for found in built.problems.values():
        yield from found
    if not assessed.healthy:
        yield f"nothing is bought: {assessed.reason}"
    if not options.csi_aware and features.volume_limit_scaling:
        drivers = sorted(
            driver.metadata.name for driver in _of(objects, CSIDriver) if opted_in(driver, features)
        )
        if drivers:
            yield (
                f"csiAware is off while {', '.join(drivers)} asks for"
                " preventPodSchedulingIfMissing: no group can help a pod with its volumes;"
                " switch csiAware on, or drop the opt-in first"
            )

"""From a cluster to a plan: find what the planner needs, decide.

Of a file the objects are sorted first (`decide`); a live caller hands in the snapshot that its
watch feeds, and knows itself what was asked for (`looking.look`, then `decide_standing`).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from tonnage.groups import limit_lessons, slot_pools
from tonnage.groups.memory import TemplateMemory
from tonnage.groups.readiness import Readiness
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.rules import opt_in
from tonnage.rules.features import Features
from tonnage.scaleup import gathering, looking, planning, podgroups, underway
from tonnage.scaleup.costly_pods import OwnTime
from tonnage.scaleup.expanders import Expander
from tonnage.scaleup.gathering import Cluster
from tonnage.scaleup.looking import Look
from tonnage.scaleup.options import Options, policy_of
from tonnage.scaleup.plan import Plan
from tonnage.scaleup.request import AskingOutside, Request
from tonnage.snapshot import storage_ledger

OutsideExpanders: TypeAlias = Callable[
    [Mapping[str, Node], Callable[[str], Iterable[Pod]]], Mapping[str, Expander]
]
"""Makes expanders that ask somebody else, from template nodes and the pods of a group's option."""


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
) -> Request:
    """Everything the decision needs: the snapshot, pods that count, templates, readiness."""
    held = list(objects)
    features = opt_in.settled(features, options.enforcement, seen=opt_in.seen_in(held))
    features = as_decided(features, options)
    cluster = gathering.cluster_of(held, options, features)
    memory = _with_refusals(memory or TemplateMemory(), cluster, options, now)
    found = looking.look(cluster, options=options, now=now, memory=memory, live=False)
    upcoming = {name: group.upcoming for name, group in found.readiness.groups.items()}
    return _request(
        found,
        options=options,
        features=features,
        skipped=_skipped(found.readiness),
        upcoming=upcoming,
        out_of_time=out_of_time,
        outside=outside,
    )


def _with_refusals(
    memory: TemplateMemory, cluster: Cluster, options: Options, now: float
) -> TemplateMemory:
    """The memory with what attaches that were refused teach; live nodes speak for themselves."""
    lessons = limit_lessons.renewed(
        memory.lessons,
        nodes=cluster.nodes,
        csinodes=(),
        attachments=cluster.snapshot.attachments.values(),
        policy=policy_of(options),
        now=now,
        max_age=math.inf,
    )
    return msgspec.structs.replace(memory, lessons=lessons)


def decide_standing(
    found: Look,
    *,
    options: Options,
    features: Features,
    skipped: Mapping[str, str],
    upcoming: Mapping[str, int],
    out_of_time: Callable[[], bool] = lambda: False,
    own_time: OwnTime | None = None,
    outside: OutsideExpanders | None = None,
) -> Plan:
    """What to buy, on a snapshot that goes on living: it is left as it was.

    `skipped` are groups not to be bought from, with the reason, `upcoming` the nodes of each group
    to count on beside those that are ready: what whoever made the requests knows of both.
    """
    snapshot = found.cluster.snapshot
    with snapshot.trial():
        return planning.plan(
            _request(
                found,
                options=options,
                features=as_decided(features, options),
                skipped=skipped,
                upcoming=upcoming,
                out_of_time=out_of_time,
                own_time=own_time,
                outside=outside,
            )
        )


def as_decided(features: Features, options: Options) -> Features:
    """The features a decision goes by: a returning volume is counted right, unlike upstream."""
    if options.as_upstream:
        return features
    return msgspec.structs.replace(features, returning_volume_once=True)


def _request(
    found: Look,
    *,
    options: Options,
    features: Features,
    skipped: Mapping[str, str],
    upcoming: Mapping[str, int],
    out_of_time: Callable[[], bool],
    outside: OutsideExpanders | None,
    own_time: OwnTime | None = None,
) -> Request:
    """The question for the planner; from here on what is under way is there in the snapshot."""
    cluster = found.cluster
    if not options.as_upstream:
        upcoming = underway.complete_coming_up(
            cluster.snapshot, found.readiness, found.templates.by_group, upcoming
        )
    underway.keep_promises(cluster.snapshot, found.promised)
    return Request(
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
        }
        | dict(found.not_published_yet),
        promised=found.promised,
        options=options,
        features=features,
        warnings=(*_warnings(found, options, features), *found.warnings),
        out_of_time=out_of_time,
        own_time=own_time or OwnTime(),
        outside=_outside(outside, found),
    )


def _outside(make: OutsideExpanders | None, found: Look) -> AskingOutside:
    if make is None:
        return lambda _: {}
    nodes = {name: template.node for name, template in found.templates.by_group.items()}
    pod = found.cluster.pod
    # While somebody else is asked pods go on coming and going.
    return lambda option: make(
        nodes, lambda name: [there for one in option(name) if (there := pod(one.key)) is not None]
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
    for outage in found.readiness.outages:
        yield from outage.warnings()
    if not found.readiness.healthy:
        yield f"nothing is bought: {found.readiness.reason}"
    yield from _devices(found)
    if not options.csi_aware:
        drivers = sorted(
            driver.metadata.name
            for driver in found.cluster.drivers
            if opt_in.opted_in(driver, features)
        )
        if drivers:
            yield (
                f"csiAware is off while {', '.join(drivers)} asks for"
                " preventPodSchedulingIfMissing: no group can help a pod with its volumes;"
                " switch csiAware on, or drop the opt-in first"
            )


def _devices(found: Look) -> Iterator[str]:
    pods = [record.key for record in found.pending if record.pod_class.wants_devices]
    if pods:
        others = f" and {len(pods) - 1:,} more" if len(pods) > 1 else ""
        yield (
            f"Pod {pods[0]}{others}: resource claims (DynamicResources) are not modelled: the node"
            " that is thought to fit may still be refused"
        )

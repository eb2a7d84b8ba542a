"""From inputs to a decision: assess the cluster, plan, and leave the snapshot as it was."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from tonnage.groups import slot_pools
from tonnage.groups.inputs import Inputs
from tonnage.groups.options import Options
from tonnage.groups.readiness import Readiness
from tonnage.groups.templates import Templates
from tonnage.objects.nodes import Node
from tonnage.objects.phrases import listed
from tonnage.objects.pods import Pod
from tonnage.rules import opt_in
from tonnage.rules.features import Features
from tonnage.scaleup import (
    assessment,
    freed_room,
    gang_plan,
    headroom,
    pod_groups,
    requested_room,
    underway,
)
from tonnage.scaleup.assessment import Assessment
from tonnage.scaleup.costly_pods import OwnTime
from tonnage.scaleup.expanders import Expander
from tonnage.scaleup.plan import Plan
from tonnage.scaleup.request import AskingOutside, Request
from tonnage.snapshot import storage_ledger

OutsideExpanders: TypeAlias = Callable[
    [Mapping[str, Node], Callable[[str], Iterable[Pod]]], Mapping[str, Expander]
]
"""Makes expanders that ask somebody else, from template nodes and the pods of a group's option."""


class Decision(msgspec.Struct, frozen=True):
    """What to buy, and what that was decided from."""

    plan: Plan
    templates: Templates
    readiness: Readiness
    inputs: Inputs


def decide(
    inputs: Inputs,
    *,
    out_of_time: Callable[[], bool] = lambda: False,
    own_time: OwnTime | None = None,
    outside: OutsideExpanders | None = None,
) -> Decision:
    """What to buy for the pods that wait."""
    return decide_on(
        assessment.assess(inputs), out_of_time=out_of_time, own_time=own_time, outside=outside
    )


def decide_on(
    assessed: Assessment,
    *,
    out_of_time: Callable[[], bool] = lambda: False,
    own_time: OwnTime | None = None,
    outside: OutsideExpanders | None = None,
) -> Decision:
    """The same for who has assessed the cluster already."""
    with assessed.inputs.cluster.snapshot.trial():
        asked = request(assessed, out_of_time=out_of_time, own_time=own_time, outside=outside)
        kept = headroom.chunks(assessed.inputs, assessed.templates.by_group)
        if kept.groups:
            features = headroom.features_for(asked.features)
            asked = msgspec.structs.replace(asked, headroom=kept.groups, features=features)
        plan = headroom.told(requested_room.plan(asked, assessed), kept)
    plan = requested_room.with_consumers(plan, assessed)
    return Decision(plan, assessed.templates, assessed.readiness, _with_work(assessed.inputs, plan))


def _with_work(inputs: Inputs, plan: Plan) -> Inputs:
    """The inputs with what the solver did: time is short by chance, and work is not."""
    done = plan.optimisation
    if done is msgspec.UNSET:
        return inputs
    return msgspec.structs.replace(inputs, solver_work=done.work)


def as_decided(features: Features, options: Options) -> Features:
    """The features a decision goes by: a returning volume is counted right, unlike upstream."""
    if options.as_upstream:
        return features
    return msgspec.structs.replace(features, returning_volume_once=True)


def request(
    assessed: Assessment,
    *,
    out_of_time: Callable[[], bool] = lambda: False,
    own_time: OwnTime | None = None,
    outside: OutsideExpanders | None = None,
) -> Request:
    """The question for the planner; from here on what is under way is there in the snapshot."""
    inputs, states = assessed.inputs, assessed.readiness.groups
    snapshot, options = inputs.cluster.snapshot, inputs.options
    upcoming: Mapping[str, int] = (
        {name: group.upcoming for name, group in states.items()}
        if inputs.upcoming is None
        else inputs.upcoming
    )
    if not options.as_upstream:
        upcoming = underway.complete_coming_up(
            snapshot, assessed.readiness, assessed.templates.by_group, upcoming
        )
    assessed.reservations.place(snapshot)
    features = as_decided(inputs.features, options)
    pending = pod_groups.group(
        snapshot,
        assessed.pending,
        ledger=() if options.as_upstream else storage_ledger.tracked(snapshot.storage),
        parts=gang_plan.parts(assessed.gangs),
    )
    pending, gangs = gang_plan.taken_out(pending, assessed.gangs)
    return Request(
        snapshot=snapshot,
        pending=pending,
        gangs=gangs,
        freed_room=freed_room.find(inputs),
        groups=inputs.groups,
        templates=assessed.templates.by_group,
        skipped=skipped_groups(assessed.readiness) if inputs.skipped is None else inputs.skipped,
        upcoming=upcoming,
        coming_up={node: name for name, group in states.items() for node in group.coming_up_nodes}
        | dict(assessed.not_published_yet),
        purchases=inputs.purchases,
        options=options,
        features=features,
        reservations=assessed.reservations,
        warnings=(*_warnings(assessed, features), *assessed.warnings),
        out_of_time=out_of_time,
        own_time=own_time or OwnTime(),
        solver_work=inputs.solver_work,
        outside=_outside(outside, assessed),
    )


def _outside(make: OutsideExpanders | None, assessed: Assessment) -> AskingOutside:
    if make is None:
        return lambda _: {}
    nodes = {name: template.node for name, template in assessed.templates.by_group.items()}
    pod = assessed.inputs.cluster.pod
    # While somebody else is asked pods go on coming and going.
    return lambda option: make(
        nodes, lambda name: [there for one in option(name) if (there := pod(one.key)) is not None]
    )


def skipped_groups(assessed: Readiness) -> dict[str, str]:
    if not assessed.healthy:
        return dict.fromkeys(assessed.groups, assessed.reason)
    return {name: one.skip_reason for name, one in assessed.groups.items() if not one.healthy}


def _warnings(assessed: Assessment, features: Features) -> Iterator[str]:
    inputs = assessed.inputs
    yield from assessed.templates.warnings
    for problems in assessed.templates.problems.values():
        yield from problems
    if not inputs.options.as_upstream:
        yield from slot_pools.problems(inputs.cluster.nodes)
    yield from inputs.room_problems
    for outage in assessed.readiness.outages:
        yield from outage.warnings()
    if not assessed.readiness.healthy:
        yield f"nothing is bought: {assessed.readiness.reason}"
    yield from _devices(assessed)
    if not inputs.options.csi_aware:
        drivers = sorted(
            driver.metadata.name
            for driver in inputs.cluster.drivers
            if opt_in.opted_in(driver, features)
        )
        if drivers:
            yield (
                f"csiAware is off while {', '.join(drivers)} asks for"
                " preventPodSchedulingIfMissing: no group can help a pod with its volumes;"
                " switch csiAware on, or drop the opt-in first"
            )


def _devices(assessed: Assessment) -> Iterator[str]:
    pods = [record.key for record in assessed.pending if record.pod_class.wants_devices]
    if pods:
        yield (
            f"Pod {listed(pods, most=1)}: resource claims (DynamicResources) are not modelled: the"
            " node that is thought to fit may still be refused"
        )

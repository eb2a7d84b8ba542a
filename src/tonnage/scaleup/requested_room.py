"""Room that is requested before its pods exist, in a decision: a gang of pods only thought of.

Room that is booked goes before everybody, room that is asked for after all pods that wait. Where no
node may be bought for it, it is first planned with groups that do not grow: if it has a place then,
it takes part in the plan like what is booked.

Nothing is promised on a node that was up and is not: pods wait for such a node for a while, and so
does a request that would need fewer new nodes with it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from tonnage.groups.headroom import REQUEST, KeptRoom, is_chunk, of_chunk
from tonnage.groups.inputs import Inputs
from tonnage.groups.provisioning_requests import RequestedRoom
from tonnage.objects import provisioning_requests
from tonnage.objects.gangs import PROVISIONING_GROUP, GangName
from tonnage.rules.sure_nodes import AVOIDED_ANNOTATION, SURE_NODES
from tonnage.scaleup import expanders, gang_plan, headroom, planner, pod_groups
from tonnage.scaleup.assessment import Assessment
from tonnage.scaleup.gangs import Gang
from tonnage.scaleup.plan import (
    ChunksOnNode,
    GangOutcome,
    GroupReason,
    NotHelped,
    Plan,
)
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.scaleup.request import GangRequest, Request
from tonnage.snapshot import storage_ledger
from tonnage.snapshot.snapshot import PodRecord

_BOOKED, _ASKED = -1, 2
"""Ranks: before all pods that wait, and after them."""

NO_ROOM = "there is no room for all of its pods on nodes that are there or coming"
NOT_BACK = "there would be room on nodes that are not ready and may come back"


def plan(request: Request, assessed: Assessment) -> Plan:
    """The plan for pods that wait and for room that is requested."""
    inputs = assessed.inputs
    if not inputs.requested:
        return _chosen(request)
    # Room that is only being freed cannot be promised.
    request = msgspec.structs.replace(request, freed_room=None)
    hopeful, in_doubt = request, frozenset[str]()
    if not all(room.booked for room in inputs.requested):
        states = assessed.readiness.nodes
        in_doubt = frozenset(name for name, one in states.items() if one.in_doubt)
    if in_doubt:
        request = _beside(request, in_doubt)
    refused: list[tuple[Gang, str]] = []
    for room in inputs.requested:
        sure = bool(in_doubt) and not room.booked
        asked = _gang_request(request, inputs, room, in_doubt if sure else ())
        gangs = [*request.gangs, asked]
        found = msgspec.structs.replace(request, gangs=gangs)
        if not room.may_buy and _nodes_for(_still(found), asked) is None:
            refused.append((asked.gang, NO_ROOM))
        elif (
            room.may_buy
            and sure
            and _is_fewer(
                _nodes_for(msgspec.structs.replace(hopeful, gangs=gangs), asked),
                _nodes_for(found, asked),
            )
        ):
            refused.append((asked.gang, NOT_BACK))
        else:
            request = found
    return _told(_chosen(request), refused)


def _chosen(request: Request) -> Plan:
    """As the expander says: group by group, or over all groups together."""
    if expanders.LEAST_COST not in expanders.names(request.options.expander):
        return planner.plan(request)
    # The solver is loaded for those who want it.
    from tonnage.scaleup import joint_choice

    return joint_choice.plan(request)


def title(room: RequestedRoom) -> str:
    """By what the plan calls it among its gangs."""
    return str(_name(room))


def booked(inputs: Inputs, plan: Plan | None) -> Inputs:
    """The inputs with the room alone that is booked, or for which the plan has found a place."""
    found = {one.gang for one in plan.gang_outcomes if one.helped} if plan is not None else set()
    rooms = tuple(
        msgspec.structs.replace(room, booked=True)
        for room in inputs.requested
        if room.booked or title(room) in found
    )
    return msgspec.structs.replace(inputs, requested=rooms)


def booked_pods(inputs: Inputs) -> list[PodGroup]:
    """The pods that room is booked for; their claims are in the snapshot from here on."""
    snapshot = inputs.cluster.snapshot
    return [
        group
        for room in inputs.requested
        if room.booked
        for group in pod_groups.group(snapshot, headroom.pods_of_request(snapshot, room))
    ]


def with_consumers(plan: Plan, assessed: Assessment) -> Plan:
    """The plan with the pods left out that take room of a request: a node is bought for none."""
    if not assessed.consumers:
        return plan
    left_out = [
        NotHelped(
            pod=record.key,
            reasons=tuple(
                GroupReason(group=group.id, reasons=(_takes_room(record),))
                for group in assessed.inputs.groups
            ),
        )
        for record in assessed.consumers
    ]
    return msgspec.structs.replace(plan, not_helped=(*plan.not_helped, *left_out))


def _takes_room(record: PodRecord) -> str:
    name = provisioning_requests.consumed_by(record.meta)
    return f"it takes room of ProvisioningRequest {record.meta.namespace}/{name}"


def _name(room: RequestedRoom) -> GangName:
    return GangName(PROVISIONING_GROUP, room.namespace, room.name)


def _beside(request: Request, in_doubt: frozenset[str]) -> Request:
    """The same with the rule for what is promised; nor are these nodes taken for new ones."""
    features = request.features
    more = (*features.more_rules, SURE_NODES)
    coming = {name: group for name, group in request.coming_up.items() if name not in in_doubt}
    return msgspec.structs.replace(
        request, features=msgspec.structs.replace(features, more_rules=more), coming_up=coming
    )


def _gang_request(
    request: Request, inputs: Inputs, room: RequestedRoom, avoided: Iterable[str]
) -> GangRequest:
    snapshot = request.snapshot
    names = " ".join(sorted(avoided))
    if names:
        sets = tuple(_kept_off(one, names) for one in room.sets)
        room = msgspec.structs.replace(room, sets=sets)
    records = headroom.pods_of_request(snapshot, room)
    tracked = () if inputs.options.as_upstream else storage_ledger.tracked(snapshot.storage)
    rank = _BOOKED if room.booked else _ASKED
    groups = [
        one.part(slice(None), rank=rank)
        for one in pod_groups.group(snapshot, records, ledger=tracked)
    ]
    gang = Gang(_name(room), len(records), 0, tuple(records))
    return GangRequest(gang, groups, gang_plan.shape_of(groups))


def _kept_off(one: KeptRoom, names: str) -> KeptRoom:
    meta = one.template.metadata
    annotations = {**meta.annotations, AVOIDED_ANNOTATION: names}
    meta = msgspec.structs.replace(meta, annotations=annotations)
    template = msgspec.structs.replace(one.template, metadata=meta)
    return msgspec.structs.replace(one, template=template)


def _still(request: Request) -> Request:
    """The same with groups that do not grow."""
    still = [msgspec.structs.replace(one, max_size=one.target) for one in request.groups]
    return msgspec.structs.replace(request, groups=still)


def _nodes_for(request: Request, asked: GangRequest) -> int | None:
    """How many nodes are bought in all where all of it has a place, beside pods that have one."""
    found = planner.plan(request)
    name = str(asked.gang.name)
    helped = any(one.gang == name and one.helped for one in found.gangs or ())
    return sum(one.delta for one in found.scale_ups) if helped else None


def _is_fewer(one: int | None, other: int | None) -> bool:
    return one is not None and (other is None or one < other)


def _told(plan: Plan, refused: Iterable[tuple[Gang, str]]) -> Plan:
    """The plan without pods that are only thought of; what became of them is among the gangs."""
    where = headroom.where_chunks_are(plan)
    outcomes = [
        _told_of_request(one, where) if PROVISIONING_GROUP in one.gang else one
        for one in plan.gangs or ()
    ]
    outcomes += [
        GangOutcome(
            gang=str(gang.name),
            minimum=gang.minimum,
            running=0,
            pods=(),
            helped=False,
            reason=reason,
        )
        for gang, reason in refused
    ]
    return msgspec.structs.replace(
        plan.only(lambda pod: not _is_thought_of(pod)), gangs=tuple(outcomes)
    )


def _told_of_request(one: GangOutcome, where: Mapping[str, Counter[str]]) -> GangOutcome:
    nodes = where.get(one.gang.partition(" (")[0], Counter()) if one.helped else Counter[str]()
    return msgspec.structs.replace(
        one,
        pods=(),
        nodes=tuple(ChunksOnNode(node=node, chunks=count) for node, count in nodes.items()),
    )


def _is_thought_of(pod: str) -> bool:
    return is_chunk(pod) and of_chunk(pod).kind == REQUEST

"""Room that is requested before its pods exist, in a decision: a gang of pods only thought of.

Room that is booked goes before everybody, room that is asked for after all pods that wait. Where no
node may be bought for it, it is first planned with groups that do not grow: if it has a place then,
it takes part in the plan like what is booked.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from tonnage.groups.headroom import REQUEST, is_chunk, of_chunk
from tonnage.groups.inputs import Inputs
from tonnage.groups.provisioning_requests import RequestedRoom
from tonnage.objects import provisioning_requests
from tonnage.objects.gangs import PROVISIONING_GROUP, GangName
from tonnage.scaleup import expanders, gang_plan, headroom, planner, pod_groups
from tonnage.scaleup.assessment import Assessment
from tonnage.scaleup.gangs import Gang
from tonnage.scaleup.plan import (
    ChunksOnNode,
    GangOutcome,
    GroupReason,
    NewNode,
    NotHelped,
    Placement,
    Plan,
    Step,
)
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.scaleup.request import GangRequest, Request
from tonnage.snapshot import storage_ledger
from tonnage.snapshot.snapshot import PodRecord

_BOOKED, _ASKED = -1, 2
"""Ranks: before all pods that wait, and after them."""

NO_ROOM = "there is no room for all of its pods on nodes that are there or coming"


def plan(request: Request, inputs: Inputs) -> Plan:
    """The plan for pods that wait and for room that is requested."""
    if not inputs.requested:
        return _chosen(request)
    # Room that is only being freed cannot be promised.
    request = request._replace(freed_room=None)
    refused: list[Gang] = []
    for room in inputs.requested:
        asked = _gang_request(request, inputs, room)
        if not room.may_buy and not _has_room(request, asked):
            refused.append(asked.gang)
            continue
        request = request._replace(gangs=[*request.gangs, asked])
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


def _gang_request(request: Request, inputs: Inputs, room: RequestedRoom) -> GangRequest:
    snapshot = request.snapshot
    records = headroom.pods_of_request(snapshot, room)
    tracked = () if inputs.options.as_upstream else storage_ledger.tracked(snapshot.storage)
    rank = _BOOKED if room.booked else _ASKED
    groups = [
        one.part(slice(None), rank=rank)
        for one in pod_groups.group(snapshot, records, ledger=tracked)
    ]
    gang = Gang(_name(room), len(records), 0, tuple(records))
    return GangRequest(gang, groups, gang_plan.shape_of(groups))


def _has_room(request: Request, asked: GangRequest) -> bool:
    """Whether all of it has a place without any purchase, beside pods that have one too."""
    still = [msgspec.structs.replace(one, max_size=one.target) for one in request.groups]
    found = planner.plan(request._replace(groups=still, gangs=[*request.gangs, asked]))
    name = str(asked.gang.name)
    return any(one.gang == name and one.helped for one in found.gangs or ())


def _told(plan: Plan, refused: Iterable[Gang]) -> Plan:
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
            reason=NO_ROOM,
        )
        for gang in refused
    ]
    return msgspec.structs.replace(
        plan,
        steps=tuple(map(_step, plan.steps)),
        scale_ups=tuple(
            msgspec.structs.replace(one, nodes=tuple(map(_node, one.nodes)))
            for one in plan.scale_ups
        ),
        fit_on_existing=_real(plan.fit_on_existing),
        not_helped=tuple(one for one in plan.not_helped if not _is_thought_of(one.pod)),
        gangs=tuple(outcomes),
    )


def _told_of_request(one: GangOutcome, where: Mapping[str, Counter[str]]) -> GangOutcome:
    nodes = where.get(one.gang.partition(" (")[0], Counter()) if one.helped else Counter[str]()
    return msgspec.structs.replace(
        one,
        pods=(),
        nodes=tuple(ChunksOnNode(node=node, chunks=count) for node, count in nodes.items()),
    )


def _step(step: Step) -> Step:
    return msgspec.structs.replace(
        step,
        pods=tuple(pod for pod in step.pods if not _is_thought_of(pod)),
        fit_on_existing=_real(step.fit_on_existing),
    )


def _node(node: NewNode) -> NewNode:
    pods = tuple(pod for pod in node.pods if not _is_thought_of(pod))
    return msgspec.structs.replace(node, pods=pods)


def _real(placed: Iterable[Placement]) -> tuple[Placement, ...]:
    return tuple(one for one in placed if not _is_thought_of(one.pod))


def _is_thought_of(pod: str) -> bool:
    return is_chunk(pod) and of_chunk(pod).kind == REQUEST

"""Wait or buy: a pod that will fit in 20 seconds is not bought a node that takes 90.

Where a plan buys and room is being freed in time, it is planned once more as if that room were
free. If that helps the same pods with fewer nodes, the pods that need it wait for it.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import msgspec

from tonnage.objects import timestamps
from tonnage.rules import pipeline
from tonnage.scaleup.freed_room import FreedRoom, Leaving
from tonnage.scaleup.plan import FreedRoomWait, Plan
from tonnage.scaleup.request import Request

PlanAnew: TypeAlias = Callable[[Request], Plan]


def instead(request: Request, best: Plan, *, plan_anew: PlanAnew) -> Plan | None:
    """A plan in which some pods wait and fewer nodes are bought; nothing if that helps nobody."""
    room = request.freed_room
    if room is None or not best.scale_ups or best.partial:
        return None
    start = min(room.start_time(one.group) for one in best.scale_ups)
    leaving = [one for one in room.leaving if one.seconds <= start * room.share]
    if not leaving:
        return None
    with request.snapshot.trial():
        for one in leaving:
            one.leave(request.snapshot)
        found = plan_anew(request)
    if found.partial or not _saves(found, best, request):
        return None
    told = _with_waits(request, found, leaving, start)
    if told is None or not _may_wait(request, told, room, start):
        return None
    return told


def _saves(found: Plan, best: Plan, request: Request) -> bool:
    """Whether it helps the same pods with fewer nodes, and for no more money."""
    left = {one.pod for one in found.not_helped} - {one.pod for one in best.not_helped}
    return (
        not left and _nodes(found) < _nodes(best) and _cost(found, request) <= _cost(best, request)
    )


def _nodes(plan: Plan) -> int:
    return sum(one.delta for one in plan.scale_ups)


def _cost(plan: Plan, request: Request) -> float:
    prices = {group.id: group.price_per_hour or 0.0 for group in request.groups}
    return sum(prices[one.group] * one.delta for one in plan.scale_ups)


def _may_wait(request: Request, plan: Plan, room: FreedRoom, start: float) -> bool:
    """Whether nobody waits longer in all than a new node would have taken.

    Where pods end all the time there is always room to come, and others may always be first.
    """
    for wait in plan.waiting:
        record = request.snapshot.pods.get(wait.pod)
        created = timestamps.moment(record.meta.creation_timestamp) if record is not None else None
        age = 0.0 if created is None else room.now - created
        if age + wait.seconds > start:
            return False
    return True


def _with_waits(
    request: Request, found: Plan, leaving: Sequence[Leaving], start: float
) -> Plan | None:
    """The plan, with pods that do not fit yet as waiting; nothing if it cannot be told apart."""
    by_node: dict[str, list[Leaving]] = {}
    for one in leaving:
        by_node.setdefault(one.node, []).append(one)
    early = _too_early(request, found, by_node.keys())
    waits = tuple(
        FreedRoomWait(
            pod=one.pod,
            node=one.node,
            seconds=round(max(some.seconds for some in by_node[one.node]), 1),
            new_node=round(start, 1),
            freed_by=tuple(some.what for some in by_node[one.node]),
        )
        for one in found.all_on_existing
        if one.pod in early and one.node in by_node
    )
    if len(waits) < len(early):
        return None
    return msgspec.structs.replace(found.only(lambda pod: pod not in early), waits=waits)


def _too_early(request: Request, found: Plan, freed: Collection[str]) -> set[str]:
    """The pods for which there is no room on their node before others have left it."""
    snapshot = request.snapshot
    early: set[str] = set()
    chunks = {record.key: record for group in request.headroom for record in group.members}
    with snapshot.trial():
        for one in found.all_on_existing:
            record = snapshot.pods.get(one.pod) or chunks.get(one.pod)
            node = snapshot.nodes.get(one.node)
            if record is None or node is None:
                continue
            pods = record.pod_class
            minding = pods.spread or pods.affinity or pods.anti_affinity
            asked = one.node in freed or bool(minding)
            if asked and not pipeline.evaluate(snapshot, record, request.features).fits[node.row]:
                early.add(one.pod)
            else:
                snapshot.place(record, one.node)
    return early

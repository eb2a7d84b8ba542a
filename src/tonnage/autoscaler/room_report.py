"""Room that is kept, requested or waited for by gangs, as it is told to who asks about it."""

from collections.abc import Iterable

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.report import RoundReport
from tonnage.groups import provisioning_requests
from tonnage.groups.capacity_buffers import BufferReading
from tonnage.groups.headroom import SLOTS
from tonnage.groups.provisioning_requests import RequestReading, condition
from tonnage.objects.gangs import PROVISIONING_GROUP
from tonnage.objects.meta import Record
from tonnage.objects.timestamps import rfc3339
from tonnage.scaleup.plan import ChunksOnNode, GangOutcome, KeptRoomPlan, Plan


class BufferReport(Record, frozen=True, kw_only=True):
    """A CapacityBuffer: what it asks for or what is wrong with it, and what became of it."""

    name: str
    reason: str
    message: str
    is_good: bool
    room: KeptRoomPlan | None = None


class RequestReport(Record, frozen=True, kw_only=True):
    """A ProvisioningRequest: `state` is the last of its conditions that holds, or nothing yet.

    `left` are the pods yet to come for it, `until` the end of its booking.
    """

    name: str
    provisioning_class: str
    state: str = ""
    message: str = ""
    left: int = 0
    until: str | None = None
    nodes: tuple[ChunksOnNode, ...] = ()


class PlaceOfPod(Record, frozen=True, kw_only=True):
    pod: str
    node: str


class GangReport(Record, frozen=True, kw_only=True):
    """A gang with pods that wait, and where these go if it is helped."""

    outcome: GangOutcome
    places: tuple[PlaceOfPod, ...] = ()


class RoomDocument(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The last round as it is told to who asks about room; without a time there was none yet."""

    time: str = ""
    held: str = ""
    buffers_read: bool = False
    requests_read: bool = False
    buffers: tuple[BufferReport, ...] = ()
    headroom: tuple[KeptRoomPlan, ...] = ()
    requests: tuple[RequestReport, ...] = ()
    gangs: tuple[GangReport, ...] = ()


def document(
    report: RoundReport | None,
    buffers: Iterable[BufferReading],
    requests: Iterable[RequestReading],
    *,
    config: AutoscalerConfig,
) -> RoomDocument:
    """The last round, with the buffers and requests that it looked at."""
    if report is None:
        return RoomDocument()
    plan = report.plan
    kept = plan.kept_rooms if plan is not None else ()
    return RoomDocument(
        time=rfc3339(report.now),
        held=report.held,
        buffers_read=config.capacity_buffers,
        requests_read=config.provisioning_requests,
        buffers=_of_buffers(buffers, plan),
        headroom=tuple(one for one in kept if one.name.startswith(SLOTS)),
        requests=_of_requests(requests, plan),
        gangs=_of_gangs(plan),
    )


def _of_buffers(readings: Iterable[BufferReading], plan: Plan | None) -> tuple[BufferReport, ...]:
    rooms = {one.name: one for one in plan.kept_rooms} if plan is not None else {}
    return tuple(
        BufferReport(
            name=one.buffer.metadata.key,
            reason=one.reason,
            message=one.message,
            is_good=one.is_good,
            room=rooms.get(f"CapacityBuffer {one.buffer.metadata.key}"),
        )
        for one in readings
    )


def _of_requests(
    readings: Iterable[RequestReading], plan: Plan | None
) -> tuple[RequestReport, ...]:
    outcomes = {one.gang: one for one in plan.gang_outcomes} if plan is not None else {}
    return tuple(_of_request(one, outcomes) for one in readings)


def _of_gangs(plan: Plan | None) -> tuple[GangReport, ...]:
    if plan is None:
        return ()
    where = {one.pod: one.node for one in plan.all_on_existing}
    where |= {pod: node.name for one in plan.scale_ups for node in one.nodes for pod in node.pods}
    return tuple(
        GangReport(
            outcome=one,
            places=tuple(PlaceOfPod(pod=pod, node=where[pod]) for pod in one.pods if pod in where),
        )
        for one in plan.gang_outcomes
        if PROVISIONING_GROUP not in one.gang
    )


_STATES = (
    provisioning_requests.FAILED,
    provisioning_requests.BOOKING_EXPIRED,
    provisioning_requests.PROVISIONED,
    provisioning_requests.ACCEPTED,
)
"""The last of them first."""


def _of_request(one: RequestReading, outcomes: dict[str, GangOutcome]) -> RequestReport:
    request = one.request
    key = request.metadata.key
    held = [found for state in _STATES if (found := condition(request, state)) is not None]
    last = one.ending or (held[0] if held else None)
    state, message = (last.type, last.message) if last is not None else ("", "")
    booked = state == provisioning_requests.PROVISIONED
    outcome = next((o for gang, o in outcomes.items() if gang.startswith(f"{_KIND} {key} ")), None)
    if outcome is not None and not outcome.helped:
        message = outcome.reason
    return RequestReport(
        name=key,
        provisioning_class=request.spec.provisioning_class_name,
        state=state,
        message=message or "",
        left=sum(room.chunks for room in one.room.sets) if one.room is not None else 0,
        until=rfc3339(provisioning_requests.booked_until(request)) if booked else None,
        nodes=(outcome.nodes or ()) if outcome is not None else (),
    )


_KIND = "ProvisioningRequest"

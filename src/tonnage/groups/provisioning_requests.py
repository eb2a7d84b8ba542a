"""Room that ProvisioningRequests ask for: what each wants now, and which bookings still hold.

A request is new until it is provisioned or has failed. Once it is provisioned its room is booked,
for pods that name it in an annotation, until they are there or the time is over.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import msgspec

from tonnage.groups.headroom import MOST_CHUNKS, KeptRoom
from tonnage.objects import timestamps
from tonnage.objects.buffers import PodTemplate
from tonnage.objects.meta import Condition, Record
from tonnage.objects.pods import FINISHED, Pod
from tonnage.objects.provisioning_requests import (
    ATOMIC_SCALE_UP,
    CHECK_CAPACITY,
    ProvisioningRequest,
    consumed_by,
)

BOOKED_FOR = 600.0
"""Seconds that room is kept for pods which have not come; upstream's number."""

VALID_UNTIL = "ValidUntilSeconds"

ACCEPTED = "Accepted"
PROVISIONED = "Provisioned"
FAILED = "Failed"
BOOKING_EXPIRED = "BookingExpired"


class RequestedRoom(Record, frozen=True, kw_only=True):
    """Room for all pods of a request at once; `may_buy` says whether nodes are bought for it."""

    namespace: str
    name: str
    sets: tuple[KeptRoom, ...]
    may_buy: bool
    booked: bool = False


class RequestReading(msgspec.Struct, frozen=True):
    """A request, with what it asks for now, or why it has come to its end.

    `ending` is the condition that is to be written for that; without one, and without a room,
    there is nothing to do.
    """

    request: ProvisioningRequest
    room: RequestedRoom | None = None
    ending: Condition | None = None

    @property
    def problem(self) -> str:
        """Why it fails, for people; empty if it does not."""
        ending = self.ending
        if ending is None or ending.type != FAILED:
            return ""
        key = self.request.metadata.key
        return f"ProvisioningRequest {key}: {ending.reason}: {ending.message}"


def read(
    requests: Iterable[ProvisioningRequest],
    find_template: Callable[[str, str], PodTemplate | None],
    consumers: Mapping[tuple[str, str], int],
    *,
    now: float,
) -> tuple[RequestReading, ...]:
    """What each of the requests that are for us asks for; the oldest first.

    `consumers` counts the pods that have taken room of each, by namespace and name.
    """
    ours = [one for one in requests if one.spec.provisioning_class_name in _CLASSES]
    ours.sort(key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.key))
    return tuple(_read(one, find_template, consumers, now) for one in ours)


def of_objects(objects: Iterable[object], *, now: float) -> tuple[RequestReading, ...]:
    """The same of the requests among the objects of a file."""
    held = list(objects)
    requests = [one for one in held if isinstance(one, ProvisioningRequest)]
    if not requests:
        return ()
    templates = {
        (one.metadata.namespace, one.metadata.name): one
        for one in held
        if isinstance(one, PodTemplate)
    }
    consumers = Counter(
        (one.metadata.namespace, name)
        for one in held
        if isinstance(one, Pod)
        and one.spec.node_name
        and (name := consumed_by(one.metadata))
        and one.status.phase not in FINISHED
    )
    return read(requests, lambda *key: templates.get(key), consumers, now=now)


_CLASSES = (CHECK_CAPACITY, ATOMIC_SCALE_UP)


def condition(request: ProvisioningRequest, type_: str) -> Condition | None:
    """A condition that holds."""
    found = (one for one in request.status.conditions if one.type == type_)
    return next((one for one in found if one.status == "True"), None)


def booked_until(request: ProvisioningRequest) -> float:
    """When the booking of a request that is provisioned ends, in seconds since 1970."""
    provisioned = condition(request, PROVISIONED)
    return _moment(provisioned.last_transition_time if provisioned else None) + BOOKED_FOR


def _read(
    request: ProvisioningRequest,
    find_template: Callable[[str, str], PodTemplate | None],
    consumers: Mapping[tuple[str, str], int],
    now: float,
) -> RequestReading:
    meta, spec = request.metadata, request.spec
    if condition(request, FAILED) or condition(request, BOOKING_EXPIRED):
        return RequestReading(request)
    provisioned = condition(request, PROVISIONED)
    if provisioned is not None and now >= booked_until(request):
        return RequestReading(request, ending=_ended(
            BOOKING_EXPIRED, "CapacityReservationTimeExpired",
            f"{BOOKED_FOR:.0f} s are over: the room is no longer kept",
        ))  # fmt: skip
    used = consumers.get((meta.namespace, meta.name), 0) if provisioned is not None else 0
    try:
        _check_time(request, now, provisioned=provisioned is not None)
        sets = _sets(request, find_template, used)
    except _UnfulfillableError as error:
        return RequestReading(request, ending=_ended(FAILED, error.reason, str(error)))
    room = RequestedRoom(
        namespace=meta.namespace,
        name=meta.name,
        sets=sets,
        may_buy=spec.provisioning_class_name == ATOMIC_SCALE_UP,
        booked=provisioned is not None,
    )
    return RequestReading(request, room if sets else None)


class _UnfulfillableError(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def _check_time(request: ProvisioningRequest, now: float, *, provisioned: bool) -> None:
    told = request.spec.parameters.get(VALID_UNTIL)
    if told is None or provisioned:
        return
    if not (told.isascii() and told.isdecimal() and len(told) < 10):
        raise _UnfulfillableError(
            "BadParameter", f"parameters.{VALID_UNTIL}: {told!r}: expected a number of seconds"
        )
    if now > _moment(request.metadata.creation_timestamp) + int(told):
        raise _UnfulfillableError("Expired", f"no room was found within {told} s")


def _sets(
    request: ProvisioningRequest,
    find_template: Callable[[str, str], PodTemplate | None],
    used: int,
) -> tuple[KeptRoom, ...]:
    meta, found = request.metadata, []
    if not request.spec.pod_sets:
        raise _UnfulfillableError("FailedToCreatePods", "podSets: expected one or more")
    for number, one in enumerate(request.spec.pod_sets):
        where = f"podSets[{number}]"
        if not 0 < one.count <= MOST_CHUNKS:
            raise _UnfulfillableError(
                "FailedToCreatePods", f"{where}.count: {one.count}: expected 1 to {MOST_CHUNKS}"
            )
        name = one.pod_template_ref.name
        template = find_template(meta.namespace, name)
        if template is None:
            raise _UnfulfillableError(
                "FailedToCreatePods",
                f"{where}.podTemplateRef: there is no PodTemplate {meta.namespace}/{name}",
            )
        # Which pod is of which set is not known: the first sets are taken up first.
        count = max(one.count - used, 0)
        used = max(used - one.count, 0)
        if count:
            found.append(
                KeptRoom(
                    namespace=meta.namespace,
                    name=f"{meta.name}.{number}",
                    chunks=count,
                    template=template.template,
                )
            )
    return tuple(found)


def _ended(type_: str, reason: str, message: str) -> Condition:
    return Condition(type=type_, status="True", reason=reason, message=message)


def _moment(text: str | None) -> float:
    told = timestamps.moment(text)
    return float("inf") if told is None else told

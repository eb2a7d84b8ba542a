"""`tonnage why KIND/NAME` for room: a buffer, kept slots, a request, a gang.

What it asks for, on which nodes it has it, and what it waits for.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from tonnage.cli import console
from tonnage.cli.running_autoscaler import RunningAutoscaler
from tonnage.errors import InputError
from tonnage.objects.phrases import counted, near_keys

if TYPE_CHECKING:
    from tonnage.autoscaler.room_report import (
        BufferReport,
        GangReport,
        RequestReport,
        RoomDocument,
    )
    from tonnage.scaleup.plan import KeptRoomPlan

BUFFER, SLOTS, REQUEST, GANG = "capacitybuffer", "headroom", "provisioningrequest", "podgroup"
KINDS = (BUFFER, SLOTS, REQUEST, GANG)
"""What may stand before the name. A pod of a namespace of that name is asked about with -n."""

_PATH = "/debug/room"


class _Answer(NamedTuple):
    """A room for people: a sentence, lines, and a table."""

    headline: str
    lines: tuple[tuple[str, str], ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[list[str], ...] = ()


def is_room(text: str) -> bool:
    return "/" in text and text.partition("/")[0].lower() in KINDS


def why(text: str, asked: RunningAutoscaler, *, space: str, form: console.Format) -> None:
    """Ask the autoscaler that leads about a room, and print what it says; `space` is the room's."""
    import msgspec

    from tonnage.autoscaler.room_report import RoomDocument

    kind, _, name = text.partition("/")
    kind = kind.lower()
    if space and "/" not in name and kind != SLOTS:
        name = f"{space}/{name}"
    _, told = asked.told(_PATH, RoomDocument, "room")
    found = _find(kind, name, told)
    if form in ("json", "yaml"):
        fields = {"kind": kind, "room": msgspec.to_builtins(found)}
        console.print_document(
            "Why", form=form, name=name, time=told.time, held=told.held, about=fields
        )
        return
    answer = _answer(found)
    held = f"; nothing was decided: {told.held}" if told.held else ""
    console.echo(f"{answer.headline}{held}")
    console.print_section(["", ""], [[key, value] for key, value in answer.lines if value])
    console.print_section(answer.head, answer.rows)


def _find(
    kind: str, name: str, told: "RoomDocument"
) -> "BufferReport | KeptRoomPlan | RequestReport | GangReport":
    if kind == BUFFER and not told.buffers_read:
        raise InputError("CapacityBuffers are not read: capacityBuffers is false")
    if kind == REQUEST and not told.requests_read:
        raise InputError("ProvisioningRequests are not read: provisioningRequests is false")
    known: dict[str, BufferReport | KeptRoomPlan | RequestReport | GangReport] = {}
    if kind == BUFFER:
        known.update((one.name, one) for one in told.buffers)
    elif kind == SLOTS:
        known.update((one.name.removeprefix(f"{SLOTS} "), one) for one in told.headroom)
    elif kind == REQUEST:
        known.update((one.name, one) for one in told.requests)
    else:
        known.update((one.outcome.gang.split()[1], one) for one in told.gangs)
    matching = [one for one in known if name in (one, one.partition("/")[2])]
    if len(matching) == 1:
        return known[matching[0]]
    if matching:
        raise InputError(f"{kind} {name!r}: which of {', '.join(sorted(matching))}?")
    near = near_keys(name, known)
    hint = f"near matches: {', '.join(near)}" if near else f"there are {len(known):,}"
    waits = "; only gangs with pods that wait are known" if kind == GANG else ""
    raise InputError(f"nothing is known of {kind} {name!r}; {hint}{waits}")


def _answer(found: "BufferReport | KeptRoomPlan | RequestReport | GangReport") -> _Answer:
    from tonnage.autoscaler.room_report import BufferReport, GangReport, RequestReport

    if isinstance(found, BufferReport):
        title = f"CapacityBuffer {found.name}"
        if found.room is not None:
            return _kept(found.room, title)
        return _Answer(f"{title}: no room is kept, {found.reason}: {found.message}")
    if isinstance(found, RequestReport):
        return _requested(found)
    if isinstance(found, GangReport):
        return _gang(found)
    return _kept(found, found.name)


def _kept(room: "KeptRoomPlan", title: str) -> _Answer:
    import msgspec

    waiting = 0 if isinstance(room.waiting, msgspec.UnsetType) else room.waiting
    parts = [
        f"{counted(room.kept, 'chunk')} on nodes that are there or coming" if room.kept else "",
        f"{counted(room.bought, 'chunk')} on nodes that are bought" if room.bought else "",
        f"{counted(waiting, 'chunk')} waiting for room that is being freed" if waiting else "",
        f"{counted(room.missing, 'chunk')} without room" if room.missing else "",
    ]
    told = ", ".join(filter(None, parts)) or "nothing is asked for now"
    reasons = [(one.group, ", ".join(one.reasons)) for one in room.reasons]
    return _Answer(
        f"{title}: {told}",
        tuple((f"{group} says", why) for group, why in reasons),
        ("NODE", "CHUNKS"),
        tuple([one.node, str(one.chunks)] for one in room.nodes),
    )


def _requested(found: "RequestReport") -> _Answer:
    state = {
        "": "not looked at yet",
        "Accepted": "waits for room",
        "Provisioned": f"room for {counted(found.left)} is booked",
        "BookingExpired": "its time is over, the room is no longer kept",
        "Failed": "failed",
    }[found.state]
    if found.state == "Provisioned" and not found.left:
        state = "all of its pods have come"
    message = f", {found.message}" if found.state in ("Accepted", "Failed") else ""
    return _Answer(
        f"ProvisioningRequest {found.name}: {state}{message}",
        (
            ("class", found.provisioning_class.partition(".")[0]),
            ("booked until", found.until or ""),
            ("pods yet to come", str(found.left) if found.until else ""),
        ),
        ("NODE", "PODS"),
        tuple([one.node, str(one.chunks)] for one in found.nodes),
    )


def _gang(found: "GangReport") -> _Answer:
    outcome = found.outcome
    told = "helped whole" if outcome.helped else outcome.reason
    return _Answer(
        f"{outcome.gang}: {told}",
        (
            ("has to run at once", str(outcome.minimum or "")),
            ("runs", str(outcome.running)),
            ("waits", _names(outcome.pods)),
        ),
        ("POD", "NODE"),
        tuple([one.pod, one.node] for one in found.places),
    )


def _names(pods: Iterable[str]) -> str:
    from tonnage.objects.phrases import listed

    return listed(list(pods))

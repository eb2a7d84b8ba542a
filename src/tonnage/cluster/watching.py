"""From the bytes of a watch to typed events.

A watch is one JSON document per line, cut into chunks anywhere. The envelope is decoded without
looking into the object, then the object by its kind; an object that does not decode becomes an
event of its own, so that one bad object never stops the stream.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing
from enum import StrEnum
from typing import Generic, TypeAlias

import msgspec

from tonnage.cluster import errors
from tonnage.cluster.calls import Call, Caller, Status, error_of, refusal, silence
from tonnage.cluster.resources import Resource, T
from tonnage.errors import InputError

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class EventType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object came, changed or went; when it went, as it last was."""

    type: EventType
    object: T


class Unreadable(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The same of an object we cannot decode. Without a name, even that was not readable."""

    type: EventType
    namespace: str = ""
    name: str = ""
    resource_version: str = ""
    problem: str


class Bookmark(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Nothing up to this version is missing; at the end of a streaming list, it is complete."""

    resource_version: str
    initial_events_end: bool = False


WatchEvent: TypeAlias = Change[T] | Unreadable | Bookmark


async def events(
    caller: Caller,
    call: Call,
    resource: Resource[T],
    *,
    inactivity: float,
    opened: Callable[[], None] | None = None,
) -> AsyncGenerator[WatchEvent[T]]:
    """The events of one watch, until the server ends it.

    Silence for `inactivity` seconds is `ConnectionFailed`: a peer that vanished says nothing. A
    line cut by the end of the stream is dropped; whoever resumes gets it whole.
    """
    pieces = _pieces(caller, call, inactivity=inactivity, opened=opened)
    async with aclosing(pieces):
        async for lines in pieces:
            for line in lines:
                if line:
                    yield _event(line, call, resource)


async def _pieces(
    caller: Caller, call: Call, *, inactivity: float, opened: Callable[[], None] | None
) -> AsyncGenerator[list[bytes]]:
    """Whole lines, as many at a time as have come."""
    patience = caller.patience.timeout
    async with AsyncExitStack() as stack:
        try:
            async with caller.clock.timeout(patience):
                answer = caller.transport.stream(call.request)
                stream = await stack.enter_async_context(answer)
                if stream.status != 200:
                    body = b"".join([chunk async for chunk in stream.chunks])
                    raise refusal(call, stream.status, headers=stream.headers, body=body)
        except TimeoutError as error:
            raise silence(call, patience) from error
        if opened is not None:
            opened()
        rest = b""
        while True:
            try:
                async with caller.clock.timeout(inactivity):
                    chunk = await anext(stream.chunks, None)
            except TimeoutError as error:
                raise silence(call, inactivity) from error
            if chunk is None:
                return
            *lines, rest = (rest + chunk).split(b"\n")
            yield lines


def _event(line: bytes, call: Call, resource: Resource[T]) -> WatchEvent[T]:
    try:
        envelope = _ENVELOPE.decode(line)
    except msgspec.DecodeError as error:
        raise errors.ServerError(f"{call}: not an event: {error}", status=200) from error
    kind = _TYPES.get(envelope.type)
    if kind is None:
        return _other(envelope, call)
    try:
        return Change(kind, resource.decode(envelope.object))
    except (InputError, msgspec.DecodeError) as error:
        return unreadable(envelope.object, problem=str(error), type_=kind)


def unreadable(
    data: bytes | msgspec.Raw, *, problem: str, type_: EventType = EventType.ADDED
) -> Unreadable:
    """What can be told of an object that does not decode."""
    try:
        meta = _IDENTIFIED.decode(data).metadata
    except msgspec.DecodeError:
        meta = _Identity()
    return Unreadable(
        type=type_,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        problem=problem,
    )


def _other(envelope: "_Envelope", call: Call) -> Bookmark:
    try:
        if envelope.type == "BOOKMARK":
            meta = _IDENTIFIED.decode(envelope.object).metadata
            return Bookmark(
                resource_version=meta.resource_version,
                initial_events_end=(meta.annotations or {}).get(INITIAL_EVENTS_END) == "true",
            )
        if envelope.type == "ERROR":
            told = msgspec.json.decode(envelope.object, type=Status)
            raise error_of(call, told, code=told.code or 500)
    except msgspec.DecodeError as error:
        raise errors.ServerError(f"{call}: bad {envelope.type}: {error}", status=200) from error
    raise errors.ServerError(f"{call}: unknown event type {envelope.type!r}", status=200)


class _Envelope(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Identity(msgspec.Struct, gc=False, rename="camel", kw_only=True):
    namespace: str = ""
    name: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Identified(msgspec.Struct, gc=False):
    metadata: _Identity


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_IDENTIFIED = msgspec.json.Decoder(_Identified)
_TYPES = {type_.value: type_ for type_ in EventType}

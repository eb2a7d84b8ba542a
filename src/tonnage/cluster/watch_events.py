"""From the bytes of a watch to typed events.

A watch is one JSON document per line, cut into chunks anywhere, unless its server is in the same
process and hands over type and object. The envelope is decoded without looking into the object,
then the object by its kind; an object that does not decode becomes an
event of its own, so that one bad object never stops the stream. One that is nested too deeply for
the decoder is read without what lies too deep, which no kind reads.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, aclosing
from enum import StrEnum
from typing import Generic, TypeAlias

import msgspec

from tonnage.cluster import errors, rawjson
from tonnage.cluster.calls import Call, Caller, Status, error_of, refusal, silence
from tonnage.cluster.resources import Resource, T
from tonnage.cluster.transport import Stream, WatchParts
from tonnage.errors import TonnageError
from tonnage.objects.codec import UNDECODABLE, DecodeError

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

LARGEST_EVENT = 16 * 2**20
"""Bytes. A server stores objects of 1.5 MiB, and escapes may make JSON of it six times that."""

TOO_DEEP = f"nested too deeply: read without what lies more than {rawjson.LEVELS} levels deep"


class EventType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object came, changed or went; when it went, as it last was.

    `remark` says what is wrong with an object that can be used all the same. A cache says with
    `before` what it held until then; a watch alone does not know.
    """

    type: EventType
    object: T
    remark: str = ""
    before: T | None = None


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
        async for parts in pieces:
            for type_, data in parts:
                yield _event(type_, data, call, resource)


async def _pieces(
    caller: Caller, call: Call, *, inactivity: float, opened: Callable[[], None] | None
) -> AsyncGenerator[Iterable[WatchParts]]:
    """Events taken apart, as many at a time as have come."""
    patience = caller.patience.timeout
    async with AsyncExitStack() as stack:
        try:
            async with caller.clock.timeout(patience):
                answer = caller.transport.stream(call)
                stream = await stack.enter_async_context(answer)
                if stream.status != 200:
                    body = b"".join([chunk async for chunk in stream.chunks])
                    raise refusal(call, stream.status, headers=stream.headers, body=body)
        except TimeoutError as error:
            raise silence(call, patience) from error
        if opened is not None:
            opened()
        told: AsyncIterator[Iterable[WatchParts]] | None = stream.told
        if told is None:
            told = await stack.enter_async_context(aclosing(_read(stream, call)))
        while True:
            try:
                async with caller.clock.timeout(inactivity):
                    parts = await anext(told, None)
            except TimeoutError as error:
                raise silence(call, inactivity) from error
            if parts is None:
                return
            yield parts


async def _read(stream: Stream, call: Call) -> AsyncGenerator[Iterable[WatchParts]]:
    """What the chunks tell. One that completes no line is a sign of life, and tells nothing."""
    rest: list[bytes] = []
    async for chunk in stream.chunks:
        rest.append(chunk)
        if b"\n" in chunk:
            *lines, begun = b"".join(rest).split(b"\n")
            rest = [begun]
            yield (_parts(line, call) for line in lines if line)
        elif sum(map(len, rest)) > LARGEST_EVENT:
            raise errors.ServerError(
                f"{call}: an event of more than {LARGEST_EVENT:,} bytes", status=200
            )
        else:
            yield ()


def _parts(line: bytes, call: Call) -> WatchParts:
    try:
        envelope = _ENVELOPE.decode(line)
    except UNDECODABLE as error:
        return _taken_apart(line, call, error)
    return envelope.type, envelope.object


def _event(
    type_: str, data: bytes | msgspec.Raw, call: Call, resource: Resource[T]
) -> WatchEvent[T]:
    kind = _TYPES.get(type_)
    if kind is None:
        return _other(type_, data, call)
    try:
        return Change(kind, resource.decode(data))
    except Exception as error:
        return second_look(data, resource, error, type_=kind)


def second_look(
    data: bytes | msgspec.Raw,
    resource: Resource[T],
    error: Exception,
    *,
    type_: EventType = EventType.ADDED,
) -> Change[T] | Unreadable:
    """An object that does not decode, as far as it can be used or at least named.

    Whatever the error is, it is this object's: nobody's list or watch ends with it.
    """
    if _too_deep(error):
        try:
            return Change(type_, resource.decode(rawjson.trimmed(data)), TOO_DEEP)
        except Exception as still:
            error = still
    meta = identity(data)
    return Unreadable(
        type=type_,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        problem=_told(error, meta),
    )


def _too_deep(error: Exception) -> bool:
    return isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError)


def _told(error: Exception, meta: "ObjectIdentity") -> str:
    match error:
        case DecodeError(name="") if meta.name:
            return str(DecodeError(error.kind, meta.namespace, meta.name, fault=error.fault))
        case RecursionError():
            return "lists and mappings nested too deeply"
        case UnicodeError():
            return "expected UTF-8, found other bytes"
        case TonnageError() | msgspec.DecodeError():
            return str(error)
        case _:
            return f"{type(error).__name__}: {error}"


def identity(data: bytes | msgspec.Raw) -> "ObjectIdentity":
    """Which object it is and in which version, as far as that can be read."""
    try:
        return _IDENTIFIED.decode(data).metadata
    except UNDECODABLE:
        pass
    try:
        metadata = rawjson.members(rawjson.members(data)["metadata"])
    except (ValueError, KeyError):
        return ObjectIdentity()
    return ObjectIdentity(
        namespace=_string(metadata.get("namespace")),
        name=_string(metadata.get("name")),
        resource_version=_string(metadata.get("resourceVersion")),
    )


def _string(data: bytes | None) -> str:
    try:
        return _STRING.decode((data or b'""').decode(errors="replace"))
    except UNDECODABLE:
        return ""


def _taken_apart(line: bytes, call: Call, error: Exception) -> WatchParts:
    """The parts of an event that the decoder cannot follow."""
    try:
        parts = rawjson.members(line)
        return _STRING.decode(parts["type"]), parts["object"]
    except (ValueError, KeyError, RecursionError):
        raise errors.ServerError(f"{call}: not an event: {error}", status=200) from error


def _other(type_: str, data: bytes | msgspec.Raw, call: Call) -> Bookmark:
    try:
        if type_ == "BOOKMARK":
            meta = _IDENTIFIED.decode(data).metadata
            return Bookmark(
                resource_version=meta.resource_version,
                initial_events_end=(meta.annotations or {}).get(INITIAL_EVENTS_END) == "true",
            )
        if type_ == "ERROR":
            told = msgspec.json.decode(data, type=Status)
            raise error_of(call, told, code=told.code or 500)
    except UNDECODABLE as error:
        raise errors.ServerError(f"{call}: bad {type_}: {error}", status=200) from error
    raise errors.ServerError(f"{call}: unknown event type {type_!r}", status=200)


class _Envelope(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class ObjectIdentity(msgspec.Struct, gc=False, rename="camel", kw_only=True):
    namespace: str = ""
    name: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Identified(msgspec.Struct, gc=False):
    metadata: ObjectIdentity


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_IDENTIFIED = msgspec.json.Decoder(_Identified)
_STRING = msgspec.json.Decoder(str)
_TYPES = {type_.value: type_ for type_ in EventType}

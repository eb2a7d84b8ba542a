"""Nodes and Pods in the protobuf encoding of Kubernetes, for servers that speak it.

Only the fields of `corev1_slice.proto` that our records have are sent or read. Field names are the
same on both sides, so records are walked along the descriptors; what has to be translated is
quantities, times, and that a volume's source is a message of its own.

Importing this needs the package protobuf, of the extra `grpc`.
"""

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any, TypeAlias

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.timestamps import rfc3339
from tonnage.providers.protos import corev1_slice_pb2 as wire


def encode_node(node: Node) -> bytes:
    """A core/v1 Node, without the envelope that API servers put around it.

    A value that its field cannot hold (a number too large, a time that is none) raises ValueError.
    """
    message = wire.Node()
    _fill(message, node)
    return message.SerializeToString(deterministic=True)


def encode_pod(pod: Pod) -> bytes:
    """A core/v1 Pod, as `encode_node` does it."""
    message = wire.Pod()
    _fill(message, pod)
    return message.SerializeToString(deterministic=True)


def decode_node(data: bytes) -> Node:
    """The Node in such bytes; ValueError if it is none."""
    try:
        return msgspec.convert(_plain(wire.Node.FromString(data)), Node)
    except (DecodeError, msgspec.ValidationError) as error:
        raise ValueError(str(error)) from error


_Put: TypeAlias = Callable[[Any, Any], None]

_QUANTITY = wire.Quantity.DESCRIPTOR
_TIME = wire.Time.DESCRIPTOR
_VOLUME = wire.Volume.DESCRIPTOR


def _fill(message: Message, record: msgspec.Struct) -> None:
    for attribute, put in _puts(type(record), message.DESCRIPTOR):
        value = getattr(record, attribute)
        # What is empty is what a reader assumes; but 0 and "" say something where null could be.
        if value or not (value is None or value == _default(type(record), attribute)):
            put(message, value)
    if message.DESCRIPTOR is _VOLUME:
        _fill(message.volumeSource, record)  # type: ignore[attr-defined]


@cache
def _puts(record: type[msgspec.Struct], message: Descriptor) -> tuple[tuple[str, _Put], ...]:
    """The attributes of a record that the message has a field for, and how each is put there."""
    fields = message.fields_by_name
    return tuple(
        (field.name, _put(fields[field.encode_name]))
        for field in msgspec.structs.fields(record)
        if field.encode_name in fields
    )


@cache
def _default(record: type[msgspec.Struct], attribute: str) -> object:
    field = next(f for f in msgspec.structs.fields(record) if f.name == attribute)
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _put(field: FieldDescriptor) -> _Put:
    name = field.name
    inner = field.message_type
    if inner is None:
        return _put_list(name) if field.is_repeated else lambda m, value: setattr(m, name, value)
    if inner.GetOptions().map_entry:
        of_quantities = inner.fields_by_name["value"].message_type is _QUANTITY
        return _put_quantities(name) if of_quantities else _put_map(name)
    if inner is _TIME:
        return lambda message, value: _put_time(getattr(message, name), value)
    return _put_records(name) if field.is_repeated else _put_record(name)


def _put_list(name: str) -> _Put:
    return lambda message, values: getattr(message, name).extend(values)


def _put_map(name: str) -> _Put:
    return lambda message, entries: getattr(message, name).update(entries)


def _put_quantities(name: str) -> _Put:
    def put(message: Any, entries: dict[str, object]) -> None:
        into = getattr(message, name)
        for resource, amount in entries.items():
            into[resource].string = str(amount)

    return put


def _put_record(name: str) -> _Put:
    def put(message: Any, record: msgspec.Struct) -> None:
        into = getattr(message, name)
        into.SetInParent()
        _fill(into, record)

    return put


def _put_records(name: str) -> _Put:
    def put(message: Any, records: tuple[msgspec.Struct, ...]) -> None:
        into = getattr(message, name)
        for record in records:
            _fill(into.add(), record)

    return put


def _put_time(into: wire.Time, text: str) -> None:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"time {text!r}: expected one with a time zone")
    into.seconds = int(moment.timestamp() // 1)
    into.nanos = moment.microsecond * 1000


def _plain(message: Message) -> dict[str, Any]:
    """A message as it would stand in JSON; a field that is not set is absent."""
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        inner = field.message_type
        if inner is None:
            found[field.name] = list(value) if field.is_repeated else value
        elif inner.GetOptions().map_entry:
            of = inner.fields_by_name["value"].message_type
            found[field.name] = {key: _valued(of, one) for key, one in value.items()}
        elif field.is_repeated:
            found[field.name] = [_valued(inner, one) for one in value]
        else:
            found[field.name] = _valued(inner, value)
    return found


def _valued(kind: Descriptor | None, value: Any) -> Any:
    if kind is None:
        return value
    if kind is _QUANTITY:
        return value.string
    if kind is _TIME:
        return rfc3339(value.seconds)
    return _plain(value)

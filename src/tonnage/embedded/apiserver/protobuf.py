"""Bodies in protobuf, which is how programs in Go write built-in kinds unless told otherwise.

kubectl cannot be told, so `kubectl create deployment` sends nothing else. Reading it takes the
numbering of every message, which is data (`tools/protobuf-numbers` writes it). Answers are JSON.
"""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tonnage.embedded.apiserver.refusals import Tree, bad_request, unsupported_media_type

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"


class Field(NamedTuple):
    """A field as JSON has it. Without a name, its fields stand among those of its parent."""

    name: str
    type: str
    repeated: bool
    mapped: bool
    zero_counts: bool


_Message: TypeAlias = dict[int, Field]


class _Table(msgspec.Struct):
    """The data file: messages by kind; and by message, names and types of fields by number."""

    kinds: dict[str, str]
    messages: dict[str, dict[int, tuple[str, str]]]


@cache
def _table() -> _Table:
    data = resources.files("tonnage.embedded.apiserver").joinpath("data/protobuf.json")
    return msgspec.json.decode(data.read_bytes(), type=_Table)


@cache
def _fields(message: str) -> _Message:
    return {
        number: Field(
            name,
            type_.strip("[]{}?"),
            repeated=type_.startswith("[]"),
            mapped=type_.startswith("{}"),
            zero_counts=type_.endswith("?"),
        )
        for number, (name, type_) in _table().messages[message].items()
    }


SCALARS = frozenset(
    {"flag", "json", "intOrString", "quantity", "bytes", "time", "text", "microtime", "number"}
)
"""Types of fields that are no messages."""


def messages_by_kind() -> dict[str, str]:
    """The message of each kind that can be sent."""
    return _table().kinds


@cache
def fields_by_name(message: str) -> dict[str, Field]:
    """The fields of a message, with those that stand among them."""
    found: dict[str, Field] = {}
    for field in _fields(message).values():
        found |= {field.name: field} if field.name else fields_by_name(field.type)
    return found


def decode(body: bytes) -> Tree:
    """The object in a body, as its JSON would be."""
    if not body.startswith(_MAGIC):
        raise bad_request("the body of the request is not protobuf as Kubernetes writes it")
    try:
        head = dict(_values(body[len(_MAGIC) :]))
        identity = dict(_values(head.get(1, b"")))
        api_version, kind = (identity.get(number, b"").decode() for number in (1, 2))
        message = _table().kinds.get(kind)
        if message is None:
            what = f"{MEDIA_TYPE} of kind {kind}"
            raise unsupported_media_type(what, ("application/json", "application/yaml"))
        return {"apiVersion": api_version, "kind": kind, **_tree(head.get(2, b""), message)}
    except (AttributeError, IndexError, TypeError, ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"the body of the request is not readable protobuf: {error}") from None


def _tree(data: bytes, message: str) -> Tree:
    fields = _fields(message)
    found: Tree = {}
    for number, value in _values(data):
        field = fields.get(number)
        if field is None:
            continue
        if field.mapped:
            entry = dict(_values(value))
            key, mapped = entry.get(1, b"").decode(), entry.get(2, b"")
            found.setdefault(field.name, {})[key] = _value(mapped, field.type)
            continue
        read = _value(value, field.type)
        if field.repeated:
            found.setdefault(field.name, []).append(read)
        elif not field.name:
            found.update(read)
        elif read or (field.zero_counts and read is not None):
            found[field.name] = read
    return found


def _value(value: Any, type_: str) -> Any:
    match type_:
        case "text":
            return value.decode()
        case "number":
            return value - (1 << 64) if value >> 63 else value
        case "flag":
            return bool(value)
        case "bytes":
            return base64.b64encode(value).decode()
        case "json":
            raw = dict(_values(value)).get(1, b"")
            return msgspec.json.decode(raw) if raw else None
        case "quantity":
            return dict(_values(value)).get(1, b"").decode()
        case "intOrString":
            parts = dict(_values(value))
            is_text = bool(parts.get(1, 0))
            return parts.get(3, b"").decode() if is_text else _value(parts.get(2, 0), "number")
        case "time" | "microtime":
            return _moment(value, fraction=type_ == "microtime")
    return _tree(value, type_)


def _moment(value: bytes, *, fraction: bool) -> str | None:
    parts = dict(_values(value))
    if 1 not in parts:
        return None
    moment = datetime.fromtimestamp(_value(parts[1], "number"), UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{parts.get(2, 0) // 1000:06}Z" if fraction else f"{moment}Z"


def _values(data: bytes) -> Iterator[tuple[int, Any]]:
    """Numbers and raw values of the fields of a message."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        match tag & 7:
            case 0:
                value, place = _varint(data, place)
                yield tag >> 3, value
            case 2:
                length, place = _varint(data, place)
                if place + length > len(data):
                    raise ValueError("it ends too early")
                yield tag >> 3, data[place : place + length]
                place += length
            case other:
                raise ValueError(f"unexpected wire type {other}")


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7

"""Bodies in protobuf, for the kinds that kubectl sends no other way.

Programs in Go write built-in kinds in protobuf unless they are told otherwise, and kubectl cannot
be told. Reading that takes the kind's numbering; here is that of the small kinds that people create
or send by hand. Everything else, and every answer, is JSON.
"""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TypeAlias

from tonnage.embedded.apiserver.refusals import Tree, bad_request, unsupported_media_type

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

Message: TypeAlias = dict[int, tuple[str, Any]]
"""By number: the field's name in JSON, and its type. A list of one type is repeated."""

_MAGIC = b"k8s\x00"
_TEXT, _NUMBER, _FLAG, _TIME, _BYTES = "text", "number", "flag", "time", "bytes"
_TEXTS, _BLOBS = "map of text", "map of bytes"

_OWNER: Message = {
    1: ("kind", _TEXT),
    3: ("name", _TEXT),
    4: ("uid", _TEXT),
    5: ("apiVersion", _TEXT),
    6: ("controller", _FLAG),
    7: ("blockOwnerDeletion", _FLAG),
}
_META: Message = {
    1: ("name", _TEXT),
    2: ("generateName", _TEXT),
    3: ("namespace", _TEXT),
    5: ("uid", _TEXT),
    6: ("resourceVersion", _TEXT),
    11: ("labels", _TEXTS),
    12: ("annotations", _TEXTS),
    13: ("ownerReferences", [_OWNER]),
    14: ("finalizers", [_TEXT]),
}
_DELETE_OPTIONS: Message = {
    1: ("gracePeriodSeconds", _NUMBER),
    2: ("preconditions", {1: ("uid", _TEXT), 2: ("resourceVersion", _TEXT)}),
    4: ("propagationPolicy", _TEXT),
    5: ("dryRun", [_TEXT]),
}
_LEASE_SPEC: Message = {
    1: ("holderIdentity", _TEXT),
    2: ("leaseDurationSeconds", _NUMBER),
    3: ("acquireTime", _TIME),
    4: ("renewTime", _TIME),
    5: ("leaseTransitions", _NUMBER),
}
_HEAD: Message = {
    1: ("type", {1: ("apiVersion", _TEXT), 2: ("kind", _TEXT)}),
    2: ("raw", _BYTES),
}
_KINDS: dict[str, Message] = {
    "Binding": {1: ("metadata", _META), 2: ("target", {1: ("kind", _TEXT), 3: ("name", _TEXT)})},
    "ConfigMap": {
        1: ("metadata", _META),
        2: ("data", _TEXTS),
        3: ("binaryData", _BLOBS),
        4: ("immutable", _FLAG),
    },
    "DeleteOptions": _DELETE_OPTIONS,
    "Eviction": {1: ("metadata", _META), 2: ("deleteOptions", _DELETE_OPTIONS)},
    "Lease": {1: ("metadata", _META), 2: ("spec", _LEASE_SPEC)},
    "Namespace": {1: ("metadata", _META)},
    "PriorityClass": {
        1: ("metadata", _META),
        2: ("value", _NUMBER),
        3: ("globalDefault", _FLAG),
        4: ("description", _TEXT),
        5: ("preemptionPolicy", _TEXT),
    },
    "Secret": {
        1: ("metadata", _META),
        2: ("data", _BLOBS),
        3: ("type", _TEXT),
        4: ("stringData", _TEXTS),
    },
    "ServiceAccount": {1: ("metadata", _META)},
}


def decode(body: bytes) -> Tree:
    """The object in a body, as its JSON would be."""
    if not body.startswith(_MAGIC):
        raise bad_request("the body of the request is not protobuf as Kubernetes writes it")
    try:
        head = _message(body[len(_MAGIC) :], _HEAD)
        identity: Tree = head.get("type", {})
        kind = _KINDS.get(identity.get("kind", ""))
        if kind is None:
            what = f"{MEDIA_TYPE} of kind {identity.get('kind')}"
            raise unsupported_media_type(what, ("application/json", "application/yaml"))
        return {**identity, **_message(head.get("raw", b""), kind)}
    except (IndexError, UnicodeError, ValueError) as error:
        raise bad_request(f"the body of the request is not readable protobuf: {error}") from None


def _message(data: bytes, fields: Message) -> Tree:
    found: Tree = {}
    for number, value in _values(data):
        if number not in fields:
            continue
        name, type_ = fields[number]
        if isinstance(type_, list):
            found.setdefault(name, []).append(_value(value, type_[0]))
        elif type_ in (_TEXTS, _BLOBS):
            entry = _message(
                value, {1: ("key", _TEXT), 2: ("value", _TEXT if type_ == _TEXTS else "base64")}
            )
            found.setdefault(name, {})[entry.get("key", "")] = entry.get("value", "")
        else:
            read = _value(value, type_)
            # Texts that were never set are sent as empty ones.
            if read not in ("", None):
                found[name] = read
    return found


def _value(value: Any, type_: Any) -> Any:
    if isinstance(type_, dict):
        return _message(value, type_)
    match type_:
        case "text":
            return value.decode()
        case "flag":
            return bool(value)
        case "number":
            return value - (1 << 64) if value >> 63 else value
        case "base64":
            return base64.b64encode(value).decode()
        case "time":
            parts = dict(_values(value))
            if 1 not in parts:
                return None
            moment = datetime.fromtimestamp(parts[1], UTC)
            return moment.strftime("%Y-%m-%dT%H:%M:%S") + f".{parts.get(2, 0) // 1000:06}Z"
    return value


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

"""Schemas of kinds, for `kubectl explain`: what Tonnage reads, or what a definition says.

They are made from the records that objects are read into, so they cannot promise a field that
nobody knows. They are not checked against: the embedded API keeps fields that are not in them.
"""

import types
from collections.abc import Iterator
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from tonnage.embedded.apiserver.kinds import ServedKind
from tonnage.embedded.apiserver.refusals import Tree
from tonnage.objects.meta import ObjectMeta

_READ = "The fields that Tonnage reads. The embedded cluster keeps all others as they are given."
_UNREAD = "Its fields are kept as they are given; there is no list of them here."
_REFERENCE = "#/components/schemas/"
_PLAIN = {str: "string", bool: "boolean", int: "integer", float: "number"}
_MIXED = {
    "tonnage.IntOrString": "A whole number, or a string such as a name or 25%.",
    "tonnage.Quantity": "A number with a unit, such as 500m, 2 or 10Gi.",
}


def components(kinds: list[ServedKind]) -> Tree:
    """The schemas of kinds and of all that stands inside them, by name."""
    found: Tree = {}
    for kind in kinds:
        if not kind.custom:
            found.update(_described(ObjectMeta if kind.row is None else kind.row.type))
        found[_name(kind)] = _whole(kind)
    return dict(sorted(found.items()))


def _whole(kind: ServedKind) -> Tree:
    head: Tree = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    identity = [{"group": kind.group, "version": kind.version, "kind": kind.kind}]
    schema: Tree
    if kind.custom:
        schema = {"type": "object", **(kind.schema or {})}
        head["metadata"] = {"type": "object"}
    elif kind.row is None:
        head["metadata"] = _schema(ObjectMeta)
        schema = {"type": "object", "description": _UNREAD}
    else:
        schema = _record(kind.row.type)
    properties = {**head, **(schema.get("properties") or {})}
    return {**schema, "properties": properties, "x-kubernetes-group-version-kind": identity}


def _name(kind: ServedKind) -> str:
    return f"{kind.group or 'core'}.{kind.version}.{kind.kind}"


@cache
def _described(type_: Any) -> Tree:
    """The schemas that a record's schema refers to, and those that they refer to."""
    found: Tree = {}
    waiting = [type_]
    while waiting:
        record = waiting.pop()
        for inner in (part for hint in _fields(record).values() for part in _parts(hint)):
            name = _reference_name(inner)
            if name and name not in found:
                found[name] = _mixed(name) if name in _MIXED else _record(inner)
                if name not in _MIXED:
                    waiting.append(inner)
    if type_ is ObjectMeta:
        found[_reference_name(ObjectMeta)] = _record(ObjectMeta)
    return found


def _record(type_: Any) -> Tree:
    required = [field.encode_name for field in msgspec.structs.fields(type_) if field.required]
    return {
        "type": "object",
        "description": _READ,
        "properties": {name: _schema(hint) for name, hint in _fields(type_).items()},
        **({"required": required} if required else {}),
    }


def _mixed(name: str) -> Tree:
    return {"type": "string", "description": _MIXED[name], "x-kubernetes-int-or-string": True}


def _schema(hint: Any) -> Tree:
    """The schema of one field; what may be absent needs no word for it."""
    name = _reference_name(hint)
    if name:
        return {"allOf": [{"$ref": _REFERENCE + name}]}
    hint = _without_none(hint)
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _schema(get_args(hint)[0])}
    if get_origin(hint) is dict:
        return {"type": "object", "additionalProperties": _schema(get_args(hint)[1])}
    return {"type": _PLAIN.get(hint, "object")}


def _reference_name(hint: Any) -> str:
    """What a field's schema is called, empty if it has none of its own."""
    hint = _without_none(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return "tonnage.Quantity" if float in get_args(hint) else "tonnage.IntOrString"
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        # kubectl shows what comes after the last dot; the module tells namesakes apart.
        return f"{hint.__module__}.{hint.__name__}"
    return ""


def _parts(hint: Any) -> Iterator[Any]:
    """The hint without what it is wrapped in: lists, maps, absence."""
    hint = _without_none(hint)
    if get_origin(hint) in (tuple, dict):
        for one in get_args(hint):
            yield from _parts(one)
    else:
        yield hint


def _without_none(hint: Any) -> Any:
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    some = tuple(one for one in get_args(hint) if one is not type(None))
    return some[0] if len(some) == 1 else Union[some]  # noqa: UP007 - made of values, not written


@cache
def _fields(type_: Any) -> dict[str, Any]:
    hints = get_type_hints(type_)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(type_)}

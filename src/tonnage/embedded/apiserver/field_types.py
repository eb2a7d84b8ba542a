"""Types and names of all fields of built-in kinds, for what people send over HTTP.

Components in this process are typed themselves and are not checked. A server refuses a number
where text belongs, whatever the client; unknown fields it refuses under strict validation, which
`kubectl` asks for.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from tonnage.embedded.apiserver import protobuf
from tonnage.embedded.apiserver.refusals import ApiRefusal, bad_request

STRICT = "Strict"
_HEAD = ("apiVersion", "kind")


def check(body: bytes, *, strict: bool) -> None:
    """Refuse a document with a field of another type or, strictly, with one nobody knows."""
    try:
        tree = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return  # Said better by who reads it.
    kind = tree.get("kind") if isinstance(tree, dict) else None
    if not isinstance(kind, str) or kind not in protobuf.messages_by_kind():
        return
    for wrong in _wrong(tree, protobuf.messages_by_kind()[kind], ()):
        raise _refusal(kind, *wrong)
    if strict:
        unknown = list(_unknown(tree, protobuf.messages_by_kind()[kind], ()))
        if unknown:
            told = ", ".join(f'unknown field "{one}"' for one in unknown)
            raise bad_request(
                f"{kind} in the request cannot be read: strict decoding error: {told}"
            )


def _refusal(kind: str, path: str, expected: str, found: object) -> ApiRefusal:
    return bad_request(
        f"{kind} in version cannot be handled as a {kind}: json: cannot unmarshal"
        f" {_name(found)} into field {path} of type {expected}"
    )


def _wrong(
    tree: dict[str, Any], message: str, path: tuple[str, ...]
) -> Iterator[tuple[str, str, object]]:
    fields = protobuf.fields_by_name(message)
    for key, value in tree.items():
        field = fields.get(key)
        if field is None or value is None or key.startswith("$"):
            continue
        here = (*path, key)
        for item, of in _items(value, field, here):
            if isinstance(item, _Misshapen):
                yield ".".join(of), item.expected, item.found
            elif field.type in protobuf.SCALARS:
                if not _fits(item, field.type):
                    yield ".".join(of), _EXPECTED[field.type], item
            elif isinstance(item, dict):
                yield from _wrong(item, field.type, of)
            elif item is not None:
                yield ".".join(of), "object", item


def _unknown(tree: dict[str, Any], message: str, path: tuple[str, ...]) -> Iterator[str]:
    fields = protobuf.fields_by_name(message)
    for key, value in tree.items():
        here = (*path, key)
        if key.startswith("$") or (not path and key in _HEAD):
            continue
        if key not in fields:
            yield ".".join(here)
        elif fields[key].type not in protobuf.SCALARS:
            for item, of in _items(value, fields[key], here):
                if isinstance(item, dict):
                    yield from _unknown(item, fields[key].type, of)


class _Misshapen:
    """Something else than the list or mapping that a field is."""

    def __init__(self, expected: str, found: object) -> None:
        self.expected = expected
        self.found = found


def _items(
    value: Any, field: "protobuf.Field", path: tuple[str, ...]
) -> Iterator[tuple[Any, tuple[str, ...]]]:
    if field.repeated:
        if not isinstance(value, list):
            yield _Misshapen("array", value), path
            return
        for number, item in enumerate(value):
            yield item, (*path[:-1], f"{path[-1]}[{number}]")
    elif field.mapped:
        if not isinstance(value, dict):
            yield _Misshapen("object", value), path
            return
        for key, item in value.items():
            yield item, (*path, key)
    else:
        yield value, path


def _fits(value: object, type_: str) -> bool:
    if value is None or type_ == "json":
        return True
    if type_ in ("text", "time", "microtime", "bytes"):
        return isinstance(value, str)
    if type_ == "flag":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if type_ == "number":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return isinstance(value, str | int | float)  # quantity, intOrString


_EXPECTED = {
    "text": "string",
    "time": "string",
    "microtime": "string",
    "bytes": "string",
    "flag": "bool",
    "number": "int",
    "quantity": "Quantity",
    "intOrString": "IntOrString",
    "json": "any",
}


def _name(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"

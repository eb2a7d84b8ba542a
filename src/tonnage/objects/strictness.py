"""Fields that nobody reads, in what people write for us by hand.

Kubernetes has more fields than we read, so its kinds are read with whatever they have. In our own
kinds and in settings a field we do not know is a slip of the pen, which would be passed over in
silence; in a Node that stands inside of ours, one that is nearly a field we read.
"""

from collections.abc import Iterator
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from tonnage.objects import phrases
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSINode
from tonnage.objects.validation import Fault, Path

_TOLERANT = frozenset({ObjectMeta, Node, CSINode})
"""What comes from Kubernetes, also where it stands inside of ours: it has fields we do not read.
One that is nearly a field we do read is a slip of the pen there too."""

_MISSPELT = 0.8
"""So alike is no field of these kinds to one that we read, unless it is meant to be that one."""

_MOST = 16
"""More names than this are not read in an error."""

_HEAD = ("apiVersion", "kind")


def first_unknown(value: object, type_: Any, at: Path = ()) -> Fault | None:
    """The first field in plain values that their type does not have, `None` if it has all."""
    return next(_unknown(value, type_, at, strict=True), None)


def choices(type_: type[msgspec.Struct], path: Path) -> tuple[str, ...]:
    """The words that a field of a record may be, if it is one of some words."""
    option = _fields(type_).get(str(path[0])) if len(path) == 1 else None
    return get_args(option) if get_origin(option) is Literal else ()


def _unknown(value: object, type_: Any, at: Path, *, strict: bool) -> Iterator[Fault]:
    for option in _options(type_):
        if isinstance(value, list) and get_origin(option) in (tuple, list):
            for position, item in enumerate(value):
                yield from _unknown(item, get_args(option)[0], (*at, position), strict=strict)
        elif isinstance(value, dict) and _is_record(option):
            types = _fields(option)
            inside = strict and option not in _TOLERANT
            for key, item in value.items():
                if key in types:
                    yield from _unknown(item, types[key], (*at, key), strict=inside)
                elif (at or key not in _HEAD) and (
                    inside or _nearest(str(key), tuple(types), cutoff=_MISSPELT)
                ):
                    yield _fault(str(key), tuple(types), at)


@cache
def _fields(type_: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.encode_name: field.type for field in msgspec.structs.fields(type_)}


def _fault(name: str, known: tuple[str, ...], at: Path) -> Fault:
    near = _nearest(name, known)
    if near:
        expected = f"{near} or another known field"
    elif len(known) <= _MOST:
        expected = f"one of {', '.join(known)}"
    else:
        likest = phrases.near_names(name, known, cutoff=0.0)
        expected = f"a known field, such as {', '.join(likest)}"
    return Fault((*at, name), expected, "an unknown field")


def _nearest(name: str, known: tuple[str, ...], *, cutoff: float = 0.6) -> str:
    by_lower = {one.lower(): one for one in known}
    found = phrases.near_names(name.lower(), by_lower, most=1, cutoff=cutoff)
    return by_lower[found[0]] if found else ""


def _options(type_: Any) -> tuple[Any, ...]:
    return get_args(type_) if get_origin(type_) in (UnionType, Union) else (type_,)


def _is_record(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)

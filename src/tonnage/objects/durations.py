"""Durations as Go writes them, because upstream's annotations and flags do."""

import re
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = rf"([0-9]+\.?[0-9]*|\.[0-9]+)({'|'.join(_UNITS)})"

PATTERN = f"^({_PART})+$"
"""What a duration looks like, for a JSON schema."""

_NO_TIMES = ("percentage", "threshold", "percent", "weight", "saving", "disruption", "hour")
"""How fields end that are numbers and no times."""


def seconds(text: str) -> float | None:
    """The seconds of a duration such as 90s or 1m30s; `None` if it is none."""
    if re.fullmatch(f"({_PART})+", text) is None:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text))


@cache
def times(type_: type[msgspec.Struct]) -> frozenset[str]:
    """Names of the fields that are times: all that are not whole numbers, but for a few."""
    return frozenset(
        field.encode_name
        for field in msgspec.structs.fields(type_)
        if float in _kinds(field.type) and not field.name.endswith(_NO_TIMES)
    )


def in_seconds(settings: Mapping[str, object], type_: type[msgspec.Struct]) -> dict[str, object]:
    """The settings with durations turned to seconds where a time is expected, however deep."""
    found = dict(settings)
    for name in times(type_) & found.keys():
        found[name] = _as_number(found[name])
    for name, kind in _types(type_):
        value = found.get(name)
        if value is not None:
            found[name] = _deeper(value, kind)
    return found


@cache
def _types(type_: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    """The fields by name with their types."""
    return tuple((field.encode_name, field.type) for field in msgspec.structs.fields(type_))


def nested(type_: Any) -> set[type[msgspec.Struct]]:
    """The records that settings are made of, themselves included."""
    if not isinstance(type_, type) or not issubclass(type_, msgspec.Struct):
        return set().union(*map(nested, get_args(type_)))
    return {type_}.union(*(nested(field.type) for field in msgspec.structs.fields(type_)))


def _deeper(value: object, type_: Any) -> object:
    if isinstance(value, dict):
        if type_ == dict[str, float]:
            return {key: _as_number(one) for key, one in value.items()}
        for one in _kinds(type_):
            if isinstance(one, type) and issubclass(one, msgspec.Struct):
                return in_seconds(value, one)
    if isinstance(value, list):
        for one in _kinds(type_):
            if get_origin(one) is tuple:
                return [_deeper(entry, get_args(one)[0]) for entry in value]
    return value


def _as_number(value: object) -> object:
    found = seconds(value) if isinstance(value, str) else None
    return value if found is None else found


def _kinds(type_: Any) -> tuple[Any, ...]:
    return get_args(type_) if get_origin(type_) in (UnionType, Union) else (type_,)

"""From what people write to records: durations, short forms of delays, and where an error stands.

duration: 30m                   seconds, or a Go duration, wherever a time is expected
start: 40s                      a delay that is always the same
start: [30s, 60s]               a delay from one to another
"""

import re
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from tonnage.embedded.world import Delay
from tonnage.errors import InputError
from tonnage.files.yamltext import YamlDocument
from tonnage.objects import codec, durations, strictness
from tonnage.objects.validation import Fault, describe

T = TypeVar("T", bound=msgspec.Struct)
Steps = tuple[str | int, ...]


def converted(value: object, type_: type[T], *, where: "Where") -> T:
    """The record that a value of a file stands for; `InputError` with line and field if none."""
    return _made(_prepared(value, type_, where), type_, where)


def _made(value: object, type_: type[T], where: "Where") -> T:
    try:
        return msgspec.convert(value, type_)
    except (msgspec.ValidationError, InputError) as error:
        message, _, path = str(error).partition(" - at `$")
        steps = _steps(path)
        if not path and not isinstance(error, msgspec.ValidationError):
            raise where.error(message) from None
        fault = strictness.first_unknown(value, type_)
        choices = _choices(type_, steps)
        if fault is None and choices:
            fault = Fault(steps, " or ".join(choices), describe(_at(value, steps)))
        if fault is None and message.startswith(("Expected `", "Object missing")):
            fault = codec.explained(str(error), value)
        if fault is None:  # A check of ours, which has better words than a type.
            raise where.inside(*steps).error(message) from None
        told = f"expected {fault.expected}, found {fault.found}"
        raise where.inside(*fault.path).error(told) from None


def _choices(type_: type[msgspec.Struct], path: Steps) -> tuple[str, ...]:
    """The words that a field of a record may be, if it is one of some words."""
    hint = _fields(type_).get(str(path[0])) if len(path) == 1 else None
    for kind in _kinds(hint):
        if get_origin(kind) is Literal:
            return get_args(kind)
    return ()


def _at(value: Any, path: Steps) -> object:
    for step in path:
        value = value[step]
    return value


class Where:
    """A place in a file, for messages."""

    def __init__(self, file: str, document: YamlDocument, path: Steps = ()) -> None:
        self._file = file
        self._document = document
        self._path = path

    def inside(self, *steps: str | int) -> "Where":
        return Where(self._file, self._document, (*self._path, *steps))

    def error(self, message: str) -> InputError:
        """What is wrong here, with file, line and field before it."""
        place = f"{self._file}:{self._document.line_of(self._path)}"
        # A message about a field of what stands here begins with its name.
        named = re.match(r"`(\w+)`: ", message)
        path = (*self._path, named[1]) if named else self._path
        if named:
            message = message[named.end() :]
            place = f"{self._file}:{self._document.line_of(path)}"
        return InputError(f"{place}: {f'{codec.render(path)}: ' if path else ''}{message}")


def seconds(value: object) -> float | None:
    """What a number or a Go duration comes to; `None` if it is neither."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return durations.seconds(value) if isinstance(value, str) else float(value)


def _prepared(value: Any, type_: Any, where: Where) -> Any:
    """The value with every time in seconds; what does not fit its type is left for msgspec."""
    kinds = _kinds(type_)
    if value is None and type(None) in kinds:
        return None
    kind = next((one for one in kinds if one is not type(None)), None)
    if kind is float:
        return _time(value, where)
    if kind is Delay and not isinstance(value, dict):
        ends = value if isinstance(value, list) and len(value) == 2 else [value, 0.0]
        delay = dict(zip(("least", "most"), (_time(end, where) for end in ends), strict=True))
        _made(delay, Delay, where)
        return delay
    if get_origin(kind) is tuple and isinstance(value, list):
        item = get_args(kind)[0]
        return [_prepared(one, item, where.inside(at)) for at, one in enumerate(value)]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, dict):
        hints = _fields(kind)
        prepared = {
            key: _prepared(one, hints[key], where.inside(key)) if _is_told(key, hints) else one
            for key, one in value.items()
        }
        # What is wrong is best told where it stands; of records inside records msgspec would not.
        _made(prepared, kind, where)
        return prepared
    return value


def _kinds(type_: Any) -> tuple[Any, ...]:
    return get_args(type_) if get_origin(type_) in (Union, types.UnionType) else (type_,)


def _is_told(key: str, hints: Mapping[str, Any]) -> bool:
    """Whether a field is known and, if it is a number, a time: all are but chances."""
    return key in hints and not key.lower().endswith("chance")


def _time(value: object, where: Where) -> float:
    found = seconds(value)
    if found is None:
        raise where.error(f"{describe(value)}: expected seconds, or a duration such as 1m30s")
    return found


def _fields(kind: type[msgspec.Struct]) -> Mapping[str, Any]:
    """Types by the name a field has in files."""
    hints = get_type_hints(kind)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(kind)}


def _steps(path: str) -> Steps:
    """The way that msgspec names, as `.spec.script[2].at`, in steps."""
    found: list[str | int] = []
    for name, index in re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", path):
        if name:
            found.append(name)
        elif index.isdigit():
            found.append(int(index))
    return tuple(found)

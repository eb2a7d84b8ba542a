"""A YAML file of settings that is read again when it changes.

A file that cannot be used never replaces one that could: the old settings stay in force, and the
error says file, line and field.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import (
    Any,
    Generic,
    Protocol,
    TypeVar,
    runtime_checkable,
)

import msgspec

from tonnage.errors import InputError, system_errors
from tonnage.files import yamltext
from tonnage.objects import codec, durations, strictness
from tonnage.objects.validation import Fault, describe
from tonnage.objects.validation import Path as Steps

T = TypeVar("T", bound=msgspec.Struct)

DURATION = "a duration such as 10s or 1m30s"

_log = logging.getLogger(__name__)


@runtime_checkable
class Remarkable(Protocol):
    """Settings that can be used, and of which there may be something to say all the same."""

    @property
    def remarks(self) -> tuple[str, ...]: ...


@runtime_checkable
class Constrained(Protocol):
    """Settings that are held to more than their types."""

    @classmethod
    def constraints(cls) -> dict[str, dict[str, object]]:
        """What a JSON schema says of it, by the field's name in a file."""
        ...


def parse(
    data: bytes,
    type_: type[T],
    *,
    where: str,
    given: Mapping[str, object],
    given_where: str = "",
) -> T:
    """Settings from YAML text; `given`, such as flags, goes before what the text says.

    Numbers of seconds may be written as Go durations, such as 1m30s. What is wrong with something
    that was given is told as of `given_where`, if that is another place.
    """
    settings: dict[str, object] = {}
    document: yamltext.YamlDocument | None = None
    try:
        for line, part in yamltext.split(data):
            for document in yamltext.read(part, first_line=line):
                if not isinstance(document.value, dict):
                    raise InputError(f"{where}:{document.line}: expected fields and values")
                if document.repeated is not None:
                    key, again = document.repeated
                    raise InputError(f"{where}:{again}: {key}: written for the second time")
                settings.update(document.value)
    except yamltext.YamlError as error:
        raise InputError(f"{where}:{error.line}: {error.message}") from None
    settings.update(given)
    try:
        return _converted(settings, type_)
    except _WrongFieldError as error:
        path, message = error.path, str(error)
    except InputError as error:
        # What a record says of itself has the name of the field in backticks.
        message = str(error)
        path = tuple(name for name in settings if f"`{name}`" in message)[:1]
    if path and path[0] in given:
        place = given_where or where
    else:
        place = f"{where}:{document.line_of(path)}" if document is not None else where
    raise InputError(f"{place}: {message}")


def schema(type_: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a file of such settings, as they are accepted: times as durations too."""
    made = msgspec.json.schema(type_)
    properties = made["$defs"][type_.__name__]["properties"]
    if issubclass(type_, Constrained):
        for name, constraint in type_.constraints().items():
            properties[name] |= constraint
    duration = {"type": "string", "pattern": durations.PATTERN}
    for part in durations.nested(type_):
        fields = made["$defs"][part.__name__]["properties"]
        for name in durations.times(part):
            known = fields[name]
            types = known.pop("anyOf", None) or [{"type": known.pop("type")}]
            known["anyOf"] = [*types, duration]
    return made


class _WrongFieldError(InputError):
    """A field that is unknown, or has a value of another type."""

    def __init__(self, path: Steps, message: str) -> None:
        self.path = path
        super().__init__(f"{codec.render(path)}: {message}" if path else message)


def _converted(settings: dict[str, object], type_: type[T]) -> T:
    fault = strictness.first_unknown(settings, type_)
    if fault is None:
        in_seconds = durations.in_seconds(settings, type_)
        try:
            return msgspec.convert(in_seconds, type_)
        except msgspec.ValidationError as error:
            fault = codec.explained(str(error), in_seconds)
            message, _, place = str(error).partition(" - at ")
            choices = strictness.choices(type_, fault.path)
            if choices:
                found = describe(in_seconds[str(fault.path[0])])
                fault = Fault(fault.path, " or ".join(choices), found)
            elif place and not message.startswith(("Expected `", "Object missing")):
                # A check of ours, which has better words than a type.
                raise _WrongFieldError(fault.path, message) from None
    if fault.path and fault.path[0] in durations.times(type_):
        fault = msgspec.structs.replace(fault, expected=DURATION)
    raise _WrongFieldError(fault.path, f"expected {fault.expected}, found {fault.found}")


class ConfigFile(Generic[T]):
    """`current` is always good; `problem` says why a newer file is not used, if so."""

    def __init__(
        self, path: Path | None, type_: type[T], *, given: Mapping[str, object] | None = None
    ) -> None:
        self._path = path
        self._type = type_
        self._given = dict(given or {})
        data = self._read()
        self._data: bytes | None = data
        """What was looked at last; `None` if the file was not there."""
        self.current = self._parsed(data)
        self.problem = ""
        self.reloads = 0
        """Changes of the file that were taken over."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What there is to say of settings that can be used."""
        return self.current.remarks if isinstance(self.current, Remarkable) else ()

    def check(self) -> bool:
        """Look at the file again; whether there are new settings."""
        known, self._data = self._data, None
        try:
            self._data = self._read()
            if self._data == known:
                return False
            new = self._parsed(self._data)
        except InputError as error:
            if str(error) != self.problem:
                self.problem = str(error)
                _log.error("configuration not reloaded", extra={"error": self.problem})
            return False
        self.problem = ""
        changed = sorted(
            field.encode_name
            for field in msgspec.structs.fields(self._type)
            if getattr(new, field.name) != getattr(self.current, field.name)
        )
        if not changed:
            return False
        self.current = new
        self.reloads += 1
        _log.info("configuration reloaded", extra={"changed": changed})
        for remark in self.remarks:
            _log.warning(remark)
        return True

    def _read(self) -> bytes:
        if self._path is None:
            return b""
        with system_errors(self._path):
            return self._path.read_bytes()

    def _parsed(self, data: bytes) -> T:
        where = str(self._path) if self._path is not None else "flags"
        return parse(data, self._type, where=where, given=self._given, given_where="flags")

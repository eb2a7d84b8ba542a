"""A YAML file of settings that is read again when it changes.

A file that cannot be used never replaces one that could: the old settings stay in force, and the
error says file, line and field.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin

import msgspec

from tonnage.errors import InputError
from tonnage.files import yamltext
from tonnage.scaleup import durations

T = TypeVar("T", bound=msgspec.Struct)

_log = logging.getLogger(__name__)


def parse(data: bytes, type_: type[T], *, where: str, given: Mapping[str, object]) -> T:
    """Settings from YAML text; `given`, such as flags, goes before what the text says.

    Numbers of seconds may be written as Go durations, such as 1m30s.
    """
    settings: dict[str, object] = {}
    document: yamltext.Document | None = None
    try:
        for line, part in yamltext.split(data):
            for document in yamltext.read(part, first_line=line):
                if not isinstance(document.value, dict):
                    raise InputError(f"{where}:{document.line}: expected fields and values")
                settings.update(document.value)
    except yamltext.YamlError as error:
        raise InputError(f"{where}:{error.line}: {error.message}") from None
    settings.update(given)
    try:
        return msgspec.convert(_in_seconds(settings, type_), type_)
    except (msgspec.ValidationError, InputError) as error:
        message, _, path = str(error).partition(" - at `$")
        field = path.strip("`.").partition(".")[0].partition("[")[0]
        if not field:
            # Of an unknown field only the message knows the name.
            field = next((name for name in settings if f"`{name}`" in message), "")
        place = where if field in given or document is None else f"{where}:{_line(document, field)}"
        raise InputError(f"{place}: {f'{field}: ' if path else ''}{message}") from None


def _line(document: yamltext.Document, field: str) -> int:
    return document.line_of((field,) if field else ())


def _in_seconds(settings: Mapping[str, object], type_: type[msgspec.Struct]) -> dict[str, object]:
    """The settings with Go durations turned to seconds where a number is expected."""
    found = dict(settings)
    for field in msgspec.structs.fields(type_):
        value = found.get(field.encode_name)
        if isinstance(value, str) and float in _kinds(field.type):
            seconds = durations.seconds(value)
            if seconds is not None:
                found[field.encode_name] = seconds
    return found


def _kinds(type_: Any) -> tuple[Any, ...]:
    return get_args(type_) if get_origin(type_) in (UnionType, Union) else (type_,)


class ConfigFile(Generic[T]):
    """`current` is always good; `problem` says why a newer file is not used, if so."""

    def __init__(
        self, path: Path | None, type_: type[T], *, given: Mapping[str, object] | None = None
    ) -> None:
        self._path = path
        self._type = type_
        self._given = dict(given or {})
        self._data = self._read()
        self.current = self._parsed(self._data)
        self.problem = ""
        self.reloads = 0
        """Changes of the file that were taken over."""

    def check(self) -> bool:
        """Look at the file again; whether there are new settings."""
        try:
            data = self._read()
            if data == self._data:
                return False
            self._data = data
            new = self._parsed(data)
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
        return True

    def _read(self) -> bytes:
        if self._path is None:
            return b""
        try:
            return self._path.read_bytes()
        except OSError as error:
            raise InputError(f"{self._path}: {error.strerror or error}") from None

    def _parsed(self, data: bytes) -> T:
        where = str(self._path) if self._path is not None else "flags"
        return parse(data, self._type, where=where, given=self._given)

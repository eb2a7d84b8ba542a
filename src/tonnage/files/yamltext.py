"""YAML as Kubernetes reads it, built straight from parser events.

A loader would compose nodes, resolve them by YAML 1.1 and construct values; that costs twice
the time, turns timestamps into dates, recurses once per level of nesting, and lets a few
aliases grow into gigabytes. Building from events does none of this, and keeps the line of
every key for messages. Scalars follow the library that Kubernetes uses: `yes` and `on` are
booleans, timestamps stay text, keys become strings.
"""

import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import pairwise
from types import NoneType
from typing import Any

import yaml

from tonnage.errors import InputError
from tonnage.objects.validation import Path, describe

DEEPEST = 200
"""More nesting than this is no manifest."""

SLOWNESS = 50 if yaml.__with_libyaml__ else 500
"""How many times longer than JSON it takes, as measured on pods."""

EXPANSION = 400_000
"""Values that aliases may add to what is written out."""


class YamlError(InputError):
    """The text is not YAML that can be read; the line is counted from 1."""

    def __init__(self, line: int, message: str) -> None:
        self.line = line
        self.message = message
        super().__init__(f"line {line}: {message}")


class YamlDocument:
    """One document: its value, and on which line each part of it stands."""

    def __init__(
        self,
        value: object,
        *,
        line: int,
        lines: dict[int, dict[str | int, int]],
        repeated: tuple[str, int] | None,
    ) -> None:
        self.value = value
        self.line = line
        self._lines = lines
        self.repeated = repeated
        """The first key that its mapping had already, and the line; the later value counts."""

    def line_of(self, path: Path) -> int:
        """The line of what is at `path`, or of the nearest thing around it."""
        line = self.line
        value: Any = self.value
        for step in path:
            line = self._lines.get(id(value), {}).get(step, line)
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                break
        return line


def split(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The parts between `---` lines, each with the number of its first line.

    Parts are read one by one, so that one broken document does not hide the others. Parts that
    hold nothing but comments and directives are left out.
    """
    starts = [0, *(mark.start() for mark in _MARKER.finditer(data)), len(data)]
    line = 1
    for start, end in pairwise(starts):
        part = data[start:end]
        if _CONTENT.search(part[3:] if part.startswith(b"---") else part):
            yield line, part
        line += data.count(b"\n", start, end)


def read(part: bytes, *, first_line: int = 1) -> Iterator[YamlDocument]:
    """The documents of one part of `split`: one, unless `...` lines separate more."""
    try:
        yield from _Builder(part, first_line=first_line).documents()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # At the end of the text the parser counts a line that is not there.
        line = first_line + min(mark.line if mark is not None else 0, part.rstrip().count(b"\n"))
        raise YamlError(line, f"not YAML: {error.problem or error.context}") from error
    except yaml.reader.ReaderError as error:
        line = first_line + part.count(b"\n", 0, max(0, error.position))
        raise YamlError(line, f"not YAML: {error.reason}") from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise YamlError(first_line, f"not YAML: {error}") from error


def resolve(text: str) -> object:
    """What an unquoted scalar means."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text.replace("_", "") if text[0] != "." else text
    if _DECIMAL.fullmatch(plain):
        number = int(plain) if len(plain) <= _LONGEST else 2**64
        return number if -(2**63) <= number < 2**64 else _number(plain, text)
    if _BASED.fullmatch(plain):
        number = int(plain, 0)
        return number if -(2**63) <= number < 2**64 else text
    if _OCTAL.fullmatch(plain):
        number = int(plain, 8)
        return number if -(2**63) <= number < 2**64 else _number(plain, text)
    return _number(plain, text) if _FLOAT.fullmatch(plain) else text


_MARKER = re.compile(rb"^---(?=\s|\Z)", re.MULTILINE)
_CONTENT = re.compile(rb"^[ \t]*[^ \t\r\n#%]", re.MULTILINE)
_NOT_JSON = object()
_WORDS: dict[str, object] = {
    form: value
    for word, value in {
        "y": True,
        "yes": True,
        "on": True,
        "true": True,
        "n": False,
        "no": False,
        "off": False,
        "false": False,
        "null": None,
        ".inf": _NOT_JSON,
        "+.inf": _NOT_JSON,
        "-.inf": _NOT_JSON,
    }.items()
    for form in (word, word.upper(), word.capitalize(), word.replace(".i", ".I"))
} | {"": None, "~": None, ".nan": _NOT_JSON, ".NaN": _NOT_JSON, ".NAN": _NOT_JSON}
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_BASED = re.compile(r"[-+]?0(?:[xX][0-9a-fA-F]{1,99}|[bB][01]{1,99}|[oO][0-7]{1,99})")
_OCTAL = re.compile(r"[-+]?0[0-7]{1,99}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LONGEST = 40
_TYPES: dict[str, tuple[type, ...]] = {
    "tag:yaml.org,2002:int": (int,),
    "tag:yaml.org,2002:float": (int, float),
    "tag:yaml.org,2002:bool": (bool,),
    "tag:yaml.org,2002:null": (NoneType,),
}
_OPEN = object()
_MERGE = "merge key " * 2
""""<<" without quotes; compared by identity, so that no key of a document can be taken for it."""


def _number(plain: str, text: str) -> int | float | str:
    """A float, or the whole number it becomes on its way through JSON (`3.0` and `08` do)."""
    number = float(plain)
    if math.isinf(number):
        return text
    return int(Decimal(repr(number))) if number.is_integer() and abs(number) < 1e21 else number


class _Frame:
    """A mapping or list whose end has not come yet."""

    __slots__ = ("anchor", "key", "lines", "merged", "size", "value")

    def __init__(self, value: dict[str, object] | list[object], anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: str | None = None
        self.lines: dict[str | int, int] = {}
        self.merged: list[dict[str, object]] = []
        self.size = 1


class _Builder:
    """Turns events into values; holds the anchors, lines and alias budget of one document."""

    def __init__(self, part: bytes, *, first_line: int) -> None:
        parser: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
        self._next: Callable[[], Any] = parser(part).get_event
        self._first_line = first_line
        self._anchors: dict[str, tuple[object, int]] = {}
        self._lines: dict[int, dict[str | int, int]] = {}
        self._expanded = 0
        self._repeated: tuple[str, int] | None = None

    def documents(self) -> Iterator[YamlDocument]:
        while True:
            event = self._next()
            if isinstance(event, yaml.StreamEndEvent):
                return
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors, self._lines, self._expanded, self._repeated = {}, {}, 0, None
                root = self._next()
                value, line = self._build(root), self._line(root)
                yield YamlDocument(value, line=line, lines=self._lines, repeated=self._repeated)

    def _build(self, event: Any) -> object:
        stack: list[_Frame] = []
        while True:
            kind = type(event)
            if kind is yaml.ScalarEvent:
                value, size, anchor = self._scalar(event), 1, event.anchor
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._open(event, stack)
                event = self._next()
                continue
            elif kind is yaml.AliasEvent:
                value, size = self._alias(event)
                anchor = None
            else:
                frame = stack.pop()
                value, size, anchor = self._close(frame), frame.size, frame.anchor
            if anchor is not None:
                self._anchors[anchor] = (value, size)
            if not stack:
                return value
            self._place(value, size, stack[-1], event)
            event = self._next()

    def _open(self, event: Any, stack: list[_Frame]) -> None:
        if len(stack) >= DEEPEST:
            raise self._error(event, f"more than {DEEPEST} levels of nesting")
        if stack:
            outer = stack[-1]
            if isinstance(outer.value, list):
                outer.lines[len(outer.value)] = self._line(event)
            elif outer.key is None:
                raise self._error(event, "a mapping or list as a key, expected a string")
        mapping = type(event) is yaml.MappingStartEvent
        if event.anchor is not None:
            self._anchors[event.anchor] = (_OPEN, 0)
        stack.append(_Frame({} if mapping else [], event.anchor))

    def _place(self, value: object, size: int, frame: _Frame, event: Any) -> None:
        """Puts a finished value where it belongs: into its list, under its key, or as the key."""
        frame.size += size
        container = frame.value
        if isinstance(container, list):
            container.append(value)
        elif frame.key is None:
            key = value if type(value) is str and value != "<<" else self._key(value, event)
            frame.key = key
            if key in frame.lines and key is not _MERGE and self._repeated is None:
                self._repeated = (key, self._line(event))
            frame.lines[key] = self._line(event)
        elif frame.key is _MERGE:
            self._merge(value, frame, event)
            frame.key = None
        else:
            container[frame.key] = value
            frame.key = None

    def _close(self, frame: _Frame) -> object:
        container = frame.value
        for merged in frame.merged:
            assert isinstance(container, dict)
            for key, value in merged.items():
                container.setdefault(key, value)
        self._lines[id(container)] = frame.lines
        return container

    def _merge(self, value: object, frame: _Frame, event: Any) -> None:
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, dict):
                raise self._error(event, f"<< takes mappings, found {describe(item)}")
            frame.merged.append(item)

    def _alias(self, event: Any) -> tuple[object, int]:
        value, size = self._anchors.get(event.anchor, (_OPEN, 0))
        if value is _OPEN:
            raise self._error(event, f"*{event.anchor} stands for nothing, or for itself")
        self._expanded += size
        if self._expanded > EXPANSION:
            raise self._error(event, f"aliases expand to more than {EXPANSION:,} values")
        return value, size

    def _scalar(self, event: Any) -> object:
        text: str = event.value
        tag: str | None = event.tag
        if tag is None:
            value = resolve(text) if event.implicit[0] else text
        elif tag in _TYPES:
            value = resolve(text)
            if not isinstance(value, _TYPES[tag]):
                raise self._error(event, f"{describe(text)} does not fit its tag {tag}")
        else:
            return text
        if value is _NOT_JSON:
            raise self._error(event, f"{text} is no number that JSON has")
        return value

    def _key(self, value: object, event: Any) -> str:
        if type(value) is str:
            # Quoted it is an ordinary key; interned words make the identity safe to compare.
            plain = value == "<<" and type(event) is yaml.ScalarEvent and event.implicit[0]
            return _MERGE if plain else value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return str(value)
        raise self._error(event, f"{describe(value)} as a key, expected a string")

    def _line(self, event: Any) -> int:
        line: int = event.start_mark.line
        return self._first_line + line

    def _error(self, event: Any, message: str) -> YamlError:
        return YamlError(self._line(event), message)

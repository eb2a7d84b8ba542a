"""Values from events of the YAML parser: the part of reading YAML that needs its library."""

from collections.abc import Callable, Iterator
from types import NoneType
from typing import Any

import yaml

from tonnage.files.yamltext import NOT_JSON, YamlDocument, YamlError, resolve
from tonnage.objects.validation import describe

DEEPEST = 200
"""More nesting than this is no manifest."""

EXPANSION = 400_000
"""Values that aliases may add to what is written out."""

_TYPES: dict[str, tuple[type, ...]] = {
    "tag:yaml.org,2002:int": (int,),
    "tag:yaml.org,2002:float": (int, float),
    "tag:yaml.org,2002:bool": (bool,),
    "tag:yaml.org,2002:null": (NoneType,),
}
_OPEN = object()
_MERGE = "merge key " * 2
""""<<" without quotes; compared by identity, so that no key of a document can be taken for it."""


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


class YamlBuilder:
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
        if value is NOT_JSON:
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

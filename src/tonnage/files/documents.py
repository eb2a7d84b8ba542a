"""A document, whether JSON or YAML: where it stands, what kind it is, how to decode it.

JSON documents are bytes and are not built before their kind is known; YAML documents are
plain values already. What reads documents need not care which.
"""

import contextlib
import re
from typing import Any, TypeAlias, TypeGuard, cast

import msgspec

from tonnage.files import yamltext
from tonnage.objects import codec, kinds
from tonnage.objects.kinds import Kind, KubeObject
from tonnage.objects.validation import Path, describe


class DocumentPosition(msgspec.Struct, frozen=True, kw_only=True):
    """Where a document stands, for messages."""

    file: str = ""
    document: int = 0
    line: int = 0
    path: Path = ()
    tree: yamltext.YamlDocument | None = None

    def inside(self, steps: Path) -> "DocumentPosition":
        return msgspec.structs.replace(self, path=self.path + steps) if steps else self

    def position(self, field: Path = ()) -> str:
        """`document 3, line 41` in YAML, `line 7` in JSON lines, `items[12]` in lists."""
        line = self.tree.line_of(self.path + field) if self.tree is not None else self.line
        parts = [
            f"document {self.document}" if self.document else "",
            f"line {line}" if line else "",
            codec.render(self.path),
        ]
        return ", ".join(part for part in parts if part)


class ObjectHead(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What must be known of an object before it can be decoded by its kind."""

    api_version: Any = None
    kind: Any = None
    items: list[Any] | None = None


Opened: TypeAlias = ObjectHead | list[Any] | None
"""The head of an object, the items of a bare list, or `None` for a scalar."""


class UnreadableError(Exception):
    """JSON text is malformed, and how."""

    def __init__(self, text: bytes, complaint: Exception) -> None:
        self.text = text
        self.complaint = complaint
        super().__init__(str(complaint))


def opened(document: object) -> Opened:
    """Looks at a document's head. JSON is read to its very end, or it is `UnreadableError`."""
    if isinstance(document, dict):
        items = document.get("items")
        return ObjectHead(
            api_version=document.get("apiVersion"),
            kind=document.get("kind"),
            items=items if isinstance(items, list) else None,
        )
    if isinstance(document, list):
        return document
    if not _is_json(document):
        return None
    try:
        for decoder in _OPENERS:
            try:
                found = decoder.decode(document)
            except msgspec.ValidationError:
                continue
            if isinstance(found, _Itemless):
                return ObjectHead(api_version=found.api_version, kind=found.kind)
            return cast(ObjectHead | list[Any], found)
        with contextlib.suppress(msgspec.ValidationError):
            msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UnreadableError(bytes(document), error) from error
    return None


def row_at_a_glance(document: object) -> Kind | None:
    """The kind of an object written the way API servers write, without reading all of it."""
    if not _is_json(document):
        return None
    start = _USUAL_START.match(document)
    return kinds.by_kind(start[1].decode(), start[2].decode()) if start is not None else None


def decoded(document: object, row: Kind) -> KubeObject:
    """The typed object; `DecodeError` if it is not one."""
    if _is_json(document):
        return codec.decode(document, row)
    return codec.convert(document, row)


def plain(document: object) -> dict[str, Any]:
    """A document whose head was looked at, as plain values."""
    return cast(dict[str, Any], msgspec.json.decode(document) if _is_json(document) else document)


def is_null(document: object) -> bool:
    return document is None or (_is_json(document) and bytes(document).strip() == b"null")


def shown(document: object) -> str:
    """What a message says was found where an object should be."""
    if not _is_json(document):
        return describe(document)
    try:
        return describe(msgspec.json.decode(document))
    except msgspec.ValidationError:
        return "a number out of range"


class _Listed(ObjectHead, frozen=True, kw_only=True, rename="camel"):
    items: list[msgspec.Raw] | None = None


class _Itemless(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The head of an object that calls something else than a list its items."""

    api_version: Any = None
    kind: Any = None


_OPENERS: tuple[msgspec.json.Decoder[Any], ...] = (
    msgspec.json.Decoder(_Listed),
    msgspec.json.Decoder(_Itemless),
    msgspec.json.Decoder(list[msgspec.Raw]),
)
_USUAL_START = re.compile(
    rb"""\s*\{\s*"apiVersion"\s*:\s*"([a-z0-9./-]+)"\s*,\s*"kind"\s*:\s*"([A-Za-z]+)"\s*[,}]"""
)


def _is_json(document: object) -> TypeGuard[bytes | msgspec.Raw]:
    return isinstance(document, bytes | msgspec.Raw)

"""Documents as they are written, of any kind: for those who look at what has no type here."""

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import msgspec

from tonnage.errors import InputError
from tonnage.files import sources, yamltext


def load_plain(
    paths: Sequence[sources.PathLike], *, stdin: BinaryIO | None = None
) -> list[dict[str, Any]]:
    """All documents of files and directories, with the items of lists in place of the lists."""
    return [
        one
        for source in sources.find(paths)
        for value in _values(source.name, sources.read(source, stdin=stdin))
        for one in _opened(value)
    ]


def _values(name: str, data: bytes) -> Iterator[object]:
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            yield msgspec.json.decode(data)
            return
        except msgspec.DecodeError:
            if not name.lower().removesuffix(".gz").endswith((".yaml", ".yml")):
                raise InputError(f"{name}: not JSON") from None
    try:
        for line, part in yamltext.split(data):
            for document in yamltext.read(part, first_line=line):
                yield document.value
    except yamltext.YamlError as error:
        raise InputError(f"{name}:{error.line}: {error.message}") from error


def _opened(value: object) -> Iterator[dict[str, Any]]:
    if not isinstance(value, dict):
        return
    items = value.get("items")
    if str(value.get("kind", "")).endswith("List") and isinstance(items, list):
        for one in items:
            yield from _opened(one)
    else:
        yield value

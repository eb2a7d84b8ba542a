"""Lines out of files. One that was cut off is read up to there; a damaged one is an error."""

import math
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from tonnage.errors import InputError, system_errors
from tonnage.objects import kinds
from tonnage.objects.kinds import Kind
from tonnage.objects.scenarios import API_VERSION
from tonnage.traces import patches
from tonnage.traces.records import FORMAT, KIND, TraceHead, TraceLine

_MAGIC = b"\x1f\x8b"
_GZIP = 16 + zlib.MAX_WBITS
_CHUNK = 1 << 16
_PIECE = 1 << 20
_LONGEST_LINE = 64 << 20

KINDS = {(f"{row.plural}.{row.group}" if row.group else row.plural): row for row in kinds.ALL}


class TraceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A line with what it means: an object before and after, or something without an object.

    Objects are trees with `apiVersion` and `kind`, never changed. `at` counts from the beginning of
    the first file.
    """

    at: float
    kind: Kind | None = None
    name: str = ""
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    action: bytes = b""
    known: bool = False
    end: str = ""


class TraceFiles:
    """The files of one recording, one after the other, as if they were one.

    `events` can be gone through any number of times. `cut`, `duration` and `skipped` are right
    after the first time.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(paths)
        heads = [_head(path) for path in paths]
        for path, before, head in zip(paths[1:], heads, heads[1:], strict=False):
            if head.started_at != before.started_at or head.name != before.name:
                raise InputError(f"{path}: of another recording than the file before it")
            if head.part != before.part + 1:
                raise InputError(
                    f"{path}: part {head.part} of the recording: expected part {before.part + 1}"
                )
        self.head = heads[0]
        self.duration = 0.0
        self.cut = False
        """Whether the last file ends in the middle, as after a crash."""
        self.skipped = 0
        """Lines about kinds that this release does not know."""

    def events(self) -> Iterator[TraceEvent]:
        """From the beginning; objects of later files that have not changed are left out."""
        known: dict[tuple[str, str], dict[str, Any]] = {}
        self.cut, self.skipped, self.duration = False, 0, 0.0
        complete = False
        for path in self._paths:
            lines = _Lines(path)
            for number, line in lines.decoded():
                at = line.at - self.head.at
                if not math.isfinite(at) or at < self.duration - 1e-3:
                    raise InputError(f"{path}:{number}: at: {line.at}: expected a later time")
                self.duration = max(self.duration, at)
                complete = complete or line.known
                event = self._event(path, number, line, known)
                if event is not None:
                    yield event
            self.cut = lines.cut
        if not complete:
            raise InputError(
                f"{self._paths[0]}: ends before all objects of the beginning were written"
            )

    def _event(
        self,
        path: Path,
        number: int,
        line: TraceLine,
        known: dict[tuple[str, str], dict[str, Any]],
    ) -> TraceEvent | None:
        at = max(line.at - self.head.at, 0.0)
        if not line.kind:
            action = b"" if line.action is msgspec.UNSET else bytes(line.action)
            return TraceEvent(at=at, action=action, known=line.known, end=line.end)
        row = KINDS.get(line.kind)
        if row is None:
            self.skipped += 1
            return None
        key = (line.kind, line.name)
        before = known.get(key)
        try:
            after = _after(row, line, before)
        except InputError as error:
            raise InputError(f"{path}:{number}: {line.kind} {line.name}: {error}") from None
        if after is None:
            known.pop(key, None)
        elif after == before:
            return None
        else:
            known[key] = after
        return TraceEvent(at=at, kind=row, name=line.name, before=before, after=after)


def _after(row: Kind, line: TraceLine, before: dict[str, Any] | None) -> dict[str, Any] | None:
    if line.gone:
        if before is None:
            raise InputError("gone, and was never there")
        return None
    if line.object is not None:
        tree: Any = {**line.object, "apiVersion": row.api_version, "kind": row.kind}
    elif line.patch is None:
        raise InputError("expected object, patch or gone")
    elif before is None:
        raise InputError("changed, and was never there")
    else:
        tree = patches.patched(before, line.patch)
    meta = tree.get("metadata") if isinstance(tree, dict) else None
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        raise InputError("metadata.name: expected a name")
    namespace = meta.get("namespace") or ""
    named = f"{namespace}/{meta['name']}" if namespace else meta["name"]
    if named != line.name or bool(namespace) != row.namespaced:
        raise InputError(f"metadata: expected the object of that name, found {named!r}")
    result: dict[str, Any] = tree
    return result


def _head(path: Path) -> TraceHead:
    for _, text in _Lines(path).texts():
        try:
            told = msgspec.json.decode(text, type=_AnyHead)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            break
        if told.api_version != API_VERSION or told.kind != KIND:
            break
        if told.format != FORMAT:
            raise InputError(
                f"{path}: format {told.format}, of another release of Tonnage: expected {FORMAT}"
            )
        try:
            return msgspec.json.decode(text, type=TraceHead)
        except msgspec.ValidationError as error:
            raise InputError(f"{path}:1: {error}") from None
    raise InputError(f"{path}: not a trace: expected what tonnage record has written")


class _AnyHead(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    format: int = 0


class _Lines:
    """The lines of a file; `cut` says afterwards that it ended in the middle."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.cut = False

    def decoded(self) -> Iterator[tuple[int, TraceLine]]:
        """All but the head."""
        for number, text in self.texts():
            if number == 1:
                continue
            try:
                yield number, _LINE.decode(text)
            except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
                raise InputError(f"{self._path}:{number}: {error}") from None

    def texts(self) -> Iterator[tuple[int, bytes]]:
        rest = b""
        number = 0
        for chunk in self._chunks():
            *lines, rest = (rest + chunk).split(b"\n") if b"\n" in chunk else [rest + chunk]
            for line in lines:
                number += 1
                yield number, line
            if len(rest) > _LONGEST_LINE:
                raise InputError(
                    f"{self._path}:{number + 1}: a line of more than {_LONGEST_LINE >> 20} MiB"
                )
        # A line without an end was being written when the end came.
        self.cut = self.cut or bool(rest)

    def _chunks(self) -> Iterator[bytes]:
        with system_errors(f"{self._path}: cannot be read"), self._path.open("rb") as file:
            first = file.read(_CHUNK)
            if first.startswith(_MAGIC):
                yield from self._unpacked(first, file)
                return
            while first:
                yield first
                first = file.read(_CHUNK)

    def _unpacked(self, data: bytes, file: BinaryIO) -> Iterator[bytes]:
        unpacker = zlib.decompressobj(_GZIP)
        try:
            while True:
                piece = unpacker.decompress(data, _PIECE)
                yield piece
                data = unpacker.unconsumed_tail
                if unpacker.eof:
                    data = unpacker.unused_data or file.read(_CHUNK)
                    if not data:
                        return
                    unpacker = zlib.decompressobj(_GZIP)
                elif not data and len(piece) < _PIECE:
                    data = file.read(_CHUNK)
                    if not data:
                        self.cut = True
                        return
        except zlib.error as error:
            raise InputError(f"{self._path}: damaged: {error}") from None


_LINE = msgspec.json.Decoder(TraceLine)

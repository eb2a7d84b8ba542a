"""Lines into a file that is readable at any moment up to the last flush.

A file is gzip: one stream, flushed to a boundary every few seconds, so that of a recording that was
killed only the lines since then are lost. With a bound on its size it goes on in another file.
"""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import msgspec

from tonnage.errors import system_errors
from tonnage.traces.records import TraceHead, TraceLine

_GZIP = 16 + zlib.MAX_WBITS
_LEVEL = 6
_BUFFER = 1 << 18
"""Bytes of lines after which they are packed, and the file is looked at."""


class TraceWriter:
    """Writes to one file at a time; `lines` and `written` count over all of them.

    `rotate_after` is how many bytes a file may have before the next begins; who writes looks at
    `full` and calls `rotate` with a head for the next.
    """

    def __init__(self, path: Path, head: TraceHead, *, rotate_after: int | None = None) -> None:
        self._path = path
        self._rotate_after = rotate_after
        self.lines = 0
        self.head = head
        self.paths: list[Path] = []
        self._earlier = 0
        self._size = 0
        self._pending = bytearray()
        self._open(head)

    @property
    def written(self) -> int:
        """Bytes in files so far, packed."""
        return self._earlier + self._size

    @property
    def full(self) -> bool:
        return self._rotate_after is not None and self._size >= self._rotate_after

    def write(self, line: TraceLine) -> None:
        self.lines += 1
        self._pending += msgspec.json.encode(line)
        self._pending += b"\n"
        if len(self._pending) >= _BUFFER:
            self._pack()

    def flush(self) -> None:
        """Have everything so far in the file, readable whatever happens then."""
        self._pack()
        self._put(self._packer.flush(zlib.Z_SYNC_FLUSH))
        self._doing(self._file.flush)

    def rotate(self, head: TraceHead) -> None:
        """Go on in another file."""
        self.close()
        self._earlier += self._size
        self._open(head)

    def close(self) -> None:
        if self._file.closed:
            return
        try:
            self._pack()
            self._put(self._packer.flush(zlib.Z_FINISH))
        finally:
            self._doing(self._file.close)

    def __enter__(self) -> "TraceWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, head: TraceHead) -> None:
        self.head = head
        path = self._path if head.part == 1 else part_path(self._path, head.part)
        with system_errors(f"{path}: cannot be written"):
            self._file: BinaryIO = path.open("xb" if head.part > 1 else "wb")
        self.paths.append(path)
        # Without a time in its header, the same lines give the same bytes.
        self._packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        self._size = 0
        self._pending = bytearray(msgspec.json.encode(head) + b"\n")
        self.flush()

    def _pack(self) -> None:
        if self._pending:
            self._put(self._packer.compress(bytes(self._pending)))
            self._pending.clear()

    def _put(self, data: bytes) -> None:
        if data:
            self._doing(lambda: self._file.write(data))
            self._size += len(data)

    def _doing(self, write: Callable[[], object]) -> None:
        with system_errors(f"{self.paths[-1]}: cannot be written"):
            write()


def part_path(path: Path, part: int) -> Path:
    """`trace.jsonl.gz`, then `trace.2.jsonl.gz`, `trace.3.jsonl.gz`."""
    stem, dot, rest = path.name.partition(".")
    return path.with_name(f"{stem}.{part}{dot}{rest}")

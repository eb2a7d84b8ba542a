"""Where input comes from: files, directories, standard input, compressed or not.

All opening and reading of input is here; every way it can fail becomes an `InputError` that
names the file. Compression is told by the first bytes, because names lie.
"""

import gzip
import io
import itertools
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

import msgspec

from tonnage.errors import InputError

PathLike: TypeAlias = str | Path

STDIN = "-"

MIB = 1 << 20
LARGEST = 2048 * MIB
"""Bytes that one file may have, unpacked; 150,000 pods with everything around them take half."""

LARGEST_LINE = 512 * MIB
"""Bytes that one line of a batch may have."""

EXPANSION = 250
"""How many times its size packed data may have unpacked, above `SMALL`. Alike pods come to 100."""

SMALL = 64 * MIB
SUFFIXES = (".yaml", ".yml", ".json", ".jsonl")


class InputSource(msgspec.Struct, frozen=True):
    """One thing to read: its name for messages, and where it is (`None`: standard input)."""

    name: str
    path: Path | None


def find(paths: Sequence[PathLike]) -> list[InputSource]:
    """What there is to read under the given paths: files as given, directories searched.

    In a directory, and those below it, only names that look like manifests count, in
    alphabetical order; hidden ones do not.
    """
    found: list[InputSource] = []
    for given in paths:
        if str(given) == STDIN:
            if any(source.path is None for source in found):
                raise InputError("standard input (-) can be read only once")
            found.append(InputSource("standard input", None))
        elif os.path.isdir(given):
            found += _inside(Path(given))
        else:
            found.append(InputSource(str(given), Path(given)))
    return found


def read(source: InputSource, *, stdin: BinaryIO | None = None) -> bytes:
    """All of it, unpacked, as UTF-8 without a byte order mark."""
    with _failures(source.name), _opened(source, stdin=stdin) as stream:
        data = stream.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise InputError(f"{source.name}: more than {LARGEST // MIB:,} MiB: split it")
        if data.startswith(_GZIP):
            data = _decompressed(data, source.name)
    if not data or data.isspace():
        raise InputError(f"{source.name}: empty, expected Kubernetes objects in YAML or JSON")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        # What a redirection in PowerShell writes.
        try:
            data = data.decode("utf-16").encode()
        except UnicodeError as error:
            raise InputError(f"{source.name}: neither UTF-8 nor UTF-16: {error}") from error
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in data[:4096]:
        raise InputError(f"{source.name}: binary data, expected YAML or JSON, or gzip of these")
    return data


def lines(source: InputSource, *, stdin: BinaryIO | None = None) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers from 1, blank ones left out; one line in memory at a time."""
    with _failures(source.name), _opened(source, stdin=stdin) as stream:
        unpacked = _unpacked(stream)
        for number in itertools.count(1):
            line = unpacked.readline(LARGEST_LINE + 1)
            if not line:
                break
            if len(line) > LARGEST_LINE:
                raise InputError(
                    f"{source.name}: line {number} has more than {LARGEST_LINE // MIB:,} MiB"
                )
            text = line.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else line.strip()
            if text:
                yield number, text


_GZIP = b"\x1f\x8b"


@contextmanager
def _opened(source: InputSource, *, stdin: BinaryIO | None) -> Iterator[BinaryIO]:
    if source.path is None:
        yield stdin if stdin is not None else sys.stdin.buffer
    else:
        with open(source.path, "rb") as file:
            yield file


def _decompressed(data: bytes, name: str) -> bytes:
    """All of the data, unless it grows beyond what is written: a few bytes can become gigabytes."""
    most = min(LARGEST, max(SMALL, EXPANSION * len(data)))
    unpacked = gzip.GzipFile(fileobj=io.BytesIO(data)).read(most + 1)
    if len(unpacked) > most:
        raise InputError(
            f"{name}: {len(data):,} bytes of gzip unpack to more than {most // MIB:,} MiB: "
            "unpack it yourself if that is meant"
        )
    return unpacked


def _unpacked(stream: BinaryIO) -> io.BufferedIOBase:
    """The stream itself or what is packed in it, not read further than it is asked to."""
    peekable = stream if hasattr(stream, "peek") else io.BufferedReader(cast(io.RawIOBase, stream))
    packed = peekable.peek(len(_GZIP)).startswith(_GZIP)
    return gzip.GzipFile(fileobj=peekable) if packed else cast(io.BufferedIOBase, peekable)


@contextmanager
def _failures(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{name}: no such file or directory") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{name}: damaged gzip data: {error}") from error
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a NUL in the name
        raise InputError(f"{name!r}: not the name of a file: {error}") from error


def _inside(directory: Path) -> list[InputSource]:
    found: list[InputSource] = []

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from error

    for where, directories, names in os.walk(directory, onerror=refuse):
        directories[:] = sorted(name for name in directories if not name.startswith("."))
        found += [
            InputSource(os.path.join(where, name), Path(where, name))
            for name in names
            if not name.startswith(".") and name.lower().removesuffix(".gz").endswith(SUFFIXES)
        ]
    if not found:
        wanted = ", ".join(f"*{suffix}" for suffix in SUFFIXES)
        raise InputError(f"{directory}: no manifests in this directory, expected {wanted} or .gz")
    return sorted(found, key=lambda source: source.name)

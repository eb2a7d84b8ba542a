"""Batches: one Scenario per line, read one at a time, however large the file."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tonnage.errors import InputError
from tonnage.files import sources
from tonnage.files.documents import DocumentPosition
from tonnage.files.loaded import Loaded
from tonnage.files.object_collector import ObjectCollector
from tonnage.objects.codec import collector_paused


def read_lines(
    path: sources.PathLike, *, stdin: BinaryIO | None = None
) -> Iterator[tuple[int, bytes]]:
    """The lines of a batch with their numbers from 1; `-` is standard input, gzip is unpacked."""
    if str(path) == sources.STDIN:
        source = sources.InputSource("standard input", None)
    else:
        source = sources.InputSource(str(path), Path(path))
    yield from sources.lines(source, stdin=stdin)


def decode_scenario(line: bytes, *, lenient: bool = False, where: str = "") -> Loaded:
    """The Scenario on one line, its objects decoded; `where` leads every message about it."""
    collector = ObjectCollector(lenient=lenient)
    with collector_paused():
        collector.add(line, DocumentPosition(file=where))
    loaded = collector.result()
    if loaded.scenario is None and not loaded.problems:
        raise InputError(f"{where}: expected a Scenario" if where else "expected a Scenario")
    return loaded

"""Lines of results: a head that says of which sweep, and a line for each variant.

The file is the checkpoint. Lines are written as answers come, whole or not at all but for the last
one, which a kill may cut; who takes the file up again drops what was cut and does what is missing.
When all are there they are put in the order of the variants, so that the same sweep gives the same
bytes, whoever worked on it and however often it was stopped.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import msgspec

from tonnage.errors import InputError, system_errors
from tonnage.objects import printable
from tonnage.objects.phrases import counted
from tonnage.objects.scenarios import API_VERSION

KIND = "SweepResults"


class ResultHead(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Of which sweep results are; `part` is K of N where it was cut into parts."""

    api_version: str = API_VERSION
    kind: str = KIND
    sweep: str
    ask: str
    digest: str
    variants: int
    version: str
    now: float = 0.0
    part: tuple[int, int] | None = None

    def line(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of one variant: figures and the like, or an error in one line."""

    position: int
    variant: str
    cluster: str = ""
    values: dict[str, str | int | float] = {}
    error: str = ""
    figures: dict[str, int | float | None] = {}
    bought: dict[str, int] | None = None
    partial: bool = False
    violations: tuple[str, ...] = ()
    plan: dict[str, Any] | None = None
    timeline: dict[str, Any] | None = None

    def line(self) -> bytes:
        return printable.escape_json(msgspec.json.encode(self).decode()).encode() + b"\n"


class KnownResults(NamedTuple):
    """What a file has already; `whole` is how many of its bytes are whole lines."""

    head: ResultHead
    results: dict[int, Result]
    whole: int


class ResultFile:
    """A file that results are added to, and that is a checkpoint at every moment."""

    def __init__(self, path: Path, head: ResultHead, *, resume: bool) -> None:
        self._path, self._head = path, head
        self.known: dict[int, Result] = {}
        with system_errors(path):
            if path.exists() and path.stat().st_size:
                if not resume:
                    raise InputError(
                        f"{path}: there are results already: give --resume to go on with them,"
                        " or another file"
                    )
                self.known = self._taken_up()
                self._file: BinaryIO = path.open("ab")
            else:
                self._file = path.open("wb")
                self._file.write(head.line())
                self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, results: Iterable[Result]) -> None:
        """Whole lines in one write: a kill loses none of those that were written."""
        self._file.write(b"".join(one.line() for one in results))
        self._file.flush()

    def in_order(self, results: Iterable[Result]) -> None:
        """All results in the order of the variants, in place of those as they came."""
        unfinished = self._path.with_name(f"{self._path.name}.unfinished")
        try:
            with unfinished.open("wb") as file:
                file.write(self._head.line())
                file.writelines(one.line() for one in results)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, self._path)
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink()
            raise InputError(f"{self._path}: {error.strerror or error}") from error

    def _taken_up(self) -> dict[int, Result]:
        found = parse(self._path.read_bytes(), name=str(self._path))
        check_same(found.head, self._head, name=str(self._path))
        os.truncate(self._path, found.whole)
        return found.results


def parse(data: bytes, *, name: str) -> KnownResults:
    """A file of results; a last line that was cut off is left out."""
    whole = data.rfind(b"\n") + 1
    lines = data[:whole].split(b"\n")[:-1]
    if not lines:
        raise InputError(f"{name}: no results of a sweep")
    try:
        head = msgspec.json.decode(lines[0], type=ResultHead)
    except msgspec.MsgspecError:
        raise InputError(f"{name}: no results of a sweep: its first line is no head") from None
    results: dict[int, Result] = {}
    for number, line in enumerate(lines[1:], start=2):
        try:
            result = msgspec.json.decode(line, type=Result)
        except msgspec.MsgspecError as error:
            raise InputError(f"{name}: line {number}: {error}") from None
        results[result.position] = result
    return KnownResults(head, results, whole)


def now_of(path: Path) -> float | None:
    """The moment that results in a file are about, so that the rest can be about the same."""
    try:
        with path.open("rb") as file:
            head = _head(file.readline())
    except OSError:
        return None
    return head.now if head is not None else None


def check_same(found: ResultHead, wanted: ResultHead, *, name: str) -> None:
    """Refuse results of another sweep, or of other clusters."""
    if (found.digest, found.part) != (wanted.digest, wanted.part):
        raise InputError(
            f"{name}: results of another sweep ({found.sweep}, {found.digest[:8]}) and not of this"
            f" one ({wanted.sweep}, {wanted.digest[:8]}): the clusters, the changes, --now or the"
            " version of Tonnage differ"
        )


def gathered(sources: Iterable[tuple[str, bytes]]) -> KnownResults:
    """The results of parts together. Logs may have other lines among them, and a part that was
    started again the same results twice; results of two sweeps do not go together."""
    head: ResultHead | None = None
    results: dict[int, Result] = {}
    for name, data in sources:
        for line in data.split(b"\n"):
            at = line.find(b"{")
            if at < 0:
                continue
            found = _head(line[at:])
            if found is not None:
                of_all = msgspec.structs.replace(found, part=None)
                if head is not None:
                    check_same(of_all, head, name=name)
                head = of_all
            elif (result := _result(line[at:])) is not None:
                results[result.position] = result
    if head is None:
        raise InputError("no results of a sweep in what is to be gathered")
    beyond = [one for one in results if not 0 <= one < head.variants]
    if beyond:
        raise InputError(f"{counted(len(beyond), 'result')} that the sweep has no variant for")
    return KnownResults(head, dict(sorted(results.items())), 0)


def missing(known: KnownResults) -> list[int]:
    """Numbers of variants without a result."""
    return [one for one in range(known.head.variants) if one not in known.results]


def in_order(results: dict[int, Result]) -> Iterator[Result]:
    return (results[position] for position in sorted(results))


def _head(line: bytes) -> ResultHead | None:
    try:
        found = msgspec.json.decode(line, type=ResultHead)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return found if found.kind == KIND else None


def _result(line: bytes) -> Result | None:
    try:
        return msgspec.json.decode(line, type=Result)
    except (msgspec.MsgspecError, UnicodeError):
        return None


_OWN = ("position", "cluster", "variant", "error")


def available() -> None:
    """Refuse before anything runs if the library is not there."""
    _library()


def write(path: str, head: ResultHead, results: Sequence[Result]) -> None:
    """Write all results; axes are columns `axis NAME`, figures columns of their own name."""
    pyarrow, parquet = _library()
    columns: dict[str, list[Any]] = {name: [getattr(one, name) for one in results] for name in _OWN}
    for label in dict.fromkeys(label for one in results for label in one.values):
        columns[f"axis {label}"] = _alike([one.values.get(label) for one in results])
    for name in dict.fromkeys(name for one in results for name in one.figures):
        values = [one.figures.get(name) for one in results]
        columns[name] = [None if value is None else float(value) for value in values]
    table = pyarrow.table(columns)
    told = {"sweep": head.sweep, "ask": head.ask, "digest": head.digest, "version": head.version}
    with system_errors(f"--parquet {path}"):
        parquet.write_table(table.replace_schema_metadata(told), path)


def _alike(values: list[str | float | None]) -> list[Any]:
    """A column has one type: text where not all are numbers."""
    if any(isinstance(value, str) for value in values):
        return [None if value is None else str(value) for value in values]
    return values


def _library() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(
            f"--parquet needs the extra parquet: pip install 'tonnage[parquet]' ({error})"
        ) from error
    return pyarrow, parquet

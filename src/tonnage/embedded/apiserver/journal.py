"""The objects in a file, so that they outlive the process.

Each change is one line, written before the next request is answered. A line that a crash cut short
is the last one, and is dropped; when there is more history than content, and at every start, the
file is written anew beside itself and then renamed. What cannot be restored is set apart in a file
of its own, and the rest is served.
"""

import fcntl
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec

from tonnage.embedded.apiserver import validation
from tonnage.embedded.apiserver.kinds import DEFINITIONS, from_definition
from tonnage.embedded.apiserver.refusals import ApiRefusal
from tonnage.embedded.apiserver.store import Collection, ObjectStore, Occurrence, Stored
from tonnage.errors import InputError
from tonnage.objects.codec import collector_paused

Key: TypeAlias = tuple[str, str, str, str, str]
"""Group, version and plural of the kind, namespace, name."""

_log = logging.getLogger(__name__)

_FORMAT = "tonnage embedded cluster, format 1"
_SLACK = 10_000
"""Lines beyond twice the objects there were, before the file is written anew."""


class _Line(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The head, an object as it is now, or (without one) an object that is gone."""

    format: str = ""
    version: int = 0
    key: Key | None = None
    object: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class StoreJournal:
    """One process at a time keeps one file; an observer of the store."""

    def __init__(self, path: Path, store: ObjectStore) -> None:
        self._path = path
        self._store = store
        self._lines = 0
        self._objects = 0
        self._file: BinaryIO
        try:
            self._lock = path.with_name(f"{path.name}.lock").open("wb")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{path}: another embedded cluster is using this file") from None
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from None
        store.observers.append(self._observe)

    def restore(self, adopt: Callable[[Collection, Stored], None]) -> None:
        """Put back what is in the file, and begin it anew; `adopt` learns of each object."""
        # Nothing here is cyclic, and the collector would go through all of it again and again.
        with collector_paused():
            self._restore(adopt)
        self._file = self._rewritten()

    def close(self) -> None:
        self._file.close()
        self._lock.close()

    def _restore(self, adopt: Callable[[Collection, Stored], None]) -> None:
        version, found = self._read()
        # Definitions first: they say where the others belong.
        definitions = [key for key in found if key[2] == DEFINITIONS.plural]
        for key in (*definitions, *(key for key in found if key[2] != DEFINITIONS.plural)):
            data = bytes(found.pop(key))
            collection = self._store.collections.get(key[:3])
            if collection is None:
                continue  # of a kind that an earlier release served
            try:
                tree = validation.restored(collection.kind, data)
                at = int(tree["metadata"]["resourceVersion"])
                if collection.kind is DEFINITIONS:
                    self._store.serve(from_definition(tree))
            except (ApiRefusal, ValueError) as error:
                self._set_apart(data, f"{key[2]} {key[3]}/{key[4]}: {error}")
            else:
                obj = Stored(key[3], key[4], at, tree, data)
                self._store.restore(collection, obj)
                adopt(collection, obj)
                obj.let_go()
        self._store.begin_at(max(version, self._store.version))

    def _set_apart(self, text: bytes, why: str) -> None:
        beside = self._path.with_name(f"{self._path.name}.left-out")
        _log.warning("left out of the restored data", extra={"why": why, "kept_in": str(beside)})
        with beside.open("ab") as file:
            file.write(text + b"\n")

    def _read(self) -> tuple[int, dict[Key, msgspec.Raw]]:
        try:
            with self._path.open("rb") as file:
                return self._read_lines(file)
        except FileNotFoundError:
            return 0, {}
        except OSError as error:
            raise InputError(f"{self._path}: {error.strerror or error}") from None

    def _read_lines(self, lines: Iterable[bytes]) -> tuple[int, dict[Key, msgspec.Raw]]:
        version = 0
        found: dict[Key, msgspec.Raw] = {}
        for number, text in enumerate(lines, start=1):
            if not text.endswith(b"\n"):
                break  # what a crash left of a line
            try:
                line = _LINE.decode(text)
            except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
                if number == 1:
                    raise InputError(f"{self._path}: not the data of an embedded cluster") from None
                self._set_apart(text.removesuffix(b"\n"), f"line {number}: {error}")
                continue
            if number == 1 and line.format != _FORMAT:
                raise InputError(f"{self._path}: not the data of an embedded cluster")
            version = max(version, line.version)
            if line.key is not None:
                found.pop(line.key, None)
                if line.object is not msgspec.UNSET:
                    found[line.key] = line.object
        return version, found

    def _rewritten(self) -> BinaryIO:
        """The file with what there is now, open for what comes."""
        beside = self._path.with_name(f"{self._path.name}.new")
        try:
            with beside.open("wb") as file:
                head = _Line(format=_FORMAT, version=self._store.version)
                file.write(msgspec.json.encode(head) + b"\n")
                self._objects = 0
                for key, obj in self._everything():
                    self._objects += 1
                    line = _Line(version=obj.version, key=key, object=msgspec.Raw(obj.data))
                    file.write(msgspec.json.encode(line) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
            self._lines = self._objects
            return self._path.open("ab", buffering=0)
        except OSError as error:
            raise InputError(f"{self._path}: {error.strerror or error}") from None

    def _everything(self) -> Iterator[tuple[Key, Stored]]:
        for collection in self._store.collections.values():
            for obj in collection.within():
                yield _key(collection, obj), obj

    def _observe(self, collection: Collection, occurrence: Occurrence) -> None:
        obj = occurrence.after
        line = _Line(
            version=occurrence.version,
            key=_key(collection, occurrence.subject),
            object=msgspec.Raw(obj.data) if obj is not None else msgspec.UNSET,
        )
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._lines += 1
        if self._lines > _SLACK + 2 * self._objects:
            self._file.close()
            self._file = self._rewritten()


def _key(collection: Collection, obj: Stored) -> Key:
    kind = collection.kind
    return kind.group, kind.version, kind.plural, obj.namespace, obj.name


_LINE = msgspec.json.Decoder(_Line)

"""Objects into lines: the first time whole, then what changed of them."""

from typing import Any

import msgspec

from tonnage.objects.kinds import Kind
from tonnage.traces import patches
from tonnage.traces.records import TraceLine
from tonnage.traces.writer import TraceWriter

_DIGITS = 3
"""Of seconds: a watch tells no more."""


class TraceLog:
    """Knows every object as it was written last; an equal one writes nothing.

    What is kept is JSON, a tenth of what trees take.
    """

    def __init__(self, writer: TraceWriter) -> None:
        self.writer = writer
        self._known: dict[str, dict[str, bytes]] = {}
        self._last = 0.0

    def put(self, kind: Kind, tree: dict[str, Any], *, at: float) -> None:
        """The object as it is now."""
        named, name = _named(kind), name_of(tree)
        data = msgspec.json.encode(tree)
        known = self._known.setdefault(named, {})
        before = known.get(name)
        if before == data:
            return
        known[name] = data
        if before is None:
            self._write(TraceLine(at=at, kind=named, name=name, object=tree))
            return
        # By way of JSON, so that what is compared is what a reader will have.
        patch = patches.difference(msgspec.json.decode(before), msgspec.json.decode(data))
        if patch:
            self._write(TraceLine(at=at, kind=named, name=name, patch=patch))

    def remove(self, kind: Kind, name: str, *, at: float) -> None:
        """The object is gone."""
        named = _named(kind)
        if self._known.get(named, {}).pop(name, None) is not None:
            self._write(TraceLine(at=at, kind=named, name=name, gone=True))

    def act(self, action: bytes, *, at: float) -> None:
        """What a script does; the time is kept as it is, for it is played again."""
        self._last = max(self._last, at)
        self.writer.write(TraceLine(at=at, action=msgspec.Raw(action)))

    def known(self, *, at: float) -> None:
        """All objects that there were at the beginning are in it."""
        self._write(TraceLine(at=at, known=True))

    def beat(self, *, at: float) -> None:
        """Nothing is missing up to now; and up to now is in the file."""
        self._write(TraceLine(at=at, beat=True))
        if self.writer.full:
            self._rotate(at)
        self.writer.flush()

    def end(self, why: str, *, at: float) -> None:
        self._write(TraceLine(at=at, end=why))
        self.writer.close()

    @property
    def objects(self) -> int:
        return sum(map(len, self._known.values()))

    def _rotate(self, at: float) -> None:
        head = self.writer.head
        part = head.part + 1
        self.writer.rotate(msgspec.structs.replace(head, part=part, at=round(at, _DIGITS)))
        for named, objects in self._known.items():
            for name, data in objects.items():
                tree = msgspec.json.decode(data)
                self._write(TraceLine(at=at, kind=named, name=name, object=tree))
        self.known(at=at)

    def _write(self, line: TraceLine) -> None:
        # A wall clock that is set back does not make a trace go back.
        line.at = self._last = max(self._last, round(line.at, _DIGITS))
        self.writer.write(line)


def name_of(tree: dict[str, Any]) -> str:
    """`namespace/name`, or the name of what belongs to no namespace."""
    meta = tree["metadata"]
    namespace = meta.get("namespace", "")
    return f"{namespace}/{meta['name']}" if namespace else str(meta["name"])


def _named(kind: Kind) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural

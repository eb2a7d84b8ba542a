"""Decisions as they are kept: the last ones in memory, all of them in a file if one is named.

The file has one JSON object on each line, so that it can be followed, cut and searched with the
tools everybody has, and `tonnage why` reads it.
"""

import logging
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tonnage.autoscaler.report import Done, LoggedDecision
from tonnage.scaleup.plan import Plan

KEPT = 100
"""Decisions in memory."""

RECORDED = 20
"""The newest of them, which can be replayed."""

_log = logging.getLogger(__name__)


class DecisionLog:
    """`last` are the newest decisions, oldest first; the same one is not kept twice in a row.

    `problem` says why the newest is not in the file, if it should be.
    """

    def __init__(self) -> None:
        self.last: deque[LoggedDecision] = deque(maxlen=KEPT)
        self.problem = ""

    def is_news(self, plan: Plan, done: Sequence[Done]) -> bool:
        """Whether a decision would be kept."""
        return bool(done) or not self.last or self.last[-1].plan != plan

    def without_recordings(self) -> list[LoggedDecision]:
        """The newest decisions for those who only want to read."""
        return [msgspec.structs.replace(one, recording=b"") for one in self.last]

    def keep(self, decision: LoggedDecision, *, file: str, max_bytes: int) -> None:
        """Keep a decision. What goes wrong with the file costs only the file."""
        if not self.is_news(decision.plan, decision.done):
            return
        self.last.append(decision)
        if len(self.last) > RECORDED and self.last[-RECORDED - 1].recording:
            self.last[-RECORDED - 1] = msgspec.structs.replace(
                self.last[-RECORDED - 1],
                recording=b"",
                not_recorded=f"{RECORDED} decisions have been made since",
            )
        self.problem = ""
        if not file:
            return
        try:
            _append(Path(file), msgspec.json.encode(decision), max_bytes=max_bytes)
        except OSError as error:
            self.problem = f"decisionFile {file}: {error.strerror or error}"
            _log.warning("decision not written", extra={"error": self.problem})


def older(file: Path) -> Path:
    """Where a full file goes; what was there before is then gone."""
    return file.with_name(f"{file.name}.1")


def _append(file: Path, line: bytes, *, max_bytes: int) -> None:
    size = file.stat().st_size if file.exists() else 0
    if size and size + len(line) >= max_bytes:
        file.replace(older(file))
    with file.open("ab+") as stream:
        if stream.tell():
            stream.seek(-1, 2)
            if stream.read(1) != b"\n":
                # Somebody was killed while writing; the half line stays one line.
                stream.write(b"\n")
        stream.write(line + b"\n")

"""Decisions as they are kept: the last ones in memory, all of them in a file if one is named.

The file has one JSON object on each line, so that it can be followed, cut and searched with the
tools everybody has, and `tonnage why` reads it. Each decision worth keeping has what it came from
beside it, so that it can be made again.
"""

import logging
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tonnage.autoscaler import recordings
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.autoscaler.report import Done, LoggedDecision, RoundReport
from tonnage.autoscaler.status import go_time
from tonnage.groups.inputs import WrittenInputs
from tonnage.objects.kinds import KubeObject
from tonnage.scaleup.decision import Decision
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


class DecisionRecorder:
    """Takes note before anything is done, and keeps it when it is known what came of it."""

    def __init__(self, context: AutoscalingContext) -> None:
        self._world = context.world
        self._clock = context.clock
        self._noted: tuple[WrittenInputs, list[KubeObject]] | None = None
        self._objects: list[KubeObject] = []
        self._too_large = (0, 0)
        """Objects of a cluster that was too large to record, and for which size."""
        self.log = DecisionLog()

    def forget(self) -> None:
        """A new round: nothing is noted yet."""
        self._noted = None

    def look(self, config: AutoscalerConfig) -> None:
        """Remember the cluster as it is before the decision: it goes on meanwhile."""
        self._objects = []
        size = config.decision_recording_size
        many, tried = self._too_large
        if self._world.waiting and size and not (size <= tried and self._world.size >= many):
            self._objects = self._world.objects()

    def note(self, made: Decision) -> None:
        """Keep the cluster as the plan found it, if the plan says anything new."""
        objects, self._objects = self._objects, []
        plan = made.plan
        if (
            objects
            and (plan.steps or plan.not_helped or plan.waiting)
            and self.log.is_news(plan, ())
        ):
            self._noted = made.inputs.written(), objects

    async def keep(self, report: RoundReport, config: AutoscalerConfig) -> None:
        """Keep the round's decision, unless it is the same as before and nothing was done."""
        plan, noted = report.plan, self._noted
        if plan is None or not (plan.steps or plan.not_helped or plan.waiting or report.done):
            return
        if not self.log.is_news(plan, report.done):
            return
        size, packed = config.decision_recording_size, b""
        if noted is not None:
            inputs, objects = noted
            packed = await recordings.pack(
                inputs,
                objects,
                features=inputs.features,
                max_bytes=size,
                breathe=lambda: self._clock.sleep(0),
            )
            if not packed:
                self._too_large = len(objects), size
        self.log.keep(
            LoggedDecision(
                time=go_time(report.now),
                plan=plan,
                done=report.done,
                recording=packed,
                not_recorded="" if packed else self._why_not(size),
            ),
            file=config.decision_file,
            max_bytes=config.decision_file_size,
        )

    def _why_not(self, size: int) -> str:
        if not size:
            return "decisionRecordingSize is 0"
        if size <= self._too_large[1]:
            return f"it takes more than the {size:,} bytes of decisionRecordingSize"
        return "its plan is that of the decision before"


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

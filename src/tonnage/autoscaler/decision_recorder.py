"""Decisions worth keeping, each with what it came from, so that it can be made again."""

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.decisions import DecisionLog
from tonnage.autoscaler.recordings import Recording
from tonnage.autoscaler.report import LoggedDecision, RoundReport
from tonnage.autoscaler.status import go_time
from tonnage.autoscaler.world import ClusterView
from tonnage.clock import Clock
from tonnage.objects.kinds import KubeObject
from tonnage.scaleup.decision import Decision


class DecisionRecorder:
    """Takes note before anything is done, and keeps it when it is known what came of it."""

    def __init__(self, world: ClusterView, *, clock: Clock) -> None:
        self._world = world
        self._clock = clock
        self._noted: Recording | None = None
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
            self._noted = Recording(inputs=made.inputs.written(), objects=objects)

    async def keep(self, report: RoundReport, config: AutoscalerConfig) -> None:
        """Keep the round's decision, unless it is the same as before and nothing was done."""
        plan, noted = report.plan, self._noted
        if plan is None or not (plan.steps or plan.not_helped or plan.waiting or report.done):
            return
        if not self.log.is_news(plan, report.done):
            return
        size, packed = config.decision_recording_size, b""
        if noted is not None:
            packed = await noted.packed(max_bytes=size, breathe=self._breathe)
            if not packed:
                self._too_large = len(noted.objects), size
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

    async def _breathe(self) -> None:
        await self._clock.sleep(0)

"""What decisions of consolidation came from, kept so that each can be made again elsewhere."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import msgspec

from tonnage.autoscaler import recordings
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.scaledown.coming_pods import ComingPod
from tonnage.clock import Clock
from tonnage.consolidation import decision
from tonnage.consolidation.decision import ConsolidationQuestion
from tonnage.consolidation.plan import ConsolidationPlan
from tonnage.consolidation.state import ConsolidationState
from tonnage.files import scenario_writer
from tonnage.groups.cluster_state import ClusterState
from tonnage.groups.inputs import WrittenInputs
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import Record
from tonnage.objects.pods import Pod
from tonnage.objects.timestamps import rfc3339
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.state import ScaleDownState

KEPT = 20
"""Decisions that are kept."""


class WrittenComingPod(Record, frozen=True, kw_only=True):
    """A place that counts as taken: the manifest of the pod that is to come there."""

    pod: msgspec.Raw
    node: str
    since: float


class WrittenQuestion(Record, frozen=True, kw_only=True):
    """All that a decision is made from beside the objects; it encodes to JSON as it is."""

    inputs: WrittenInputs
    scale_down: ScaleDownState
    state: ConsolidationState
    only: tuple[str, ...] | None = None
    coming: tuple[WrittenComingPod, ...] = ()


class RecordedConsolidation(Record, frozen=True, kw_only=True):
    """A decision; `not_recorded` says why it cannot be made again, if so."""

    time: str
    plan: ConsolidationPlan
    recording: bytes = b""
    not_recorded: str = ""


class ConsolidationRecorder:
    """`last` are the newest decisions, oldest first; the same one is not kept twice in a row."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._too_large = (0, 0)
        """Objects of a cluster that was too large to record, and for which size."""
        self.last: deque[RecordedConsolidation] = deque(maxlen=KEPT)

    def look(
        self, objects: Callable[[], Sequence[KubeObject]], *, count: int, config: AutoscalerConfig
    ) -> Sequence[KubeObject]:
        """The cluster as it is before a decision, unless it is too large to be kept."""
        size = config.decision_recording_size
        many, tried = self._too_large
        if not size or (size <= tried and count >= many):
            return ()
        return objects()

    async def keep(
        self,
        question: ConsolidationQuestion,
        plan: ConsolidationPlan,
        objects: Sequence[KubeObject],
        coming: Iterable[ComingPod],
        *,
        config: AutoscalerConfig,
        now: float,
        count: int,
    ) -> None:
        """Keep a decision, unless it is the one before."""
        if self.last and _gist(self.last[-1].plan) == _gist(plan):
            return
        size, packed = config.decision_recording_size, b""
        if objects:
            head = _written(question, coming)
            packed = await recordings.pack(
                head,
                objects,
                features=head.inputs.features,
                max_bytes=size,
                breathe=lambda: self._clock.sleep(0),
            )
            if not packed:
                self._too_large = count, size
        why_not = ""
        if not packed:
            why_not = (
                f"it takes more than the {size:,} bytes of decisionRecordingSize"
                if size
                else "decisionRecordingSize is 0"
            )
        self.last.append(
            RecordedConsolidation(
                time=rfc3339(now), plan=plan, recording=packed, not_recorded=why_not
            )
        )


def replayed(recording: bytes) -> ConsolidationPlan:
    """The plan that the same inputs give now."""
    head, objects = recordings.unpack(recording, WrittenQuestion)
    written = head.inputs
    cluster = ClusterState.of(objects, written.features, written.options)
    inputs = ScaleDownInputs.of(written.on(cluster), objects, state=head.scale_down)
    coming = (_coming(one) for one in head.coming)
    assessed = inputs.assessed.beside(one.reservation(cluster.snapshot) for one in coming)
    question = ConsolidationQuestion(
        inputs._replace(assessed=assessed),
        head.state,
        only=None if head.only is None else frozenset(head.only),
    )
    return decision.decide(question)


def _written(question: ConsolidationQuestion, coming: Iterable[ComingPod]) -> WrittenQuestion:
    return WrittenQuestion(
        inputs=question.inputs.inputs.written(),
        scale_down=question.inputs.state,
        state=question.state,
        only=None if question.only is None else tuple(sorted(question.only)),
        coming=tuple(
            WrittenComingPod(
                pod=msgspec.Raw(scenario_writer.manifest(one.pod)), node=one.node, since=one.since
            )
            for one in coming
        ),
    )


def _coming(written: WrittenComingPod) -> ComingPod:
    (pod,) = recordings.decoded((written.pod,))
    assert isinstance(pod, Pod)
    return ComingPod(pod, written.node, written.since)


def _gist(plan: ConsolidationPlan) -> object:
    """What a decision says; moments and prices of single moves aside."""
    return (
        plan.steps,
        [(move.pod, move.to, move.wave) for move in plan.moves],
        [(node.node, node.action, node.code) for node in plan.nodes],
    )

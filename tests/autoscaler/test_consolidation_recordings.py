"""What is kept of a decision of consolidation, beside the objects."""

from tests.consolidation.clusters import group
from tests.scaledown.clusters import WEB, web
from tonnage.api import Cluster
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.consolidation import recordings
from tonnage.autoscaler.consolidation.recordings import (
    ConsolidationRecorder,
)
from tonnage.autoscaler.scaledown.coming_pods import ComingPod
from tonnage.consolidation import decision
from tonnage.consolidation.decision import ConsolidationQuestion
from tonnage.consolidation.state import ConsolidationState
from tonnage.groups.scale_down_options import AT_ONCE
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.service import moving_pods
from tonnage.testing.clock import VirtualClock


async def test_places_of_coming_pods_and_what_was_remembered_are_recorded_too(
    clock: VirtualClock,
) -> None:
    pod = web("moving", "a", cpu="1500m")
    objects = [WEB, *group("dear", "a", "b", price="1"), *group("cheap", price="0.4"), pod]
    inputs = ScaleDownInputs.of(Cluster(objects).inputs(AT_ONCE, now=4e9), objects)
    coming = ComingPod(moving_pods.successor(pod), "b", 4e9)
    beside = inputs.assessed.beside([coming.reservation(inputs.snapshot)])
    question = ConsolidationQuestion(
        inputs._replace(assessed=beside), ConsolidationState(pays_back={"a": 5e9})
    )
    made = decision.decide(question)
    codes = {node.node: node.code for node in made.nodes}
    assert codes == {"a": "not-paid-back", "b": "not-this-time"}
    recorder = ConsolidationRecorder(clock)
    config = AutoscalerConfig()
    for _ in range(2):
        await recorder.keep(question, made, objects, [coming], config=config, now=4e9, count=1)
    (kept,) = recorder.last
    assert recordings.replayed(kept.recording) == made

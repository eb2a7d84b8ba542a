"""What may go, decided on the live cluster."""

from typing import NamedTuple

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.scaledown.removals import Removal
from tonnage.autoscaler.scaledown.workloads import Workloads
from tonnage.autoscaler.world import ClusterView
from tonnage.clock import Clock
from tonnage.scaledown.plan import ScaleDownPlan
from tonnage.scaledown.state import ScaleDownState
from tonnage.scaleup.assessment import Assessment
from tonnage.service.workers import Worker


class Verdict(NamedTuple):
    """The plan, and what is to be remembered of it."""

    plan: ScaleDownPlan
    state: ScaleDownState


class Decider:
    """Decides nothing yet: every node stays."""

    def __init__(
        self, world: ClusterView, workloads: Workloads, *, clock: Clock, worker: Worker
    ) -> None:
        self._world = world
        self._workloads = workloads
        self._clock = clock
        self._worker = worker

    async def decide(
        self, assessed: Assessment, state: ScaleDownState, *, config: AutoscalerConfig, now: float
    ) -> Verdict:
        """The plan of this moment."""
        del assessed, config, now
        return Verdict(ScaleDownPlan(), ScaleDownState(cool_downs=state.cool_downs))

    async def objection(self, removal: Removal) -> str:
        """Why the node had better stay, by what is known now; empty if it may go."""
        del removal
        return ""

"""From a look to a plan: within its time, whoever has to be asked, and whatever one pod is like."""

import logging
import sys
from collections.abc import Callable, Mapping

import msgspec

from tonnage.autoscaler import volume_causes
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.autoscaler.volume_causes import Blame
from tonnage.errors import InputError
from tonnage.providers import grpc_expander
from tonnage.rules.features import Features
from tonnage.scaleup import decision, headroom
from tonnage.scaleup.assessment import Assessment
from tonnage.scaleup.costly_pods import OwnTime
from tonnage.scaleup.decision import Decision, OutsideExpanders
from tonnage.scaleup.plan import Plan
from tonnage.service import workers
from tonnage.snapshot.snapshot import PodRecord

_log = logging.getLogger(__name__)


class Planner:
    """Plans. Where no pod waits, the plan stays the same until templates or the question change."""

    def __init__(self, context: AutoscalingContext) -> None:
        self._world = context.world
        self._clock = context.clock
        self._worker = context.worker
        self._idle: tuple[Assessment, Plan] | None = None
        """A plan for nobody, and what it came from."""

    async def decide(self, found: Assessment) -> tuple[Decision, list[str]]:
        """The decision, and which pods were left out because none could be made with them."""
        # Room that is kept ready may be taken by pods that do not wait for us.
        inputs = found.inputs
        idle = not (
            found.pending or found.consumers or inputs.requested or headroom.is_wanted(inputs)
        )
        if idle and self._idle is not None:
            before, plan = self._idle
            if _same_question(before, found) and _same_templates(before, found):
                return Decision(plan, found.templates, found.readiness, found.inputs), []
        # Leases are renewed and watches read meanwhile; what the plan is made from stands still.
        with grpc_expander.expanders(found.inputs.options) as asked, self._world.frozen():
            worker = self._worker if asked is None else workers.in_thread
            made, left_out = await worker(lambda: self._decided(found, asked))
        if idle:
            self._idle = found, made.plan
        return made, left_out

    async def because_of_volumes(
        self, config: AutoscalerConfig, features: Features
    ) -> Mapping[Blame, int]:
        """How many of the pods that wait do so for their volumes, as far as there is time."""
        end = self._clock.monotonic() + (config.time_budget or float("inf"))
        with self._world.frozen():
            return await self._worker(
                lambda: volume_causes.because_of_volumes(
                    self._world.snapshot,
                    self._world.unplaced(),
                    decision.as_decided(features, config),
                    simpler_than=config.max_pod_complexity or sys.maxsize,
                    out_of_time=lambda: self._clock.monotonic() >= end,
                )
            )

    def _decided(
        self, found: Assessment, asked: OutsideExpanders | None
    ) -> tuple[Decision, list[str]]:
        clock, options = self._clock, found.inputs.options
        end = clock.monotonic() + (options.time_budget or float("inf"))
        own_time = OwnTime(clock.monotonic, options.set_apart_time_budget or float("inf"))

        def decide(assessed: Assessment) -> Decision:
            return decision.decide_on(
                assessed,
                out_of_time=lambda: clock.monotonic() >= end,
                own_time=own_time,
                outside=asked,
            )

        try:
            return decide(found), []
        except InputError:
            raise
        except Exception:
            _log.exception("decision failed; the pods it fails with are now looked for")
        good, left_out = _decidable(found, decide)
        return decide(msgspec.structs.replace(found, pending=good)), left_out


def _decidable(
    found: Assessment, decide: Callable[[Assessment], Decision]
) -> tuple[list[PodRecord], list[str]]:
    """The pods that can be decided on together; one that cannot must not stop the others.

    Halves are tried, and halves of those that fail, each together with the pods found good before:
    a few bad pods among thousands are found in a few dozen decisions.
    """
    good: list[PodRecord] = []
    left_out: list[str] = []
    untried = [list(found.pending)]
    while untried:
        some = untried.pop()
        try:
            decide(msgspec.structs.replace(found, pending=[*good, *some]))
        except Exception as error:
            half = len(some) // 2
            if half:
                untried += [some[half:], some[:half]]
            else:
                told = f"not decided on: {type(error).__name__}: {error}"
                left_out += [f"Pod {record.key}: {told}" for record in some]
        else:
            good += some
    return good, left_out


def _same_question(one: Assessment, other: Assessment) -> bool:
    """Whether the same is asked, beside the cluster."""
    before, now = one.inputs, other.inputs
    return (
        before.options == now.options
        and before.features == now.features
        and before.skipped == now.skipped
        and before.upcoming == now.upcoming
        and one.warnings == other.warnings
    )


def _same_templates(one: Assessment, other: Assessment) -> bool:
    """Whether templates are the same, or were made again from the same and say the same.

    That is once a minute, and mostly in vain.
    """
    before, now = one.templates, other.templates
    return before is now or (
        one.inputs.cluster.nodes == other.inputs.cluster.nodes
        and before.by_group == now.by_group
        and before.problems == now.problems
        and before.warnings == now.warnings
    )

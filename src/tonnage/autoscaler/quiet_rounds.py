"""Rounds that could only find what the last one has found.

Most rounds of a day are such: no pod waits, nothing is under way, and since the last round no
object has changed. Time alone changes what is found, too; the assessor knows when it does.
"""

from typing import NamedTuple

from tonnage.autoscaler.assessor import Assessor
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.provider_state import ProviderState
from tonnage.autoscaler.report import RoundReport
from tonnage.autoscaler.scaledown.removals import RemovalMemory
from tonnage.autoscaler.world import ClusterView
from tonnage.groups.readiness import READY
from tonnage.groups.registry import RegistryState
from tonnage.rules.features import Features
from tonnage.service.live_cluster import Trust


class _Surroundings(NamedTuple):
    """All that a round in which nothing is under way comes from."""

    changes: int
    provided: ProviderState
    trust: Trust
    config: AutoscalerConfig
    features: Features


class QuietRounds:
    """Keeps the last round if there was nothing to do in it, and nothing to wait for."""

    def __init__(self, world: ClusterView, assessor: Assessor) -> None:
        self._world = world
        self._assessor = assessor
        self._last: tuple[_Surroundings, RoundReport] | None = None

    def again(
        self,
        provided: ProviderState,
        trust: Trust,
        config: AutoscalerConfig,
        features: Features,
        *,
        now: float,
    ) -> RoundReport | None:
        """The last round once more, if another one would come to the same."""
        last, self._last = self._last, None
        if last is None or now >= self._assessor.holds_until:
            return None
        before, report = last
        if before != (self._world.changes, provided, trust, config, features):
            return None
        self._last = last
        return report._replace(now=now)

    def note(
        self,
        report: RoundReport,
        config: AutoscalerConfig,
        features: Features,
        *,
        changes: int,
        registry: RegistryState,
        removals: RemovalMemory,
    ) -> None:
        """A round is over that looked at the cluster after so many changes."""
        self._last = None
        if report.provided is None or not self._is_quiet(report, config):
            return
        if registry.requests or registry.backoffs or registry.unregistered or registry.failing:
            return
        if removals.removals or removals.nominated or removals.surges:
            return
        found = _Surroundings(changes, report.provided, report.trust, config, features)
        self._last = found, report

    def _is_quiet(self, report: RoundReport, config: AutoscalerConfig) -> bool:
        plan, readiness = report.plan, report.readiness
        watched_for = (
            config.scale_down_enabled,
            config.capacity_buffers,
            config.provisioning_requests,
            config.look_ahead,
        )
        return (
            not any(watched_for)
            and not (report.held or report.problems or report.done or report.refused)
            and not self._world.without_node()
            and plan is not None
            and not (plan.steps or plan.not_helped or plan.waiting)
            and readiness is not None
            and not readiness.outages
            and all(node.state == READY for node in readiness.nodes.values())
        )

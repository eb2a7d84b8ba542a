"""Metrics of consolidation: what is saved, what is not, and why."""

from prometheus_client import CollectorRegistry

from tonnage.autoscaler.scaledown.metrics import replaced
from tonnage.consolidation.plan import ConsolidationPlan
from tonnage.service.metric_factory import MetricFactory

_OURS = "tonnage_consolidation"


class ConsolidationMetrics:
    """Money is of whatever currency prices have; without prices it is nodes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        make = MetricFactory(_OURS, registry)
        self._saved = make.counter("saved_per_hour", "What an hour costs less by what was done.")
        self._nodes = make.counter("nodes", "Nodes replaced or bought instead.", "deed")
        for deed in ("removed", "bought"):
            self._nodes.labels(deed)
        self._given_up = make.counter("steps_given_up", "Steps that were begun and not ended.")
        self._missed = make.gauge("missed_saving_per_hour", "What is not saved, by why.", "reason")
        self._planned = make.gauge("planned_saving_per_hour", "What the last plan would save.")
        self._cost = make.gauge("cost_per_hour", "What all nodes cost: now, and at least.", "which")
        self._reasons: set[str] = set()

    def take(self, plan: ConsolidationPlan) -> None:
        """What a round has decided."""
        self._planned.set(float(plan.saves_per_hour))
        self._cost.labels("now").set(float(plan.cost.before))
        self._cost.labels("bound").set(float(plan.cost.bound))
        missed: dict[str, float] = {}
        for one in plan.missed:
            missed[one.reason] = missed.get(one.reason, 0.0) + float(one.saves_per_hour)
        self._reasons = replaced(self._missed, self._reasons, missed)

    def begun(self, saves_per_hour: float, *, removed: int, bought: int = 0) -> None:
        self._saved.inc(max(saves_per_hour, 0.0))
        self._nodes.labels("removed").inc(removed)
        self._nodes.labels("bought").inc(bought)

    def given_up(self) -> None:
        self._given_up.inc()

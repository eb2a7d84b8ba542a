"""Metrics of consolidation: what is saved, what is not, and why."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

from tonnage.consolidation.plan import ConsolidationPlan

_OURS = "tonnage_consolidation"


class ConsolidationMetrics:
    """Money is of whatever currency prices have; without prices it is nodes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._saved = Counter(
            f"{_OURS}_saved_per_hour", "What an hour costs less by what was done.",
            registry=registry,
        )  # fmt: skip
        self._nodes = Counter(
            f"{_OURS}_nodes", "Nodes replaced or bought instead.", ("deed",), registry=registry
        )
        for deed in ("removed", "bought"):
            self._nodes.labels(deed)
        self._given_up = Counter(
            f"{_OURS}_steps_given_up", "Steps that were begun and not ended.", registry=registry
        )
        self._missed = Gauge(
            f"{_OURS}_missed_saving_per_hour", "What is not saved, by why.", ("reason",),
            registry=registry,
        )  # fmt: skip
        self._planned = Gauge(
            f"{_OURS}_planned_saving_per_hour", "What the last plan would save.", registry=registry
        )
        self._cost = Gauge(
            f"{_OURS}_cost_per_hour", "What all nodes cost: now, and at least.", ("which",),
            registry=registry,
        )  # fmt: skip
        self._reasons: set[str] = set()

    def take(self, plan: ConsolidationPlan) -> None:
        """What a round has decided."""
        self._planned.set(float(plan.saves_per_hour))
        self._cost.labels("now").set(float(plan.cost.before))
        self._cost.labels("bound").set(float(plan.cost.bound))
        missed: dict[str, float] = {}
        for one in plan.missed:
            missed[one.reason] = missed.get(one.reason, 0.0) + float(one.saves_per_hour)
        self._set_missed(missed)

    def _set_missed(self, missed: Mapping[str, float]) -> None:
        for reason in self._reasons - missed.keys():
            self._missed.labels(reason).set(0)
        for reason, amount in missed.items():
            self._missed.labels(reason).set(amount)
        self._reasons |= missed.keys()

    def begun(self, saves_per_hour: float, *, removed: int, bought: int = 0) -> None:
        self._saved.inc(max(saves_per_hour, 0.0))
        self._nodes.labels("removed").inc(removed)
        self._nodes.labels("bought").inc(bought)

    def given_up(self) -> None:
        self._given_up.inc()

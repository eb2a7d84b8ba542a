"""Metrics of scale-down: cluster-autoscaler's names where the meaning is the same, and ours."""

from collections import Counter as Tally
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Gauge

from tonnage.autoscaler.scaledown.windows import REASONS, Reason
from tonnage.scaledown.plan import ScaleDownPlan
from tonnage.service.metric_factory import MetricFactory

_UPSTREAM = "cluster_autoscaler"
_OURS = "tonnage"
_LATENCY = tuple(1.5**power for power in range(19))
_DETACH = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
NO_DELAY = "none"


class RemovalMetrics:
    """What is counted of nodes that go or could."""

    def __init__(self, registry: CollectorRegistry) -> None:
        make = MetricFactory(_UPSTREAM, registry)
        self._unneeded = make.gauge("unneeded_nodes_count", "Nodes that could go.")
        self._unremovable = make.gauge(
            "unremovable_nodes_count", "Nodes that stay, by why.", "reason"
        )
        self._cool_down = make.gauge("scale_down_in_cooldown", "Whether nothing goes for a while.")
        self._pending = make.gauge("pending_node_deletions", "Nodes that are going.")
        self._scaled_down = make.counter("scaled_down_nodes", "Nodes removed.", "reason")
        for reason in REASONS:
            self._scaled_down.labels(reason)
        self._evicted = make.counter("evicted_pods", "Pods evicted.", "eviction_result")
        for result in ("succeeded", "failed"):
            self._evicted.labels(result)
        self._latency = make.histogram(
            "node_removal_latency_seconds",
            "From the moment a node could go to its end, or to the one at which it was needed.",
            "deleted",
            "delay_reason",
            buckets=_LATENCY,
        )
        self._blocked = make.gauge(
            "blocked_nodes", "Nodes that stay, by our code.", "code", prefix=_OURS
        )
        self._failures = make.counter(
            "failed_removals", "Removals that were rolled back, by why.", "outcome", prefix=_OURS
        )
        for outcome in ("cancelled", "failed"):
            self._failures.labels(outcome)
        self._stand_ins = make.counter(
            "second_replicas",
            "Second replicas started for a single one, by what came of them.",
            "outcome",
            prefix=_OURS,
        )
        for outcome in ("ready", "failed"):
            self._stand_ins.labels(outcome)
        self._detached = make.histogram(
            "volume_detach_wait_seconds",
            "From the last pod that left a node to its last volume that did.",
            "detached",
            buckets=_DETACH,
            prefix=_OURS,
        )
        self._bound = make.gauge(
            "nodes_needed_at_least", "Lower bound on the nodes that are needed.", prefix=_OURS
        )
        self._reasons: set[str] = set()
        self._codes: set[str] = set()

    def evicted(self, pods: int, *, succeeded: bool) -> None:
        self._evicted.labels("succeeded" if succeeded else "failed").inc(pods)

    def removed(self, reason: Reason, *, seconds: float, delay_reason: str) -> None:
        """A node is gone, so many seconds after it could have been."""
        self._scaled_down.labels(reason).inc()
        self._latency.labels("true", delay_reason).observe(seconds)

    def needed_again(self, *, seconds: float, delay_reason: str) -> None:
        self._latency.labels("false", delay_reason).observe(seconds)

    def rolled_back(self, outcome: str) -> None:
        self._failures.labels(outcome).inc()

    def stood_in(self, *, succeeded: bool) -> None:
        self._stand_ins.labels("ready" if succeeded else "failed").inc()

    def detached(self, seconds: float, *, all_of_them: bool) -> None:
        self._detached.labels(str(all_of_them).lower()).observe(seconds)

    def take(self, plan: ScaleDownPlan, *, unneeded: int, going: int) -> None:
        """What a round has decided."""
        self._unneeded.set(unneeded)
        self._pending.set(going)
        self._cool_down.set(plan.cool_down is not None)
        self._bound.set(plan.bounds.nodes)
        reasons = Tally(node.reason for node in plan.nodes if not node.goes and node.reason)
        codes = Tally(node.code for node in plan.nodes if not node.goes and node.code)
        self._reasons = replaced(self._unremovable, self._reasons, reasons)
        self._codes = replaced(self._blocked, self._codes, codes)


def replaced(gauge: Gauge, before: set[str], values: Mapping[str, float]) -> set[str]:
    """Set these, and what was set before to nothing; all labels that were ever set."""
    for label in before - values.keys():
        gauge.labels(label).set(0)
    for label, value in values.items():
        gauge.labels(label).set(value)
    return before | values.keys()

"""Metrics: kube-scheduler's names where the meaning is the same, `tonnage_` for the rest."""

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tonnage.scheduler.queue import QueuePlace, SchedulingQueue
from tonnage.service.metric_factory import MetricFactory

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"

_UPSTREAM = "scheduler"
_SHORT = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 4.0, 16.0)
_LONG = (0.01, 0.04, 0.16, 0.64, 2.5, 10.0, 40.0, 160.0, 640.0, 2560.0)
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class SchedulerMetrics:
    """Everything the scheduler counts, in a registry of its own."""

    def __init__(self, queue: SchedulingQueue, *, profile: str) -> None:
        self._profile = profile
        make = MetricFactory(_UPSTREAM)
        self.registry = make.registry
        self._attempts = make.counter(
            "schedule_attempts", "Attempts to schedule pods.", "result", "profile"
        )
        for result in (SCHEDULED, UNSCHEDULABLE, ERROR):
            self._attempts.labels(result, profile)
        self._duration = make.histogram(
            "scheduling_attempt_duration_seconds",
            "Time of an attempt; of pods decided together, each one's part.",
            "result",
            "profile",
            buckets=_SHORT,
        )
        self._sli = make.histogram(
            "pod_scheduling_sli_duration_seconds",
            "From when a pod was first seen to when it was bound.",
            "attempts",
            buckets=_LONG,
        )
        self._tries = make.histogram(
            "pod_scheduling_attempts", "Attempts it took to schedule a pod.", buckets=_COUNTS[:5]
        )
        self._preemptions = make.counter("preemption_attempts", "Searches for pods to preempt.")
        self._victims = make.histogram(
            "preemption_victims", "Pods preempted for one pod.", buckets=_COUNTS[:7]
        )
        self._batch = make.histogram(
            "batch_pods", "Pods decided in one go.", buckets=_COUNTS, prefix="tonnage_scheduler"
        )
        self._leading = make.gauge(
            "master_status", "Whether this replica leads.", "name", prefix="leader_election"
        )
        self.registry.register(_QueueCollector(queue, profile=profile))

    def decided(self, result: str, count: int, *, seconds: float) -> None:
        """So many attempts that took so long together."""
        self._attempts.labels(result, self._profile).inc(count)
        histogram = self._duration.labels(result, self._profile)
        for _ in range(count):
            histogram.observe(seconds / count)

    def batch(self, pods: int) -> None:
        self._batch.observe(pods)

    def bound(self, *, attempts: int, seconds: float) -> None:
        self._sli.labels(str(attempts) if attempts < 16 else "16+").observe(seconds)
        self._tries.observe(attempts)

    def preemption(self, victims: int) -> None:
        """A search for victims, and how many it found."""
        self._preemptions.inc()
        if victims:
            self._victims.observe(victims)

    def leading(self, leads: bool, *, lease: str) -> None:
        self._leading.labels(lease).set(leads)


class _QueueCollector(Collector):
    """The queue in figures, counted when somebody scrapes."""

    def __init__(self, queue: SchedulingQueue, *, profile: str) -> None:
        self._queue = queue
        self._profile = profile

    def collect(self) -> Iterable[Metric]:
        pending = GaugeMetricFamily(
            f"{_UPSTREAM}_pending_pods", "Pods that wait, by queue.", labels=("queue",)
        )
        for place, count in self._queue.counts().items():
            if place is not QueuePlace.TRIED:
                pending.add_metric((place.value,), count)
        refused = GaugeMetricFamily(
            f"{_UPSTREAM}_unschedulable_pods",
            "Unschedulable pods, by what stands in their way.",
            labels=("plugin", "profile"),
        )
        for name, count in self._queue.refusals().items():
            refused.add_metric((name, self._profile), count)
        return (pending, refused)

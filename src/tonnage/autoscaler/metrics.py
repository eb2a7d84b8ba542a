"""Metrics: cluster-autoscaler's names where the meaning is the same, `tonnage_` for the rest."""

from collections import Counter as Tally
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tonnage.autoscaler.report import Report
from tonnage.autoscaler.waits import DriverWaits
from tonnage.clock import Clock
from tonnage.groups.model import UNKNOWN
from tonnage.groups.readiness import COMING_UP, UNREADY

_UPSTREAM = "cluster_autoscaler"
_OURS = "tonnage"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_LATENCY = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
_WAITS = (5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0)
_ERRORS = ("cloudProviderError", "apiCallError", "internalError", "transientError")


class Metrics:
    """Everything the autoscaler counts, in a registry of its own."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self.registry = registry = CollectorRegistry()

        def gauge(name: str, text: str, *labels: str, prefix: str = _UPSTREAM) -> Gauge:
            return Gauge(f"{prefix}_{name}", text, labels, registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{_UPSTREAM}_{name}", text, labels, registry=registry)

        self._safe = gauge("cluster_safe_to_autoscale", "Whether the cluster is healthy enough.")
        self._nodes = gauge("nodes_count", "Nodes by state.", "state")
        self._group_count = gauge("node_groups_count", "Node groups.", "node_group_type")
        self._pods = gauge("unschedulable_pods_count", "Pods without a node.", "type")
        self._min = gauge("node_group_min_count", "Smallest size of a group.", "node_group")
        self._max = gauge("node_group_max_count", "Largest size of a group.", "node_group")
        self._target = gauge("node_group_target_count", "Nodes wanted of a group.", "node_group")
        self._healthy = gauge("node_group_healthiness", "Whether a group is healthy.", "node_group")
        self._backoff = gauge(
            "node_group_backoff_status", "Whether a group is backed off.", "node_group", "reason"
        )
        self._activity = gauge("last_activity", "When something was last done.", "activity")
        self._durations = Histogram(
            f"{_UPSTREAM}_function_duration_seconds",
            "Time spent in parts of the loop.",
            ("function",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._errors = counter("errors", "Rounds of the loop that failed.", "type")
        for kind in _ERRORS:
            self._errors.labels(kind)
        self._scaled_up = counter("scaled_up_nodes", "Nodes asked for.")
        self._failed = counter("failed_scale_ups", "Requests for nodes that failed.", "reason")
        self._failed_nodes = counter(
            "failed_node_creations", "Nodes that could not be created.", "reason"
        )
        self._removed = Gauge(
            f"{_UPSTREAM}_old_unregistered_nodes_removed_count",
            "Machines deleted because no node registered for them.",
            registry=registry,
        )
        self._held = gauge("held", "Whether nothing may be decided now.", prefix=_OURS)
        self._leader = gauge("leader", "Whether this replica leads.", prefix=_OURS)
        self._waiting_volumes = gauge(
            "unschedulable_pods_with_volumes", "Pods without a node that use CSI volumes.",
            prefix=_OURS,
        )  # fmt: skip
        self._not_helped = gauge(
            "not_helped_pods", "Pods nothing is bought for, by whether volumes are why.",
            "because_of_volumes", prefix=_OURS,
        )  # fmt: skip
        self._used = gauge(
            "slots_used", "Attach slots taken.", "node_group", "driver", prefix=_OURS
        )
        self._free = gauge("slots_free", "Attach slots left.", "node_group", "driver", prefix=_OURS)
        self._limit = gauge(
            "slots_limit", "Attach slots of nodes that have a limit.", "node_group", "driver",
            prefix=_OURS,
        )  # fmt: skip
        self._source = gauge(
            "limit_source", "Where the limit of a new node comes from.", "node_group", "driver",
            "source", prefix=_OURS,
        )  # fmt: skip
        self._unknown = gauge(
            "unknown_limits", "Drivers of a group whose limit nobody knows.", "node_group",
            prefix=_OURS,
        )  # fmt: skip
        self._coming_up = gauge(
            "coming_up_nodes", "Nodes that lack a driver and have time to get it.", "node_group",
            prefix=_OURS,
        )  # fmt: skip
        self._unready_drivers = gauge(
            "driver_unready_nodes", "Nodes that did not get a driver in time.", "driver",
            prefix=_OURS,
        )  # fmt: skip
        self._problems = gauge(
            "problems", "Objects and settings that are passed over.", prefix=_OURS
        )
        self._config_bad = gauge(
            "config_reload_failed", "Whether the newest configuration is not used.", prefix=_OURS
        )
        self._latency = Histogram(
            f"{_OURS}_decision_latency_seconds",
            "From learning that a pod has no node to asking for one.",
            buckets=_LATENCY,
            registry=registry,
        )

        self._waits = DriverWaits()
        self._waited = Histogram(
            f"{_OURS}_readiness_wait_seconds",
            "From the first look at a Ready node that lacks a driver to one at which it has all.",
            ("node_group",),
            buckets=_WAITS,
            registry=registry,
        )
        self._longest_wait = gauge(
            "readiness_longest_wait_seconds", "Longest wait for a driver that is not over.",
            prefix=_OURS,
        )  # fmt: skip
        self._provider_calls = Histogram(
            f"{_OURS}_provider_call_duration_seconds",
            "Time the provider took to answer.",
            ("call",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._provider_errors = Counter(
            f"{_OURS}_provider_call_errors",
            "Calls of the provider that failed.",
            ("call", "error"),
            registry=registry,
        )

    @contextmanager
    def timed(self, function: str) -> Iterator[None]:
        started = self._clock.monotonic()
        try:
            yield
        finally:
            self._durations.labels(function).observe(self._clock.monotonic() - started)

    def active(self, activity: str, *, now: float) -> None:
        self._activity.labels(activity).set(now)

    def error(self, kind: str) -> None:
        self._errors.labels(kind).inc()

    def scaled_up(self, nodes: int) -> None:
        self._scaled_up.inc(nodes)

    def failed_scale_up(self, reason: str) -> None:
        self._failed.labels(reason).inc()

    def failed_creations(self, reason: str, nodes: int) -> None:
        self._failed_nodes.labels(reason).inc(nodes)

    def unregistered_removed(self, nodes: int) -> None:
        self._removed.inc(nodes)

    def decided_after(self, seconds: float) -> None:
        self._latency.observe(seconds)

    def provider_called(self, call: str, seconds: float, error: str) -> None:
        self._provider_calls.labels(call).observe(seconds)
        if error:
            self._provider_errors.labels(call, error).inc()

    def leading(self, leads: bool) -> None:
        self._leader.set(leads)
        # Whoever does not look cannot say when a wait is over.
        self._waits = DriverWaits()
        self._longest_wait.set(0)

    def configuration(self, problem: str) -> None:
        self._config_bad.set(bool(problem))

    def take(self, report: Report) -> None:
        """Tell what a round found; what it could not find keeps its last value."""
        self._held.set(bool(report.held))
        self._problems.set(len(report.trust.problems) + len(report.problems))
        readiness = report.readiness
        self._safe.set(readiness is not None and readiness.healthy and not report.held)
        self._take_groups(report)
        self._take_nodes(report)
        if readiness is not None:
            for wait in self._waits.over(readiness, now=report.now):
                self._waited.labels(wait.group).observe(wait.seconds)
            self._longest_wait.set(self._waits.longest(now=report.now))
        if report.plan is not None:
            self._pods.labels("unschedulable").set(report.waiting)
            self._waiting_volumes.set(report.waiting_with_volumes)
            self._take_plan(report)
        if report.slots is not None:
            for one in (self._used, self._free, self._limit):
                one.clear()
            for (group, driver), slots in report.slots.items():
                self._used.labels(group, driver).set(slots.used)
                self._free.labels(group, driver).set(slots.free)
                self._limit.labels(group, driver).set(slots.limit)

    def _take_groups(self, report: Report) -> None:
        if report.provided is None:
            return
        for one in (self._min, self._max, self._target):
            one.clear()
        self._group_count.labels("autoscaled").set(len(report.provided.groups))
        for group in report.provided.groups:
            self._min.labels(group.id).set(group.min_size)
            self._max.labels(group.id).set(group.max_size)
            self._target.labels(group.id).set(group.target)

    def _take_nodes(self, report: Report) -> None:
        if report.readiness is None or report.observation is None:
            return
        nodes = report.readiness.nodes.values()
        groups = report.readiness.groups.values()
        standings = report.observation.groups.values()
        suspended = sum(one.suspended for one in groups)
        unready = sum(one.state == UNREADY for one in nodes) - suspended
        self._nodes.labels("ready").set(sum(one.state == "ready" for one in nodes))
        self._nodes.labels("unready").set(unready)
        self._nodes.labels("notStarted").set(sum(one.state == COMING_UP for one in nodes))
        self._nodes.labels("suspended").set(suspended)
        self._nodes.labels("unregistered").set(sum(one.unregistered for one in standings))
        self._nodes.labels("longUnregistered").set(sum(len(one.overdue) for one in standings))
        for gauge in (self._healthy, self._backoff, self._coming_up, self._unready_drivers):
            gauge.clear()
        for standing in standings:
            self._healthy.labels(standing.group).set(standing.healthy)
            if standing.backoff is not None:
                code = standing.backoff.failure.code or standing.backoff.failure.error_class
                self._backoff.labels(standing.group, code).set(1)
        coming_up = Tally(one.group or "" for one in nodes if one.state == COMING_UP)
        for name, count in coming_up.items():
            self._coming_up.labels(name).set(count)
        lacking = Tally(
            driver for one in nodes if one.state == UNREADY for driver in one.missing_drivers
        )
        for driver, count in lacking.items():
            self._unready_drivers.labels(driver).set(count)

    def _take_plan(self, report: Report) -> None:
        assert report.plan is not None
        because = Tally(
            any("olume" in (reason.plugin or "") for reason in one.reasons)
            for one in report.plan.not_helped
        )
        self._not_helped.labels("true").set(because[True])
        self._not_helped.labels("false").set(because[False])
        self._source.clear()
        self._unknown.clear()
        unknown = Tally(one.group for one in report.plan.limits if one.source == UNKNOWN)
        for one in report.plan.limits:
            self._source.labels(one.group, one.driver, one.source).set(1)
            self._unknown.labels(one.group).set(unknown[one.group])

"""Metrics: cluster-autoscaler's names where the meaning is the same, `tonnage_` for the rest."""

from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from prometheus_client import Gauge

from tonnage.autoscaler.report import RoundReport
from tonnage.autoscaler.volume_causes import OF_VOLUMES
from tonnage.clock import Clock
from tonnage.groups.model import UNKNOWN
from tonnage.groups.readiness import COMING_UP, READY, UNREADY, Readiness
from tonnage.groups.registry import TIMEOUT
from tonnage.service.metric_factory import MetricFactory

_UPSTREAM = "cluster_autoscaler"
_OURS = "tonnage"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_LATENCY = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
_WAITS = (5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0)
_ERRORS = ("cloudProviderError", "apiCallError", "internalError", "transientError")
_FAILED_SCALE_UPS = ("cloudProviderError", "transientError", TIMEOUT)


class _Rows:
    """A gauge by its labels; from round to round only what differs is touched."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._values: dict[tuple[str, ...], float] = {}

    def replace(self, values: Mapping[tuple[str, ...], float]) -> None:
        """These and no others from here on."""
        for labels in self._values.keys() - values.keys():
            self._gauge.remove(*labels)
        for labels, value in values.items():
            if self._values.get(labels) != value:
                self._gauge.labels(*labels).set(value)
        self._values = dict(values)


class Wait(NamedTuple):
    """A node that has got the last driver it lacked."""

    node: str
    group: str
    seconds: float


class DriverWaits:
    """Knows since when each node lacks a driver; one that leaves without it has no wait."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def over(self, readiness: Readiness, *, now: float) -> list[Wait]:
        """The waits that have ended since the look before."""
        ended = [
            Wait(name, node.group or "", now - since)
            for name, since in self._since.items()
            if (node := readiness.nodes.get(name)) is not None and node.state == READY
        ]
        # A node that is not Ready for a while meanwhile waits on.
        over = {one.node for one in ended}
        still = {
            name: since
            for name, since in self._since.items()
            if name in readiness.nodes and name not in over
        }
        lacking = {name: now for name, one in readiness.nodes.items() if one.missing_drivers}
        self._since = {**lacking, **still}
        return ended

    def longest(self, *, now: float) -> float:
        """Seconds for which the most patient node has waited so far."""
        return max((now - since for since in self._since.values()), default=0.0)


class AutoscalerMetrics:
    """Everything the autoscaler counts, in a registry of its own."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        make = MetricFactory(_UPSTREAM)
        gauge, counter, histogram = make.gauge, make.counter, make.histogram
        self.registry = make.registry

        def rows(name: str, text: str, *labels: str, prefix: str = _UPSTREAM) -> _Rows:
            return _Rows(gauge(name, text, *labels, prefix=prefix))

        self._safe = gauge("cluster_safe_to_autoscale", "Whether the cluster is healthy enough.")
        self._nodes = gauge("nodes_count", "Nodes by state.", "state")
        self._group_count = gauge("node_groups_count", "Node groups.", "node_group_type")
        self._pods = gauge("unschedulable_pods_count", "Pods without a node.", "type")
        self._min = rows("node_group_min_count", "Smallest size of a group.", "node_group")
        self._max = rows("node_group_max_count", "Largest size of a group.", "node_group")
        self._target = rows("node_group_target_count", "Nodes wanted of a group.", "node_group")
        self._price = rows(
            "node_group_price_per_hour", "Price of a node of the group, where it is known.",
            "node_group", prefix=_OURS,
        )  # fmt: skip
        self._healthy = rows("node_group_healthiness", "Whether a group is healthy.", "node_group")
        self._backoff = rows(
            "node_group_backoff_status", "Whether a group is backed off.", "node_group", "reason"
        )
        self._activity = gauge("last_activity", "When something was last done.", "activity")
        self._durations = histogram(
            "function_duration_seconds", "Time spent in parts of the loop.", "function",
            buckets=_SECONDS,
        )  # fmt: skip
        self._errors = counter("errors", "Rounds of the loop that failed.", "type")
        for kind in _ERRORS:
            self._errors.labels(kind)
        self._scaled_up = counter("scaled_up_nodes", "Nodes asked for.")
        self._failed = counter("failed_scale_ups", "Requests for nodes that failed.", "reason")
        for reason in _FAILED_SCALE_UPS:
            self._failed.labels(reason)
        self._failed_nodes = counter(
            "failed_node_creations", "Nodes that could not be created.", "reason"
        )
        self._removed = gauge(
            "old_unregistered_nodes_removed_count",
            "Machines deleted because no node registered for them.",
        )
        self._held = gauge("held", "Whether nothing may be decided now.", prefix=_OURS)
        self._leader = gauge("leader", "Whether this replica leads.", prefix=_OURS)
        self._waiting_volumes = gauge(
            "unschedulable_pods_with_volumes", "Pods without a node that use CSI volumes.",
            prefix=_OURS,
        )  # fmt: skip
        self._blamed = gauge(
            "unschedulable_pods", "Pods without a node, by whether volumes are why.",
            "because_of_volumes", prefix=_OURS,
        )  # fmt: skip
        self._not_helped = gauge(
            "not_helped_pods", "Pods nothing is bought for, by whether volumes are why.",
            "because_of_volumes", prefix=_OURS,
        )  # fmt: skip
        self._waiting_for_room = gauge(
            "waiting_for_freed_room", "Pods nothing is bought for, as room is being freed sooner.",
            prefix=_OURS,
        )  # fmt: skip
        self._set_apart = gauge(
            "set_apart_pods", "Pods decided on last and alone for their complexity.",
            "decided", prefix=_OURS,
        )  # fmt: skip
        self._chunks = rows(
            "headroom_chunks", "Chunks of room that is kept ready, by what became of them.",
            "room", "state", prefix=_OURS,
        )  # fmt: skip
        self._used = rows("slots_used", "Attach slots taken.", "node_group", "driver", prefix=_OURS)
        self._free = rows("slots_free", "Attach slots left.", "node_group", "driver", prefix=_OURS)
        self._limit = rows(
            "slots_limit", "Attach slots of nodes that have a limit.", "node_group", "driver",
            prefix=_OURS,
        )  # fmt: skip
        self._source = rows(
            "limit_source", "Where the limit of a new node comes from.", "node_group", "driver",
            "source", prefix=_OURS,
        )  # fmt: skip
        self._unknown = rows(
            "unknown_limits", "Drivers of a group whose limit nobody knows.", "node_group",
            prefix=_OURS,
        )  # fmt: skip
        self._coming_up = rows(
            "coming_up_nodes", "Nodes that lack a driver and have time to get it.", "node_group",
            prefix=_OURS,
        )  # fmt: skip
        self._unready_drivers = rows(
            "driver_unready_nodes", "Nodes that did not get a driver in time.", "driver",
            prefix=_OURS,
        )  # fmt: skip
        self._outages = rows(
            "driver_outage_nodes", "Nodes that lack a driver which most nodes lack.", "driver",
            prefix=_OURS,
        )  # fmt: skip
        self._problems = gauge(
            "problems", "Objects and settings that are passed over.", prefix=_OURS
        )
        self._to_mend = gauge(
            "node_group_problems", "What is wrong with node groups until somebody mends it.",
            prefix=_OURS,
        )  # fmt: skip
        self._config_bad = gauge(
            "config_reload_failed", "Whether the newest configuration is not used.", prefix=_OURS
        )
        self._latency = histogram(
            "decision_latency_seconds", "From learning that a pod has no node to asking for one.",
            buckets=_LATENCY, prefix=_OURS,
        )  # fmt: skip

        self._counted: Readiness | None = None
        self._waits = DriverWaits()
        self._waited = histogram(
            "readiness_wait_seconds",
            "From the first look at a Ready node that lacks a driver to one at which it has all.",
            "node_group", buckets=_WAITS, prefix=_OURS,
        )  # fmt: skip
        self._longest_wait = gauge(
            "readiness_longest_wait_seconds", "Longest wait for a driver that is not over.",
            prefix=_OURS,
        )  # fmt: skip
        self._provider_calls = histogram(
            "provider_call_duration_seconds", "Time the provider took to answer.", "call",
            buckets=_SECONDS, prefix=_OURS,
        )  # fmt: skip
        self._provider_errors = counter(
            "provider_call_errors", "Calls of the provider that failed.", "call", "error",
            prefix=_OURS,
        )  # fmt: skip

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

    def take(self, report: RoundReport) -> None:
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
            self._waiting_for_room.set(len(report.plan.waiting))
            for decided in (True, False):
                count = sum(one.decided is decided for one in report.plan.set_apart)
                self._set_apart.labels(str(decided).lower()).set(count)
            self.active("autoscaling", now=report.now)
            if report.waiting:
                self.active("scaleUp", now=report.now)
            self._pods.labels("unschedulable").set(report.waiting)
            self._waiting_volumes.set(report.waiting_with_volumes)
            for blame, pods in (report.because_of_volumes or {}).items():
                self._blamed.labels(blame).set(pods)
            self._take_plan(report)
        if report.scale_down.plan is not None:
            self.active("scaleDown", now=report.now)
        if report.slots is not None:
            slots = report.slots.items()
            self._used.replace({labels: one.used for labels, one in slots})
            self._free.replace({labels: one.free for labels, one in slots})
            self._limit.replace({labels: one.limit for labels, one in slots})

    def _take_groups(self, report: RoundReport) -> None:
        if report.provided is None:
            return
        groups = report.provided.groups
        self._group_count.labels("autoscaled").set(len(groups))
        self._to_mend.set(len(report.provided.to_mend))
        self._min.replace({(group.id,): group.min_size for group in groups})
        self._max.replace({(group.id,): group.max_size for group in groups})
        self._target.replace({(group.id,): group.target for group in groups})
        priced = {group.id: group.price_per_hour for group in groups}
        self._price.replace({(name,): one for name, one in priced.items() if one is not None})

    def _take_nodes(self, report: RoundReport) -> None:
        if report.readiness is None or report.observation is None:
            return
        healths = report.observation.groups.values()
        self._nodes.labels("unregistered").set(sum(health.unregistered for health in healths))
        self._nodes.labels("longUnregistered").set(sum(len(health.overdue) for health in healths))
        self._healthy.replace({(health.group,): health.healthy for health in healths})
        self._backoff.replace(
            {
                (
                    health.group,
                    health.backoff.failure.code or health.backoff.failure.error_class,
                ): 1
                for health in healths
                if health.backoff is not None
            }
        )
        if report.readiness is not self._counted:
            self._counted = report.readiness
            self._count_nodes(report.readiness)

    def _count_nodes(self, readiness: Readiness) -> None:
        nodes = readiness.nodes.values()
        states = Tally(node.state for node in nodes)
        suspended = sum(group.suspended for group in readiness.groups.values())
        self._nodes.labels("ready").set(states[READY])
        self._nodes.labels("unready").set(states[UNREADY] - suspended)
        self._nodes.labels("notStarted").set(states[COMING_UP])
        self._nodes.labels("suspended").set(suspended)
        coming_up = Tally(node.group or "" for node in nodes if node.state == COMING_UP)
        self._coming_up.replace({(name,): count for name, count in coming_up.items()})
        lacking = Tally(
            driver for node in nodes if node.state == UNREADY for driver in node.missing_drivers
        )
        self._unready_drivers.replace({(name,): count for name, count in lacking.items()})
        self._outages.replace({(outage.driver,): outage.lacking for outage in readiness.outages})

    def _take_plan(self, report: RoundReport) -> None:
        assert report.plan is not None
        because = Tally(
            any(reason.plugin in OF_VOLUMES for reason in one.reasons)
            for one in report.plan.not_helped
        )
        self._not_helped.labels("true").set(because[True])
        self._not_helped.labels("false").set(because[False])
        self._chunks.replace(
            {
                (room.name, state): count
                for room in report.plan.kept_rooms
                for state, count in (
                    ("kept", room.kept),
                    ("bought", room.bought),
                    ("missing", room.missing),
                )
            }
        )
        limits = report.plan.limits
        self._source.replace({(limit.group, limit.driver, limit.source): 1 for limit in limits})
        unknown = Tally(limit.group for limit in limits if limit.source == UNKNOWN)
        self._unknown.replace({(limit.group,): unknown[limit.group] for limit in limits})

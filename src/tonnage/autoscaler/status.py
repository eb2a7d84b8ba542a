"""The status ConfigMap: the format tools know of cluster-autoscaler, and a part of ours.

What a round came to is told by it, by metrics, and to who asks us.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.consolidation.report import consolidation_status
from tonnage.autoscaler.metrics import AutoscalerMetrics
from tonnage.autoscaler.report import Done, RoundReport
from tonnage.autoscaler.scaledown.report import ScaleDownReport, scale_down_status
from tonnage.cluster import errors
from tonnage.cluster.cache import Obstacle
from tonnage.cluster.client import Client
from tonnage.cluster.errors import Forbidden
from tonnage.cluster.records import ConfigMap, InvolvedObject
from tonnage.errors import ClusterError
from tonnage.groups.model import UNKNOWN
from tonnage.groups.readiness import COMING_UP, UNREADY, GroupReadiness
from tonnage.groups.registry import GroupHealth
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.timestamps import rfc3339
from tonnage.service import plain_yaml

LAST_UPDATED = "cluster-autoscaler.kubernetes.io/last-updated"

_LARGEST = 900_000
_LONGEST_MESSAGE = 500
_MOST = 50
"""Entries of a list in our part; the rest is counted."""

_DECISIONS = 10
"""Decisions that stay to be read; the log, `/debug/decisions` and the file have more."""

_NO_SCALE_DOWN = "Disabled"
"""`NoCandidates` would say that somebody looked for some."""


class StatusConfigMap:
    """Remembers since when each part has been as it is: a transition time moves only with it.

    And the last decisions, because the plan of a round is gone with the next one.
    """

    def __init__(self) -> None:
        self._running = False
        self._report: RoundReport | None = None
        self._seen: dict[str, Any] = {}
        """What the last round that could look at nodes has seen; the times in it say when."""
        self._since: dict[str, tuple[str, str]] = {}
        self._decisions: deque[dict[str, Any]] = deque(maxlen=_DECISIONS)
        """The newest first."""

    def take(self, report: RoundReport) -> None:
        """One more round is over."""
        self._report = report
        time = rfc3339(report.now)
        self._running = self._running or report.readiness is not None
        if report.readiness is not None or not self._running:
            self._seen = {
                "clusterWide": self._cluster(report, time),
                "nodeGroups": self._groups(report, time),
            }
        self._note_decision(report, time)

    def document(self, *, mode: Mapping[str, object]) -> dict[str, Any]:
        """The status of the last round, made when somebody reads it."""
        report = self._report
        if report is None:
            return {"autoscalerStatus": "Initializing"}
        document: dict[str, Any] = {
            "time": go_time(report.now),
            "autoscalerStatus": "Running" if self._running else "Initializing",
            **self._seen,
            "tonnage": {**_ours(report, mode), "lastDecisions": list(self._decisions)},
        }
        if report.held:
            document["message"] = report.held
        return document

    def _note_decision(self, report: RoundReport, time: str) -> None:
        """Keep what was decided, unless the same was decided before and nothing was done."""
        plan = report.plan
        decision: dict[str, Any] = {
            "scaleUps": _scale_ups(report),
            "reasons": [step.reason for step in plan.steps][:_MOST] if plan is not None else [],
            "notHelped": len(plan.not_helped) if plan is not None else 0,
            "done": [_deed(one) for one in report.done],
        }
        if not any(decision.values()):
            return
        newest = self._decisions[0] if self._decisions else {}
        if report.done or decision != {name: newest.get(name) for name in decision}:
            self._decisions.appendleft({"time": time, **decision})

    def _part(self, name: str, status: str, time: str) -> dict[str, Any]:
        known, since = self._since.get(name, ("", time))
        if known != status:
            since = time
        self._since[name] = (status, since)
        return {"status": status, "lastProbeTime": time, "lastTransitionTime": since}

    def _cluster(self, report: RoundReport, time: str) -> dict[str, Any]:
        healthy = report.readiness is None or report.readiness.healthy
        groups = list(report.readiness.groups.values()) if report.readiness is not None else []
        group_healths = report.observation.groups if report.observation is not None else {}
        scaling = any(group_health.scaling_up for group_health in group_healths.values())
        lacking = _lacking_drivers(report)
        counts = [
            _counts(group, group_healths.get(group.group), lacking[group.group]) for group in groups
        ]
        return {
            "health": {
                **self._part("health", "Healthy" if healthy else "Unhealthy", time),
                "nodeCounts": _sum(counts),
            },
            "scaleUp": self._part("scaleUp", "InProgress" if scaling else "NoActivity", time),
            "scaleDown": self._scale_down("scaleDown", report.scale_down, None, time),
        }

    def _scale_down(
        self, name: str, given: ScaleDownReport, nodes: Collection[str] | None, time: str
    ) -> dict[str, Any]:
        """Candidates among the nodes, or among all; with scale-down off, nobody looks for any."""
        if not given.enabled:
            return self._part(name, _NO_SCALE_DOWN, time)
        found = [node for node in given.unneeded if nodes is None or node in nodes]
        if not found:
            return self._part(name, "NoCandidates", time)
        return {**self._part(name, "CandidatesPresent", time), "candidates": len(found)}

    def _groups(self, report: RoundReport, time: str) -> list[dict[str, Any]]:
        if report.provided is None or report.readiness is None or report.observation is None:
            return []
        found = []
        lacking = _lacking_drivers(report)
        for group in report.provided.groups:
            group_health = report.observation.groups[group.id]
            readiness = report.readiness.groups[group.id]
            health = "Healthy" if group_health.healthy else "Unhealthy"
            scale_up = self._part(f"{group.id}/scaleUp", _scale_up_status(group_health), time)
            scale_up["backoffInfo"] = _backoff(group_health)
            found.append(
                {
                    "name": group.id,
                    "health": {
                        **self._part(f"{group.id}/health", health, time),
                        "nodeCounts": _counts(readiness, group_health, lacking[group.id]),
                        "cloudProviderTarget": group.target,
                        "minSize": group.min_size,
                        "maxSize": group.max_size,
                    },
                    "scaleUp": scale_up,
                    "scaleDown": self._scale_down(
                        f"{group.id}/scaleDown", report.scale_down, group.nodes, time
                    ),
                }
            )
        return found


_log = logging.getLogger(__name__)


class StatusWriter:
    """`report` is the last round, `document` what operators read of it.

    `refused` is the right that was missing at the last write, if one was.
    """

    def __init__(
        self,
        client: Client,
        *,
        metrics: AutoscalerMetrics | None,
        namespace: str,
        mode: Callable[[], Mapping[str, object]],
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._namespace = namespace
        self._mode = mode
        self._status = StatusConfigMap()
        self.report: RoundReport | None = None
        self.refused: errors.Forbidden | None = None
        self._written = ObjectMeta()

    @property
    def document(self) -> dict[str, Any]:
        return self._status.document(mode=self._mode())

    def about(self, config: AutoscalerConfig) -> InvolvedObject:
        """The status ConfigMap, as what concerns no single pod or node is said of.

        With its UID once it is known: `kubectl describe` finds events by it.
        """
        name = config.status_config_map_name
        return InvolvedObject(
            api_version="v1",
            kind="ConfigMap",
            namespace=self._namespace,
            name=name,
            uid=self._written.uid if self._written.name == name else "",
        )

    def take(self, report: RoundReport) -> None:
        """Tell those who ask us."""
        if report.held and (self.report is None or self.report.held != report.held):
            _log.warning("nothing is decided", extra={"why": report.held})
        self.report = report
        if self._metrics is not None:
            self._metrics.take(report)
        self._status.take(report)

    async def write(self, config: AutoscalerConfig) -> None:
        """Tell those who look into the cluster. What goes wrong with it costs nothing else."""
        assert self.report is not None
        noted = {LAST_UPDATED: go_time(self.report.now)}
        change = {"metadata": {"annotations": noted}, "data": {"status": text(self.document)}}
        await self._put(config, change, noted=noted)

    async def begin(self, config: AutoscalerConfig) -> None:
        """Learn what the status is kept in, before anything is said of it; nothing is changed."""
        await self._put(config, {}, noted={})

    async def _put(
        self, config: AutoscalerConfig, change: Mapping[str, object], *, noted: dict[str, str]
    ) -> None:
        name = config.status_config_map_name
        try:
            try:
                # A patch even where nothing changes: to read it would be one more right.
                put = await self._client.patch(ConfigMap, name, change, namespace=self._namespace)
            except errors.NotFound:
                meta = ObjectMeta(name=name, namespace=self._namespace, annotations=noted)
                data = {"status": text(self.document)}
                put = await self._client.create(ConfigMap, ConfigMap(metadata=meta, data=data))
        except ClusterError as error:
            self.refused = error if isinstance(error, errors.Forbidden) else None
            _log.warning("status not written", extra={"error": str(error)})
        else:
            self.refused = None
            self._written = put.metadata


def text(document: Mapping[str, Any]) -> str:
    """The document as YAML that fits into an object, if need be without the groups."""
    shown = plain_yaml.dump(document)
    if len(shown) <= _LARGEST:
        return shown
    groups = len(document["nodeGroups"])
    return plain_yaml.dump(
        {**document, "nodeGroups": [], "message": f"{groups} node groups are too many to list"}
    )


def go_time(seconds: float) -> str:
    """As upstream prints it: 2026-01-02 15:04:05.999999 +0000 UTC."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond:06d} +0000 UTC"


def _scale_up_status(group_health: GroupHealth) -> str:
    if group_health.scaling_up:
        return "InProgress"
    if not group_health.healthy:
        return "Unhealthy"
    return "Backoff" if group_health.backoff is not None else "NoActivity"


def _backoff(group_health: GroupHealth) -> dict[str, str]:
    if group_health.backoff is None:
        return {}
    message = group_health.backoff.failure.message
    if len(message) > _LONGEST_MESSAGE:
        message = message[: _LONGEST_MESSAGE - len("<truncated>")] + "<truncated>"
    return {"errorCode": group_health.backoff.failure.code, "errorMessage": message}


def _lacking_drivers(report: RoundReport) -> Counter[str]:
    """Nodes of each group that are unready because a driver never registered."""
    nodes = report.readiness.nodes.values() if report.readiness is not None else ()
    return Counter(
        node.group or "" for node in nodes if node.state == UNREADY and node.missing_drivers
    )


def _counts(
    readiness: GroupReadiness, group_health: GroupHealth | None, lacking_drivers: int = 0
) -> dict[str, Any]:
    one = readiness
    registered: dict[str, Any] = {
        "total": one.ready + one.unready + one.coming_up + one.suspended + one.deleting,
        "ready": one.ready,
        "notStarted": one.coming_up,
        "suspended": one.suspended,
        "unready": {"total": one.unready, "resourceUnready": lacking_drivers},
    }
    if one.deleting:
        registered["beingDeleted"] = one.deleting
    return {
        "registered": registered,
        "unregistered": group_health.unregistered if group_health is not None else 0,
        "longUnregistered": len(group_health.overdue) if group_health is not None else 0,
    }


def _sum(counts: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts of the same form added up, part by part."""
    total: dict[str, Any] = _counts(GroupReadiness(group=""), None)
    for one in counts:
        total = _added(total, one)
    return total


def _added(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    both = {**left}
    for name, value in right.items():
        if isinstance(value, dict):
            both[name] = _added(left.get(name, {}), value)
        else:
            both[name] = left.get(name, 0) + value
    return both


def _ours(report: RoundReport, mode: Mapping[str, object]) -> dict[str, Any]:
    plan = report.plan
    # What is wrong with groups and settings first: bad objects may be many.
    problems = [*report.problems, *report.trust.problems]
    ours: dict[str, Any] = {
        **mode,
        "held": report.held,
        "problems": problems[:_MOST],
        "problemCount": len(problems),
        "missingRights": [
            _right(obstacle) for obstacle in report.trust.obstacles if obstacle.forbidden
        ]
        + [_right(one) for one in report.refused],
        "waitingPods": report.waiting,
    }
    if report.trust.blind_to_volumes:
        ours["podsWithVolumesLeftAlone"] = f"no {', '.join(report.trust.blind_to_volumes)} objects"
    if report.readiness is not None:
        ours["comingUp"] = [
            {
                "node": node.node,
                "group": node.group,
                "reason": node.reason,
                "deadline": rfc3339(node.deadline) if node.deadline is not None else None,
            }
            for node in report.readiness.nodes.values()
            if node.state == COMING_UP
        ][:_MOST]
        ours["driverOutages"] = [
            {
                "driver": outage.driver,
                "groups": list(outage.groups),
                "lacking": outage.lacking,
                "registered": outage.registered,
            }
            for outage in report.readiness.outages
        ][:_MOST]
        ours["unready"] = [
            {"node": node.node, "group": node.group, "reason": node.reason}
            for node in report.readiness.nodes.values()
            if node.state == UNREADY
        ][:_MOST]
    if plan is not None:
        ours["limits"] = [msgspec.to_builtins(limit) for limit in plan.limits[: 4 * _MOST]]
        if plan.kept_rooms:
            ours["headroom"] = [msgspec.to_builtins(one) for one in plan.kept_rooms[:_MOST]]
        ours["unknownLimits"] = sum(limit.source == UNKNOWN for limit in plan.limits)
        ours["lastDecision"] = {
            "time": rfc3339(report.now),
            "scaleUps": _scale_ups(report),
            "fitOnExisting": len(plan.fit_on_existing),
            "notHelped": len(plan.not_helped),
            "waitingForFreedRoom": [
                {"pod": one.pod, "node": one.node, "seconds": one.seconds}
                for one in plan.waiting[:_MOST]
            ],
            "partial": plan.partial,
        }
    if report.scale_down.enabled or report.scale_down.removals:
        ours["scaleDown"] = scale_down_status(report.scale_down)
    if report.scale_down.consolidation.enabled:
        ours["consolidation"] = consolidation_status(report.scale_down.consolidation)
    ours["done"] = [_deed(one) for one in report.done]
    return ours


def _right(missing: Obstacle | Forbidden) -> dict[str, Any]:
    return {"verb": missing.verb, "kind": missing.kind, "group": missing.group}


def _scale_ups(report: RoundReport) -> list[dict[str, Any]]:
    bought = report.plan.scale_ups if report.plan is not None else ()
    return [{"group": one.group, "delta": one.delta} for one in bought]


def _deed(one: Done) -> dict[str, Any]:
    return {"deed": one.deed, "group": one.group, "nodes": one.nodes, "error": one.error}

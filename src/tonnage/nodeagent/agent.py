"""The round: look at drivers, machine and API server, decide, publish what is not published yet.

A round begins when there is news, and now and then without, for what tells no news: disks and
network interfaces. Looking costs the API server nothing; only a change is written.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.client import Client, PatchStyle
from tonnage.cluster.events import Recorder, Severity
from tonnage.errors import ClusterError
from tonnage.nodeagent import host, limit_patches, provenance
from tonnage.nodeagent.config import NodeAgentConfig, NodeAgentSettings
from tonnage.nodeagent.drivers import Driver, Drivers
from tonnage.nodeagent.limit_decision import (
    DriverAnswer,
    LimitDecider,
    LimitDecisions,
    NodeObservation,
)
from tonnage.nodeagent.limit_drift import Drift
from tonnage.nodeagent.metrics import NodeAgentMetrics
from tonnage.nodeagent.node_objects import NodeObjects
from tonnage.nodeagent.provenance import ProvenanceEntry
from tonnage.objects.attach_errors import without_room
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSINode, VolumeAttachment
from tonnage.service.config_file import ConfigFile

_log = logging.getLogger(__name__)


class Agent:
    """Keeps one node's limits published."""

    def __init__(
        self,
        settings: NodeAgentSettings,
        surroundings: NodeObjects,
        drivers: Drivers,
        *,
        client: Client,
        config: ConfigFile[NodeAgentConfig],
        clock: Clock,
        recorder: Recorder,
        metrics: NodeAgentMetrics,
        news: asyncio.Event,
    ) -> None:
        """`news` is set by whoever has some."""
        self._settings = settings
        self._name = settings.node_name
        self._around = surroundings
        self._drivers = drivers
        self._client = client
        self._config = config
        self._clock = clock
        self._recorder = recorder
        self._metrics = metrics
        self._news = news
        self._decider: LimitDecider | None = None
        self._uid = ""
        self._told: set[Drift] = set()
        self._problems: list[str] = []
        self._newer: tuple[str, Node] | None = None
        """What the server made of our last patch, and the version it was made from."""
        self._tried_version = ""
        """The version of the CSINode that we last tried to change."""
        self.outcome = LimitDecisions({}, [], [], [])
        self.change: limit_patches.Change | None = None
        """What the last round changed on the node, or would have."""
        self.looked_at = clock.monotonic()
        surroundings.attachments.subscribe(lambda change: self._attachment(change.object))
        for cache in (surroundings.nodes, surroundings.csinodes, surroundings.drivers):
            cache.subscribe(lambda _: news.set())

    async def run(self) -> None:
        """Rounds until cancelled."""
        await self.ready()
        while True:
            self._news.clear()
            await self.round()
            try:
                async with self._clock.timeout(self._config.current.poll_interval):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def ready(self) -> None:
        """Wait until all is known that the API server tells."""
        while not self._around.complete:
            await self._clock.sleep(0.1)

    async def round(self) -> None:
        """Look once, and publish what has changed."""
        self.looked_at = self._clock.monotonic()
        self._config.check()
        node = self._node()
        if node is None:
            _log.warning("node not found", extra={"node": self._name})
            return
        config = self._config.current
        if self._decider is None or node.metadata.uid != self._uid:
            remembered = provenance.decode(node.metadata.annotations)
            self._decider = LimitDecider(
                remembered, config, env_max=self._settings.env_max, hasty=self._settings.once
            )
            self._uid = node.metadata.uid
        before = self.outcome.entries
        self.outcome = self._decider.look(self._sight(node), config)
        self._report(before)
        self.change = limit_patches.node_change(node, self.outcome.entries)
        if self._settings.dry_run:
            return
        if self.change is not None:
            await self._write_node(node, self.change)
        if config.write_csinode:
            await self._write_csinode()

    def _node(self) -> Node | None:
        """The node as it is known, or as our own patch left it if that is newer."""
        node = self._around.node
        if node is not None and self._newer is not None:
            if self._newer[0] == node.metadata.resource_version:
                return self._newer[1]
            self._newer = None
        return node

    def _sight(self, node: Node) -> NodeObservation:
        attachments: dict[str, list[VolumeAttachment]] = {}
        for attachment in self._around.attachments:
            if attachment.spec.node_name == self._name:
                attachments.setdefault(attachment.spec.attacher, []).append(attachment)
        return NodeObservation(
            node=node,
            csinode=self._around.csinode,
            drivers={driver.metadata.name: driver for driver in self._around.drivers},
            attachments=attachments,
            heard={name: _heard(driver) for name, driver in self._drivers.known.items()},
            host=host.read(self._settings.host_root),
            seconds=int(self._clock.now().timestamp()),
            now=self._clock.monotonic(),
        )

    def _attachment(self, attachment: VolumeAttachment) -> None:
        if attachment.spec.node_name != self._name:
            return
        if without_room(attachment):
            self._drivers.ask_now(attachment.spec.attacher)
        self._news.set()

    async def _write_node(self, node: Node, change: limit_patches.Change) -> None:
        try:
            patched = await self._client.patch(Node, self._name, change, subresource="status")
        except ClusterError as error:
            self._metrics.wrote("Node", succeeded=False)
            _log.warning("limits not published", extra={"error": str(error)})
            return
        self._metrics.wrote("Node", succeeded=True)
        cached = self._around.node
        version = (cached or node).metadata.resource_version
        self._newer = (version, patched)

    async def _write_csinode(self) -> None:
        csinode = self._around.csinode
        drivers = {driver.metadata.name: driver for driver in self._around.drivers}
        counts = limit_patches.csinode_counts(csinode, self.outcome.entries, drivers)
        if csinode is None or not counts:
            return
        if csinode.metadata.resource_version == self._tried_version:
            return
        # Until the CSINode changes there is nothing new to say, whether or not this succeeds.
        self._tried_version = csinode.metadata.resource_version
        try:
            await self._client.patch(
                CSINode,
                self._name,
                limit_patches.csinode_change(counts),
                style=PatchStyle.STRATEGIC,
            )
        except (errors.Invalid, errors.Forbidden) as error:
            self._metrics.wrote("CSINode", succeeded=False)
            _log.warning("CSINode not written", extra={"error": str(error)})
            self._say("CSINodeNotWritten", f"the limits of the CSINode cannot be set: {error}")
        except ClusterError as error:
            self._tried_version = ""
            self._metrics.wrote("CSINode", succeeded=False)
            _log.warning("CSINode not written", extra={"error": str(error)})
        else:
            self._metrics.wrote("CSINode", succeeded=True)

    def _report(self, before: Mapping[str, ProvenanceEntry]) -> None:
        """Say what is new; what was said already is not repeated."""
        outcome = self.outcome
        for name, entry in outcome.entries.items():
            old = before.get(name)
            if old is not None and old.count != entry.count:
                fields = {"driver": name, "before": old.count, "count": entry.count}
                _log.info("limit changed", extra={**fields, "source": entry.source.value})
                text = f"{name}: {_words(old.count)} -> {_words(entry.count)}: {entry.reason}"
                self._say("AttachLimitChanged", text, severity=Severity.NORMAL)
        for drift in outcome.drifts:
            if drift not in self._told:
                _log.warning("drift", extra={"driver": drift.driver, "kind": drift.kind.value})
                self._say("AttachLimitDrift", drift.message)
        self._told = set(outcome.drifts)
        for problem in _new(outcome.problems, self._problems):
            _log.warning("driver left out", extra={"error": problem})
            self._say("AttachLimitKeyInvalid", problem)
        self._problems = outcome.problems
        self._metrics.seen(
            outcome.entries,
            views=outcome.views,
            drifts=outcome.drifts,
            answering={
                name: driver.answer is not None and not driver.problem
                for name, driver in self._drivers.known.items()
            },
        )

    def _say(self, reason: str, message: str, *, severity: Severity = Severity.WARNING) -> None:
        node = self._around.node
        if node is not None and not self._settings.dry_run:
            self._recorder.record(node, reason=reason, message=message, severity=severity)

    def document(self) -> dict[str, Any]:
        """What is published and why, what the drivers say, and what is not agreed on."""
        return {
            "apiVersion": "tonnage.dev/v1alpha1",
            "kind": "NodeAttachLimits",
            "node": self._name,
            "limits": [
                {
                    "driver": name,
                    "key": entry.key,
                    "count": entry.count,
                    "source": entry.source.value,
                    "reason": entry.reason,
                }
                for name, entry in self.outcome.entries.items()
            ],
            "drivers": [_told(driver) for driver in self._drivers.known.values()],
            "drift": [
                {
                    "driver": drift.driver,
                    "kind": drift.kind.value,
                    "by": drift.by,
                    "message": drift.message,
                }
                for drift in self.outcome.drifts
            ],
            "problems": self.outcome.problems,
        }


def _heard(driver: Driver) -> DriverAnswer:
    answer = driver.answer if not driver.problem else None
    return DriverAnswer(
        answered=answer.max_volumes if answer is not None else None,
        tried=answer is not None or bool(driver.problem),
    )


def _told(driver: Driver) -> dict[str, Any]:
    answer = driver.answer
    return {
        "name": driver.name,
        "version": answer.version if answer is not None else "",
        "capabilities": list(answer.capabilities) if answer is not None else [],
        "maxVolumesPerNode": answer.max_volumes if answer is not None else None,
        "problem": driver.problem,
    }


def _new(items: Iterable[str], known: list[str]) -> list[str]:
    return [item for item in items if item not in known]


def _words(count: int | None) -> str:
    return "no limit" if count is None else str(count)

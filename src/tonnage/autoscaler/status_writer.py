"""What a round came to, told to those who watch: metrics, the status document, its ConfigMap."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.metrics import AutoscalerMetrics
from tonnage.autoscaler.report import RoundReport
from tonnage.autoscaler.status import LAST_UPDATED, StatusConfigMap, go_time, text
from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.cluster.records import ConfigMap, InvolvedObject
from tonnage.errors import ClusterError
from tonnage.objects.meta import ObjectMeta

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

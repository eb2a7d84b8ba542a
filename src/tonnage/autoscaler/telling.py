"""What a round came to, told to those who watch: metrics, the status document, its ConfigMap."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from tonnage.autoscaler.config import Config
from tonnage.autoscaler.metrics import Metrics
from tonnage.autoscaler.report import Report
from tonnage.autoscaler.status import LAST_UPDATED, StatusKeeper, go_time, text
from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.cluster.records import ConfigMap
from tonnage.errors import ClusterError
from tonnage.objects.meta import ObjectMeta

_log = logging.getLogger(__name__)


class Teller:
    """`report` is the last round, `document` what operators read of it."""

    def __init__(
        self,
        client: Client,
        *,
        metrics: Metrics,
        namespace: str,
        mode: Callable[[], Mapping[str, object]],
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._namespace = namespace
        self._mode = mode
        self._status = StatusKeeper()
        self.report: Report | None = None
        self.document: dict[str, Any] = {"autoscalerStatus": "Initializing"}

    def take(self, report: Report) -> None:
        """Tell those who ask us."""
        if report.held and (self.report is None or self.report.held != report.held):
            _log.warning("nothing is decided", extra={"why": report.held})
        self.report = report
        self._metrics.take(report)
        self.document = self._status.document(report, mode=self._mode())

    async def write(self, config: Config) -> None:
        """Tell those who look into the cluster. What goes wrong with it costs nothing else."""
        assert self.report is not None
        name = config.status_config_map_name
        noted = {LAST_UPDATED: go_time(self.report.now)}
        data = {"status": text(self.document)}
        change = {"metadata": {"annotations": noted}, "data": data}
        try:
            try:
                await self._client.patch(ConfigMap, name, change, namespace=self._namespace)
            except errors.NotFound:
                meta = ObjectMeta(name=name, namespace=self._namespace, annotations=noted)
                await self._client.create(ConfigMap, ConfigMap(metadata=meta, data=data))
        except ClusterError as error:
            _log.warning("status not written", extra={"error": str(error)})

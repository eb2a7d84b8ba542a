"""The connections of a port as metrics, read when somebody scrapes."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tonnage.service.listener import Listener


class ConnectionCollector(Collector):
    """Figures of one port; costs nothing between two scrapes."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def collect(self) -> Iterable[Metric]:
        opened = GaugeMetricFamily(
            "tonnage_http_connections", "Connections that are open.", value=len(self._listener)
        )
        turned_away = CounterMetricFamily(
            "tonnage_http_connections_turned_away",
            "Connections closed because they were silent for too long or too many.",
            labels=("reason",),
        )
        turned_away.add_metric(("silent",), self._listener.dropped)
        turned_away.add_metric(("tooMany",), self._listener.refused)
        return (opened, turned_away)

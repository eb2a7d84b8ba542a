"""Events that were not written, as a metric: silence should not look like nothing to say."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from tonnage.cluster.events import Drop, Recorder


class EventCollector(Collector):
    """What a recorder held back, read when somebody scrapes."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def collect(self) -> Iterable[Metric]:
        dropped = CounterMetricFamily(
            "tonnage_events_dropped", "Events that were not written.", labels=("why",)
        )
        for why in Drop:
            dropped.add_metric((why.value,), self._recorder.dropped[why])
        return (dropped,)

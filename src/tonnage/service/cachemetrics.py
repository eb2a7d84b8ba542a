"""The caches of a mirror as metrics, read when somebody scrapes."""

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tonnage.cluster.mirror import Mirror


class CacheCollector(Collector):
    """Figures of every kind; costs nothing between two scrapes."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def collect(self) -> Iterable[Metric]:
        stale = _gauge("stale", "Whether what is known of a kind is too old to act on.")
        age = _gauge("age_seconds", "Seconds since the API server last said anything of a kind.")
        objects = _gauge("objects", "Objects of a kind that are known.")
        problems = _gauge("unreadable_objects", "Objects of a kind that could not be read.")
        forbidden = _gauge("forbidden", "Whether a right to read a kind is missing.")
        for one in self._mirror.status:
            labels = (one.kind, one.group)
            stale.add_metric(labels, float(one.stale))
            if one.synced:
                age.add_metric(labels, one.age)
            objects.add_metric(labels, one.objects)
            problems.add_metric(labels, one.problems)
            blocked = one.obstacle is not None and one.obstacle.forbidden
            forbidden.add_metric(labels, float(blocked))
        return (stale, age, objects, problems, forbidden)


def _gauge(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tonnage_cache_{name}", text, labels=("kind", "group"))

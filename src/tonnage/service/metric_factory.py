"""Metrics of one program: declared in a line each, with a prefix and a registry in common."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class MetricFactory:
    """Names begin with the prefix of the factory, or with another that is given."""

    def __init__(self, prefix: str, registry: CollectorRegistry | None = None) -> None:
        self.registry = CollectorRegistry() if registry is None else registry
        self._prefix = prefix

    def gauge(self, name: str, text: str, *labels: str, prefix: str = "") -> Gauge:
        return Gauge(self._named(name, prefix), text, labels, registry=self.registry)

    def counter(self, name: str, text: str, *labels: str, prefix: str = "") -> Counter:
        return Counter(self._named(name, prefix), text, labels, registry=self.registry)

    def histogram(
        self, name: str, text: str, *labels: str, buckets: Sequence[float], prefix: str = ""
    ) -> Histogram:
        named = self._named(name, prefix)
        return Histogram(named, text, labels, buckets=buckets, registry=self.registry)

    def _named(self, name: str, prefix: str) -> str:
        return f"{prefix or self._prefix}_{name}"

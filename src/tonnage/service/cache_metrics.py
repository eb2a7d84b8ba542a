"""The caches of a mirror in figures, for who scrapes metrics and who asks after health."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tonnage.cluster.cache import CacheStatus
from tonnage.cluster.events import Drop, Recorder
from tonnage.cluster.mirror import Mirror

_LABELS = ("kind", "group")


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
        corrections = CounterMetricFamily(
            "tonnage_cache_corrections",
            "Lists of a kind that were made because what was known of it was wrong.",
            labels=_LABELS,
        )
        for one in self._mirror.status:
            labels = (one.kind, one.group)
            stale.add_metric(labels, float(one.stale))
            if one.synced:
                age.add_metric(labels, one.age)
            objects.add_metric(labels, one.objects)
            problems.add_metric(labels, one.problems)
            corrections.add_metric(labels, one.corrections)
            blocked = one.obstacle is not None and one.obstacle.forbidden
            forbidden.add_metric(labels, float(blocked))
        return (stale, age, objects, problems, forbidden, corrections)


def documents(mirror: Mirror) -> list[dict[str, object]]:
    """Each kind with its age and what is wrong with it, for a status page."""
    return [
        {
            "kind": one.kind,
            "group": one.group,
            "objects": one.objects,
            "unreadable": one.problems,
            "synced": one.synced,
            "stale": one.stale,
            "ageSeconds": round(one.age, 1) if one.synced else None,
            "lists": one.relists + one.synced,
            "corrections": one.corrections,
            "failures": one.failures,
            "lastError": one.last_error,
        }
        for one in mirror.status
    ]


def ages(mirror: Mirror) -> str:
    """A line for each kind, for who asks whether we are well and wants to know more."""
    return "".join(f"{_age(one)}\n" for one in mirror.status)


def _age(one: CacheStatus) -> str:
    if not one.synced:
        told = "not known yet"
    else:
        told = f"heard of {one.age:.0f} s ago{', stale' if one.stale else ''}"
    return f"{one.kind}: {told}{f': {one.last_error}' if one.last_error else ''}"


def _gauge(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tonnage_cache_{name}", text, labels=_LABELS)


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

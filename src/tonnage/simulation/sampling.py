"""How often a run is looked at, and which looks are worth keeping."""

from tonnage.report.timeline import Sample

_STEPS = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
_SAMPLES = 720
"""About so many samples, unless the scenario says how often."""


def sample_interval(duration: float) -> float:
    """Seconds between two looks at a run of that length."""
    return next((step for step in _STEPS if duration / step <= _SAMPLES), duration / _SAMPLES)


def same_but_for_time(first: Sample, second: Sample) -> bool:
    """Whether nothing but time and the bill went on."""
    return _seen(first) == _seen(second)


def _seen(sample: Sample) -> tuple[object, ...]:
    return sample.pods, sample.nodes, sample.slots, sample.local_storage

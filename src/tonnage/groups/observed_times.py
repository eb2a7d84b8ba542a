"""How long things took that decisions wait for: volumes to detach, nodes to come up."""

import msgspec

from tonnage.objects.meta import Record

KEPT = 10
"""Times kept of each driver and group: the latest."""

USUAL_DETACH = 20.0
USUAL_START = 60.0
"""Seconds that are taken for usual where nothing was seen yet: slow to detach, fast to start, so
that who knows nothing waits for little."""


class ObservedTimes(Record, frozen=True, kw_only=True):
    """Seconds, the latest last. `detach` is by driver, from the end of the last pod that used the
    volume until it was gone from the node; `start` by node group, from the request until Ready."""

    detach: dict[str, tuple[float, ...]] = {}
    start: dict[str, tuple[float, ...]] = {}

    @property
    def extremes(self) -> tuple[dict[str, float], dict[str, float]]:
        """The slowest detach and the fastest start of each: what the careful go by."""
        return (
            {name: max(seen) for name, seen in self.detach.items()},
            {name: min(seen) for name, seen in self.start.items()},
        )

    def with_detach(self, driver: str, seconds: float) -> "ObservedTimes":
        return msgspec.structs.replace(self, detach=_noted(self.detach, driver, seconds))

    def with_start(self, group: str, seconds: float) -> "ObservedTimes":
        return msgspec.structs.replace(self, start=_noted(self.start, group, seconds))

    def detach_time(self, driver: str, *, careful: bool) -> float:
        """What to expect of the driver; who is careful expects the slowest seen."""
        seen = self.detach.get(driver, ())
        if not seen:
            return USUAL_DETACH
        return max(seen) if careful else _median(seen)

    def start_time(self, group: str, *, careful: bool) -> float:
        """What to expect of a new node of the group; who is careful expects the fastest seen."""
        seen = self.start.get(group, ())
        if not seen:
            return USUAL_START
        return min(seen) if careful else _median(seen)


def _median(seen: tuple[float, ...]) -> float:
    # `statistics` has it too, and takes longer to load than a small plan takes.
    ordered, middle = sorted(seen), len(seen) // 2
    return ordered[middle] if len(seen) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _noted(
    known: dict[str, tuple[float, ...]], name: str, seconds: float
) -> dict[str, tuple[float, ...]]:
    kept = (*known.get(name, ()), round(max(seconds, 0.0), 1))[-KEPT:]
    return {**known, name: kept}

"""Slots of pods that were let through and are not seen on their node yet.

An extender names the nodes a pod may go to; which one the scheduler takes it is never told. Until
the watch shows it, the pod may be on any of them. So a pod that is let through reserves its slots
on every node it was given, and a later pod gets a node only if it fits there even if all of them
went there. The reservation ends when the pod is seen on a node, is gone, or is asked about again,
and at the latest after a while. It shrinks to one node as soon as one is known.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tonnage.clock import Clock
from tonnage.snapshot.rows import Ints


class Share(NamedTuple):
    """Slots of one driver, so many on each of the rows."""

    driver: str
    rows: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int16]


class Reservation(NamedTuple):
    """`until` is `None` for as long as something else proves where the pod is going."""

    shares: tuple[Share, ...]
    made: float
    until: float | None
    node: str = ""
    """The only node the pod can still be going to, if that is known."""


class Reservations:
    """The sums are those of the reservations that are held, by driver and row; none is 0 for all.

    A reservation keeps the number of slots its pod wanted when it was let through: a volume that
    two pods on their way share counts twice until they arrive. Too careful, for a moment.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[str, Reservation] = {}
        self._sums: dict[str, Ints] = {}

    def __len__(self) -> int:
        return len(self._held)

    def get(self, pod: str) -> Reservation | None:
        return self._held.get(pod)

    def hold(
        self, pod: str, shares: Iterable[Share], *, seconds: float | None, node: str = ""
    ) -> None:
        """Reserve for a pod, in place of what it had; for ever if no seconds are given."""
        self._drop(pod)
        now = self._clock.monotonic()
        until = None if seconds is None else now + seconds
        made = tuple(share for share in shares if share.counts.any())
        self._held[pod] = Reservation(made, now, until, node)
        for share in made:
            size = int(share.rows.max()) + 1
            self._sum(share.driver, size)[share.rows] += share.counts

    def end_within(self, pod: str, seconds: float) -> None:
        """Nothing proves any longer where the pod is going."""
        held = self._held.get(pod)
        if held is not None and held.until is None:
            self._held[pod] = held._replace(until=self._clock.monotonic() + seconds)

    def release(self, pod: str) -> None:
        self._drop(pod)

    def clear(self) -> None:
        self._held.clear()
        self._sums.clear()

    def expire(self) -> int:
        """Drop what has lasted too long; how many those were."""
        now = self._clock.monotonic()
        # The oldest come first but for a few that shrank to a node, so this looks at all of them.
        late = [pod for pod, one in self._held.items() if one.until is not None and one.until < now]
        for pod in late:
            self.release(pod)
        return len(late)

    def on_rows(self, driver: str, size: int) -> Ints:
        """Reserved slots of a driver, by row. To be read, not changed."""
        if driver not in self._sums:
            return np.zeros(size, dtype=np.int64)
        return self._sum(driver, size)[:size]

    def fresh_on_rows(self, driver: str, size: int, *, seconds: float) -> Ints:
        """Those of pods that were let through just now: any moment their node may be known."""
        since = self._clock.monotonic() - seconds
        fresh = (one for one in self._held.values() if one.made >= since and not one.node)
        return _total(fresh, driver, size)

    def of_pod(self, pod: str, driver: str, size: int) -> Ints:
        """Those of one pod."""
        held = self._held.get(pod)
        return _total(() if held is None else (held,), driver, size)

    def _drop(self, pod: str) -> None:
        held = self._held.pop(pod, None)
        if held is not None:
            for share in held.shares:
                total = self._sums[share.driver]
                total[share.rows] -= share.counts
                if not total.any():
                    del self._sums[share.driver]

    def _sum(self, driver: str, size: int) -> Ints:
        total = self._sums.get(driver)
        if total is None or len(total) < size:
            grown = np.zeros(max(64, 2 * size), dtype=np.int64)
            if total is not None:
                grown[: len(total)] = total
            self._sums[driver] = total = grown
        return total


def _total(held: Iterable[Reservation], driver: str, size: int) -> Ints:
    total = np.zeros(size, dtype=np.int64)
    for one in held:
        for share in one.shares:
            if share.driver == driver:
                inside = share.rows < size
                total[share.rows[inside]] += share.counts[inside]
    return total

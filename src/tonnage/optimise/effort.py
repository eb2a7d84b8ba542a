"""How long the search may go on.

Work is counted in units that are the same on every machine, so that the same question has the
same answer, live and in virtual time. A unit is half a microsecond of a fast core, and one of a
slow or busy one. The clock, which is handed in, only ends what takes longer than that.
"""

from collections.abc import Callable

UNITS_PER_SECOND = 1_000_000


class Effort:
    """Counts work; it is over once the units are spent or the clock says so, and stays over."""

    def __init__(self, units: int, *, out_of_time: Callable[[], bool] = lambda: False) -> None:
        self._units = units
        self._out_of_time = out_of_time
        self._late = False
        self.done = 0

    @property
    def late(self) -> bool:
        """Whether it was the clock that ended it."""
        return self._late

    @property
    def over(self) -> bool:
        self._late = self._late or (self.done < self._units and self._out_of_time())
        return self._late or self.done >= self._units

    def spend(self, units: float) -> None:
        self.done += int(units)

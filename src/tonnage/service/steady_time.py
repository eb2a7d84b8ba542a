"""The wall clock for deciding what is overdue, safe from whoever sets the machine's clock."""

from tonnage.clock import Clock

_SLEW = 0.1
"""Seconds by which we follow a stepped clock for every second that passes."""


class SteadyTime:
    """Seconds since 1970 that never jump: a step of the wall clock is caught up with slowly.

    Deadlines are compared with timestamps that others wrote, so a steady clock alone does not do;
    and after a step of an hour nothing may be overdue that has waited for a minute.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = clock.monotonic()
        self._time = clock.now().timestamp()

    def now(self) -> float:
        passed = self._clock.monotonic() - self._at
        self._at += passed
        self._time += passed
        behind = self._clock.now().timestamp() - self._time
        most = _SLEW * passed
        self._time += min(max(behind, -most), most)
        return self._time

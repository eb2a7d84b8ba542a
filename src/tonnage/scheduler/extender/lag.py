"""Refusals are put off for a moment, in case our watch is behind the scheduler's.

kube-scheduler takes a refused pod up again when it hears of something, a driver that registers for
one, and asks at once. If the same news reaches us a millisecond later, the pod has been refused
again, and nothing is left to wake it. But the scheduler stands still while an answer waits, so
only a small share of its time may go into this. It is enough: where questions are many, so are
events, and the next one wakes the pod.
"""

from tonnage.clock import Clock

LONGEST = 0.05
"""Seconds for one refusal: what a watch that works may be behind."""
SHARE = 0.1
"""Of the time that passes."""
MOST = 0.2


class Lag:
    """`left` grows with time, up to a most, and shrinks by what is spent."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left = MOST
        self._at = clock.monotonic()

    def allowed(self) -> float:
        """Seconds this refusal may wait."""
        now = self._clock.monotonic()
        self._left = min(MOST, self._left + SHARE * (now - self._at))
        self._at = now
        return min(LONGEST, self._left)

    def spend(self, seconds: float) -> None:
        self._left = max(0.0, self._left - seconds)

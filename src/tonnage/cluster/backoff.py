"""Waiting longer each time, and never in step with others who wait for the same."""

import random


class Backoff:
    """Delays that double up to a limit; each is drawn from the upper half of its range.

    Jitter keeps the clients of a restarted server from all coming back in the same second.
    """

    def __init__(self, rng: random.Random, *, first: float, most: float) -> None:
        self._rng = rng
        self._first = first
        self._most = most
        self._failures = 0

    @property
    def failures(self) -> int:
        """How often in a row `next` was asked."""
        return self._failures

    def next(self) -> float:
        ceiling = min(self._first * 2.0 ** min(self._failures, 60), self._most)
        self._failures += 1
        return ceiling * self._rng.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._failures = 0

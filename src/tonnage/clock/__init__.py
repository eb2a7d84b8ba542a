"""Time as something that is handed in, so that the same code runs in real and in virtual time.

Nothing in the package calls `time`, `datetime.now` or `asyncio.sleep` on its own. Durations and
deadlines are measured with `monotonic`, which no step of the wall clock disturbs; `now` is only
for what others read (timestamps on objects, expiry dates set by someone else).
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What code that waits or measures may ask of time."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...

    def now(self) -> datetime:
        """The wall clock in UTC; may be stepped by whoever runs the machine."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; zero and less only let the others run."""
        ...

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Bound what happens inside the block: `TimeoutError` past it, no bound if `None`."""
        ...


class SystemClock:
    """The machine's time."""

    def monotonic(self) -> float:
        # Counts the time the machine was suspended too: whoever wakes up after an hour must not
        # believe that a lease of 15 seconds is still held.
        return time.clock_gettime(_STEADY)

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(seconds)


async def poll(
    done: Callable[[], bool],
    *,
    clock: Clock,
    within: float,
    check: Callable[[], object],
    every: float = 1.0,
) -> bool:
    """Look until it is done, for so many seconds at most; whether it is.

    `check` is called before each further look, and raises if there is no use in waiting.
    """
    end = clock.monotonic() + within
    while not done():
        if clock.monotonic() >= end:
            return False
        await clock.sleep(every)
        check()
    return True


_STEADY: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

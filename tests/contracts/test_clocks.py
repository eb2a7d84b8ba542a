"""The machine's time and virtual time keep `ClockContract`."""

import asyncio

from tests.contracts.clock import ClockContract, Main
from tonnage.clock import SystemClock
from tonnage.clock.virtual import VirtualClock, run


class TestVirtualClock(ClockContract):
    """To the second: nothing else moves this time."""

    unit = 1.0

    def plays(self, main: Main) -> float:
        clock = VirtualClock()
        run(lambda: main(clock), clock=clock)
        return clock.monotonic()

    def lasted(self, seconds: float, asked: float) -> None:
        assert seconds == asked


class TestSystemClock(ClockContract):
    """Never shorter; how much longer depends on the machine."""

    unit = 0.01

    def plays(self, main: Main) -> float:
        clock = SystemClock()
        begun = clock.monotonic()
        asyncio.run(main(clock))
        return clock.monotonic() - begun

    def lasted(self, seconds: float, asked: float) -> None:
        assert asked <= seconds < asked + 5

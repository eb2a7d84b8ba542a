"""When to look again: what comes together is decided on together, and nobody waits long for it.

The pods of a large set are refused one after the other, over a second or two. A request for each
few of them would get there too, in more steps; so the wait goes on for as long as pods keep coming.
"""

import asyncio

from tonnage.clock import Clock


class ScanTrigger:
    """What has happened since the last look: a pod came to wait, or something else of interest."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._called = asyncio.Event()
        self._first: float | None = None
        self._last = 0.0

    def pod_waits(self) -> None:
        """One more pod has found no node."""
        self._last = self._clock.monotonic()
        if self._first is None:
            self._first = self._last
        self._called.set()

    def call(self) -> None:
        """Something else calls for a look."""
        self._called.set()

    def begin(self) -> None:
        """A look is about to be taken: what happens from here on is for the next one."""
        self._called.clear()
        self._first = None

    async def complete(self, *, within: float, window: float, longest: float) -> None:
        """Until there is something to look at and pods have stopped coming, or `within` is over.

        They have stopped when none has come for `window` seconds; `longest` after the first it is
        enough, whatever comes.
        """
        try:
            async with self._clock.timeout(within):
                await self._called.wait()
        except TimeoutError:
            return
        await self._stop_coming(self._clock.monotonic(), window=window, longest=longest)

    async def take_along(self, *, window: float, longest: float) -> None:
        """In the middle of a look: pods that have come since it began, with their siblings."""
        if self._first is not None:
            await self._stop_coming(self._first, window=window, longest=longest)
            self.begin()

    async def _stop_coming(self, called: float, *, window: float, longest: float) -> None:
        while (wait := self._due(called, window, longest) - self._clock.monotonic()) > 0:
            await self._clock.sleep(wait)

    def _due(self, called: float, window: float, longest: float) -> float:
        if self._first is None:
            return called + window
        return min(self._last + window, self._first + longest)

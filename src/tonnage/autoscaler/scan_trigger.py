"""When to look again: what comes together is decided on together, and nobody waits long for it.

The pods of a large set are refused one after the other, over seconds. A request for each few of
them would get there too, in more steps; so the wait goes on for as long as pods keep coming, and
is longer where they come more slowly. A single pod is not kept waiting for others.
"""

import asyncio

from tonnage.clock import Clock

_BURST_GAP = 1.0
"""Seconds after which the next pod has nothing to do with the one before."""

_BURST_PODS = 3
"""So many pods one after the other are a burst, whose pace says when to expect the next."""

_PATIENCE = 3
"""How many times the usual pause between two pods of a burst is waited for another one."""


class ScanTrigger:
    """What has happened since the last look: a pod came to wait, or something else of interest."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._called = asyncio.Event()
        self._first: float | None = None
        self._last = 0.0
        self._burst = 0
        self._pause = 0.0

    def pod_waits(self) -> None:
        """One more pod has found no node."""
        now = self._clock.monotonic()
        pause = now - self._last
        if not self._burst or pause >= _BURST_GAP:
            self._burst, self._pause = 1, 0.0
        else:
            # A running mean: who slows down is waited for a little longer each time.
            self._pause = pause if self._burst == 1 else (self._pause + pause) / 2
            self._burst += 1
        self._last = now
        if self._first is None:
            self._first = now
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

        They have stopped when none has come for `window` seconds, or longer where the pods of a
        burst come more slowly; `longest` after the first it is enough, whatever comes.
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
        if self._burst >= _BURST_PODS:
            window = max(window, min(_PATIENCE * self._pause, _BURST_GAP))
        return min(self._last + window, self._first + longest)

"""When to look again: what comes together is decided on together, and nobody waits long for it.

The pods of a large set are refused one after the other, over seconds. A request for each few of
them would get there too, in more steps; so the wait goes on for as long as pods keep coming, and
is longer where they come more slowly. A single pod is not kept waiting for others. The same holds
for the nodes of a large purchase, which come, turn Ready and get their drivers one by one: each of
them changes what all nodes are looked at for. Pods that wait are not kept waiting for nodes.
"""

import asyncio

from tonnage.clock import Clock

_BURST_GAP = 1.0
"""Seconds after which the next has nothing to do with the one before."""

_BURST_SIZE = 3
"""So many one after the other are a burst, whose pace says when to expect the next."""

_PATIENCE = 3
"""How many times the usual pause between two of a burst is waited for another one."""


class ScanTrigger:
    """What has happened since the last look: a pod came to wait, or something else of interest."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._called = asyncio.Event()
        self._pods = _Burst()
        self._others = _Burst()

    def pod_waits(self) -> None:
        """One more pod has found no node."""
        self._pods.one_more(self._clock.monotonic())
        self._called.set()

    def call(self) -> None:
        """Something else calls for a look."""
        self._others.one_more(self._clock.monotonic())
        self._called.set()

    def begin(self) -> None:
        """A look is about to be taken: what happens from here on is for the next one."""
        self._called.clear()
        self._pods.first = self._others.first = None

    async def complete(self, *, within: float, window: float, longest: float) -> None:
        """Until there is something to look at and no more of it comes, or `within` is over.

        No more comes when nothing has come for `window` seconds, or longer where a burst comes more
        slowly; `longest` after the first it is enough, whatever comes.
        """
        try:
            async with self._clock.timeout(within):
                await self._called.wait()
        except TimeoutError:
            return
        await self._stop_coming(window=window, longest=longest)

    async def take_along(self, *, window: float, longest: float) -> None:
        """In the middle of a look: pods that have come since it began, with their siblings."""
        if self._pods.first is not None:
            await self._stop_coming(window=window, longest=longest)
            self.begin()

    async def _stop_coming(self, *, window: float, longest: float) -> None:
        while (wait := self._due(window, longest) - self._clock.monotonic()) > 0:
            # No longer at once than a pod is kept waiting that comes meanwhile.
            await self._clock.sleep(min(wait, window) or wait)

    def _due(self, window: float, longest: float) -> float:
        burst = self._others if self._pods.first is None else self._pods
        return burst.ends(window, longest)


class _Burst:
    """What comes one after the other; `first` is when the first came that was not looked at."""

    def __init__(self) -> None:
        self.first: float | None = None
        self._last = 0.0
        self._size = 0
        self._pause = 0.0

    def one_more(self, now: float) -> None:
        pause = now - self._last
        if not self._size or pause >= _BURST_GAP:
            self._size, self._pause = 1, 0.0
        else:
            # A running mean: who slows down is waited for a little longer each time.
            self._pause = pause if self._size == 1 else (self._pause + pause) / 2
            self._size += 1
        self._last = now
        if self.first is None:
            self.first = now

    def ends(self, window: float, longest: float) -> float:
        """When no more is waited for."""
        if self.first is None:
            return self._last
        if self._size >= _BURST_SIZE:
            window = max(window, min(_PATIENCE * self._pause, _BURST_GAP))
        return min(self._last + window, self.first + longest)

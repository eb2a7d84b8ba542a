"""Virtual time: hours of waiting in milliseconds, the same in every run.

    def test_something_that_waits() -> None:
        run(main, clock=VirtualClock())

Time stands still as long as any task can go on, and jumps to the next deadline when all of
them wait. "All wait" is learned from the event loop itself: it is about to block in its selector
and nothing is readable. Real sockets work too, with a `grace` for bytes still on their way.
"""

import asyncio
import heapq
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

START = datetime(2030, 1, 1, tzinfo=UTC)

_STUCK_AFTER = 10.0
"""Real seconds after which a loop that nothing wakes is given up."""


class VirtualClock:
    """A `Clock` whose time is moved by `jump` alone, and never past a deadline somebody waits for.

    Deadlines that fall together are met in the order in which they were set.
    """

    def __init__(
        self, *, start: datetime = START, grace: float = 0.0, horizon: float = 30 * 86_400.0
    ) -> None:
        self.grace = grace
        """Real seconds the loop may block on sockets before time jumps."""
        self._horizon = horizon
        self._start = start
        self._elapsed = 0.0
        self._stepped = timedelta()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._set = 0

    def monotonic(self) -> float:
        return self._elapsed

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed) + self._stepped

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        due = asyncio.Event()
        timer = self._call_in(seconds, due.set)
        try:
            await due.wait()
        finally:
            timer.wanted = False

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return self._timeout(seconds)

    def step(self, seconds: float) -> None:
        """Move the wall clock, as an operator or a time server would; durations do not notice."""
        self._stepped += timedelta(seconds=seconds)

    def jump(self) -> bool:
        """Go to the next deadline and meet all that fall on it; false if nobody waits for time."""
        while self._timers and not self._timers[0][2].wanted:
            heapq.heappop(self._timers)
        if not self._timers:
            return False
        self._elapsed = max(self._elapsed, self._timers[0][0])
        if self._elapsed > self._horizon:
            raise RuntimeError(f"virtual time ran past {self._horizon} s: what is waited for?")
        while self._timers and self._timers[0][0] <= self._elapsed:
            timer = heapq.heappop(self._timers)[2]
            if timer.wanted:
                timer.callback()
        return True

    @asynccontextmanager
    async def _timeout(self, seconds: float | None) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(None) as bound:
            if seconds is None:
                yield
                return
            timer = self._call_in(seconds, lambda: bound.reschedule(loop.time()))
            try:
                yield
            finally:
                timer.wanted = False

    def _call_in(self, seconds: float, callback: Callable[[], None]) -> "_Timer":
        self._set += 1
        timer = _Timer(callback)
        heapq.heappush(self._timers, (self._elapsed + max(seconds, 0.0), self._set, timer))
        return timer


def run(main: Callable[[], Coroutine[Any, Any, T]], *, clock: VirtualClock) -> T:
    """`asyncio.run` on a loop that moves `clock` whenever nothing else can happen."""

    def loop() -> asyncio.AbstractEventLoop:
        return asyncio.SelectorEventLoop(_JumpingSelector(clock))

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main())


class _Timer:
    """A deadline; no longer wanted once the wait it belongs to is over."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.wanted = True


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        grace = self._clock.grace if timeout is None else min(timeout, self._clock.grace)
        ready = super().select(grace)
        if ready or self._clock.jump():
            return ready
        wait = _STUCK_AFTER if timeout is None else min(timeout, _STUCK_AFTER)
        ready = super().select(wait)
        if not ready and wait == _STUCK_AFTER:
            raise RuntimeError("every task waits, and not for time: nothing will ever happen")
        return ready

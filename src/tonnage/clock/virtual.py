"""Virtual time: hours of waiting in milliseconds, the same in every run.

    def test_something_that_waits() -> None:
        run(main, clock=VirtualClock())

Time stands still as long as any task can go on, and jumps to the next deadline when all of
them wait. "All wait" is learned from the event loop itself: it is about to block in its selector
and nothing is readable. Real sockets work too, with a `grace` for bytes still on their way.
"""

import asyncio
import errno
import fcntl
import heapq
import selectors
import struct
import termios
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

START = datetime(2030, 1, 1, tzinfo=UTC)

_STUCK_AFTER = 10.0
"""Real seconds after which a loop that nothing wakes is given up."""
_FEW = 1000
"""Deadlines that nobody waits for any more and that may lie about, whatever the others are."""


class VirtualClock:
    """A `Clock` whose time is moved by `jump` alone, and never past a deadline somebody waits for.

    Deadlines that fall together are met in the order in which they were set.
    """

    def __init__(
        self,
        *,
        start: datetime = START,
        grace: float = 0.0,
        alone: bool = False,
        horizon: float = 30 * 86_400.0,
    ) -> None:
        self.grace = grace
        """Real seconds the loop may block on sockets before time jumps."""
        self.alone = alone
        """Whether no other process answers: then there is grace only for threads, and for bytes
        that were sent and have not been received."""
        self._horizon = horizon
        self._start = start
        self._elapsed = 0.0
        self._stepped = timedelta()
        self._now: datetime | None = start
        self._timers: list[tuple[float, int, Timer]] = []
        self._fresh: list[tuple[float, int, Timer]] = []
        """Deadlines set since time last moved: most are let go before it does again."""
        self._set = 0
        self._unwanted = 0

    def monotonic(self) -> float:
        return self._elapsed

    def now(self) -> datetime:
        if self._now is None:
            self._now = self._start + timedelta(seconds=self._elapsed) + self._stepped
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        due = asyncio.get_running_loop().create_future()
        timer = self.call_in(seconds, lambda: None if due.done() else due.set_result(None))
        try:
            await due
        finally:
            self.let_go(timer)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(None) if seconds is None else _Timeout(self, seconds)

    def step(self, seconds: float) -> None:
        """Move the wall clock, as an operator or a time server would; durations do not notice."""
        self._stepped += timedelta(seconds=seconds)
        self._now = None

    def jump(self) -> bool:
        """Go to the next deadline and meet all that fall on it; false if nobody waits for time."""
        self._queue_fresh()
        while self._timers and not self._timers[0][2].wanted:
            heapq.heappop(self._timers)
            self._unwanted -= 1
        if not self._timers:
            return False
        self._elapsed = max(self._elapsed, self._timers[0][0])
        self._now = None
        if self._elapsed > self._horizon:
            raise RuntimeError(f"virtual time ran past {self._horizon} s: what is waited for?")
        while self._timers and self._timers[0][0] <= self._elapsed:
            timer = heapq.heappop(self._timers)[2]
            callback, timer.callback = timer.callback, None
            if callback is None:
                self._unwanted -= 1
            else:
                callback()
        return True

    def call_in(self, seconds: float, callback: Callable[[], None]) -> "Timer":
        """Have something called when so much time has passed, unless it is let go before."""
        self._set += 1
        timer = Timer(callback)
        self._fresh.append((self._elapsed + max(seconds, 0.0), self._set, timer))
        if len(self._fresh) > _FEW:
            self._queue_fresh()
        return timer

    def _queue_fresh(self) -> None:
        for entry in self._fresh:
            if entry[2].wanted:
                entry[2].queued = True
                heapq.heappush(self._timers, entry)
        self._fresh.clear()

    def let_go(self, timer: "Timer") -> None:
        """Nobody waits for it any more. Most deadlines are bounds that are never reached."""
        if not timer.wanted:
            return
        timer.callback = None
        if not timer.queued:
            return
        self._unwanted += 1
        if self._unwanted > _FEW and self._unwanted * 2 > len(self._timers):
            self._timers = [one for one in self._timers if one[2].wanted]
            heapq.heapify(self._timers)
            self._unwanted = 0


def run(main: Callable[[], Coroutine[Any, Any, T]], *, clock: VirtualClock) -> T:
    """`asyncio.run` on a loop that moves `clock` whenever nothing else can happen."""

    def loop() -> asyncio.AbstractEventLoop:
        return asyncio.SelectorEventLoop(_JumpingSelector(clock))

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main())


class Timer:
    """A deadline; no longer wanted once it is met or the wait it belongs to is over."""

    __slots__ = ("callback", "queued")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback
        self.queued = False

    @property
    def wanted(self) -> bool:
        return self.callback is not None


class _Timeout:
    """`asyncio.timeout` by another clock, and all of it: most calls are bounded by one."""

    __slots__ = ("_cancelling", "_clock", "_expired", "_expiry", "_seconds", "_task", "_timer")

    def __init__(self, clock: VirtualClock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._expired = False
        self._expiry: asyncio.Handle | None = None

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "a timeout is of a task"
        self._task, self._cancelling = task, task.cancelling()
        self._timer = self._clock.call_in(self._seconds, self._due)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        self._clock.let_go(self._timer)
        if self._expiry is not None:
            self._expiry.cancel()
        # Somebody else may have cancelled the task as well: then that is what happened.
        if (
            self._expired
            and self._task.uncancel() <= self._cancelling
            and kind is asyncio.CancelledError
        ):
            raise TimeoutError from error

    def _due(self) -> None:
        # Not from within the loop's selector, where nothing of a task's may be touched.
        self._expiry = asyncio.get_running_loop().call_soon(self._expire)

    def _expire(self) -> None:
        self._expiry = None
        self._expired = True
        self._task.cancel()


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            # The one that is always there is the loop's own, and it only ever wakes it up.
            return super().select(timeout) if len(self.get_map()) > 1 else []
        grace = self._clock.grace if timeout is None else min(timeout, self._clock.grace)
        ready = super().select(0)
        if not ready and grace > 0 and not (self._clock.alone and self._is_quiet()):
            ready = super().select(grace)
        if ready or self._clock.jump():
            return ready
        wait = _STUCK_AFTER if timeout is None else min(timeout, _STUCK_AFTER)
        ready = super().select(wait)
        if not ready and wait == _STUCK_AFTER:
            raise RuntimeError("every task waits, and not for time: nothing will ever happen")
        return ready

    def _is_quiet(self) -> bool:
        """Whether nothing but this loop can make a socket readable or writable.

        Between sockets of one process bytes have been received once they are acknowledged.
        """
        return threading.active_count() == 1 and not any(
            key.events & selectors.EVENT_WRITE or _unacknowledged(key.fd)
            for key in self.get_map().values()
        )


def _unacknowledged(descriptor: int) -> bool:
    """Whether bytes may be on their way: sent and not received, or through what is no socket."""
    try:
        answer = fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4))
    except OSError as error:
        return error.errno != errno.EINVAL  # a socket that listens
    return struct.unpack("i", answer) != (0,)

"""What holds for every clock that is handed in, as tests that each of them inherits."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tonnage.clock import Clock

Main = Callable[[Clock], Coroutine[Any, Any, None]]


class ClockContract:
    """A clock's tests derive from this; they say how it `plays` and how long a `unit` may take."""

    unit: float

    def plays(self, main: Main) -> float:
        """Run with the clock in a loop of its own: how many seconds passed on it."""
        raise NotImplementedError

    def lasted(self, seconds: float, asked: float) -> None:
        """Fail unless something that was to take so long took as long as this clock promises."""
        raise NotImplementedError

    def _lasts(self, units: float, main: Main) -> None:
        self.lasted(self.plays(main), units * self.unit)

    def test_a_sleep_takes_the_time_asked_for(self) -> None:
        async def main(clock: Clock) -> None:
            await clock.sleep(3 * self.unit)

        self._lasts(3, main)

    @pytest.mark.parametrize("seconds", [0, -1])
    def test_a_sleep_of_nothing_lets_the_others_run(self, seconds: float) -> None:
        ran: list[str] = []

        async def main(clock: Clock) -> None:
            async def other() -> None:
                ran.append("other")

            task = asyncio.create_task(other())
            await clock.sleep(seconds)
            ran.append("sleeper")
            await task

        self._lasts(0, main)
        assert ran == ["other", "sleeper"]

    def test_sleepers_wake_in_the_order_of_their_deadlines(self) -> None:
        woken: list[str] = []

        async def main(clock: Clock) -> None:
            async def sleeper(name: str, units: float) -> None:
                await clock.sleep(units * self.unit)
                woken.append(name)

            await asyncio.gather(sleeper("late", 6), sleeper("first", 2), sleeper("second", 4))

        self._lasts(6, main)
        assert woken == ["first", "second", "late"]

    def test_a_timeout_ends_what_takes_longer(self) -> None:
        async def main(clock: Clock) -> None:
            with pytest.raises(TimeoutError):
                async with clock.timeout(5 * self.unit):
                    await clock.sleep(10_000 * self.unit)

        self._lasts(5, main)

    def test_a_timeout_that_was_not_needed_changes_nothing(self) -> None:
        async def main(clock: Clock) -> None:
            async with clock.timeout(5 * self.unit):
                pass
            await clock.sleep(7 * self.unit)

        self._lasts(7, main)

    def test_of_nested_timeouts_the_one_that_is_over_ends_its_own_block(self) -> None:
        async def main(clock: Clock) -> None:
            async with clock.timeout(10_000 * self.unit):
                with pytest.raises(TimeoutError):
                    async with clock.timeout(5 * self.unit):
                        await clock.sleep(7_000 * self.unit)
                await clock.sleep(self.unit)

        self._lasts(6, main)

    def test_who_is_cancelled_inside_a_timeout_is_cancelled_and_not_late(self) -> None:
        async def main(clock: Clock) -> None:
            async def bounded() -> None:
                async with clock.timeout(10_000 * self.unit):
                    await clock.sleep(20_000 * self.unit)

            task = asyncio.create_task(bounded())
            await clock.sleep(self.unit)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        self._lasts(1, main)

    def test_an_error_inside_a_timeout_comes_out_as_it_is(self) -> None:
        async def main(clock: Clock) -> None:
            with pytest.raises(KeyError):
                async with clock.timeout(10_000 * self.unit):
                    raise KeyError

        self._lasts(0, main)

    def test_a_timeout_of_none_never_ends(self) -> None:
        async def main(clock: Clock) -> None:
            async with clock.timeout(None):
                await clock.sleep(10 * self.unit)

        self._lasts(10, main)

    def test_the_wall_clock_is_in_utc_and_goes_on(self) -> None:
        async def main(clock: Clock) -> None:
            begun = clock.now()
            await clock.sleep(self.unit)
            offset = begun.utcoffset()
            assert offset is not None
            assert offset.total_seconds() == 0
            assert clock.now() > begun

        self._lasts(1, main)

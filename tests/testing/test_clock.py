import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tonnage.clock import SystemClock
from tonnage.testing.clock import START, VirtualClock, run

Main = Callable[[VirtualClock], Coroutine[Any, Any, Any]]


def in_virtual_time(main: Main, **options: float) -> VirtualClock:
    clock = VirtualClock(**options)  # type: ignore[arg-type]
    run(lambda: main(clock), clock=clock)
    return clock


def test_sleeping_takes_exactly_the_time_asked_for() -> None:
    async def main(clock: VirtualClock) -> None:
        await clock.sleep(3600)

    assert in_virtual_time(main).monotonic() == 3600


def test_sleepers_wake_in_the_order_of_their_deadlines_and_then_of_their_start() -> None:
    woken: list[str] = []

    async def main(clock: VirtualClock) -> None:
        async def sleeper(name: str, seconds: float) -> None:
            await clock.sleep(seconds)
            woken.append(name)

        await asyncio.gather(sleeper("late", 2), sleeper("first", 1), sleeper("second", 1))

    in_virtual_time(main)
    assert woken == ["first", "second", "late"]


def test_time_stands_still_while_a_task_can_run() -> None:
    async def main(clock: VirtualClock) -> None:
        sleeper = asyncio.ensure_future(clock.sleep(1))
        for _ in range(100):
            await asyncio.sleep(0)
        assert clock.monotonic() == 0
        await sleeper

    in_virtual_time(main)


def test_a_timeout_ends_what_takes_longer() -> None:
    async def main(clock: VirtualClock) -> None:
        with pytest.raises(TimeoutError):
            async with clock.timeout(5):
                await clock.sleep(6)

    assert in_virtual_time(main).monotonic() == 5


def test_a_timeout_that_was_not_needed_does_not_move_time() -> None:
    async def main(clock: VirtualClock) -> None:
        async with clock.timeout(5):
            pass
        await clock.sleep(7)

    assert in_virtual_time(main).monotonic() == 7


def test_of_nested_timeouts_the_one_that_is_over_ends_its_own_block() -> None:
    async def main(clock: VirtualClock) -> None:
        async with clock.timeout(10):
            with pytest.raises(TimeoutError):
                async with clock.timeout(5):
                    await clock.sleep(7)
            await clock.sleep(1)

    assert in_virtual_time(main).monotonic() == 6


def test_who_is_cancelled_inside_a_timeout_is_cancelled_and_not_late() -> None:
    async def main(clock: VirtualClock) -> None:
        async def bounded() -> None:
            async with clock.timeout(10):
                await clock.sleep(20)

        task = asyncio.create_task(bounded())
        await clock.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert in_virtual_time(main).monotonic() == 1


def test_an_error_inside_a_timeout_comes_out_as_it_is() -> None:
    async def main(clock: VirtualClock) -> None:
        with pytest.raises(KeyError):
            async with clock.timeout(10):
                raise KeyError

    assert in_virtual_time(main).monotonic() == 0


def test_thousands_of_timeouts_that_were_not_needed_leave_the_others_in_order() -> None:
    woken: list[int] = []

    async def main(clock: VirtualClock) -> None:
        async def sleeper(seconds: int) -> None:
            await clock.sleep(seconds)
            woken.append(seconds)

        async with asyncio.TaskGroup() as tasks:
            for seconds in (30, 10, 20):
                tasks.create_task(sleeper(seconds))
            for _ in range(5000):
                async with clock.timeout(15):
                    await clock.sleep(0)

    in_virtual_time(main)
    assert woken == [10, 20, 30]


def test_a_timeout_of_none_never_ends() -> None:
    async def main(clock: VirtualClock) -> None:
        async with clock.timeout(None):
            await clock.sleep(10_000)

    assert in_virtual_time(main).monotonic() == 10_000


def test_a_step_of_the_wall_clock_leaves_durations_alone() -> None:
    async def main(clock: VirtualClock) -> None:
        clock.step(-3600)

    clock = in_virtual_time(main)
    assert ((START - clock.now()).total_seconds(), clock.monotonic()) == (3600, 0)


def test_running_past_the_horizon_is_an_error() -> None:
    async def main(clock: VirtualClock) -> None:
        while True:
            await clock.sleep(60)

    with pytest.raises(RuntimeError, match="ran past 600"):
        in_virtual_time(main, horizon=600.0)


@pytest.mark.parametrize("alone", [False, True], ids=["others may answer", "alone"])
def test_bytes_on_their_way_through_a_socket_come_before_time_moves(alone: bool) -> None:
    async def main(clock: VirtualClock) -> None:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        async with clock.timeout(1):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"hello\n")
            assert await reader.readline() == b"hello\n"
        writer.close()
        await writer.wait_closed()
        server.close()

    assert in_virtual_time(main, grace=0.05, alone=alone).monotonic() == 0


def test_what_a_thread_does_comes_before_time_moves_of_a_clock_that_is_alone() -> None:
    async def main(clock: VirtualClock) -> None:
        async with clock.timeout(1):
            await asyncio.to_thread(time.sleep, 0.01)

    assert in_virtual_time(main, grace=5.0, alone=True).monotonic() == 0


def test_a_clock_that_is_alone_waits_for_no_bytes_that_nobody_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Other tests may have left threads in this process, for which there would be grace.
    monkeypatch.setattr("threading.active_count", lambda: 1)

    async def main(clock: VirtualClock) -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        _, writer = await asyncio.open_connection(host, port)
        await clock.sleep(3600)
        writer.close()
        server.close()

    begun = time.monotonic()
    in_virtual_time(main, grace=30.0, alone=True)
    assert time.monotonic() - begun < 30


def test_the_system_clock_ends_what_takes_longer_than_its_timeout() -> None:
    async def main() -> float:
        clock = SystemClock()
        started = clock.monotonic()
        with pytest.raises(TimeoutError):
            async with clock.timeout(0.01):
                await clock.sleep(10)
        return clock.monotonic() - started

    assert 0.01 <= asyncio.run(main()) < 5


def test_the_system_clock_tells_the_wall_time_in_utc() -> None:
    offset = SystemClock().now().utcoffset()
    assert offset is not None
    assert offset.total_seconds() == 0

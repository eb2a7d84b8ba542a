"""What virtual time has beyond `tests/contracts/clock.py`."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tonnage.testing.clock import START, VirtualClock, run

Main = Callable[[VirtualClock], Coroutine[Any, Any, Any]]


def in_virtual_time(main: Main, **options: float) -> VirtualClock:
    clock = VirtualClock(**options)  # type: ignore[arg-type]
    run(lambda: main(clock), clock=clock)
    return clock


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

"""How long a batch of pods is waited for."""

import asyncio

import pytest

from tonnage.autoscaler.scan_trigger import ScanTrigger
from tonnage.testing.clock import VirtualClock

SCAN, WINDOW, LONGEST = 10.0, 0.2, 1.0


async def completed_at(clock: VirtualClock, *arrivals: float, called_at: float = 0.0) -> float:
    """When a batch is complete whose pods come at these seconds; zero is when it is waited for."""
    batch, start = ScanTrigger(clock), clock.monotonic()

    async def come() -> None:
        for moment in arrivals:
            await clock.sleep(moment - (clock.monotonic() - start))
            batch.pod_waits()

    async def call() -> None:
        await clock.sleep(called_at)
        batch.call()

    tasks = [asyncio.ensure_future(come())]
    if called_at:
        tasks.append(asyncio.ensure_future(call()))
    await batch.complete(within=SCAN, window=WINDOW, longest=LONGEST)
    for task in tasks:
        task.cancel()
    return clock.monotonic() - start


@pytest.mark.parametrize(
    ("arrivals", "moment"),
    [
        pytest.param([3.0], 3.2, id="a single pod is waited with for the window"),
        pytest.param([3.0, 3.15], 3.35, id="the window begins anew with every pod"),
        pytest.param([3.0, 3.05, 3.1], 3.3, id="the window is enough for a quick burst"),
        pytest.param([3.0, 3.15, 3.3], 3.75, id="a slow burst is waited for three of its pauses"),
        pytest.param([3.0, 3.05, 3.1, 3.28], 3.625, id="who slows down is waited for longer"),
        pytest.param([3.0, 3.25], 3.2, id="a pod after the window is for the next batch"),
        pytest.param([3.0 + n / 10 for n in range(20)], 4.0, id="it ends however many come"),
        pytest.param([3.0, 3.15, 3.3, 3.45, 3.6, 3.75, 3.9], 4.0, id="the end cuts a window short"),
        pytest.param([], SCAN, id="without pods it is the scan interval"),
    ],
)
async def test_a_batch_is_complete(
    arrivals: list[float], moment: float, clock: VirtualClock
) -> None:
    assert await completed_at(clock, *arrivals) == pytest.approx(moment)


async def test_a_hundred_pods_that_trickle_in_over_four_seconds_are_one_batch(
    clock: VirtualClock,
) -> None:
    arrivals = [3.0 + 4 * (n / 100) ** 1.5 for n in range(100)]
    batch, start = ScanTrigger(clock), clock.monotonic()

    async def come() -> None:
        for moment in arrivals:
            await clock.sleep(moment - (clock.monotonic() - start))
            batch.pod_waits()

    coming = asyncio.ensure_future(come())
    await batch.complete(within=SCAN, window=WINDOW, longest=5.0)
    assert coming.done()


async def test_a_pod_a_while_after_a_burst_is_a_single_pod_again(clock: VirtualClock) -> None:
    batch = ScanTrigger(clock)
    for _ in range(5):
        batch.pod_waits()
        await clock.sleep(0.3)
    batch.begin()
    await clock.sleep(2)
    batch.pod_waits()
    before = clock.monotonic()
    await batch.complete(within=SCAN, window=WINDOW, longest=LONGEST)
    assert clock.monotonic() - before == pytest.approx(WINDOW)


async def test_what_else_calls_is_waited_with_for_the_window(clock: VirtualClock) -> None:
    assert await completed_at(clock, called_at=2.0) == pytest.approx(2.2)


async def test_what_else_calls_does_not_make_pods_wait_longer(clock: VirtualClock) -> None:
    assert await completed_at(clock, 2.0, called_at=2.1) == pytest.approx(2.2)


async def test_pods_that_came_during_a_long_round_are_not_waited_with_again(
    clock: VirtualClock,
) -> None:
    batch = ScanTrigger(clock)
    batch.begin()
    batch.pod_waits()
    await clock.sleep(5)
    before = clock.monotonic()
    await batch.complete(within=SCAN, window=WINDOW, longest=LONGEST)
    assert clock.monotonic() == before


async def test_what_came_before_a_look_is_not_looked_at_again(clock: VirtualClock) -> None:
    batch = ScanTrigger(clock)
    batch.pod_waits()
    batch.begin()
    before = clock.monotonic()
    await batch.complete(within=SCAN, window=WINDOW, longest=LONGEST)
    assert clock.monotonic() - before == pytest.approx(SCAN)


async def test_pods_that_come_during_a_look_are_taken_along_with_their_siblings(
    clock: VirtualClock,
) -> None:
    batch = ScanTrigger(clock)
    batch.begin()
    batch.pod_waits()
    before = clock.monotonic()
    await batch.take_along(window=WINDOW, longest=LONGEST)
    assert clock.monotonic() - before == pytest.approx(WINDOW)


async def test_pods_that_were_taken_along_do_not_call_for_another_look(clock: VirtualClock) -> None:
    batch = ScanTrigger(clock)
    batch.begin()
    batch.pod_waits()
    await batch.take_along(window=WINDOW, longest=LONGEST)
    before = clock.monotonic()
    await batch.complete(within=SCAN, window=WINDOW, longest=LONGEST)
    assert clock.monotonic() - before == pytest.approx(SCAN)


async def test_a_look_during_which_no_pod_comes_goes_on_at_once(clock: VirtualClock) -> None:
    batch = ScanTrigger(clock)
    batch.begin()
    batch.call()
    before = clock.monotonic()
    await batch.take_along(window=WINDOW, longest=LONGEST)
    assert clock.monotonic() == before


async def test_nodes_of_a_burst_are_looked_at_together(clock: VirtualClock) -> None:
    batch, start = ScanTrigger(clock), clock.monotonic()

    async def come() -> None:
        for _ in range(8):
            batch.call()
            await clock.sleep(0.3)

    coming = asyncio.ensure_future(come())
    await batch.complete(within=SCAN, window=0.5, longest=5.0)
    assert coming.done()
    assert clock.monotonic() - start == pytest.approx(7 * 0.3 + 0.9)


async def test_nodes_that_keep_coming_are_looked_at_all_the_same(clock: VirtualClock) -> None:
    batch, start = ScanTrigger(clock), clock.monotonic()

    async def come() -> None:
        while True:
            batch.call()
            await clock.sleep(0.1)

    coming = asyncio.ensure_future(come())
    await batch.complete(within=SCAN, window=WINDOW, longest=LONGEST)
    coming.cancel()
    assert clock.monotonic() - start == pytest.approx(LONGEST)


async def test_a_pod_among_nodes_that_come_slowly_is_not_waited_with_for_them(
    clock: VirtualClock,
) -> None:
    batch, start = ScanTrigger(clock), clock.monotonic()

    async def come() -> None:
        for _ in range(3):
            batch.call()
            await clock.sleep(0.15)
        batch.pod_waits()

    coming = asyncio.ensure_future(come())
    await batch.complete(within=SCAN, window=WINDOW, longest=5.0)
    coming.cancel()
    assert clock.monotonic() - start == pytest.approx(3 * 0.15 + WINDOW)

"""Whoever judges a soak finds what is wrong, and nothing else."""

from collections.abc import Callable

import pytest

from benchmarks.soak_judge import UNNEEDED_TIME, Judge
from tonnage.testing.clock import VirtualClock

LONG = UNNEEDED_TIME + 30


async def serve(judge: Judge, clock: VirtualClock) -> None:
    """A pod comes, has a node bought for it, and ends."""
    judge.needs("p")
    await clock.sleep(1)
    judge.bought("n", leaving=0)
    judge.bound("p", "n")
    await clock.sleep(LONG)
    judge.ended("p")


async def test_a_node_for_each_pod_that_is_given_back_in_time(clock: VirtualClock) -> None:
    judge = Judge(clock)
    await serve(judge, clock)
    await clock.sleep(UNNEEDED_TIME)
    judge.removed("n")
    report = judge.report
    assert (report.wrong, report.pods, report.bought, report.removed) == ([], 1, 1, 1)
    assert report.latencies == [1.0]


async def test_a_node_that_nobody_needs(clock: VirtualClock) -> None:
    judge = Judge(clock)
    judge.needs("p")
    judge.bought("n", leaving=0)
    judge.bought("m", leaving=0)
    assert judge.report.wrong == ["0 s: m bought: 2 free, 1 waiting"]


async def test_a_node_that_leaves_is_no_room(clock: VirtualClock) -> None:
    judge = Judge(clock)
    await serve(judge, clock)
    await clock.sleep(LONG)
    judge.needs("q")
    judge.bought("m", leaving=1)
    assert judge.report.wrong == []


async def test_a_pod_that_ended_just_now_was_running_for_whoever_decided(
    clock: VirtualClock,
) -> None:
    judge = Judge(clock)
    await serve(judge, clock)
    judge.needs("q")
    await clock.sleep(2)
    judge.bought("m", leaving=0)
    assert judge.report.wrong == []


async def test_a_node_that_is_removed_from_under_its_pod(clock: VirtualClock) -> None:
    judge = Judge(clock)
    judge.needs("p")
    judge.bought("n", leaving=0)
    judge.bound("p", "n")
    await clock.sleep(LONG)
    with judge.troubled():
        judge.removed("n")
    assert judge.report.wrong == [
        "60 s: n removed while p ran on it, the last trouble began at 60 s"
    ]


@pytest.mark.parametrize(
    ("happens", "found"),
    [
        (lambda _: None, ["65 s: n removed after 5.0 s without pods, 30 s are wanted"]),
        # Nobody here knows when it came to be without pods.
        (lambda judge: judge.trouble(), []),
    ],
)
async def test_a_node_that_is_removed_early(
    clock: VirtualClock, happens: Callable[[Judge], None], found: list[str]
) -> None:
    judge = Judge(clock)
    judge.needs("p")
    judge.bought("n", leaving=0)
    judge.bound("p", "n")
    await clock.sleep(LONG)
    happens(judge)
    judge.ended("p")
    await clock.sleep(5)
    judge.removed("n")
    assert judge.report.wrong == found


async def test_too_many_nodes_after_an_interruption_are_wrong_as_ever(clock: VirtualClock) -> None:
    judge = Judge(clock)
    with judge.troubled():
        await clock.sleep(LONG)
    judge.needs("p")
    judge.bought("n", leaving=0)
    judge.bought("m", leaving=0)
    assert len(judge.report.wrong) == 1
    assert judge.report.latencies == []

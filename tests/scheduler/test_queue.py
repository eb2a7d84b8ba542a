"""The queue: whose turn it is, who backs off, and who waits for a cure."""

from typing import Any

import pytest

from tests.growth import sizes
from tonnage.scheduler.queue import QueuedPod, QueuePlace, SchedulingQueue


def a_queue(*names: str, now: float = 0.0, **pods: int) -> SchedulingQueue:
    """Pods by name, or by name and priority, in the order given."""
    queue = SchedulingQueue()
    for name, priority in {**dict.fromkeys(names, 0), **pods}.items():
        queue.add(name, uid=name, priority=priority, now=now)
    return queue


def popped(queue: SchedulingQueue, *, now: float = 0.0, limit: int = 100) -> list[str]:
    return [one.key for one in queue.pop(limit, now=now)]


def anyone(_: str, __: QueuedPod) -> bool:
    return True


def refused(queue: SchedulingQueue, *, times: int, by: Any = ("F",)) -> float:
    """Have the only pod refused again and again; gives the moment of the last refusal."""
    now = 0.0
    for turn in range(times):
        assert popped(queue, now=now), turn
        queue.refused("a", by, now=now)
        if turn < times - 1:
            queue.wake(("F",), anyone, now=now)
            now += queue.next_in(now) or 0.0
    return now


def test_the_most_important_come_first_and_then_who_came_first() -> None:
    assert popped(a_queue(low=1, high=9, other=1)) == ["high", "low", "other"]


def test_no_more_are_taken_than_asked_for() -> None:
    queue = a_queue("a", "b", "c")
    assert popped(queue, limit=2) == ["a", "b"]
    assert popped(queue) == ["c"]


def test_a_pod_that_is_tried_is_not_taken_twice() -> None:
    queue = a_queue("a")
    assert popped(queue) == ["a"]
    assert popped(queue) == []


def test_who_was_refused_waits_for_a_cure() -> None:
    queue = a_queue("a")
    popped(queue)
    queue.refused("a", ["F"], now=0)
    assert popped(queue, now=200) == []
    assert queue.counts()[QueuePlace.UNSCHEDULABLE] == 1


def test_what_cures_another_filter_wakes_nobody() -> None:
    queue = a_queue("a")
    refused(queue, times=1)
    assert queue.wake(("G",), anyone, now=50) == 0


def test_who_was_refused_by_nothing_in_particular_wakes_by_anything() -> None:
    queue = a_queue("a")
    refused(queue, times=1, by=())
    assert queue.wake(("G",), anyone, now=50) == 1


def test_a_cure_within_the_backoff_waits_for_its_end() -> None:
    queue = a_queue("a")
    refused(queue, times=1)
    queue.wake(("F",), anyone, now=0.2)
    assert queue.next_in(0.2) == pytest.approx(0.8)
    assert popped(queue, now=0.9) == []
    assert popped(queue, now=1.0) == ["a"]


@pytest.mark.parametrize(("times", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (9, 10)])
def test_backoff_doubles_up_to_its_bound(times: int, seconds: float) -> None:
    queue = a_queue("a")
    now = refused(queue, times=times)
    queue.wake(("F",), anyone, now=now)
    assert queue.next_in(now) == pytest.approx(seconds)


def test_a_failure_is_tried_again_without_a_cure() -> None:
    queue = a_queue("a")
    popped(queue)
    queue.failed("a", now=0)
    assert popped(queue, now=1.0) == ["a"]


def test_leftovers_are_flushed_after_five_minutes() -> None:
    queue = a_queue("a")
    refused(queue, times=1)
    assert queue.next_in(0.0) == 300.0
    assert popped(queue, now=299) == []
    assert popped(queue, now=300) == ["a"]


def test_a_gated_pod_is_not_tried() -> None:
    queue = SchedulingQueue()
    queue.add("a", uid="a", priority=0, now=0, gated=True)
    assert popped(queue, now=1000) == []
    queue.changed("a", gated=False, now=1000)
    assert popped(queue, now=1000) == ["a"]


def test_a_pod_that_changes_is_tried_again() -> None:
    queue = a_queue("a")
    refused(queue, times=1)
    queue.changed("a", gated=False, now=60)
    assert popped(queue, now=60) == ["a"]


def test_a_pod_that_is_gone_is_not_taken() -> None:
    queue = a_queue("a", "b")
    queue.remove("a")
    assert popped(queue) == ["b"]


def test_only_those_wake_for_whom_it_is_worth_it() -> None:
    queue = a_queue("a", "b")
    popped(queue)
    for name in ("a", "b"):
        queue.refused(name, ["F"], now=0)
    queue.wake(("F",), lambda _, pod: pod.key == "b", now=20)
    assert popped(queue, now=20) == ["b"]


def test_who_was_tried_before_stands_behind_the_others() -> None:
    queue = a_queue("a", "b")
    assert popped(queue, limit=1) == ["a"]
    queue.failed("a", now=0)
    assert popped(queue, now=5) == ["b", "a"]


def test_who_was_taken_out_and_not_tried_keeps_the_turn_and_has_no_attempt_more() -> None:
    queue = a_queue("a", "b")
    popped(queue)
    queue.give_back("a")
    (again,) = queue.pop(10, now=0.0)
    assert (again.key, again.attempts) == ("a", 1)


def test_nothing_is_left_of_pods_that_go_before_anybody_takes_them() -> None:
    queue = a_queue("stays")
    for number in range(100):
        queue.add(f"goes-{number}", uid="u", priority=number, now=0)
        queue.remove(f"goes-{number}")
    assert sizes(queue).total() <= 4
    assert popped(queue) == ["stays"]


def test_nothing_is_left_of_pods_that_go_while_they_back_off() -> None:
    queue = a_queue("stays")
    for number in range(100):
        queue.add(f"goes-{number}", uid="u", priority=1, now=0)
        popped(queue, limit=1)
        queue.failed(f"goes-{number}", now=0)
        queue.remove(f"goes-{number}")
    assert sizes(queue).total() <= 4
    assert popped(queue) == ["stays"]

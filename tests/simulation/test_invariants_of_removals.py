"""Harm that is done by giving nodes back is noticed; and what is no harm is not."""

import pytest

from tests.simulation.context import PLAIN, Stage, played
from tonnage.simulation.checks import removals

DETACH_TIMEOUT = 300.0


def test_a_node_that_is_marked_and_empty_may_go() -> None:
    async def act(stage: Stage) -> None:
        stage.mark("east-1")
        await stage.after(1)
        stage.delete("east-1", "east")

    assert played(act).rules == []


def test_a_node_with_a_pod_may_not_go() -> None:
    async def act(stage: Stage) -> None:
        stage.bound("web", node="east-1")
        stage.mark("east-1")
        await stage.after(1)
        stage.delete("east-1", "east")

    assert played(act).rules == [removals.STILL_USED]


@pytest.mark.parametrize(
    ("seconds", "rules"), [(10, [removals.STILL_ATTACHED]), (DETACH_TIMEOUT, [])]
)
def test_a_node_with_volumes_has_to_wait_for_them(seconds: float, rules: list[str]) -> None:
    async def act(stage: Stage) -> None:
        stage.mark("east-1")
        stage.replica("db-0", "east-1")
        stage.attach("pv", PLAIN, "east-1")
        stage.evict("db-0")
        stage.replica("db-0", "west-1")
        await stage.after(seconds)
        stage.delete("east-1", "east")

    assert played(act).rules == rules


def test_two_replicas_of_a_set_may_not_be_on_their_way() -> None:
    async def act(stage: Stage) -> None:
        for name in ("db-0", "db-1"):
            stage.replica(name, "east-1")
        stage.mark("east-1")
        for name in ("db-0", "db-1"):
            stage.evict(name)

    assert played(act).rules == [removals.TWO_REPLICAS]


def test_one_after_the_other_they_may() -> None:
    async def act(stage: Stage) -> None:
        for name in ("db-0", "db-1"):
            stage.replica(name, "east-1")
        stage.mark("east-1")
        for name in ("db-0", "db-1"):
            stage.evict(name)
            stage.replica(name, "west-1")

    assert played(act).rules == []


@pytest.mark.parametrize(("least", "rules"), [(2, [removals.OVER_BUDGET]), (1, [])])
def test_no_eviction_goes_beyond_a_budget(least: int, rules: list[str]) -> None:
    async def act(stage: Stage) -> None:
        for name in ("db-0", "db-1"):
            stage.replica(name, "east-1")
        stage.budget("db", minAvailable=least)
        stage.mark("east-1")
        stage.evict("db-0")

    assert played(act).rules == rules


def test_a_mark_has_to_come_off_in_the_end() -> None:
    async def act(stage: Stage) -> None:
        stage.mark("east-1")
        await stage.after(1000)
        stage.invariants.removals.at_the_end()

    assert played(act).rules == [removals.NOT_CLEANED]


def test_nothing_is_bought_for_a_pod_that_was_only_moved() -> None:
    async def act(stage: Stage) -> None:
        stage.replica("db-0", "east-1")
        stage.mark("east-1")
        stage.evict("db-0")
        stage.pod("db-0")
        await stage.after(5)
        stage.buy("west", 1)

    assert removals.BOUGHT_FOR_MOVED in played(act).rules

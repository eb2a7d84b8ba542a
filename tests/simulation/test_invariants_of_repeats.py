"""Purchases that came in bits, or a second time for the same pods, are noticed; and no others."""

from tests.simulation.context import OPTED_IN, PLAIN, Stage, played
from tonnage.simulation.checks import repeats


async def tight_purchase(stage: Stage, *, refused: bool = False) -> None:
    """One node is bought, and then three are enough, if pods with one volume share one of them."""
    for number in range(4):
        stage.pod(f"both-{number}", OPTED_IN, PLAIN)
    for number in range(2):
        stage.pod(f"one-{number}", OPTED_IN)
        stage.pod(f"other-{number}", PLAIN)
    await stage.after(1)
    stage.buy("east", 1, refused=refused)
    await stage.after(10)


def test_a_purchase_by_halves() -> None:
    async def act(stage: Stage) -> None:
        for number in range(8):
            stage.pod(f"p{number}", OPTED_IN)
        await stage.after(1)
        stage.buy("east", 1)
        await stage.after(10)
        stage.buy("east", 1)

    assert played(act).rules == [repeats.BY_HALVES]


def test_a_purchase_by_halves_of_which_the_first_was_made_before_hearing_of_a_change() -> None:
    async def act(stage: Stage) -> None:
        for number in range(8):
            stage.pod(f"p{number}", OPTED_IN)
        await stage.after(1)
        stage.csi_node("west-1", opted_in=1)
        stage.buy("east", 1)
        await stage.after(10)
        stage.buy("east", 1)

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {repeats.NOT_HEARD: 1})


def test_a_second_purchase_for_pods_that_the_first_has_slots_for() -> None:
    async def act(stage: Stage) -> None:
        await tight_purchase(stage)
        stage.buy("east", 1)

    assert played(act).rules == [repeats.PACKED_OTHERWISE]


def test_a_second_purchase_after_the_scheduler_filled_nodes_otherwise_is_excused() -> None:
    async def act(stage: Stage) -> None:
        await tight_purchase(stage)
        stage.bind("one-0", "east-1")
        await stage.after(1)
        stage.buy("east", 1)

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {repeats.PLACED_OTHERWISE: 1})


def test_a_second_purchase_for_pods_that_came_since_is_fine() -> None:
    async def act(stage: Stage) -> None:
        for number in range(6):
            stage.pod(f"p{number}", OPTED_IN)
        await stage.after(1)
        stage.buy("east", 1)
        await stage.after(10)
        stage.pod("new", OPTED_IN)
        await stage.after(1)
        stage.buy("east", 1)

    assert played(act).rules == []


def test_a_second_purchase_in_the_same_round_is_fine() -> None:
    async def act(stage: Stage) -> None:
        for number in range(8):
            stage.pod(f"p{number}", OPTED_IN)
        await stage.after(1)
        stage.buy("east", 1)
        stage.buy("west", 1)

    assert played(act).rules == []


def test_a_second_purchase_of_more_than_the_pods_that_came_since_need() -> None:
    async def act(stage: Stage) -> None:
        await tight_purchase(stage)
        stage.pod("new", PLAIN)
        await stage.after(1)
        stage.buy("east", 2)

    assert repeats.BEYOND_LOSSES in played(act).rules


def test_as_many_nodes_as_have_failed_may_be_bought_again() -> None:
    async def act(stage: Stage) -> None:
        await tight_purchase(stage)
        stage.fail("east")
        await stage.after(1)
        stage.buy("west", 1)

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {})


def test_more_nodes_than_have_failed_are_bought_again() -> None:
    async def act(stage: Stage) -> None:
        await tight_purchase(stage)
        stage.fail("east")
        await stage.after(1)
        stage.buy("west", 2)

    assert repeats.BEYOND_LOSSES in played(act).rules


def test_purchases_of_several_groups_are_taken_together() -> None:
    async def act(stage: Stage) -> None:
        await tight_purchase(stage)
        stage.fail("east")
        await stage.after(1)
        stage.buy("west", 1)
        stage.buy("east", 1)

    assert repeats.BEYOND_LOSSES in played(act).rules


def test_a_request_that_was_refused_may_be_made_again() -> None:
    async def act(stage: Stage) -> None:
        await tight_purchase(stage, refused=True)
        stage.buy("west", 1)

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {})


def test_a_node_for_slots_that_were_lost_may_be_bought() -> None:
    async def act(stage: Stage) -> None:
        await tight_purchase(stage)
        stage.csi_node("west-1", opted_in=1)
        await stage.after(1)
        stage.buy("west", 1)

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {})


def test_a_group_that_may_have_been_passed_over_is_excused() -> None:
    async def act(stage: Stage) -> None:
        stage.machine("west-2", "west", node=False, failed=True)
        await tight_purchase(stage)
        stage.buy("west", 1)

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {repeats.PASSED_OVER: 1})


def test_long_after_a_purchase_another_is_judged_by_itself() -> None:
    async def act(stage: Stage) -> None:
        await tight_purchase(stage)
        await stage.after(60)
        stage.buy("west", 1)

    assert repeats.PACKED_OTHERWISE not in played(act).rules

"""Purchases that nobody needed are noticed; and no others."""

from tests.simulation.context import COMING_WITHIN, OPTED_IN, PLAIN, Stage, played
from tonnage.simulation.checks import purchases


def test_a_purchase_for_pods_that_have_no_place_is_fine() -> None:
    async def act(stage: Stage) -> None:
        for number in range(5):
            stage.pod(f"p{number}", OPTED_IN)
        await stage.after(1)
        stage.buy("east", 1)

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {})


def test_a_purchase_for_nobody() -> None:
    async def act(stage: Stage) -> None:
        await stage.after(1)
        stage.buy("east", 1)

    assert played(act).rules == [purchases.ALREADY_COMING]


def test_a_purchase_for_pods_that_have_a_place() -> None:
    async def act(stage: Stage) -> None:
        for number in range(4):
            stage.pod(f"p{number}", OPTED_IN)
        await stage.after(1)
        stage.buy("east", 1)

    assert played(act).rules == [purchases.ALREADY_COMING]


def test_a_purchase_for_pods_that_a_machine_comes_for() -> None:
    async def act(stage: Stage) -> None:
        for number in range(5):
            stage.pod(f"p{number}", OPTED_IN)
        await stage.after(1)
        stage.buy("east", 1)
        await stage.after(COMING_WITHIN - 1)
        stage.buy("west", 1)

    assert purchases.ALREADY_COMING in played(act).rules


def test_a_machine_that_is_long_overdue_is_not_counted_on() -> None:
    async def act(stage: Stage) -> None:
        for number in range(5):
            stage.pod(f"p{number}", OPTED_IN)
        await stage.after(1)
        stage.buy("east", 1)
        await stage.after(COMING_WITHIN + 1)
        stage.buy("west", 1)

    assert purchases.ALREADY_COMING not in played(act).rules


def test_a_machine_that_failed_is_not_counted_on() -> None:
    async def act(stage: Stage) -> None:
        for number in range(5):
            stage.pod(f"p{number}", OPTED_IN)
        stage.machine("east-2", "east", node=False, failed=True)
        await stage.after(1)
        stage.buy("west", 1)

    assert played(act).rules == []


def test_a_place_in_another_zone_is_none() -> None:
    async def act(stage: Stage) -> None:
        for number in range(3):
            stage.pod(f"p{number}", OPTED_IN, zone="east")
        await stage.after(1)
        stage.buy("east", 1)

    assert played(act).rules == []


def test_a_purchase_in_a_zone_that_helps_nobody() -> None:
    async def act(stage: Stage) -> None:
        for number in range(3):
            stage.pod(f"p{number}", OPTED_IN, zone="east")
        await stage.after(1)
        stage.buy("west", 1)

    assert played(act).rules == [purchases.ALREADY_COMING]


def test_a_promised_place_is_taken() -> None:
    async def act(stage: Stage) -> None:
        for number in range(4):
            stage.pod(f"p{number}", OPTED_IN)
        stage.pod("q", OPTED_IN, promised="east-1")
        await stage.after(1)
        stage.buy("east", 1)

    assert played(act).rules == []


def test_places_that_others_may_take_are_not_sure() -> None:
    async def act(stage: Stage) -> None:
        # If the pods with one volume take the slots of different nodes, both others find none.
        for number in range(3):
            stage.pod(f"one{number}", OPTED_IN)
        stage.pod("both", OPTED_IN, PLAIN)
        for number in range(2):
            stage.pod(f"other{number}", PLAIN)
        await stage.after(1)
        stage.buy("east", 1)

    assert played(act).rules == []


def test_more_than_is_needed() -> None:
    async def act(stage: Stage) -> None:
        for number in range(6):
            stage.pod(f"p{number}", OPTED_IN)
        await stage.after(1)
        stage.buy("east", 2)

    assert played(act).rules == [purchases.MORE_THAN_NEEDED]


def test_a_purchase_by_live_nodes_that_tell_of_less_is_excused() -> None:
    async def act(stage: Stage) -> None:
        stage.csi_node("east-1", opted_in=1)
        for number in range(5):
            stage.pod(f"p{number}", OPTED_IN)
        await stage.after(1)
        stage.buy("east", 2)

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {purchases.MODEST_NODES: 1})


def test_a_purchase_at_the_moment_of_a_change_is_excused() -> None:
    async def act(stage: Stage) -> None:
        await stage.after(1)
        stage.csi_node("east-1", opted_in=1)
        stage.buy("east", 1)

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {purchases.NOT_HEARD: 1})


def test_a_purchase_in_place_of_a_node_without_drivers_is_excused() -> None:
    async def act(stage: Stage) -> None:
        stage.csi_node("east-1", plain=None)
        await stage.after(COMING_WITHIN + 1)
        stage.buy("east", 1)

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {purchases.REPLACED: 1})

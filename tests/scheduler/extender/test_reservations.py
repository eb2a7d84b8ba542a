"""Slots of pods that were let through, until it is known where they went."""

import asyncio
from typing import Any

import pytest

from tests.scheduler.extender.harness import (
    DRIVER,
    Stage,
    a_claim,
    a_node,
    a_pod,
    extending,
)
from tonnage.objects.pods import Pod
from tonnage.testing import builders as make
from tonnage.testing.clock import VirtualClock

RESERVED = f"node(s) exceed max volume count (SlotsReserved: {DRIVER})"


def three_pods() -> tuple[list[object], list[Pod]]:
    """Their claims, and the pods."""
    made = [a_pod(name) for name in ("db-0", "db-1", "db-2")]
    return [claim for claim, _ in made], [pod for _, pod in made]


async def test_the_last_slot_is_given_once(clock: VirtualClock) -> None:
    claims, (first, second, _) = three_pods()
    async with extending(clock, *a_node("n1", 1), *claims) as stage:
        given_first = await stage.filter(first, "n1")
        given_second = await stage.filter(second, "n1")
    assert (given_first.nodes, given_second.nodes) == (["n1"], [])
    assert given_second.failed == {"n1": RESERVED}


async def test_a_node_that_holds_all_of_them_is_given_to_all(clock: VirtualClock) -> None:
    claims, pods = three_pods()
    async with extending(clock, *a_node("n1", 3), *claims) as stage:
        answers = [await stage.filter(pod, "n1") for pod in pods]
    assert [answer.nodes for answer in answers] == [["n1"]] * 3


async def test_a_later_pod_gets_the_nodes_that_are_free_wherever_the_first_went(
    clock: VirtualClock,
) -> None:
    claims, (first, second, _) = three_pods()
    async with extending(clock, *a_node("tight", 1), *a_node("roomy", 2), *claims) as stage:
        await stage.filter(first, "tight", "roomy")
        assert (await stage.filter(second, "tight", "roomy")).nodes == ["roomy"]


async def test_a_pod_seen_on_a_node_holds_the_others_no_longer(clock: VirtualClock) -> None:
    claims, (first, second, _) = three_pods()
    async with extending(clock, *a_node("n1", 1), *a_node("n2", 1), *claims) as stage:
        await stage.filter(first, "n1", "n2")
        await stage.put(make.pod("db-0", pvcs=["db-0"], on="n2"))
        assert (await stage.filter(second, "n1", "n2")).nodes == ["n1"]


async def test_an_answer_waits_for_a_pod_that_was_let_through_just_before(
    clock: VirtualClock,
) -> None:
    claims, (first, second, _) = three_pods()
    async with extending(clock, *a_node("n1", 1), *a_node("n2", 1), *claims) as stage:
        await stage.filter(first, "n1", "n2")
        asked = asyncio.ensure_future(stage.filter(second, "n1", "n2"))
        await clock.sleep(0.1)
        early = asked.done()
        await stage.put(make.pod("db-0", pvcs=["db-0"], on="n2"))
        assert (early, (await asked).nodes) == (False, ["n1"])


async def test_an_answer_does_not_wait_for_a_pod_that_has_been_on_its_way_for_long(
    clock: VirtualClock,
) -> None:
    claims, (first, second, _) = three_pods()
    async with extending(clock, *a_node("n1", 1), *claims) as stage:
        await stage.filter(first, "n1")
        await clock.sleep(1)
        before = clock.monotonic()
        answer = await stage.filter(second, "n1")
    assert (answer.nodes, clock.monotonic() - before < 0.2) == ([], True)


async def test_a_pod_that_is_gone_holds_nothing(clock: VirtualClock) -> None:
    claims, (first, second, _) = three_pods()
    async with extending(clock, *a_node("n1", 1), *claims, first) as stage:
        await stage.filter(first, "n1")
        await stage.delete(first)
        assert (await stage.filter(second, "n1")).nodes == ["n1"]


async def test_a_pod_asked_about_again_does_not_stand_in_its_own_way(clock: VirtualClock) -> None:
    claims, (first, *_) = three_pods()
    async with extending(clock, *a_node("n1", 1), *claims) as stage:
        await stage.filter(first, "n1")
        assert (await stage.filter(first, "n1")).nodes == ["n1"]


async def test_a_pod_that_is_refused_when_asked_again_holds_nothing(clock: VirtualClock) -> None:
    claims, (first, second, _) = three_pods()
    async with extending(clock, *a_node("n1", 1), *a_node("none", 0), *claims) as stage:
        await stage.filter(first, "n1")
        await stage.filter(first, "none")
        assert (await stage.filter(second, "n1")).nodes == ["n1"]


async def test_a_reservation_ends_with_time(clock: VirtualClock) -> None:
    claims, (first, second, _) = three_pods()
    async with extending(clock, *a_node("n1", 1), *claims, reservationTime="20s") as stage:
        await stage.filter(first, "n1")
        await clock.sleep(21)
        assert (await stage.filter(second, "n1")).nodes == ["n1"]


async def test_several_schedulers_at_once_do_not_share_a_slot(clock: VirtualClock) -> None:
    made = [a_pod(f"db-{number}") for number in range(8)]
    claims = [claim for claim, _ in made]
    async with extending(clock, *a_node("n1", 3), *claims, settleWait=0) as stage:
        answers = await asyncio.gather(*(stage.filter(pod, "n1") for _, pod in made))
    assert sum(answer.nodes == ["n1"] for answer in answers) == 3


async def chosen(stage: Stage, claim: str, node: str) -> None:
    await stage.put(a_claim(claim, selected_node=node))


async def test_the_node_on_the_claim_frees_the_others(clock: VirtualClock) -> None:
    claims, (first, second, _) = three_pods()
    async with extending(clock, *a_node("n1", 1), *a_node("n2", 1), *claims, first) as stage:
        await stage.filter(first, "n1", "n2")
        await chosen(stage, "db-0", "n2")
        assert (await stage.filter(second, "n1", "n2")).nodes == ["n1"]


async def test_a_volume_being_made_keeps_its_slot_for_as_long_as_it_takes(
    clock: VirtualClock,
) -> None:
    claims, (first, second, _) = three_pods()
    async with extending(clock, *a_node("n2", 1), *claims, first) as stage:
        await stage.filter(first, "n2")
        await chosen(stage, "db-0", "n2")
        await clock.sleep(500)
        assert (await stage.filter(second, "n2")).nodes == []


async def test_a_volume_being_made_is_known_after_a_restart(clock: VirtualClock) -> None:
    _, (first, second, _) = three_pods()
    claims = [a_claim("db-0", selected_node="n1"), a_claim("db-1")]
    async with extending(clock, *a_node("n1", 1), *claims, first) as stage:
        assert (await stage.filter(second, "n1")).nodes == []


async def test_a_claim_that_is_bound_long_ago_says_nothing_about_its_pod(
    clock: VirtualClock,
) -> None:
    _, (first, second, _) = three_pods()
    bound = a_claim("db-0", volume="pv-0", selected_node="n1")
    objects = [bound, make.pv("pv-0", driver=DRIVER), a_claim("db-1"), first]
    async with extending(clock, *a_node("n1", 1), *objects) as stage:
        assert (await stage.filter(second, "n1")).nodes == ["n1"]


async def test_nothing_is_said_until_pods_let_through_before_a_restart_have_arrived(
    clock: VirtualClock,
) -> None:
    claims, (first, *_) = three_pods()
    async with extending(clock, *a_node("n1", 1), *claims, startupGrace=2, ready=False) as stage:
        early = await stage.filter(first, "n1")
        await clock.sleep(4)
        late = await stage.filter(first, "n1")
    assert (early.nodes, late.nodes) == ([], ["n1"])
    assert early.error


async def test_an_answer_waits_for_a_claim_the_scheduler_has_seen_already(
    clock: VirtualClock,
) -> None:
    claim, pod = a_pod("db")
    async with extending(clock, *a_node("n1", 1)) as stage:
        asked = asyncio.ensure_future(stage.filter(pod, "n1"))
        await clock.sleep(0.1)
        await stage.put(claim)
        assert (await asked).nodes == ["n1"]


async def test_an_answer_waits_for_a_node_the_scheduler_has_seen_already(
    clock: VirtualClock,
) -> None:
    claim, pod = a_pod("db")
    async with extending(clock, claim) as stage:
        asked = asyncio.ensure_future(stage.filter(pod, "n1"))
        await clock.sleep(0.1)
        await stage.put(*a_node("n1"))
        assert (await asked).nodes == ["n1"]


# Acceptance: limit 5, ten pods, a node that is Ready before its driver registers


@pytest.mark.parametrize(
    ("opted_in", "unknown", "before"),
    [(True, "warn", 0), (False, "hold", 0), (False, "warn", 10)],
    ids=["opted in", "held", "allowed by the default of the KEP"],
)
async def test_limit_5_and_10_pods_on_a_node_without_its_driver(
    clock: VirtualClock, opted_in: bool, unknown: str, before: int
) -> None:
    made = [a_pod(f"db-{number}") for number in range(10)]
    driver = make.csidriver(DRIVER, opt_in=opted_in)
    node = a_node("n1", "unlisted", born=clock.now())
    settings: dict[str, Any] = {"settleWait": 0, "unknownLimits": unknown}
    async with extending(clock, driver, *node, *(one for one, _ in made), **settings) as stage:
        early = [bool((await stage.filter(pod, "n1")).nodes) for _, pod in made]
        await stage.put(make.csinode("n1", {DRIVER: 5}))
        late = [bool((await stage.filter(pod, "n1")).nodes) for _, pod in made]
    assert (sum(early), sum(late)) == (before, 5)


# News that is on its way


async def test_a_driver_that_registers_a_moment_after_the_question_is_not_missed(
    clock: VirtualClock,
) -> None:
    claim, pod = a_pod("db")
    driver = make.csidriver(DRIVER, opt_in=True)
    async with extending(clock, driver, *a_node("n1", "none"), claim) as stage:
        asked = asyncio.ensure_future(stage.filter(pod, "n1"))
        await clock.sleep(0.02)
        await stage.put(make.csinode("n1", {DRIVER: 5}))
        assert (await asked).nodes == ["n1"]


async def test_refusals_do_not_hold_up_the_scheduler_for_long(clock: VirtualClock) -> None:
    claim, pod = a_pod("db")
    async with extending(clock, *a_node("n1", 0), claim) as stage:
        before = clock.monotonic()
        for _ in range(50):
            await stage.filter(pod, "n1")
        assert clock.monotonic() - before < 0.5


async def test_scores_leave_out_what_the_pod_itself_has_reserved(clock: VirtualClock) -> None:
    claim, pod = a_pod("db")
    async with extending(clock, *a_node("n1", 10), claim) as stage:
        await stage.filter(pod, "n1")
        assert await stage.scores(pod, "n1") == {"n1": 9}

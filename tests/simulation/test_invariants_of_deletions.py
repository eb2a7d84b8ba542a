"""Deletions of healthy nodes are noticed; and no others."""

import pytest

from tests.simulation.context import Stage, played
from tonnage.simulation import explorer, random_scenarios
from tonnage.simulation.checks import deletions

PATIENCE = 900.0


def test_a_node_that_is_as_it_should_be_is_not_to_be_deleted() -> None:
    async def act(stage: Stage) -> None:
        await stage.after(1)
        stage.delete("east-1", "east")

    assert played(act).rules == [deletions.HEALTHY]


@pytest.mark.parametrize(("seconds", "rules"), [(30, [deletions.HEALTHY]), (PATIENCE, [])])
def test_a_node_whose_driver_is_gone_has_its_time(seconds: float, rules: list[str]) -> None:
    async def act(stage: Stage) -> None:
        await stage.after(2 * PATIENCE)
        stage.csi_node("east-1", plain=None)
        await stage.after(seconds)
        stage.delete("east-1", "east")

    assert played(act).rules == rules


def test_a_node_that_is_not_ready_may_go() -> None:
    async def act(stage: Stage) -> None:
        stage.node("east-1", ready=False)
        await stage.after(1)
        stage.delete("east-1", "east")

    assert played(act).rules == []


def test_a_machine_without_a_node_may_go() -> None:
    async def act(stage: Stage) -> None:
        await stage.after(1)
        stage.delete("east-9", "east")

    assert played(act).rules == []


def test_what_changed_at_this_very_moment_could_not_be_known() -> None:
    async def act(stage: Stage) -> None:
        stage.csi_node("east-1", plain=None)
        await stage.after(PATIENCE + 1)
        stage.csi_node("east-1")
        stage.delete("east-1", "east")

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {deletions.NOT_HEARD: 1})


def test_in_every_second_cluster_or_so_nodes_are_past_their_deadline_when_trouble_begins() -> None:
    begins = [
        min(action.at for action in explorer.scenario(seed).spec.script) for seed in range(20)
    ]
    assert 5 < sum(at > random_scenarios.PATIENCE for at in begins) < 15

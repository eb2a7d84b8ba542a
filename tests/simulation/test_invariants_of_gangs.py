"""The explorer sees gangs that are helped in part, and booked room that is given away."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.seeds import seeds
from tonnage.embedded.apiserver.store import Stored
from tonnage.groups.inputs import Inputs
from tonnage.rules import pipeline
from tonnage.rules.features import Features
from tonnage.rules.pipeline import Verdicts
from tonnage.scaleup import gangs, requested_room
from tonnage.scaleup.gangs import PendingPods
from tonnage.scheduler.gang_placer import GangPlacer, PodsInTurn
from tonnage.scheduler.loop import Scheduler
from tonnage.scheduler.queueing_hints import ClusterEvent
from tonnage.service.booked_room import BookedRoom
from tonnage.simulation import explorer, random_bookings, random_gangs
from tonnage.simulation.checks import bookings, places, purchases
from tonnage.simulation.checks import gangs as gang_rules
from tonnage.snapshot.snapshot import PodRecord

Patch = pytest.MonkeyPatch
OF_BOOKINGS, OF_GANGS, OF_PURCHASES = 38, 58, 22
OF_FAILED_BINDINGS, OF_NODES_DOWN, OF_DRIVERS_DOWN, OF_A_LATE_NODE = 3086, 3166, 1276, 4014
_WAKE = Scheduler._wake


def rules(seed: int, *, scale_down: bool | None = None) -> set[str]:
    return {one.rule for one in explorer.explored(seed, scale_down=scale_down).violations}


def test_components_that_work_break_no_rule() -> None:
    assert random_bookings.is_chosen(OF_BOOKINGS)
    assert random_gangs.is_chosen(OF_GANGS)
    assert rules(OF_BOOKINGS) | rules(OF_GANGS) == set()


def test_a_node_that_takes_long_to_come_up_is_still_coming() -> None:
    assert rules(OF_A_LATE_NODE, scale_down=True) == set()


def test_a_scheduler_that_gives_booked_room_away(monkeypatch: Patch) -> None:
    def careless(self: BookedRoom, record: PodRecord, features: Features) -> Verdicts:
        return pipeline.evaluate(self._cluster.snapshot, record, features)

    monkeypatch.setattr(BookedRoom, "evaluate", careless)
    assert bookings.GIVEN_AWAY in rules(OF_BOOKINGS)


def test_a_scheduler_that_does_not_hear_of_its_own_failures(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Scheduler, "_wake", _without_bookings)
    assert bookings.GIVEN_AWAY in rules(OF_FAILED_BINDINGS, scale_down=True)


def _without_bookings(self: Scheduler, happening: ClusterEvent) -> None:
    stale = self.booked._stale
    _WAKE(self, happening)
    self.booked._stale = stale


@pytest.mark.skipif(seeds(1) < 2, reason="one of the long seeds: TONNAGE_SEEDS=2")
def test_an_autoscaler_that_books_on_nodes_that_are_down(monkeypatch: Patch) -> None:
    monkeypatch.setattr(requested_room, "_beside", lambda request, _: request)
    assert bookings.NOT_THERE in rules(OF_NODES_DOWN, scale_down=True)


def test_an_autoscaler_that_books_where_a_driver_is_gone(monkeypatch: Patch) -> None:
    monkeypatch.setattr(requested_room, "_beside", lambda request, _: request)
    assert bookings.NOT_THERE in rules(OF_DRIVERS_DOWN)


def test_a_scheduler_that_binds_a_part_of_a_gang(monkeypatch: Patch) -> None:
    def one_by_one(_: GangPlacer, records: list[PodRecord], *, now: float) -> PodsInTurn:  # noqa: ARG001
        return PodsInTurn(records, [], [])

    monkeypatch.setattr(GangPlacer, "in_turn", one_by_one)
    assert gang_rules.IN_PART in rules(OF_GANGS)


@pytest.mark.skipif(seeds(1) < 2, reason="one of the long seeds: TONNAGE_SEEDS=2")
def test_an_autoscaler_that_buys_for_a_part_of_a_gang(monkeypatch: Patch) -> None:
    def one_by_one(_: Inputs, pending: list[PodRecord], *__: object, **___: object) -> PendingPods:
        return PendingPods(pending)

    monkeypatch.setattr(gangs, "sort_out", one_by_one)
    assert purchases.PART_OF_A_GANG in rules(OF_PURCHASES)


@pytest.mark.parametrize(
    ("spec", "takes"),
    [
        ({}, True),
        ({"taints": [{"key": "soft", "effect": "PreferNoSchedule"}]}, True),
        ({"taints": [{"key": "hard", "effect": "NoSchedule"}]}, False),
        ({"taints": [{"key": "hard", "effect": "NoExecute"}]}, False),
        ({"unschedulable": True}, False),
    ],
)
def test_only_hard_taints_and_cordons_keep_pods_off(spec: dict[str, Any], takes: bool) -> None:
    node = SimpleNamespace(tree={"spec": spec})
    assert places.is_open(cast(Stored, node)) is takes

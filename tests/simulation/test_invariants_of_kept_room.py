"""The explorer sees slots that are counted twice, and slots that nobody keeps."""

from unittest import mock

import msgspec

from tonnage.scaleup import headroom, planner
from tonnage.scaleup.plan import Plan
from tonnage.scaleup.request import Request
from tonnage.simulation import explorer, random_headroom
from tonnage.simulation.checks import kept_room
from tonnage.simulation.checks.purchases import ALREADY_COMING

SEED = 3


def rules() -> set[str]:
    return {one.rule for one in explorer.explored(SEED).violations}


def test_a_good_autoscaler_keeps_the_slots_and_buys_them_once() -> None:
    assert random_headroom.is_chosen(SEED)
    assert rules() == set()


def test_slots_that_nobody_keeps_are_missed_at_the_end() -> None:
    with mock.patch.object(headroom, "chunks", return_value=headroom.NO_CHUNKS):
        assert rules() == {kept_room.MISSING}


def test_slots_that_are_bought_while_they_are_coming_are_a_breach() -> None:
    real = planner.plan

    def forgetful(request: Request) -> Plan:
        only_room = request.headroom and not request.pending
        return real(msgspec.structs.replace(request, upcoming={}) if only_room else request)

    with mock.patch.object(planner, "plan", forgetful):
        assert ALREADY_COMING in rules()

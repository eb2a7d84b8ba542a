"""Every recorded scale-up is planned, replayed pod by pod, and held to cluster-autoscaler's answer.

A chosen part of them is in `make test` (tests/scaleup/test_replay.py).
"""

import msgspec
import pytest

from tests.parity.folder import FOLDER
from tests.scaleup import recorded
from tests.scaleup.recorded import Case
from tonnage.scaleup.plan import Plan

CHUNK = 25
CHUNKS = range(0, recorded.count(FOLDER), CHUNK)


def difference(case: Case, plan: Plan) -> object:
    """What is wrong with the plan, by itself or beside upstream's runs; None if nothing is."""
    if broken := recorded.broken_promises(case, plan):
        return broken
    if case.outcomes and recorded.helped(plan) < min(recorded.helped_by_upstream(case)):
        return "fewer pods than upstream's least lucky run"
    name = case.name
    if recorded.is_below_the_luckiest(case, plan) and name not in recorded.BELOW_THE_LUCKIEST:
        return "fewer pods than upstream's luckiest run"
    if recorded.is_below_the_whole_run(case, plan) and name not in recorded.BELOW_THE_WHOLE_RUN:
        return "fewer pods than upstream's whole run"
    if (
        recorded.is_dearer_than_the_whole_run(case, plan)
        and name not in recorded.DEARER_THAN_THE_WHOLE_RUN
    ):
        return "more nodes for the same pods than upstream's whole run"
    return None


@pytest.mark.parametrize("start", CHUNKS)
def test_every_plan_keeps_its_promises_and_is_no_worse_than_upstreams(start: int) -> None:
    cases = recorded.cases(FOLDER, slice(start, start + CHUNK))
    found = {case.name: difference(case, case.decide()) for case in cases}

    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("start", CHUNKS)
def test_no_promise_is_broken_with_everything_on(start: int) -> None:
    wrong: dict[str, object] = {}
    for case in recorded.cases(FOLDER, slice(start, start + CHUNK, 4)):
        on = case._replace(options=msgspec.structs.replace(case.options, compatibility="none"))
        if broken := recorded.broken_promises(on, on.decide()):
            wrong[case.name] = broken

    assert wrong == {}

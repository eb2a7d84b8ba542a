"""Consolidation in virtual time: the example, and hours after it in which nothing changes."""

from functools import cache
from unittest import mock

import msgspec
import pytest

from tests.simulation.departures import Departures
from tests.simulation.scenarios import example, played
from tonnage.scheduler import loop
from tonnage.simulation import runner
from tonnage.simulation.ensemble import Ensemble

pytestmark = pytest.mark.xdist_group("consolidation")  # played once, for all tests

HOUR = 3600.0


@cache
def hours() -> tuple[Ensemble, list[float]]:
    """The example for four hours; when pods were evicted or deleted."""
    simulation = example("consolidation")
    spec = msgspec.structs.replace(
        simulation.spec,
        duration=4 * HOUR,
        options={**simulation.spec.options, "scanInterval": 60},
    )
    leaving = Departures()

    with mock.patch.object(loop, "_LOOK_AGAIN", 60.0):
        return runner.played(
            msgspec.structs.replace(simulation, spec=spec), prepare=leaving.follow
        ), leaving.times


def test_the_large_nodes_are_replaced_by_one_medium_node() -> None:
    ensemble = played("consolidation")
    summary = ensemble.timeline().summary
    assert (summary.nodes_at_end, summary.pending_at_end, summary.stuck_at_end) == (1, 0, 0)
    deeds = [(one.deed, one.group, one.nodes) for one in ensemble.decisions]
    assert deeds == [
        ("increase", "large", 2),
        ("delete", "large", 1),
        ("increase", "medium", 1),
        ("delete", "large", 1),
    ]


def test_the_autoscaler_is_killed_between_the_purchase_and_the_removal() -> None:
    ensemble = played("consolidation")
    killed = next(one.at for one in ensemble.marks if "started anew" in one.text)
    bought, removed = (one.at for one in ensemble.decisions[-2:])
    assert bought < killed < removed


def test_afterwards_constant_load_evicts_nobody() -> None:
    ensemble, leaving = hours()
    assert [at for at in leaving if at > HOUR] == []
    assert all(one.at < HOUR for one in ensemble.decisions)

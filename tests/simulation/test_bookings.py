"""Room that is booked is there when its pods come, though others came before them."""

from tests.simulation.scenarios import example
from tonnage.report.timeline import Timeline
from tonnage.simulation import runner

COME = 420.0
"""When the workers come."""


def until_all_run(played: Timeline) -> float:
    """Seconds from when the workers come to when all pods run."""
    return next(one.at for one in played.samples if one.pods.running == 8) - COME


def test_the_workers_run_at_once_and_without_requests_they_wait_for_machines() -> None:
    booked = runner.simulate(example("bookings"))
    plain = runner.simulate(example("bookings").with_options({"provisioningRequests": False}))
    assert booked.summary.nodes_bought == plain.summary.nodes_bought == 4
    assert until_all_run(booked) < 10
    assert until_all_run(plain) > 40

"""A StatefulSet that starts in order, with and without looking ahead."""

from functools import cache

import msgspec
import pytest

from tests.simulation.scenarios import example
from tonnage.embedded.world import Delay
from tonnage.report.timeline import Timeline
from tonnage.simulation import runner

pytestmark = pytest.mark.xdist_group("look-ahead")  # played once, for all tests

HURRY = {"scaleDownEnabled": True, "scaleDownUnneededTime": 1, "scaleDownDelayAfterAdd": 0}


@cache
def played(ahead: bool, *, starts: bool = True, **options: object) -> Timeline:
    """The first quarter of an hour of thirty databases; the first never starts, if it is so."""
    simulation = example("ordered-start").with_duration(900.0)
    (action,) = simulation.spec.script
    (tree,) = action.apply or ()
    smaller = {**tree, "spec": {**tree["spec"], "replicas": 30}}
    script = (msgspec.structs.replace(action, apply=(smaller,)),)
    world = simulation.spec.world
    if not starts:
        world = msgspec.structs.replace(world, pod_start=Delay(3600.0))
    spec = msgspec.structs.replace(simulation.spec, script=script, world=world)
    changed = msgspec.structs.replace(simulation, spec=spec)
    return runner.simulate(changed.with_options({"lookAhead": ahead, **options}))


def all_run_at(run: Timeline, pods: int) -> float:
    return next(one.at for one in run.samples if one.pods.running == pods)


def test_as_many_nodes_are_bought_and_pods_run_in_a_fraction_of_the_time() -> None:
    without, ahead = played(False), played(True)
    assert without.summary.nodes_bought == ahead.summary.nodes_bought == 3
    assert all_run_at(ahead, 30) < all_run_at(without, 30) / 1.8


def test_all_of_it_is_one_decision_that_says_for_whom() -> None:
    (decided,) = played(True).decisions
    assert decided.nodes == 3


def test_nodes_bought_ahead_are_not_given_back_before_the_pods_come() -> None:
    run = played(True, **HURRY)
    assert (run.summary.nodes_bought, run.summary.nodes_deleted) == (3, 0)


def test_nodes_of_a_controller_that_makes_no_more_pods_are_given_back() -> None:
    run = played(True, starts=False, lookAheadTime=300.0, **HURRY)
    assert (run.summary.nodes_bought, run.summary.nodes_deleted) == (3, 2)

"""A StatefulSet that starts in order, with and without looking ahead."""

from functools import cache

import msgspec

from tests.simulation.scenarios import example
from tonnage.report.timeline import Timeline
from tonnage.simulation import runner


@cache
def played(ahead: bool, *, replicas: int = 30, **options: object) -> Timeline:
    simulation = example("ordered-start").with_duration(900.0)
    (action,) = simulation.spec.script
    (tree,) = action.apply or ()
    smaller = {**tree, "spec": {**tree["spec"], "replicas": replicas}}
    script = (msgspec.structs.replace(action, apply=(smaller,)),)
    spec = msgspec.structs.replace(simulation.spec, script=script)
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
    hurry = {
        "scaleDownEnabled": True,
        "scaleDownUnneededTime": 1,
        "scaleDownDelayAfterAdd": 0,
    }
    run = played(True, **hurry)
    assert (run.summary.nodes_bought, run.summary.nodes_deleted) == (3, 0)

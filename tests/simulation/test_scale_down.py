"""Scale-down in virtual time: the example, and days in which nothing changes."""

from functools import cache
from unittest import mock

import msgspec
import pytest

from tests.simulation.departures import Departures
from tests.simulation.scenarios import example, played
from tonnage.scheduler import loop
from tonnage.simulation import runner
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.scenario import Scaling, ScenarioAction

pytestmark = pytest.mark.xdist_group("examples")  # played once, for all tests

HOUR = 3600.0


@cache
def a_day() -> tuple[Ensemble, list[float]]:
    """The example for a day, with web servers beside; when pods were evicted or deleted."""
    simulation = example("scale-down")
    spec = simulation.spec
    simulation = msgspec.structs.replace(
        simulation,
        spec=msgspec.structs.replace(
            spec,
            duration=24 * HOUR,
            options={**spec.options, "scanInterval": 300, "scaleDownUtilizationThreshold": 0.9},
            script=(
                *(one for one in spec.script if one.restart is None),
                ScenarioAction(at=60.0, scale=Scaling(kind="Deployment", name="web", replicas=7)),
            ),
        ),
        objects=(*simulation.objects, _web()),
    )
    leaving = Departures()

    # Events wake the scheduler. That it also looks at its caches every second is half of the cost.
    with mock.patch.object(loop, "_LOOK_AGAIN", 60.0):
        return runner.played(simulation, prepare=leaving.follow), leaving.times


def _web() -> dict[str, object]:
    requests = {"cpu": "500m", "memory": "1Gi"}
    container = {"name": "web", "resources": {"requests": requests}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [container]},
            },
        },
    }


def test_the_example_ends_with_as_many_nodes_as_its_volumes_need() -> None:
    summary = played("scale-down").timeline().summary
    assert (summary.nodes_at_end, summary.nodes_deleted, summary.pending_at_end) == (2, 4, 0)


def test_in_the_example_nothing_is_bought_for_pods_that_only_move() -> None:
    assert [one.nodes for one in played("scale-down").decisions if one.deed == "increase"] == [6]


def test_in_the_example_the_autoscaler_is_killed_while_a_node_is_going() -> None:
    marks = [one.at for one in played("scale-down").marks if "started anew" in one.text]
    deleted = [one.at for one in played("scale-down").decisions if one.deed == "delete"]
    assert marks[0] < deleted[-1]


def test_a_day_of_constant_load_evicts_nobody() -> None:
    _, leaving = a_day()
    assert [at for at in leaving if at > 2 * HOUR] == []


def test_nothing_is_bought_after_a_removal() -> None:
    ensemble, _ = a_day()
    removed = [one.at for one in ensemble.decisions if one.deed == "delete"]
    bought = [one.at for one in ensemble.decisions if one.deed == "increase"]
    assert removed
    assert [at for at in bought if at > removed[0]] == []

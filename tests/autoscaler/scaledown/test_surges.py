"""A second replica is started before the only one is evicted."""

from typing import Any

import pytest

from tests.autoscaler.scaledown.stage import BEGIN, Course, budget, marks, play, running_pods
from tonnage.embedded.apiserver.store import Stored
from tonnage.simulation import scenario
from tonnage.simulation.ensemble import Ensemble

SURGE = {"consolidation": {"surgeSingleReplicas": True}, "replicaReadyTimeout": 60}


def scales(ensemble: Ensemble) -> list[int]:
    """The number of replicas that the Deployment wants at the end."""
    found = ensemble.server.store.of_kind("apps/v1", "Deployment")
    assert found is not None
    return [one.tree["spec"]["replicas"] for one in found.within() if one.name == "web"]


def steps(course: Course) -> list[str]:
    """What happened, without the names of pods."""
    return [word.partition(" ")[0] for word in course.words()]


def test_the_second_replica_is_ready_before_the_first_is_evicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ensemble, course = play(monkeypatch, pods=1, options=SURGE)
    told = steps(course)
    assert told.index("marked") < told.index("ready") < told.index("evicted") < told.index("gone")
    assert (scales(ensemble), running_pods(ensemble)) == ([1], 1)


def test_without_the_setting_the_pod_is_away_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    _, course = play(monkeypatch, pods=1)
    told = steps(course)
    assert told.index("evicted") < told.index("ready")


def test_a_budget_that_asks_for_the_only_replica_lets_it_go_once_there_are_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = (budget("web", minAvailable=1),)
    ensemble, course = play(monkeypatch, pods=1, options=SURGE, objects=asked)
    assert ("gone" in steps(course), scales(ensemble)) == (True, [1])
    _, course = play(monkeypatch, pods=1, objects=asked)
    assert "gone" not in steps(course)


@pytest.mark.parametrize(("sets", "pods"), [(1, 0), (0, 2)])
def test_neither_sets_with_volumes_nor_several_replicas_are_scaled(
    monkeypatch: pytest.MonkeyPatch, sets: int, pods: int
) -> None:
    ensemble, course = play(monkeypatch, sets=sets, pods=pods, options=SURGE)
    told = steps(course)
    assert told.index("evicted") < told.index("ready")
    assert scales(ensemble) == [pods]


def _full(ensemble: Ensemble, marked: Stored) -> None:
    """No other node takes a pod from when the first is marked."""
    store = ensemble.server.store.built_in("nodes")
    for one in store.within():
        if one.name != marked.name:
            ensemble.manifests.apply(
                {**one.tree, "spec": {**one.tree["spec"], "unschedulable": True}}
            )


def test_a_second_replica_that_does_not_come_is_taken_back_and_the_node_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ensemble, course = play(monkeypatch, pods=1, options=SURGE, when_marked=_full)
    assert "gone" not in steps(course)
    assert [word for word in steps(course) if word == "released"] == ["released"]
    assert (scales(ensemble), running_pods(ensemble)) == ([1], 1)


@pytest.mark.parametrize("after", [1.5, 3.0, 5.0, 7.0])
def test_killed_in_the_middle_there_is_one_replica_in_the_end(
    monkeypatch: pytest.MonkeyPatch, after: float
) -> None:
    kill: Any = scenario.ScenarioAction(at=BEGIN + after, restart="autoscaler")
    ensemble, course = play(monkeypatch, pods=1, options=SURGE, script=(kill,))
    told = steps(course)
    assert told.index("ready") < told.index("evicted") < told.index("gone")
    assert (scales(ensemble), running_pods(ensemble), marks(ensemble)) == ([1], 1, 0)

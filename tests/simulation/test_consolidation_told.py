"""What consolidation tells of itself: metrics, Events, the status; what it does in a dry run."""

import logging
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import pytest

from tests.autoscaler.scaledown.test_told import figure
from tonnage.autoscaler.program import AutoscalerSettings
from tonnage.embedded.cloud import CloudBehaviour
from tonnage.embedded.world import Delay, WorldBehaviour
from tonnage.objects import codec, kinds
from tonnage.objects.scenarios import API_VERSION, NodeGroup
from tonnage.simulation import ensemble as ensembles
from tonnage.simulation import runner
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.scenario import ScenarioAction, Simulation, Spec, Tree

OPTIONS: dict[str, Any] = {"minAge": 0, "settleTime": 0, "minSavingPercent": 20}


def group(name: str, size: int, price: str, cpu: str) -> NodeGroup:
    room = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    node = {"status": {"capacity": room, "allocatable": room}}
    row = kinds.by_kind(API_VERSION, "NodeGroup")
    assert row is not None
    spec = {
        "maxSize": 3,
        "targetSize": size,
        "pricePerHour": price,
        "template": {"node": node},
    }
    made = codec.convert(
        {"apiVersion": API_VERSION, "kind": "NodeGroup", "metadata": {"name": name}, "spec": spec},
        row,
    )
    assert isinstance(made, NodeGroup)
    return made


def web(replicas: int) -> Tree:
    container = {"name": "web", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [container]},
            },
        },
    }


def budget() -> Tree:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
    }


def play(
    *script: ScenarioAction, windows: Sequence[dict[str, Any]] = (), **options: Any
) -> Ensemble:
    """Two dear nodes with a pod each, which one cheap node carries."""
    simulation = Simulation(
        name="told",
        spec=Spec(
            duration=240.0,
            options={
                "scaleDownEnabled": True,
                "scaleDownWindows": list(windows),
                "consolidation": {"enabled": True, **OPTIONS, **options},
            },
            world=WorldBehaviour(start=Delay(5.0), pod_start=Delay(1.0), pod_stop=Delay(1.0)),
            cloud=CloudBehaviour(start=Delay(20.0)),
            script=script,
        ),
        groups=(group("dear", 2, "1.0", "3"), group("cheap", 0, "0.25", "4")),
        objects=(web(4),),
    )
    return runner.played(simulation)


@cache
def replaced() -> Ensemble:
    return play()


def told(ensemble: Ensemble, reason: str) -> list[str]:
    trees: list[Any] = [one.tree for one in ensemble.server.store.built_in("events").within()]
    return [tree["message"] for tree in trees if tree["reason"] == reason]


def test_what_was_saved_is_counted() -> None:
    ensemble = replaced()
    prefix = "tonnage_consolidation"
    assert figure(ensemble, f"{prefix}_saved_per_hour_total") == pytest.approx(1.75)
    assert figure(ensemble, f"{prefix}_nodes_total", deed="removed") == 2
    assert figure(ensemble, f"{prefix}_nodes_total", deed="bought") == 1
    assert figure(ensemble, f"{prefix}_cost_per_hour", which="now") == pytest.approx(0.25)
    assert figure(ensemble, f"{prefix}_steps_given_up_total") == 0


def test_what_is_bought_removed_and_done_is_told() -> None:
    messages = told(replaced(), "Consolidation")
    begins = [message.removeprefix("Consolidation: ").split()[0] for message in messages]
    assert begins[0] == "buying"
    assert begins[1:3] == ["removing", "removing"]
    assert messages[-1] == "Consolidation: 2 nodes replaced, 1.75 an hour saved"


def test_what_is_missed_is_counted_by_why_and_stands_in_the_status() -> None:
    ensemble = play(minSavingPerDisruption=1e6)
    missed = "tonnage_consolidation_missed_saving_per_hour"
    assert figure(ensemble, missed, reason="not-worth-the-moves") == pytest.approx(1.75)
    assert ensemble.autoscaler is not None
    status = ensemble.autoscaler.status()["tonnage"]["consolidation"]
    assert status["missed"] == [
        {"reason": "not-worth-the-moves", "savesPerHour": "1.75", "nodes": 2}
    ]
    assert [one.deed for one in ensemble.decisions] == []


def test_a_step_that_cannot_be_ended_is_given_up_and_told() -> None:
    ensemble = play(ScenarioAction(at=45.0, apply=(budget(),)))
    assert figure(ensemble, "tonnage_consolidation_steps_given_up_total") == 1
    (message,) = told(ensemble, "ConsolidationGivenUp")
    assert "blocked-by-pod" in message
    assert [one.deed for one in ensemble.decisions if one.group == "dear"] == []


def test_a_dry_run_says_what_would_be_and_does_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ensembles, "AutoscalerSettings", partial(AutoscalerSettings, dry_run=True))
    with caplog.at_level(logging.INFO, logger="tonnage"):
        ensemble = play()
    assert ensemble.decisions == []
    assert any("buying 1 of cheap to replace 2 nodes" in one.message for one in caplog.records)
    assert told(ensemble, "Consolidation") == []


def test_outside_its_windows_nothing_is_replaced_and_the_status_says_so() -> None:
    noon = {"start": "0 12 * * *", "lasts": "1h", "reasons": ["consolidation"]}
    ensemble = play(windows=[noon])
    assert ensemble.decisions == []
    assert ensemble.autoscaler is not None
    held = ensemble.autoscaler.status()["tonnage"]["consolidation"]["held"]
    assert held == "no window is open for consolidation"

"""What scale-down tells of itself, by upstream's names and ours, and what outlives a restart."""

from typing import Any

import pytest

from tests.autoscaler.scaledown.stage import BEGIN, budget, play
from tests.autoscaler.scaledown.test_round import Unneeded, soft_taints
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.scenario import ScenarioAction

Patch = pytest.MonkeyPatch


def figure(ensemble: Ensemble, name: str, **labels: str) -> float | None:
    assert ensemble.autoscaler is not None
    return ensemble.autoscaler.metrics.registry.get_sample_value(name, labels)


def events(ensemble: Ensemble, kind: str) -> list[tuple[str, str]]:
    trees: list[Any] = [one.tree for one in ensemble.server.store.built_in("events").within()]
    return [
        (tree["reason"], tree["message"])
        for tree in trees
        if tree["involvedObject"]["kind"] == kind and tree["reason"].startswith("ScaleDown")
    ]


def test_a_removal_is_counted_by_upstreams_names(monkeypatch: Patch) -> None:
    ensemble, _ = play(monkeypatch, pods=1, duration=200)
    gone = figure(ensemble, "cluster_autoscaler_scaled_down_nodes_total", reason="underutilized")
    evicted = figure(ensemble, "cluster_autoscaler_evicted_pods_total", eviction_result="succeeded")
    latency = figure(
        ensemble,
        "cluster_autoscaler_node_removal_latency_seconds_count",
        deleted="true",
        delay_reason="none",
    )
    assert (gone, evicted, latency) == (1, 1, 1)


def test_a_node_that_goes_has_not_become_needed_again(monkeypatch: Patch) -> None:
    name = "cluster_autoscaler_node_removal_latency_seconds_count"
    why = {"deleted": "false", "delay_reason": "node_became_needed_again"}
    going, _ = play(monkeypatch, pods=1, duration=200)
    needed, _ = play(monkeypatch, pods=1, decider=Unneeded, duration=BEGIN + 120)
    assert (figure(going, name, **why), figure(needed, name, **why)) == (None, 1)


def test_a_removal_is_told_by_upstreams_events(monkeypatch: Patch) -> None:
    ensemble, _ = play(monkeypatch, pods=1, duration=200)
    assert events(ensemble, "Pod") == [("ScaleDown", "deleting pod for node scale down")]
    assert events(ensemble, "Node") == [
        ("ScaleDown", "marked the node as toBeDeleted/unschedulable"),
        ("ScaleDown", "nodes removed by cluster autoscaler"),
    ]


def test_a_removal_that_fails_is_counted_and_told_by_our_names(monkeypatch: Patch) -> None:
    ensemble, _ = play(
        monkeypatch, pods=1, objects=(budget("web", minAvailable=1),), duration=BEGIN + 200
    )
    assert figure(ensemble, "tonnage_failed_removals_total", outcome="failed") == 1
    assert "ScaleDownFailed" in [reason for reason, _ in events(ensemble, "Node")]


def test_since_when_a_node_could_go_outlives_a_restart(monkeypatch: Patch) -> None:
    killed = ScenarioAction(at=BEGIN + 30, restart="autoscaler")
    ensemble, _ = play(monkeypatch, pods=1, decider=Unneeded, script=(killed,), duration=BEGIN + 60)
    assert ensemble.autoscaler is not None
    report = ensemble.autoscaler.autoscaler.report
    assert report is not None
    ((_, since),) = report.scale_down.unneeded.items()
    (taint,) = soft_taints(ensemble)
    assert int(taint["value"]) == int(since)
    # Counted anew it could not be longer than since the restart.
    assert report.now - since > 30

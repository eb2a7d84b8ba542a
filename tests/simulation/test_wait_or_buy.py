"""Pods wait for slots that are being freed, and run as soon as if a node had been bought."""

from pathlib import Path

from tonnage.report.timeline import Timeline
from tonnage.simulation import comparison, scenario_files

EXAMPLE = Path(__file__).parents[2] / "examples" / "simulations" / "wait-or-buy.yaml"


def last_pod_runs(played: Timeline) -> float:
    """When all pods of the second report run."""
    return next(one.at for one in played.samples if one.at > 610 and one.pods.running == 10)


def test_waiting_saves_a_node_and_costs_no_time() -> None:
    simulation = scenario_files.read(EXAMPLE)

    careful, never = comparison.compare(simulation, {"waitForFreedRoom": "never"})

    assert max(one.nodes_there for one in careful.samples) == 2
    assert max(one.nodes_there for one in never.samples) == 3
    assert last_pod_runs(careful) <= last_pod_runs(never)

"""Ten jobs with room for three: three whole ones run, and then the next three."""

from pathlib import Path

from tonnage.simulation import runner, scenario_files

EXAMPLE = Path(__file__).parents[2] / "examples" / "simulations" / "gangs.yaml"


def test_three_whole_jobs_run_and_no_node_is_bought_for_a_part_of_another() -> None:
    played = runner.simulate(scenario_files.read(EXAMPLE))

    assert max(one.nodes_there for one in played.samples) == 6
    running = {one.pods.running for one in played.samples if not one.pods.starting}
    assert running == {0, 8, 12}
    assert played.samples[-1].pods.running == 12

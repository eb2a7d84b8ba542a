"""Scenarios of the examples, played once however many tests look at them."""

from functools import cache
from pathlib import Path

from tonnage.simulation import runner, scenario_files
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.scenario import Simulation

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "simulations"


def example(name: str) -> Simulation:
    return scenario_files.read(EXAMPLES / f"{name}.yaml")


@cache
def played(name: str) -> Ensemble:
    """The cluster of an example as it was at its end."""
    return runner.played(example(name))


def names() -> list[str]:
    return sorted(path.stem for path in EXAMPLES.glob("*.yaml"))

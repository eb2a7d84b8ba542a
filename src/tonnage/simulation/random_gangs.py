"""Gangs for clusters made by chance: replicas that are of use only together.

They are laid over a cluster that `random_scenarios` made, so that all else stays as it is. A gang
is a StatefulSet whose pods name a PodGroup of coscheduling; it is scaled to its minimum, beyond it,
below it, and to nothing. Some need more than all groups can ever have.
"""

import random
from collections.abc import Iterator

import msgspec

from tonnage.objects.gangs import COSCHEDULING_LABELS
from tonnage.simulation import random_scenarios, scenario
from tonnage.simulation.random_scenarios import DRIVERS, TROUBLE
from tonnage.simulation.scenario import ScenarioAction, Simulation, Tree

LABEL = COSCHEDULING_LABELS[0]
NAMES = ("crew-0", "crew-1")


def is_chosen(seed: int) -> bool:
    """Whether there are gangs in the cluster of a seed: in every third one."""
    return random.Random(f"workers {seed}").random() < 0.35


def is_laid_over(simulation: Simulation) -> bool:
    return any(tree["kind"] == "PodGroup" for tree in simulation.objects)


def with_gangs(simulation: Simulation) -> Simulation:
    """The same cluster, with a gang or two."""
    spec = simulation.spec
    dice = random.Random(f"how many workers {spec.seed}")
    nodes = sum(group.spec.max_size for group in simulation.groups)
    objects: list[Tree] = []
    script: list[ScenarioAction] = []
    for name in NAMES[: dice.choice((1, 2))]:
        minimum = dice.choice((2, 3, 4, nodes, 6 * nodes))
        objects += _gang(name, minimum, dice.choice((DRIVERS[0], *DRIVERS)))
        script += _script(name, minimum, dice)
    return msgspec.structs.replace(
        simulation,
        spec=msgspec.structs.replace(spec, script=(*spec.script, *script)),
        objects=(*simulation.objects, *objects),
    )


def _gang(name: str, minimum: int, driver: str) -> Iterator[Tree]:
    workload = random_scenarios.workload(name, {driver: "1Gi"})
    workload["spec"]["template"]["metadata"]["labels"][LABEL] = name
    yield {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": minimum},
    }
    yield workload


def _script(name: str, minimum: int, dice: random.Random) -> Iterator[ScenarioAction]:
    sizes = (minimum, minimum, minimum + 1, minimum - 1, 0)
    for _ in range(dice.randint(1, 3)):
        yield _scaling(round(dice.uniform(1.0, TROUBLE), 2), name, dice.choice(sizes))
    yield _scaling(TROUBLE, name, dice.choice((minimum, minimum, 0)))


def _scaling(at: float, name: str, replicas: int) -> ScenarioAction:
    scaling = scenario.Scaling(kind="StatefulSet", name=name, replicas=replicas)
    return ScenarioAction(at=at, scale=scaling)

"""Pods that keep together or apart, for clusters made by chance.

They are laid over a cluster that `random_scenarios` made, so that all else stays as it is. They
have no volumes: what takes slots and space is counted plainly, and so are not these.
"""

import random
from collections.abc import Iterator
from typing import Any

import msgspec

from tonnage.objects.labels import HOSTNAME, ZONE
from tonnage.simulation import random_scenarios, scenario
from tonnage.simulation.random_scenarios import TROUBLE
from tonnage.simulation.scenario import ScenarioAction, Simulation, Tree

NAME = "web"
_OTHER = "none"
"""The workload of `random_scenarios` that some of them keep to."""


def with_spread(simulation: Simulation) -> Simulation:
    """The cluster, every third one with such pods; the simulation's seed says all about them."""
    dice = random.Random(f"spread {simulation.spec.seed}")
    if dice.random() > 1 / 3:
        return simulation
    spec = simulation.spec
    nodes = sum(group.spec.max_size for group in simulation.groups)
    script = (*spec.script, *_script(nodes, dice))
    return msgspec.structs.replace(
        simulation,
        spec=msgspec.structs.replace(spec, script=script),
        objects=(*simulation.objects, _workload(_wishes(dice))),
    )


def _wishes(dice: random.Random) -> dict[str, Any]:
    """What such a pod asks for: even zones or nodes, a node of its own, or others in its zone."""
    own, other = ({"matchLabels": {"app": name}} for name in (NAME, _OTHER))
    spread = {
        "maxSkew": dice.choice((1, 1, 2)),
        "topologyKey": dice.choice((ZONE, HOSTNAME)),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": own,
    }
    term = "requiredDuringSchedulingIgnoredDuringExecution"
    alone = {term: [{"topologyKey": HOSTNAME, "labelSelector": own}]}
    beside = {term: [{"topologyKey": ZONE, "labelSelector": other}]}
    kinds: tuple[dict[str, Any], ...] = (
        {"topologySpreadConstraints": [spread]},
        {"affinity": {"podAntiAffinity": alone}},
        {"affinity": {"podAffinity": beside}},
        {"affinity": {"podAffinity": beside}, "topologySpreadConstraints": [spread]},
    )
    return dice.choice(kinds)


def _workload(wishes: dict[str, Any]) -> Tree:
    made = random_scenarios.workload(NAME, {})
    template = made["spec"]["template"]
    made["spec"]["template"] = {**template, "spec": {**template["spec"], **wishes}}
    return made


def _script(nodes: int, dice: random.Random) -> Iterator[ScenarioAction]:
    """A few bursts, of at most about as many as there can be nodes."""
    for _ in range(dice.randint(1, 4)):
        yield _scaling(round(dice.uniform(1.0, TROUBLE), 2), nodes, dice)
    yield _scaling(TROUBLE, nodes, dice)


def _scaling(at: float, nodes: int, dice: random.Random) -> ScenarioAction:
    replicas = dice.randint(0, nodes)
    scaling = scenario.Scaling(kind="Deployment", name=NAME, replicas=replicas)
    return ScenarioAction(at=at, scale=scaling)

"""ProvisioningRequests for clusters made by chance, and pods that come for the room, or do not.

They are laid over a cluster that `random_scenarios` made, so that all else stays as it is. A pod of
a request has one volume of the driver that opted in: a booking is a number of its slots, on
whatever nodes. All bookings are over long before the end.
"""

import random
from collections.abc import Iterator

import msgspec

from tonnage.groups.provisioning_requests import VALID_UNTIL
from tonnage.objects.provisioning_requests import (
    ATOMIC_SCALE_UP,
    CHECK_CAPACITY,
    CONSUME_ANNOTATION,
)
from tonnage.simulation import random_scenarios, scenario
from tonnage.simulation.random_scenarios import OPTED_IN, TROUBLE
from tonnage.simulation.scenario import ScenarioAction, Simulation, Tree

DRIVER = OPTED_IN
NAMES = ("asked-0", "asked-1")
TEMPLATE = "asked"
_LATEST = 0.6 * TROUBLE
_VALID = 120


def is_chosen(seed: int) -> bool:
    """Whether room is requested in the cluster of a seed: in every third one."""
    return random.Random(f"bookings {seed}").random() < 0.35


def with_bookings(simulation: Simulation) -> Simulation:
    """The same cluster, with a request or two that scheduler and autoscaler know of."""
    spec = simulation.spec
    dice = random.Random(f"how many bookings {spec.seed}")
    nodes = sum(group.spec.max_size for group in simulation.groups)
    objects: list[Tree] = [_template()]
    script: list[ScenarioAction] = []
    for name in NAMES[: dice.choice((1, 2))]:
        count = dice.choice((1, 2, 3, nodes, 6 * nodes))
        objects.append(_consumers(name))
        script += _script(name, count, dice)
    respected = {"provisioningRequests": True}
    return msgspec.structs.replace(
        simulation,
        spec=msgspec.structs.replace(
            spec,
            options={**spec.options, **respected},
            scheduler={**spec.scheduler, **respected},
            script=(*spec.script, *script),
        ),
        objects=(*simulation.objects, *objects),
    )


def _template() -> Tree:
    claim = {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": DRIVER,
            "resources": {"requests": {"storage": "1Gi"}},
        }
    }
    container = {"name": "main", "resources": {"requests": {"cpu": "10m", "memory": "1Mi"}}}
    volume = {"name": "data", "ephemeral": {"volumeClaimTemplate": claim}}
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": TEMPLATE},
        "template": {"spec": {"containers": [container], "volumes": [volume]}},
    }


def _consumers(name: str) -> Tree:
    workload = random_scenarios.workload(name, {DRIVER: "1Gi"})
    workload["spec"]["template"]["metadata"]["annotations"] = {CONSUME_ANNOTATION: name}
    return workload


def _script(name: str, count: int, dice: random.Random) -> Iterator[ScenarioAction]:
    at = round(dice.uniform(1.0, _LATEST), 2)
    request = {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": name},
        "spec": {
            "provisioningClassName": dice.choice(
                (ATOMIC_SCALE_UP, ATOMIC_SCALE_UP, CHECK_CAPACITY)
            ),
            "parameters": {VALID_UNTIL: str(_VALID)},
            "podSets": [{"podTemplateRef": {"name": TEMPLATE}, "count": count}],
        },
    }
    yield ScenarioAction(at=at, apply=(request,))
    if dice.random() < 0.7:
        came = round(min(at + dice.uniform(5.0, 240.0), TROUBLE), 2)
        replicas = dice.randint(1, min(count + 1, 12))
        scaling = scenario.Scaling(kind="StatefulSet", name=name, replicas=replicas)
        yield ScenarioAction(at=came, scale=scaling)
    # Nothing is bought for these pods, so none may wait at the end.
    scaling = scenario.Scaling(kind="StatefulSet", name=name, replicas=0)
    yield ScenarioAction(at=TROUBLE, scale=scaling)

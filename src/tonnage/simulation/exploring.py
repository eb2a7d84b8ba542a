"""The race explorer: scenarios made by chance, each checked after every change in the API.

A seed says everything: the cluster, the delays, what goes wrong and when. Trouble ends after a
while, so that at the end it can be asked whether everybody found their place.
"""

import random
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tonnage.embedded.cloud import CloudBehaviour, Outage, Shortage
from tonnage.embedded.world import Delay, DriverBehaviour, WorldBehaviour
from tonnage.objects import decoding, kinds
from tonnage.objects.scenarios import API_VERSION, NodeGroup
from tonnage.simulation import running, scenario
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.invariants import Invariants, Violation
from tonnage.simulation.scenario import Action, Simulation, Spec

DRIVER = "ebs.csi.aws.com"

_TROUBLE = 900.0
_QUIET = 2100.0
_PATIENCE = 300.0
"""Seconds that the autoscaler waits for machines, nodes and drivers."""
_COMING_WITHIN = 240.0


class Outcome(NamedTuple):
    """What came of one seed."""

    seed: int
    violations: tuple[Violation, ...]
    changes: int


def explore(seeds: Iterable[int]) -> Iterator[Outcome]:
    """Play these seeds, one after the other."""
    for seed in seeds:
        yield explored(seed)


def explored(seed: int) -> Outcome:
    """Play one seed to its end."""
    found: list[Invariants] = []

    def listen(ensemble: Ensemble) -> None:
        invariants = Invariants(ensemble, coming_within=_COMING_WITHIN)
        ensemble.cloud.before_increase = invariants.check_purchase
        found.append(invariants)

    ensemble = running.played(by_chance(seed), prepare=listen)
    found[0].at_the_end()
    return Outcome(seed, tuple(found[0].violations), ensemble.accounts.changes)


def by_chance(seed: int) -> Simulation:
    """A cluster whose pods may run on any node, with trouble of all kinds for a while."""
    dice = random.Random(f"explore {seed}")
    limit = dice.randint(2, 6)
    groups = tuple(_group(f"g{n}", limit, dice) for n in range(dice.randint(1, 2)))
    slots = sum(group.spec.max_size for group in groups) * limit
    spec = Spec(
        description="made by the race explorer",
        seed=seed,
        duration=_TROUBLE + _QUIET,
        options=_options(),
        world=_world(limit, dice),
        cloud=_cloud(dice),
        script=tuple(_script(slots, limit, dice)),
    )
    opts_in = dice.random() < 0.8
    return Simulation(
        name=f"explore-{seed}", spec=spec, groups=groups, objects=(*_storage(opts_in), _workload())
    )


def _options() -> dict[str, Any]:
    return {
        "maxNodeProvisionTime": _PATIENCE,
        "maxNodeStartupTime": _PATIENCE,
        "driverRegistrationTimeout": _PATIENCE,
        "initialNodeGroupBackoffDuration": 30.0,
        "maxNodeGroupBackoffDuration": 120.0,
        # Trouble is meant to hit most of so small a cluster.
        "okTotalUnreadyCount": 1000,
    }


def _group(name: str, limit: int, dice: random.Random) -> NodeGroup:
    least = dice.randint(0, 1)
    room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    tree = {
        "apiVersion": API_VERSION,
        "kind": "NodeGroup",
        "metadata": {"name": name},
        "spec": {
            "minSize": least,
            "maxSize": dice.randint(3, 6),
            "targetSize": dice.randint(least, 2),
            "pricePerHour": "1",
            "template": {
                "node": {"status": {"capacity": room, "allocatable": room}},
                "csiNode": {
                    "spec": {
                        "drivers": [
                            {"name": DRIVER, "nodeID": "t", "allocatable": {"count": limit}}
                        ]
                    }
                },
            },
        },
    }
    row = kinds.by_kind(API_VERSION, "NodeGroup")
    assert row is not None
    made = decoding.convert(tree, row)
    assert isinstance(made, NodeGroup)
    return made


def _world(limit: int, dice: random.Random) -> WorldBehaviour:
    return WorldBehaviour(
        start=_delay(dice, 30.0),
        pod_start=_delay(dice, 5.0),
        pod_stop=_delay(dice, 20.0),
        provision=_delay(dice, 5.0),
        attach=_delay(dice, 10.0),
        detach=_delay(dice, 60.0),
        attach_failure_chance=dice.choice((0.0, 0.2)),
        csi_node_at_start=dice.random() < 0.7,
        drivers=(DriverBehaviour(name=DRIVER, limit=limit, registers_after=_delay(dice, 90.0)),),
    )


def _cloud(dice: random.Random) -> CloudBehaviour:
    begin = dice.uniform(0.0, _TROUBLE / 2)
    end = begin + dice.uniform(30.0, 300.0)
    return CloudBehaviour(
        start=_delay(dice, 60.0),
        fails_after=_delay(dice, 60.0),
        failure_chance=dice.choice((0.0, 0.1, 0.3)),
        shortages=(Shortage(since=begin, until=end, groups=("g0",)),)
        if dice.random() < 0.4
        else (),
        outages=(Outage(since=begin, until=end),) if dice.random() < 0.2 else (),
    )


def _delay(dice: random.Random, most: float) -> Delay:
    ends = sorted(round(dice.uniform(0.1, most), 2) for _ in range(2))
    return Delay(*ends)


def _script(slots: int, limit: int, dice: random.Random) -> Iterator[Action]:
    """Bursts and trouble; at the end as many pods as there are slots for, or somewhat fewer."""
    for _ in range(dice.randint(2, 8)):
        at = round(dice.uniform(1.0, _TROUBLE), 2)
        lasts = round(dice.uniform(5.0, 120.0), 2)
        nodes = (dice.choice(("*", "g0", "*-1*", "*-2*")),)
        burst = scenario.Scaling(kind="StatefulSet", name="db", replicas=dice.randint(0, slots))
        yield dice.choice(
            (
                Action(at=at, scale=burst),
                Action(at=at, scale=burst),
                Action(at=at, crash=scenario.Crash(driver=DRIVER, nodes=nodes, lasts=lasts)),
                Action(at=at, not_ready=scenario.Outage(nodes=nodes, lasts=lasts)),
                Action(
                    at=at,
                    set_limit=scenario.LimitChange(
                        driver=DRIVER, nodes=nodes, limit=dice.randint(1, limit)
                    ),
                ),
                Action(at=at, cut=scenario.Cut(lasts=lasts)),
                Action(at=at, restart="autoscaler"),
                Action(at=at, restart="scheduler"),
            )
        )
    last = scenario.Scaling(
        kind="StatefulSet", name="db", replicas=dice.randint(slots // 4, slots // 2)
    )
    yield Action(at=_TROUBLE, scale=last)


def _storage(opts_in: bool) -> tuple[scenario.Tree, ...]:
    return (
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "fast"},
            "provisioner": DRIVER,
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER},
            "spec": {"attachRequired": True, "preventPodSchedulingIfMissing": opts_in},
        },
    )


def _workload() -> scenario.Tree:
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "replicas": 0,
            "serviceName": "db",
            "podManagementPolicy": "Parallel",
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": "Delete",
                "whenScaled": "Delete",
            },
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {
                    "containers": [
                        {"name": "db", "resources": {"requests": {"cpu": "10m", "memory": "1Mi"}}}
                    ]
                },
            },
            "volumeClaimTemplates": [claim],
        },
    }

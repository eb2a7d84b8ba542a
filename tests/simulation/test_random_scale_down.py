"""Whatever the cluster, after nodes were given back everybody runs again, and nobody was harmed.

Clusters with more nodes than they need, in virtual time: nothing but scale-down happens, so that
all of it has to come out, unlike in the explorer, where trouble of all kinds excuses much.
"""

import random
from collections import Counter, defaultdict
from functools import cache
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.seeds import seeds
from tonnage.embedded.apiserver.store import Collection, Occurrence
from tonnage.embedded.world import Delay, DriverBehaviour, WorldBehaviour
from tonnage.objects.labels import ZONE
from tonnage.simulation import explorer, random_removals, random_scenarios, runner
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.invariants import Invariants
from tonnage.simulation.random_scenarios import DRIVERS, WORKLOADS, delay
from tonnage.simulation.scenario import Scaling, ScenarioAction, Simulation

pytestmark = pytest.mark.xdist_group("random-scale-down")  # played once, for all tests

BUSY = 100.0
"""Seconds until most of the pods go, and nodes are idle."""
END = 700.0


class Played(NamedTuple):
    """What came of a cluster: what was violated, and how many nodes went with how many pods."""

    violations: list[str]
    removed: int
    evicted: int


def cluster(seed: int) -> Simulation:
    """Groups of one or two zones that are at their largest, and pods that get fewer at once."""
    made = random_removals.with_removals(random_scenarios.by_chance(seed))
    dice = random.Random(f"idle {seed}")
    limits = {driver: dice.randint(2, 5) for driver in DRIVERS}
    replace = msgspec.structs.replace
    groups = tuple(
        replace(group, spec=replace(group.spec, target_size=group.spec.max_size))
        for group in made.groups
    )
    nodes = sum(group.spec.max_size for group in groups)
    world = WorldBehaviour(
        start=Delay(1.0),
        pod_start=delay(dice, 3.0),
        pod_stop=delay(dice, 10.0),
        provision=Delay(1.0),
        attach=delay(dice, 5.0),
        detach=delay(dice, 20.0),
        drivers=tuple(
            DriverBehaviour(name=driver, limit=limit, topology={ZONE: ZONE})
            for driver, limit in limits.items()
        ),
    )
    script = []
    for name, drivers in WORKLOADS.items():
        kind = "StatefulSet" if drivers else "Deployment"
        most = dice.randint(0, nodes * min(limits.values()) // 3)
        for at, replicas in ((1.0, most), (BUSY, dice.randint(0, most // 2 + 1))):
            scaling = Scaling(kind=kind, name=name, replicas=replicas)
            script.append(ScenarioAction(at=at, scale=scaling))
    if dice.random() < 0.3:
        script.append(ScenarioAction(at=BUSY + dice.uniform(30, 200), restart="autoscaler"))
    spec = replace(
        made.spec,
        seed=seed,
        duration=END,
        world=world,
        cloud=type(made.spec.cloud)(),
        script=tuple(script),
        options={
            **made.spec.options,
            "replaceUnreadyDrivers": False,
            "startupTaints": [],
            "scaleDownUtilizationThreshold": 1.0,
            "scaleDownUnneededTime": 20.0,
            "scaleDownDelayAfterAdd": 0.0,
        },
    )
    return replace(made, groups=groups, spec=spec)


class MultiAttach:
    """Notes volumes that are attached to two nodes at once, though only one may have them."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.found: list[str] = []
        self._nodes: defaultdict[str, set[str]] = defaultdict(set)
        ensemble.accounts.listeners.append(self._changed)

    def _changed(self, collection: Collection, occurrence: Occurrence) -> None:
        if collection.kind.plural != "volumeattachments":
            return
        spec = occurrence.subject.tree["spec"]
        volume, node = spec["source"]["persistentVolumeName"], spec["nodeName"]
        after = occurrence.after
        if after is not None and after.tree.get("status", {}).get("attached"):
            self._nodes[volume].add(node)
            if len(self._nodes[volume]) > 1:
                self.found.append(f"Multi-Attach: {volume} on {sorted(self._nodes[volume])}")
        elif after is None:
            self._nodes[volume].discard(node)


@cache
def play(seed: int) -> Played:
    checks: list[tuple[Invariants, MultiAttach]] = []

    def listen(ensemble: Ensemble) -> None:
        invariants = Invariants(
            ensemble, coming_within=explorer.COMING_WITHIN, settled=explorer.SETTLED
        )
        checks.append((invariants, MultiAttach(ensemble)))

    ensemble = runner.played(cluster(seed), prepare=listen)
    ((invariants, attached),) = checks
    invariants.at_the_end()
    wrong = [f"{one.rule}: {one.what}" for one in invariants.violations] + attached.found
    pods = ensemble.accounts.pods.items()
    wrong += [f"{key} is {pod.state} at the end" for key, pod in pods if pod.state != "running"]
    there = Counter(
        one.name.rpartition("-")[0] for one in ensemble.server.store.built_in("nodes").within()
    )
    wrong += [
        f"group {group.metadata.name} has {there[group.metadata.name]} nodes, below its minimum"
        for group in ensemble.simulation.groups
        if there[group.metadata.name] < group.spec.min_size
    ]
    return Played(wrong, invariants.removals.removed, invariants.removals.evicted)


@settings(max_examples=seeds(8), deadline=None, derandomize=True)
@given(st.integers(0, 10**6))
def test_everybody_runs_again_and_nobody_is_harmed(seed: int) -> None:
    assert play(seed).violations == []


def test_the_clusters_are_worth_it() -> None:
    outcomes = [play(seed) for seed in range(4)]
    assert [one for outcome in outcomes for one in outcome.violations] == []
    assert sum(outcome.removed for outcome in outcomes) >= 8
    assert sum(outcome.evicted for outcome in outcomes) >= 8

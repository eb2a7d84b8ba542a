"""Scale-down for clusters made by chance: impatient settings, budgets, and kills in the middle.

It is laid over a cluster of `random_scenarios`, so that everything else in it stays as it is.
"""

import random
from collections.abc import Iterator

import msgspec

from tonnage.embedded.apiserver.store import Collection, Occurrence
from tonnage.groups.passing_taints import TO_BE_DELETED
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.scenario import Simulation, Tree

DETACH_TIMEOUT = 120.0
REPLICA_TIMEOUT = 150.0

_KILL_CHANCE = 0.3
"""That the autoscaler is killed once a node is marked."""
_KILLED_WITHIN = 40.0


def is_chosen(seed: int) -> bool:
    """Whether nodes are given back in the cluster of a seed: in every second one."""
    return random.Random(f"removals {seed}").random() < 0.5


def with_removals(simulation: Simulation) -> Simulation:
    """The same cluster, from which nodes are given back."""
    dice = random.Random(f"how {simulation.spec.seed}")
    options = {
        "scaleDownEnabled": True,
        "scaleDownUnneededTime": round(dice.uniform(15.0, 90.0), 1),
        "scaleDownUnreadyTime": round(dice.uniform(60.0, 120.0), 1),
        "scaleDownDelayAfterAdd": dice.choice((0.0, 30.0, 60.0)),
        "scaleDownDelayAfterFailure": 20.0,
        "scaleDownUtilizationThreshold": dice.choice((0.5, 0.7, 1.0, 1.0)),
        "slotsUtilization": dice.random() < 0.5,
        "maxScaleDownParallelism": dice.choice((1, 3, 10)),
        "maxDrainParallelism": dice.choice((1, 1, 2, 3)),
        "nodeDeleteDelayAfterTaint": dice.choice((0.0, 1.0, 5.0)),
        "maxPodEvictionTime": 40.0,
        "volumeDetachTimeout": DETACH_TIMEOUT,
        "replicaReadyTimeout": REPLICA_TIMEOUT,
    }
    spec = msgspec.structs.replace(simulation.spec, options={**simulation.spec.options, **options})
    budgets = tuple(_budgets(simulation, dice))
    return msgspec.structs.replace(simulation, spec=spec, objects=(*simulation.objects, *budgets))


def _budgets(simulation: Simulation, dice: random.Random) -> Iterator[Tree]:
    for tree in simulation.objects:
        if tree["kind"] not in ("StatefulSet", "Deployment") or dice.random() < 0.5:
            continue
        name = tree["metadata"]["name"]
        allowed = dice.choice(
            ({"maxUnavailable": 1}, {"maxUnavailable": "25%"}, {"minAvailable": 1})
        )
        yield {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {**allowed, "selector": {"matchLabels": {"app": name}}},
        }


class Killer:
    """Kills the autoscaler a while after it has marked a node, now and then."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble
        self._dice = random.Random(f"kills {ensemble.simulation.spec.seed}")
        self._marked: set[str] = set()
        self.kills: list[float] = []
        """When it is to be killed."""
        self.killed = 0
        ensemble.accounts.listeners.append(self._changed)

    def _changed(self, collection: Collection, occurrence: Occurrence) -> None:
        if self.kills and self.kills[0] <= self._ensemble.accounts.now:
            self.kills.pop(0)
            self.killed += 1
            self._ensemble.mark("the autoscaler is killed in the middle of a removal")
            self._ensemble.restart("autoscaler")
        if collection.kind.plural != "nodes" or occurrence.after is None:
            return
        name = occurrence.subject.uid
        taints = occurrence.after.tree.get("spec", {}).get("taints") or ()
        if not any(taint["key"] == TO_BE_DELETED for taint in taints):
            self._marked.discard(name)
        elif name not in self._marked:
            self._marked.add(name)
            if self._dice.random() < _KILL_CHANCE:
                after = self._dice.uniform(0.0, _KILLED_WITHIN)
                self.kills = sorted([*self.kills, self._ensemble.accounts.now + after])

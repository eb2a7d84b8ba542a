"""A small cluster in virtual time whose scale-down decides what the test says.

Three nodes of one group and pods of a StatefulSet or a Deployment: the node of the first pod is to
go at 100 s, and its pods are to move to another.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tonnage.autoscaler.context import AutoscalingContext
from tonnage.autoscaler.scaledown import scale_down
from tonnage.autoscaler.scaledown.decision import Decider
from tonnage.autoscaler.scaledown.removals import NodeRemoval
from tonnage.embedded.apiserver.store import Collection, Occurrence, Stored
from tonnage.embedded.world import Delay, DriverBehaviour, WorldBehaviour
from tonnage.groups.passing_taints import TO_BE_DELETED
from tonnage.objects.pods import Pod
from tonnage.scaledown.decision import ScaleDownDecision
from tonnage.scaledown.plan import Action, Move, NodeDecision, ScaleDownPlan
from tonnage.scaledown.state import ScaleDownState
from tonnage.simulation import random_scenarios, runner, scenario
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.scenario import Simulation, Spec, Tree

DRIVER = random_scenarios.PLAIN
BEGIN = 100.0
WORLD = WorldBehaviour(
    start=Delay(1.0),
    pod_start=Delay(1.0),
    pod_stop=Delay(4.0),
    provision=Delay(1.0),
    attach=Delay(1.0),
    detach=Delay(7.0),
    drivers=(DriverBehaviour(name=DRIVER, limit=5),),
)


class ScriptedDecider:
    """From `BEGIN` on the node of the first pod is to go, until a removal has been tried."""

    objecting = ""

    def __init__(self, context: AutoscalingContext, *_: Any, **__: Any) -> None:
        self._world = context.world
        self._clock = context.clock

    async def decide(self, assessed: Any, state: ScaleDownState, **_: Any) -> ScaleDownDecision:
        going: list[NodeDecision] = []
        tried = {*state.cool_downs.deleted, *state.cool_downs.failed, *state.removing}
        if self._clock.monotonic() >= BEGIN and not tried:
            first, *_others, last = self._nodes(assessed)
            going = [self._gone(first, to=last)]
        unneeded = {one.node: BEGIN for one in going}
        return ScaleDownDecision(
            ScaleDownPlan(nodes=tuple(going)), ScaleDownState(unneeded=unneeded)
        )

    async def objection(self, _: NodeRemoval) -> str:
        return self.objecting

    def _nodes(self, assessed: Any) -> list[str]:
        names = sorted(assessed.inputs.groups[0].nodes)
        first = next((pod.spec.node_name for pod in self._world.cache(Pod)), names[0])
        return [first, *(name for name in names if name != first)]

    def _gone(self, name: str, *, to: str) -> NodeDecision:
        pods = self._world.pods_by_node.get(name, {})
        return NodeDecision(
            node=name,
            group="g",
            candidate=True,
            action=Action.DRAIN if pods else Action.DELETE,
            wave=1,
            moves=tuple(Move(pod=pod.metadata.key, to=to, wave=1) for pod in pods.values()),
        )


class Course:
    """What happened to nodes and pods, in order: words with the time."""

    def __init__(self, ensemble: Ensemble, when_marked: Callable[[Ensemble, Stored], None]) -> None:
        self._ensemble = ensemble
        self._when_marked = when_marked
        self.events: list[tuple[float, str]] = []
        ensemble.accounts.listeners.append(self._take)

    def _take(self, collection: Collection, occurrence: Occurrence) -> None:
        kind, before, after = collection.kind.plural, occurrence.before, occurrence.after
        name = occurrence.subject.name
        if kind == "nodes" and _is_marked(before) != _is_marked(after):
            self._note("gone" if after is None else "marked" if _is_marked(after) else "released")
            if after is not None and _is_marked(after):
                self._when_marked(self._ensemble, after)
        elif kind == "pods" and after is None:
            self._note(f"ended {name}")
        elif kind == "pods" and after is not None and after.deleting:
            if before is not None and not before.deleting:
                self._note(f"evicted {name}")
        elif kind == "pods" and _is_ready(after) and not _is_ready(before):
            self._note(f"ready {name}")
        elif kind == "volumeattachments" and after is None:
            self._note("detached")

    def _note(self, word: str) -> None:
        self.events.append((round(self._ensemble.accounts.now, 1), word))

    def words(self) -> list[str]:
        return [word for at, word in self.events if at >= BEGIN]

    def at(self, word: str) -> float:
        return next(at for at, said in self.events if said == word and at >= BEGIN)


def play(
    monkeypatch: pytest.MonkeyPatch,
    *,
    sets: int = 0,
    pods: int = 0,
    duration: float = 400.0,
    options: dict[str, Any] | None = None,
    script: tuple[scenario.ScenarioAction, ...] = (),
    objects: tuple[Tree, ...] = (),
    world: WorldBehaviour = WORLD,
    prepare: Callable[[Ensemble], None] = lambda _: None,
    when_marked: Callable[[Ensemble, Stored], None] = lambda *_: None,
    decider: type[ScriptedDecider | Decider] = ScriptedDecider,
    whole: bool = False,
) -> tuple[Ensemble, Course]:
    """Play it with so many pods of a StatefulSet with a volume each, and of a Deployment."""
    monkeypatch.setattr(scale_down, "Decider", decider)
    settings = {
        "scaleDownEnabled": True,
        # With no pods at all that is believed after so long.
        "maxNodeProvisionTime": 60,
        "okTotalUnreadyCount": 100,
        "writeStatusConfigmap": False,
    }
    simulation = Simulation(
        name="removal",
        spec=Spec(
            duration=duration,
            options={**settings, **(options or {})},
            world=world,
            script=script,
        ),
        groups=(_group(whole=whole),),
        objects=(
            *random_scenarios.storage(DRIVER),
            _replicated(random_scenarios.workload("db", {DRIVER: "1Gi"}), sets),
            _replicated(random_scenarios.workload("web", {}), pods),
            *objects,
        ),
    )
    found: list[Course] = []

    def listen(ensemble: Ensemble) -> None:
        found.append(Course(ensemble, when_marked))
        prepare(ensemble)

    return runner.played(simulation, prepare=listen), found[0]


def budget(name: str, **spec: Any) -> Tree:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
    }


def nodes(ensemble: Ensemble) -> list[Tree]:
    return [one.tree for one in ensemble.server.store.built_in("nodes").within()]


def marks(ensemble: Ensemble) -> int:
    """Nodes that pods are kept off."""
    found = ensemble.server.store.built_in("nodes").within()
    return sum(bool(one.tree["spec"].get("unschedulable") or _is_marked(one)) for one in found)


def running_pods(ensemble: Ensemble) -> int:
    return sum(one.state == "running" for one in ensemble.accounts.pods.values())


def _group(*, whole: bool) -> Any:
    made = random_scenarios.by_chance(1).groups[0]
    replace = msgspec.structs.replace
    return replace(
        made,
        metadata=replace(made.metadata, name="g"),
        spec=replace(
            made.spec,
            min_size=0 if whole else 1,
            max_size=3,
            target_size=3,
            scaling="zeroOrMax" if whole else "any",
        ),
    )


def _replicated(tree: Tree, replicas: int) -> Tree:
    return {**tree, "spec": {**tree["spec"], "replicas": replicas}}


def _is_marked(node: Any) -> bool:
    taints = node.tree["spec"].get("taints") or () if node is not None else ()
    return any(one["key"] == TO_BE_DELETED for one in taints)


def _is_ready(pod: Any) -> bool:
    conditions = pod.tree.get("status", {}).get("conditions") or () if pod is not None else ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

"""A scale-down plan carried out on the reference model, with every rule looked at on the way."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from tonnage.objects import selectors
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import Pod
from tonnage.objects.scenarios import NodeGroup
from tonnage.objects.storage import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.workloads import PodDisruptionBudget
from tonnage.scaledown.plan import ScaleDownPlan
from tonnage.testing.reference import ReferenceCluster, verdict


def violations(objects: Sequence[KubeObject], plan: ScaleDownPlan) -> list[str]:
    """What goes wrong when the plan is carried out wave by wave."""
    cluster = ReferenceCluster(objects)
    pods = {
        f"{one.metadata.namespace}/{one.metadata.name}": one
        for one in objects
        if isinstance(one, Pod)
    }
    wrong: list[str] = []
    for wave in range(1, max((node.wave or 0 for node in plan.nodes), default=0) + 1):
        moves = [move for node in plan.going for move in node.moves if move.wave == wave]
        wrong += over_budget(objects, [pods[move.pod] for move in moves], wave)
        for move in moves:
            cluster.remove(pods[move.pod])
        for move in moves:
            said = verdict(cluster, waiting(pods[move.pod]), move.to)
            if said.code != "Success":
                wrong.append(f"wave {wave}: {move.pod} on {move.to}: {said.reasons}")
            cluster.place(waiting(pods[move.pod]), move.to, assume_volumes=False)
        for node in plan.going:
            if node.wave == wave:
                del cluster.nodes[node.node]
    return wrong + _below_minimum(objects, plan) + stranded(objects, cluster.nodes)


def waiting(pod: Pod) -> Pod:
    spec = msgspec.structs.replace(pod.spec, node_name="")
    return msgspec.structs.replace(pod, spec=spec)


def over_budget(objects: Iterable[KubeObject], evicted: Sequence[Pod], wave: int) -> list[str]:
    wrong = []
    for budget in objects:
        if isinstance(budget, PodDisruptionBudget):
            hit = sum(
                pod.metadata.namespace == budget.metadata.namespace
                and selectors.matches(budget.spec.selector, pod.metadata.labels)
                for pod in evicted
            )
            if hit > budget.status.disruptions_allowed:
                wrong.append(f"wave {wave}: {hit} evictions against {budget.metadata.name}")
    sets = Counter(
        owner.name
        for pod in evicted
        if (owner := pod.metadata.controller) is not None and owner.kind == "StatefulSet"
    )
    return wrong + [f"wave {wave}: {n} replicas of {name}" for name, n in sets.items() if n > 1]


def _below_minimum(objects: Iterable[KubeObject], plan: ScaleDownPlan) -> list[str]:
    gone = Counter(node.group for node in plan.going)
    return [
        f"group {group.metadata.name} below its minimum"
        for group in objects
        if isinstance(group, NodeGroup)
        and gone[group.metadata.name]
        and len(group.spec.nodes) - gone[group.metadata.name] < group.spec.min_size
    ]


def stranded(objects: Sequence[KubeObject], nodes: Iterable[str]) -> list[str]:
    """Volumes of claims that no node that is left can use, nor any that a group can bring back."""
    left = set(nodes)
    labels = {
        one.metadata.name: one.metadata.labels for one in objects if type(one).__name__ == "Node"
    }
    claimed = {one.spec.volume_name for one in objects if isinstance(one, PersistentVolumeClaim)}
    wrong = []
    for volume in objects:
        if not isinstance(volume, PersistentVolume) or volume.metadata.name not in claimed:
            continue
        affinity = volume.spec.node_affinity
        required = affinity.required if affinity is not None else None
        if required is None:
            continue
        reach = {name for name in labels if selectors.node_matches(required, labels[name], name)}
        brought = any(
            isinstance(one, NodeGroup) and one.spec.nodes and reach >= {*one.spec.nodes}
            for one in objects
        )
        if reach and not reach & left and not brought:
            wrong.append(f"volume {volume.metadata.name} can be used nowhere")
    return wrong

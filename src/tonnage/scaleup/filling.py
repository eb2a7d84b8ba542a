"""How full the new nodes of a plan are, and of what: the resource that made it so many nodes.

Worked out from the plan and the objects it was made of, so that plans from anywhere can be
looked at.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tonnage.groups import nodegroups, templates
from tonnage.groups.memory import TemplateMemory
from tonnage.groups.model import Group, Template
from tonnage.groups.policy import GroupPolicy
from tonnage.objects import resources, volumes
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.scenarios import NodeGroup
from tonnage.objects.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from tonnage.objects.volumes import VolumeUse
from tonnage.objects.workloads import DaemonSet
from tonnage.scaleup.options import Options
from tonnage.scaleup.plan import Plan, ScaleUp


class Filling(NamedTuple):
    """What the new nodes of a group hold of a resource or driver, all together."""

    resource: str
    used: int
    capacity: int

    @property
    def share(self) -> float:
        return self.used / self.capacity if self.capacity else 0.0


def fillings(
    plan: Plan, objects: Iterable[KubeObject], *, options: Options, now: float
) -> dict[str, list[Filling]]:
    """For each group the plan buys from, what its new nodes are full of, the fullest first."""
    if not plan.scale_ups:
        return {}
    cluster = _Cluster(objects)
    bought = {one.group for one in plan.scale_ups}
    built = templates.build(
        [group for group in cluster.groups() if group.id in bought],
        nodes=cluster.nodes,
        csinodes=cluster.csinodes,
        pods_by_node=cluster.pods_by_node,
        daemonsets=cluster.daemon_sets,
        memory=TemplateMemory(),
        policy=GroupPolicy(
            csi_aware=options.csi_aware,
            as_upstream=options.as_upstream,
            force_ds=options.force_ds,
        ),
        now=now,
    ).by_group
    limits: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for limit in plan.limits:
        if limit.count is not None:
            limits[limit.group][limit.driver] = limit.count
    return {
        one.group: _of_group(one, cluster, built.get(one.group), limits[one.group])
        for one in plan.scale_ups
    }


class _Cluster:
    """Objects by kind; also where claims, volumes and classes are found by name."""

    def __init__(self, objects: Iterable[KubeObject]) -> None:
        self.nodes: list[Node] = []
        self.csinodes: list[CSINode] = []
        self.daemon_sets: list[DaemonSet] = []
        self.pods: dict[str, Pod] = {}
        self.pods_by_node: defaultdict[str, list[Pod]] = defaultdict(list)
        self._declared: list[NodeGroup] = []
        self._claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._classes: dict[str, StorageClass] = {}
        for one in objects:
            self._keep(one)

    def groups(self) -> list[Group]:
        return nodegroups.from_objects(self._declared, self.nodes)

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        return self._claims.get((namespace, name))

    def volume(self, name: str) -> PersistentVolume | None:
        return self._volumes.get(name)

    def storage_class(self, name: str) -> StorageClass | None:
        return self._classes.get(name)

    def uses_of(self, pod: Pod) -> Iterable[VolumeUse]:
        found = volumes.slots(pod.metadata, volumes.of_pod(pod), self, placed=True)
        return (*found.uses, *found.migrated)

    def _keep(self, one: KubeObject) -> None:
        match one:
            case Pod():
                self.pods[f"{one.metadata.namespace}/{one.metadata.name}"] = one
                if one.spec.node_name:
                    self.pods_by_node[one.spec.node_name].append(one)
            case PersistentVolumeClaim():
                self._claims[one.metadata.namespace, one.metadata.name] = one
            case PersistentVolume():
                self._volumes[one.metadata.name] = one
            case StorageClass():
                self._classes[one.metadata.name] = one
            case Node():
                self.nodes.append(one)
            case CSINode():
                self.csinodes.append(one)
            case NodeGroup():
                self._declared.append(one)
            case DaemonSet():
                self.daemon_sets.append(one)
            case _:
                pass


def _of_group(
    scale_up: ScaleUp, cluster: _Cluster, template: Template | None, limits: Mapping[str, int]
) -> list[Filling]:
    if template is None:
        return []
    used: Counter[str] = Counter()
    for node in scale_up.nodes:
        pods = [cluster.pods[name] for name in node.pods if name in cluster.pods]
        for pod in (*pods, *template.daemon_pods):
            used.update(resources.requests(pod.spec))
            used[resources.PODS] += 1
        # A volume that several pods of a node share takes one slot.
        used.update(use.driver for use in {use for pod in pods for use in cluster.uses_of(pod)})
    capacity = resources.allocatable(template.node) | dict(limits)
    found = [
        Filling(name, amount, capacity[name] * len(scale_up.nodes))
        for name, amount in used.items()
        if amount and capacity.get(name)
    ]
    return sorted(found, key=lambda one: (-one.share, one.resource))

"""A cluster's objects by kind, for questions beside the decision itself."""

from collections import defaultdict
from collections.abc import Iterable

from tonnage.groups import node_group_objects, templates
from tonnage.groups.memory import TemplateMemory
from tonnage.groups.model import Group
from tonnage.groups.templates import Templates
from tonnage.objects import limit_keys
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.scenarios import NodeGroup
from tonnage.objects.storage import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from tonnage.objects.workloads import DaemonSet
from tonnage.scaleup.options import Options, policy_of


class Inventory:
    """Holds every object once; claims, volumes and classes are also found by name."""

    def __init__(self, objects: Iterable[KubeObject]) -> None:
        self.nodes: list[Node] = []
        self.pods: dict[str, Pod] = {}
        self._csinodes: list[CSINode] = []
        self._daemon_sets: list[DaemonSet] = []
        self._pods_by_node: defaultdict[str, list[Pod]] = defaultdict(list)
        self._declared: list[NodeGroup] = []
        self._claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._classes: dict[str, StorageClass] = {}
        self._drivers: list[CSIDriver] = []
        for one in objects:
            self._keep(one)
        self.groups: list[Group] = node_group_objects.from_objects(self._declared, self.nodes)

    def templates(
        self, *, options: Options, now: float, memory: TemplateMemory | None = None
    ) -> Templates:
        """The next node of each group, and what is to be remembered of the ones there are."""
        return templates.build(
            self.groups,
            nodes=self.nodes,
            csinodes=self._csinodes,
            pods_by_node=self._pods_by_node,
            daemonsets=self._daemon_sets,
            memory=memory or TemplateMemory(),
            policy=policy_of(options),
            now=now,
            own_keys=limit_keys.own_keys(self._drivers),
        )

    intree_apart = False

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        return self._claims.get((namespace, name))

    def volume(self, name: str) -> PersistentVolume | None:
        return self._volumes.get(name)

    def storage_class(self, name: str) -> StorageClass | None:
        return self._classes.get(name)

    def _keep(self, one: KubeObject) -> None:
        match one:
            case Pod():
                self.pods[f"{one.metadata.namespace}/{one.metadata.name}"] = one
                if one.spec.node_name:
                    self._pods_by_node[one.spec.node_name].append(one)
            case PersistentVolumeClaim():
                self._claims[one.metadata.namespace, one.metadata.name] = one
            case PersistentVolume():
                self._volumes[one.metadata.name] = one
            case CSIDriver():
                self._drivers.append(one)
            case StorageClass():
                self._classes[one.metadata.name] = one
            case Node():
                self.nodes.append(one)
            case CSINode():
                self._csinodes.append(one)
            case NodeGroup():
                self._declared.append(one)
            case DaemonSet():
                self._daemon_sets.append(one)
            case _:
                pass

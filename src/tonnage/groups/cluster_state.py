"""The cluster that decisions are made on: the snapshot, and the objects that stand beside it."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tonnage.groups.node_state import States
from tonnage.groups.options import Options
from tonnage.objects.gangs import AnyPodGroup, CoschedulingPodGroup, WorkloadPodGroup
from tonnage.objects.nodes import Node
from tonnage.objects.pods import FINISHED, Pod
from tonnage.objects.scenarios import NodeGroup
from tonnage.objects.storage import CSIDriver, CSINode, PersistentVolumeClaim
from tonnage.objects.workloads import DaemonSet, StatefulSet
from tonnage.rules.features import Features
from tonnage.snapshot.snapshot import PodRecord, Snapshot


class ClusterState(msgspec.Struct, frozen=True):
    """The snapshot, and objects that templates are made from; made from objects, or by a watch.

    `node_groups` are those among the objects; a live cluster has them from its provider.
    `pods_by_node` and `pod`, by namespace/name, are asked for few pods only, `pods_without_node`
    once for each decision. The snapshot holds no finished and no expendable pods; `as_counted`
    says what it is fed. `states` keeps what was read of nodes from one decision to the next.
    `pod_groups` say which pods are of use only together. `stateful_set`, by
    namespace/name, says which of its pods come back; not everybody knows them.
    """

    snapshot: Snapshot
    nodes: Collection[Node]
    csinodes: Collection[CSINode]
    daemon_sets: Collection[DaemonSet]
    drivers: Collection[CSIDriver]
    node_groups: Collection[NodeGroup]
    pods_by_node: Mapping[str, Iterable[Pod]]
    pod: Callable[[str], Pod | None]
    pods_without_node: Callable[[], Iterable[PodRecord]]
    states: States
    pod_groups: Collection[AnyPodGroup] = ()
    stateful_set: Callable[[str], StatefulSet | None] = lambda _: None

    @classmethod
    def of(
        cls, objects: Sequence[object], features: Features, options: Options | None = None
    ) -> "ClusterState":
        """The objects of a file, sorted. Without options pods are held as they are."""
        snapshot = empty_snapshot(features)
        kinds: dict[type, list[Any]] = defaultdict(list)
        for obj in objects:
            kind = type(obj)
            kinds[kind].append(obj)
            # Pods come last and claims all at once: they are many.
            if kind is not Pod and kind is not PersistentVolumeClaim:
                snapshot.apply("ADDED", obj)
        snapshot.put_claims(kinds[PersistentVolumeClaim])
        by_key: dict[str, Pod] = {}
        pods_by_node: dict[str, list[Pod]] = defaultdict(list)
        for pod in kinds[Pod]:
            if pod.status.phase in FINISHED:
                continue
            by_key[pod.metadata.key] = pod
            node = pod.spec.node_name or pod.status.nominated_node_name
            if node:
                pods_by_node[node].append(pod)
            counted = as_counted(pod, options) if options is not None else pod
            if counted is not None:
                snapshot.put_pod(counted)
        return cls(
            snapshot=snapshot,
            nodes=kinds[Node],
            csinodes=kinds[CSINode],
            daemon_sets=kinds[DaemonSet],
            drivers=kinds[CSIDriver],
            node_groups=kinds[NodeGroup],
            pods_by_node=pods_by_node,
            pod=by_key.get,
            pods_without_node=snapshot.pending_pods,
            states=States(),
            pod_groups=[*kinds[WorkloadPodGroup], *kinds[CoschedulingPodGroup]],
            stateful_set={one.metadata.key: one for one in kinds[StatefulSet]}.get,
        )


def as_counted(pod: Pod, options: Options) -> Pod | None:
    """The pod as the snapshot is to hold it; `None` if it is finished or expendable.

    A pod that preemption has promised a node counts as being there, as upstream counts it.
    """
    expendable = (pod.spec.priority or 0) < options.expendable_pods_priority_cutoff
    if pod.status.phase in FINISHED or expendable:
        return None
    if pod.spec.node_name or not pod.status.nominated_node_name:
        return pod
    spec = msgspec.structs.replace(pod.spec, node_name=pod.status.nominated_node_name)
    return msgspec.structs.replace(pod, spec=spec)


def empty_snapshot(features: Features) -> Snapshot:
    """A snapshot to be fed, that reads limits as the features say."""
    return Snapshot(version=features.version, limit_reader=features.limit_reader)

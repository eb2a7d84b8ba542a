"""The cluster a decision is made on: what the snapshot holds, and what stands beside it.

A live caller has both from its watches; for a file the objects are sorted here.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from tonnage.groups import node_group_objects
from tonnage.groups.model import Group
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.scenarios import NodeGroup
from tonnage.objects.storage import CSIDriver, CSINode
from tonnage.objects.workloads import DaemonSet
from tonnage.rules.features import Features
from tonnage.scaleup.options import Options
from tonnage.snapshot.snapshot import FINISHED, Snapshot

T = TypeVar("T")


class Cluster(NamedTuple):
    """A cluster for one decision: the snapshot, and objects that templates are made from.

    `pods_by_node` and `pod`, by namespace/name, are asked for few pods only. The snapshot holds
    no finished and no expendable pods; `as_counted` says what it is fed.
    """

    snapshot: Snapshot
    groups: Sequence[Group]
    nodes: Collection[Node]
    csinodes: Collection[CSINode]
    daemonsets: Iterable[DaemonSet]
    drivers: Iterable[CSIDriver]
    pods_by_node: Mapping[str, Iterable[Pod]]
    pod: Callable[[str], Pod | None]


def cluster_of(objects: Sequence[object], options: Options, features: Features) -> Cluster:
    """The objects of a file, sorted."""
    snapshot = empty_snapshot(features)
    nodes = list(_of(objects, Node))
    for one in objects:
        if not isinstance(one, Pod):
            snapshot.apply("ADDED", one)
    by_key: dict[str, Pod] = {}
    pods_by_node: dict[str, list[Pod]] = defaultdict(list)
    for pod in _of(objects, Pod):
        if pod.status.phase in FINISHED:
            continue
        by_key[f"{pod.metadata.namespace}/{pod.metadata.name}"] = pod
        node = pod.spec.node_name or pod.status.nominated_node_name
        if node:
            pods_by_node[node].append(pod)
        counted = as_counted(pod, options)
        if counted is not None:
            snapshot.apply("ADDED", counted)
    return Cluster(
        snapshot=snapshot,
        groups=node_group_objects.from_objects(_of(objects, NodeGroup), nodes),
        nodes=nodes,
        csinodes=list(_of(objects, CSINode)),
        daemonsets=list(_of(objects, DaemonSet)),
        drivers=list(_of(objects, CSIDriver)),
        pods_by_node=pods_by_node,
        pod=by_key.get,
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


def _of(objects: Iterable[object], kind: type[T]) -> Iterator[T]:
    return (one for one in objects if isinstance(one, kind))

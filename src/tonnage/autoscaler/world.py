"""The cluster as the autoscaler sees it: the standing one, and the pods that wait for a node."""

import asyncio
import random
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tonnage.autoscaler.change_filter import ChangeFilter
from tonnage.autoscaler.scan_trigger import ScanTrigger
from tonnage.clock import Clock
from tonnage.cluster.cache import Cache
from tonnage.cluster.client import Client
from tonnage.cluster.watch_events import Change, EventType
from tonnage.groups import cluster_state
from tonnage.groups.cluster_state import ClusterState
from tonnage.groups.node_state import States
from tonnage.groups.options import Options
from tonnage.objects.gangs import AnyPodGroup
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import Node
from tonnage.objects.pods import FINISHED, Pod
from tonnage.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    StorageClass,
    VolumeAttachment,
)
from tonnage.objects.workloads import DaemonSet, StatefulSet
from tonnage.rules import opt_in
from tonnage.rules.features import Features
from tonnage.rules.opt_in import Enforcement
from tonnage.service.live_cluster import OF_SCHEDULING, LiveCluster
from tonnage.snapshot.snapshot import PodRecord

KINDS: tuple[type, ...] = (*OF_SCHEDULING, DaemonSet)

_OF_TEMPLATES: tuple[type, ...] = (CSIDriver, StorageClass, CSIStorageCapacity, DaemonSet)
"""Beside nodes, what templates are made from; volumes only sometimes."""


class ClusterView(LiveCluster):
    """Adds what waits and what runs where.

    `waiting` are the pods the scheduler found no node for, by namespace/name, each with the moment
    we learned of it; a new one adds to the `batch`, and so does a node that comes to more. More
    pods than these are without a node: those not looked at yet, and those that are being bound.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        options: Options,
        features: Features,
    ) -> None:
        super().__init__(
            client,
            clock=clock,
            rng=rng,
            features=features,
            counted=lambda pod: cluster_state.as_counted(pod, self._options),
            kinds=KINDS,
        )
        self.turn = asyncio.Lock()
        """Whose turn it is to look at the snapshot and to decide on it: a round of the loop, or a
        removal that is to be judged anew. Decisions are made in threads, one at a time."""
        self._clock = clock
        self._options = options
        self._schedulers: frozenset[str] = frozenset()
        self.batch = ScanTrigger(clock)
        self.waiting: dict[str, float] = {}
        self._without_node: dict[str, None] = {}
        self.pods_by_node: dict[str, dict[str, Pod]] = {}
        self._enforcers: dict[str, str] = {}
        self._states = States()
        self.pod_groups: tuple[AnyPodGroup, ...] = ()
        """Those of the gangs that wait, as they were when the pods were last looked at."""
        self.stateful_sets: Cache[StatefulSet] | None = None
        """Known to who gives nodes back, and only while they are watched for that."""
        self._change_filter = ChangeFilter(self.batch.call)
        self.cache(Pod).subscribe(self._take_pod)
        self.cache(Pod).subscribe(self._change_filter.pod)
        self.cache(Node).subscribe(self._change_filter.node)
        self.cache(CSINode).subscribe(self._change_filter.csinode)
        self.cache(VolumeAttachment).subscribe(self._change_filter.attachment)
        self.cache(PersistentVolume).subscribe(self._volume_changed)
        for kind in _OF_TEMPLATES:
            self.cache(kind).subscribe(self._change_filter.other)

    @property
    def revision(self) -> int:
        """Moves whenever templates or the readiness of nodes may have."""
        return self._change_filter.revision

    @property
    def daemon_revision(self) -> int:
        """Moves whenever pods that come with their nodes have changed."""
        return self._change_filter.daemon_revision

    @property
    def volumes_are_refused(self) -> bool:
        """Whether some machine has no room for a volume it should attach."""
        return bool(self._change_filter.refusals)

    @property
    def enforces_opt_in(self) -> str:
        """What shows that our extender or scheduler enforces the opt-in; empty if nothing does."""
        return opt_in.annotated(self.cache(CSIDriver)) or next(iter(self._enforcers.values()), "")

    def opt_in_enforcer(self, enforcement: Enforcement) -> str:
        """Who keeps pods off nodes that lack a driver which opted in."""
        seen = self.enforces_opt_in if enforcement == "auto" else ""
        if seen:
            return f"Tonnage: {seen}"
        return "Tonnage: enforceOptIn" if enforcement == "always" else "kube-scheduler"

    @property
    def size(self) -> int:
        """How many objects are known."""
        return sum(map(len, self._caches.values()))

    def objects(self) -> list[KubeObject]:
        """Everything that counts, in an order from which the same snapshot would come again."""
        rows = {name: record.row for name, record in self.snapshot.nodes.items()}
        nodes = sorted(self.cache(Node), key=lambda node: rows.get(node.metadata.name, 0))
        others = (obj for kind in KINDS if kind is not Node for obj in self._caches[kind])
        more = (*(self.stateful_sets or ()), *self.pod_groups)
        return [one for one in (*nodes, *others, *more) if not self.is_rejected(one)]

    def state(self) -> ClusterState:
        """The cluster as it is now, for a decision."""
        return ClusterState(
            snapshot=self.snapshot,
            nodes=list(self.cache(Node)),
            csinodes=list(self.cache(CSINode)),
            daemon_sets=list(self.cache(DaemonSet)),
            drivers=list(self.cache(CSIDriver)),
            node_groups=(),
            pods_by_node=PodsByNode(self.pods_by_node),
            pod=self.pod,
            pods_without_node=self.without_node,
            states=self._states,
            stateful_set=self._stateful_set,
            pod_groups=self.pod_groups,
        )

    def _stateful_set(self, key: str) -> StatefulSet | None:
        namespace, _, name = key.partition("/")
        sets = self.stateful_sets
        return sets.get(name, namespace=namespace) if sets is not None else None

    def unplaced(self) -> list[PodRecord]:
        """The pods that wait, as the snapshot holds them; it leaves out those that do not count."""
        return self._pending(self.waiting)

    def without_node(self) -> list[PodRecord]:
        """All pods without a node, as the snapshot holds them."""
        return self._pending(self._without_node)

    def _pending(self, keys: Iterable[str]) -> list[PodRecord]:
        known = self.snapshot.pods.get
        return [one for key in keys if (one := known(key)) is not None and one.pending]

    def configure(
        self, options: Options, features: Features, *, schedulers: Iterable[str] = ()
    ) -> None:
        """Go by other options from here on; the snapshot is built anew only if it depends on it."""
        before = self._options.expendable_pods_priority_cutoff
        self._options = options
        wanted = frozenset(schedulers)
        if wanted != self._schedulers:
            self._schedulers = wanted
            self.waiting.clear()
            for pod in self.cache(Pod):
                self._note_waiting(pod)
        self.settle(features, recount=options.expendable_pods_priority_cutoff != before)

    def any_owned_by(self, pods: Iterable[str], uids: Collection[str]) -> bool:
        """Whether a controller with one of these UIDs has one of the pods."""
        owners = (pod.metadata.controller for pod in map(self.pod, pods) if pod is not None)
        return any(owner is not None and owner.uid in uids for owner in owners)

    def wants_node(self, key: str) -> bool:
        """Whether the pod waits for us, or has no node and is one of a gang, which waits as one."""
        record = self.snapshot.pods.get(key) if key in self._without_node else None
        return key in self.waiting or (record is not None and record.gang is not None)

    def decided_on(self, pods: Iterable[str]) -> list[float]:
        """For each of the pods that still wait, the seconds it has waited for us."""
        now = self._clock.monotonic()
        return [now - self.waiting[key] for key in pods if key in self.waiting]

    def _take_pod(self, change: Change[Pod]) -> None:
        pod = change.object
        key = pod.metadata.key
        node = pod.spec.node_name
        enforcing = opt_in.enforcing(pod)
        if change.type is EventType.DELETED or pod.status.phase in FINISHED:
            node = enforcing = ""
            self.waiting.pop(key, None)
            self._without_node.pop(key, None)
        else:
            self._note_waiting(pod)
            if node:
                self._without_node.pop(key, None)
            else:
                self._without_node[key] = None
        if enforcing:
            self._enforcers[key] = enforcing
        elif self._enforcers:
            self._enforcers.pop(key, None)
        before = change.before.spec.node_name if change.before is not None else ""
        if before != node and key in (held := self.pods_by_node.get(before, {})):
            del held[key]
            if not held:
                del self.pods_by_node[before]
        if node:
            self.pods_by_node.setdefault(node, {})[key] = pod

    def _volume_changed(self, change: Change[PersistentVolume]) -> None:
        """Volumes take of what nodes have where that is published, and nowhere else."""
        if self.still or any(self.snapshot.storage.capacities_of(change.object.class_name)):
            self._change_filter.other(change)

    def _note_waiting(self, pod: Pod) -> None:
        key = pod.metadata.key
        scheduler = pod.spec.scheduler_name or "default-scheduler"
        if not is_unschedulable(pod) or (self._schedulers and scheduler not in self._schedulers):
            self.waiting.pop(key, None)
        elif key not in self.waiting:
            self.waiting[key] = self._clock.monotonic()
            self.batch.pod_waits()


class PodsByNode(Mapping[str, Iterable[Pod]]):
    """The pods of a node, as templates ask for them."""

    def __init__(self, held: Mapping[str, Mapping[str, Pod]]) -> None:
        self._held = held

    def __getitem__(self, node: str) -> Iterable[Pod]:
        return self._held[node].values()

    def __iter__(self) -> Any:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


def is_unschedulable(pod: Pod) -> bool:
    """Whether the scheduler has tried, and found no node."""
    if pod.spec.node_name or pod.metadata.deletion_timestamp is not None:
        return False
    return any(
        condition.type == "PodScheduled"
        and condition.status == "False"
        and condition.reason == "Unschedulable"
        for condition in pod.status.conditions
    )

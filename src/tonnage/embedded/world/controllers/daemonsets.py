"""DaemonSets: one pod for each node that it is meant for.

Nodes are looked at one by one, so that a new node costs the same however many there are. Pods of an
earlier template stay until they are deleted (the strategy `OnDelete`).
"""

from collections import defaultdict
from typing import Any, TypeAlias

import msgspec

from tonnage.cluster.cache import Cache, Key
from tonnage.cluster.watch_events import Change, EventType
from tonnage.embedded.world.controllers import pod_control
from tonnage.embedded.world.controllers.workload_records import (
    DAEMON_SETS,
    DaemonSetObject,
    NewPod,
    Tree,
)
from tonnage.embedded.world.keyed_tasks import WorldContext
from tonnage.embedded.world.pod_index import OwnedPods, is_active
from tonnage.embedded.world.work_queue import WorkQueue
from tonnage.groups import daemons
from tonnage.objects import workloads
from tonnage.objects.conditions import is_ready
from tonnage.objects.nodes import Node
from tonnage.objects.pods import FINISHED, Pod, Toleration

Place: TypeAlias = tuple[str, str, str]
"""Namespace and name of a DaemonSet, and the name of a node."""


class DaemonSets:
    """Makes pods where they should run and deletes them where they should run no longer."""

    def __init__(
        self,
        context: WorldContext,
        *,
        owned: OwnedPods,
        nodes: Cache[Node],
        sets: Cache[DaemonSetObject],
    ) -> None:
        self._client = context.client
        self._owned = owned
        self._nodes = nodes
        self._sets = sets
        self._read: dict[str, tuple[int, workloads.DaemonSet]] = {}
        self._facts: dict[str, object] = {}
        self._meant: defaultdict[str, set[str]] = defaultdict(set)
        """Nodes that each should have a pod on, by uid."""
        self._pods: defaultdict[tuple[str, str], dict[str, Pod]] = defaultdict(dict)
        """Pods by the uid of their DaemonSet and the node they are for."""
        self._made: set[tuple[str, str]] = set()
        """Of the same, those just made and not seen yet."""
        self._places: WorkQueue[Place] = WorkQueue("daemon pod", self._look, context)
        self._counts: WorkQueue[Key] = WorkQueue("daemon set", self._tell, context)
        sets.subscribe(self._set_changed)
        nodes.subscribe(self._node_changed)
        owned.follow("DaemonSet", self._pod_changed)

    def _set_changed(self, change: Change[DaemonSetObject]) -> None:
        meta = change.object.metadata
        if change.type is EventType.DELETED:
            self._read.pop(meta.uid, None)
            self._meant.pop(meta.uid, None)
            return
        known = self._read.get(meta.uid)
        if known is not None and known[0] == meta.generation:
            return
        # Only the first look needs the template in words that decisions understand.
        builtins = msgspec.to_builtins(change.object)
        self._read[meta.uid] = (meta.generation, msgspec.convert(builtins, workloads.DaemonSet))
        for node in self._nodes:
            self._places.note((meta.namespace, meta.name, node.metadata.name))
        self._counts.note((meta.namespace, meta.name))

    def _node_changed(self, change: Change[Node]) -> None:
        node, name = change.object, change.object.metadata.name
        facts = (node.metadata.labels, node.spec.taints)
        if change.type is EventType.DELETED:
            self._facts.pop(name, None)
        elif self._facts.get(name) == facts:
            return
        else:
            self._facts[name] = facts
        for one in self._sets:
            self._places.note((one.metadata.namespace, one.metadata.name, name))

    def _pod_changed(self, pod: Pod) -> None:
        owner, node = pod.metadata.controller, _node_of(pod)
        if owner is None:
            return
        self._made.discard((owner.uid, node))
        if self._owned.has(owner.uid, pod):
            self._pods[owner.uid, node][pod.metadata.name] = pod
        else:
            self._pods[owner.uid, node].pop(pod.metadata.name, None)
        self._places.note((pod.metadata.namespace, owner.name, node))
        self._counts.note((pod.metadata.namespace, owner.name))

    async def _look(self, place: Place) -> None:
        namespace, name, node_name = place
        found = self._sets.get(name, namespace=namespace)
        if found is None or found.metadata.deletion_timestamp is not None:
            return
        uid = found.metadata.uid
        node = self._nodes.get(node_name)
        wanted = self._wanted(uid, node)
        if bool(wanted) != (node_name in self._meant[uid]):
            self._meant[uid] ^= {node_name}
            self._counts.note((namespace, name))
        pods = sorted(self._pods[uid, node_name].values(), key=lambda pod: pod.metadata.name)
        alive = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        running = [pod for pod in alive if pod.status.phase not in FINISHED]
        if wanted is None:
            leaving = alive if node is None or not self._may_stay(uid, node) else []
        else:
            # One is enough, and one that has ended is none.
            leaving = [pod for pod in alive if pod not in running[:1]]
            if not pods and (uid, node_name) not in self._made:
                self._made.add((uid, node_name))
                made = _pod(found, node_name, tolerations=wanted.spec.tolerations)
                await pod_control.create(self._client, made)
        for pod in leaving:
            await pod_control.delete(self._client, pod)

    def _wanted(self, uid: str, node: Node | None) -> Pod | None:
        """The pod that decisions expect on the node, if any."""
        if node is None or uid not in self._read:
            return None
        expected = daemons.missing(node, (), [self._read[uid][1]], critical_only=False)
        return expected[0] if expected else None

    def _may_stay(self, uid: str, node: Node) -> bool:
        """Whether only a taint that keeps new pods off is in the way of those that are there."""
        spec = msgspec.structs.replace(
            node.spec,
            taints=tuple(taint for taint in node.spec.taints if taint.effect == "NoExecute"),
        )
        return self._wanted(uid, msgspec.structs.replace(node, spec=spec)) is not None

    async def _tell(self, key: Key) -> None:
        found = self._sets.get(key[1], namespace=key[0])
        if found is None:
            return
        uid = found.metadata.uid
        active = [pod for pod in self._owned.of(uid) if is_active(pod)]
        scheduled = sum(_node_of(pod) in self._meant[uid] for pod in active)
        ready = sum(map(is_ready, active))
        counts = {
            "observedGeneration": found.metadata.generation,
            "desiredNumberScheduled": len(self._meant[uid]),
            "currentNumberScheduled": scheduled,
            "numberMisscheduled": len(active) - scheduled,
            "updatedNumberScheduled": scheduled,
            "numberReady": ready,
            "numberAvailable": ready,
        }
        await pod_control.tell(self._client, DAEMON_SETS, found, counts)


def _node_of(pod: Pod) -> str:
    """The node it is on, or pinned to."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    for term in required.node_selector_terms if required is not None else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.values:
                return field.values[0]
    return ""


def _pod(found: DaemonSetObject, node: str, *, tolerations: tuple[Toleration, ...]) -> NewPod:
    spec = found.spec.template.spec
    own: list[Tree] = spec.get("tolerations") or []
    given = [msgspec.to_builtins(toleration) for toleration in tolerations[len(own) :]]
    return pod_control.pod(
        found.spec.template,
        pod_control.owner(DAEMON_SETS, found.metadata),
        namespace=found.metadata.namespace,
        labels={pod_control.REVISION: pod_control.revision(found.spec.template)},
        spec={**spec, "affinity": _pinned(spec, node), "tolerations": [*own, *given]},
    )


def _pinned(spec: Tree, node: str) -> dict[str, Any]:
    """The template's affinity with the node's name in every term, as the real controller has it."""
    affinity: Tree = spec.get("affinity") or {}
    nodes: Tree = affinity.get("nodeAffinity") or {}
    by_name = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [by_name]}]}
    return {**affinity, "nodeAffinity": {**nodes, _REQUIRED: required}}


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

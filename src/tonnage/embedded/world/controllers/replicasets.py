"""ReplicaSets: so many pods of a template, whichever."""

from tonnage.cluster.cache import Cache, Key
from tonnage.embedded.world.controllers import pod_control
from tonnage.embedded.world.controllers.workload_records import REPLICA_SETS, ReplicaSetObject
from tonnage.embedded.world.keyed_tasks import WorldContext
from tonnage.embedded.world.pod_index import OwnedPods, is_active
from tonnage.embedded.world.work_queue import WorkQueue
from tonnage.objects.conditions import is_ready
from tonnage.objects.pods import Pod


class ReplicaSets:
    """Makes what is missing and deletes what is too much, those first that do least."""

    def __init__(
        self, context: WorldContext, *, owned: OwnedPods, replica_sets: Cache[ReplicaSetObject]
    ) -> None:
        self._client = context.client
        self._owned = owned
        self._sets = replica_sets
        self._queue: WorkQueue[Key] = WorkQueue("replica set", self._look, context)
        owned.look_on_change("ReplicaSet", replica_sets, self._queue)

    async def _look(self, key: Key) -> None:
        found = self._sets.get(key[1], namespace=key[0])
        if found is None or found.metadata.deletion_timestamp is not None:
            return
        uid = found.metadata.uid
        active = [pod for pod in self._owned.of(uid) if is_active(pod)]
        wanted = 1 if found.spec.replicas is None else found.spec.replicas
        owner = pod_control.owner(REPLICA_SETS, found.metadata)
        for _ in range(wanted - len(active) - self._owned.expected(uid)):
            pod = pod_control.pod(found.spec.template, owner, namespace=key[0])
            made = await pod_control.create(self._client, pod)
            if made is not None:
                self._owned.expect(uid, made)
        if len(active) > wanted:
            active.sort(key=_use)
            for surplus in active[: len(active) - wanted]:
                await pod_control.delete(self._client, surplus)
        await self._tell(found, active)

    async def _tell(self, found: ReplicaSetObject, active: list[Pod]) -> None:
        """Those that came and went by this look are counted by the next, when they are seen."""
        ready = sum(map(is_ready, active))
        counts = {
            "observedGeneration": found.metadata.generation,
            "replicas": len(active),
            "fullyLabeledReplicas": len(active),
            "readyReplicas": ready,
            "availableReplicas": ready,
        }
        await pod_control.tell(self._client, REPLICA_SETS, found, counts)


def _use(pod: Pod) -> tuple[bool, bool, bool, list[int], str]:
    """Smaller for what is missed less: without a node, not running, not ready, young."""
    created = pod.metadata.creation_timestamp or ""
    youngest_first = [-ord(letter) for letter in created]
    return (
        bool(pod.spec.node_name),
        pod.status.phase == "Running",
        is_ready(pod),
        youngest_first,
        pod.metadata.name,
    )

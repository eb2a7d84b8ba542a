"""StatefulSets: pods with numbers, each with its own claims, in order or side by side."""

from tonnage.cluster import errors
from tonnage.cluster.cache import Cache, Key
from tonnage.embedded.world.controllers import pod_control
from tonnage.embedded.world.controllers.workload_records import (
    CLAIMS,
    STATEFUL_SETS,
    NewClaim,
    NewPod,
    StatefulSetObject,
    Tree,
)
from tonnage.embedded.world.keyed_tasks import WorldContext
from tonnage.embedded.world.pod_index import OwnedPods, is_active
from tonnage.embedded.world.work_queue import WorkQueue
from tonnage.objects.conditions import is_ready
from tonnage.objects.labels import POD_INDEX_LABEL
from tonnage.objects.meta import LabelSelector, ObjectMeta
from tonnage.objects.pods import FINISHED, Pod
from tonnage.objects.storage import PersistentVolumeClaim


class StatefulSets:
    """A pod's name and claims stay the same however often it is made again.

    In order, nothing is done to a pod before all those before it are ready.
    """

    def __init__(
        self,
        context: WorldContext,
        *,
        owned: OwnedPods,
        claims: Cache[PersistentVolumeClaim],
        sets: Cache[StatefulSetObject],
    ) -> None:
        self._client = context.client
        self._owned = owned
        self._claims = claims
        self._sets = sets
        self._queue: WorkQueue[Key] = WorkQueue("stateful set", self._look, context)
        owned.look_on_change("StatefulSet", sets, self._queue)

    async def _look(self, key: Key) -> None:
        found = self._sets.get(key[1], namespace=key[0])
        if found is None or found.metadata.deletion_timestamp is not None:
            return
        pods = {_ordinal(pod): pod for pod in self._owned.of(found.metadata.uid)}
        revision = f"{found.metadata.name}-{pod_control.revision(found.spec.template)}"
        if await self._fill(found, pods, revision) and await self._shrink(found, pods):
            await self._renew(found, pods, revision)
        await self._tell(found, pods, revision)

    async def _fill(self, found: StatefulSetObject, pods: dict[int, Pod], revision: str) -> bool:
        """Make what is missing; whether one may go on to what comes after."""
        for ordinal in _ordinals(found):
            pod = pods.get(ordinal)
            if pod is None:
                await self._make(found, ordinal, revision)
            elif pod.status.phase in FINISHED and pod.metadata.deletion_timestamp is None:
                await pod_control.delete(self._client, pod)
            elif is_active(pod) and is_ready(pod):
                continue
            if _in_order(found):
                return False
        return True

    async def _shrink(self, found: StatefulSetObject, pods: dict[int, Pod]) -> bool:
        """Delete what is too much, from the end; whether all of it is gone."""
        surplus = sorted(set(pods) - set(_ordinals(found)), reverse=True)
        for ordinal in surplus:
            if pods[ordinal].metadata.deletion_timestamp is None:
                await pod_control.delete(self._client, pods[ordinal])
            if _in_order(found):
                return False
        return not surplus

    async def _renew(self, found: StatefulSetObject, pods: dict[int, Pod], revision: str) -> None:
        """Delete the last pod of an earlier template, if none is missing meanwhile."""
        strategy = found.spec.update_strategy
        if strategy.type != "RollingUpdate":
            return
        first = strategy.rolling_update.partition if strategy.rolling_update is not None else 0
        for ordinal in reversed(_ordinals(found)):
            pod = pods.get(ordinal)
            if ordinal < first or pod is None or not is_active(pod):
                return
            if pod.metadata.labels.get(pod_control.REVISION, revision) != revision:
                await pod_control.delete(self._client, pod)
                return
            if not is_ready(pod):
                return

    async def _make(self, found: StatefulSetObject, ordinal: int, revision: str) -> None:
        for claim in _claims(found, ordinal):
            meta = claim.metadata
            if self._claims.get(meta.name, namespace=meta.namespace) is None:
                try:
                    await self._client.create(CLAIMS, claim)
                except errors.Conflict as error:
                    if not error.already_exists:
                        raise
        await pod_control.create(self._client, _pod(found, ordinal, revision))

    async def _tell(self, found: StatefulSetObject, pods: dict[int, Pod], revision: str) -> None:
        active = [pod for pod in pods.values() if is_active(pod)]
        ready = sum(map(is_ready, active))
        updated = sum(pod.metadata.labels.get(pod_control.REVISION) == revision for pod in active)
        # The earlier template stays the current one until the last pod of it is replaced.
        current = revision
        if updated < len(active):
            current = found.status.get("currentRevision") or revision
        counts = {
            "observedGeneration": found.metadata.generation,
            "replicas": len(active),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "currentReplicas": sum(
                pod.metadata.labels.get(pod_control.REVISION) == current for pod in active
            ),
            "updatedReplicas": updated,
            "currentRevision": current,
            "updateRevision": revision,
        }
        await pod_control.tell(self._client, STATEFUL_SETS, found, counts)


def _ordinals(found: StatefulSetObject) -> range:
    start = found.spec.ordinals.start
    return range(start, start + (1 if found.spec.replicas is None else found.spec.replicas))


def _in_order(found: StatefulSetObject) -> bool:
    return found.spec.pod_management_policy != "Parallel"


def _ordinal(pod: Pod) -> int:
    """The number at the end of its name, -1 for a pod that has none."""
    number = pod.metadata.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def _pod(found: StatefulSetObject, ordinal: int, revision: str) -> NewPod:
    meta = found.metadata
    name = f"{meta.name}-{ordinal}"
    spec = found.spec.template.spec
    own: list[Tree] = [
        {
            "name": template.metadata.name,
            "persistentVolumeClaim": {"claimName": _claim(template, name)},
        }
        for template in found.spec.volume_claim_templates
    ]
    names = {volume["name"] for volume in own}
    rest = [volume for volume in spec.get("volumes") or () if volume.get("name") not in names]
    labels = {
        "statefulset.kubernetes.io/pod-name": name,
        POD_INDEX_LABEL: str(ordinal),
        pod_control.REVISION: revision,
    }
    return pod_control.pod(
        found.spec.template,
        pod_control.owner(STATEFUL_SETS, meta),
        namespace=meta.namespace,
        name=name,
        labels=labels,
        spec={
            **spec,
            "hostname": name,
            "subdomain": found.spec.service_name,
            "volumes": [*own, *rest],
        },
    )


def _claims(found: StatefulSetObject, ordinal: int) -> list[NewClaim]:
    meta, selector = found.metadata, found.spec.selector or LabelSelector()
    return [
        NewClaim(
            metadata=ObjectMeta(
                name=_claim(template, f"{meta.name}-{ordinal}"),
                namespace=meta.namespace,
                labels={**template.metadata.labels, **selector.match_labels},
                annotations=template.metadata.annotations,
            ),
            spec=template.spec,
        )
        for template in found.spec.volume_claim_templates
    ]


def _claim(template: NewClaim, pod: str) -> str:
    return f"{template.metadata.name}-{pod}"

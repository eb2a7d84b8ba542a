"""Deployments: a ReplicaSet per template, and the way from the old one to the new."""

from collections import defaultdict
from fractions import Fraction
from math import ceil, floor

import msgspec

from tonnage.cluster import errors
from tonnage.cluster.cache import Cache, Key
from tonnage.cluster.watch_events import Change, EventType
from tonnage.embedded.world.controllers import pod_control
from tonnage.embedded.world.controllers.workload_records import (
    DEPLOYMENTS,
    REPLICA_SETS,
    DeploymentObject,
    ReplicaSetObject,
    ReplicaSetObjectSpec,
    RollingUpdate,
    WholePodTemplate,
)
from tonnage.embedded.world.keyed_tasks import WorldContext
from tonnage.embedded.world.pod_index import OwnedPods
from tonnage.embedded.world.work_queue import WorkQueue
from tonnage.objects.meta import LabelSelector, ObjectMeta
from tonnage.objects.pods import Pod

HASH = "pod-template-hash"
RECREATE = "Recreate"


class Deployments:
    """Gives the newest template's ReplicaSet all replicas, within what the strategy allows."""

    def __init__(
        self,
        context: WorldContext,
        *,
        owned: OwnedPods,
        replica_sets: Cache[ReplicaSetObject],
        deployments: Cache[DeploymentObject],
    ) -> None:
        self._client = context.client
        self._pods = owned
        self._sets = replica_sets
        self._deployments = deployments
        self._owned: defaultdict[str, dict[str, ReplicaSetObject]] = defaultdict(dict)
        self._queue: WorkQueue[Key] = WorkQueue("deployment", self._look, context)
        deployments.subscribe(self._deployment_changed)
        replica_sets.subscribe(self._set_changed)
        owned.follow("ReplicaSet", self._pod_changed)

    def _deployment_changed(self, change: Change[DeploymentObject]) -> None:
        meta = change.object.metadata
        self._queue.note((meta.namespace, meta.name))

    def _set_changed(self, change: Change[ReplicaSetObject]) -> None:
        meta = change.object.metadata
        owner = meta.controller
        if owner is None or owner.kind != DEPLOYMENTS.kind:
            return
        if change.type is EventType.DELETED:
            self._owned[owner.uid].pop(meta.name, None)
        else:
            self._owned[owner.uid][meta.name] = change.object
        self._queue.note((meta.namespace, owner.name))

    def _pod_changed(self, pod: Pod) -> None:
        """Who recreates waits for pods that no ReplicaSet counts any more."""
        owner, namespace = pod.metadata.controller, pod.metadata.namespace
        found = self._sets.get(owner.name, namespace=namespace) if owner is not None else None
        by = found.metadata.controller if found is not None else None
        deployment = self._deployments.get(by.name, namespace=namespace) if by is not None else None
        if deployment is not None and deployment.spec.strategy.type == RECREATE:
            self._queue.note((namespace, deployment.metadata.name))

    async def _look(self, key: Key) -> None:
        found = self._deployments.get(key[1], namespace=key[0])
        if found is None or found.metadata.deletion_timestamp is not None:
            return
        hashed = pod_control.revision(found.spec.template)
        name = f"{found.metadata.name}-{hashed}"
        owned = self._owned[found.metadata.uid]
        new = owned.get(name)
        # Oldest first; names decide between those of the same second.
        old = sorted(
            (one for one in owned.values() if one is not new),
            key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name),
        )
        left = any(self._pods.of(one.metadata.uid) for one in old)
        sizes = _sizes(found, new, old, newest=name, pods_left=left)
        if new is None:
            await self._make(found, name, hashed=hashed, replicas=sizes[name])
        for one in (*old, *([new] if new is not None else [])):
            if sizes[one.metadata.name] != _wanted(one):
                await self._scale(one, sizes[one.metadata.name])
        await self._tell(found, new, old)

    async def _make(
        self, found: DeploymentObject, name: str, *, hashed: str, replicas: int
    ) -> None:
        template, selector = found.spec.template, found.spec.selector or LabelSelector()
        labels = {**template.metadata.labels, HASH: hashed}
        labelled = msgspec.structs.replace(template.metadata, labels=labels)
        made = ReplicaSetObject(
            metadata=ObjectMeta(
                name=name,
                namespace=found.metadata.namespace,
                labels=labels,
                owner_references=(pod_control.owner(DEPLOYMENTS, found.metadata),),
            ),
            spec=ReplicaSetObjectSpec(
                replicas=replicas,
                selector=LabelSelector(
                    match_labels={**selector.match_labels, HASH: hashed},
                    match_expressions=selector.match_expressions,
                ),
                template=WholePodTemplate(metadata=labelled, spec=template.spec),
            ),
        )
        try:
            await self._client.create(REPLICA_SETS, made)
        except errors.Conflict as error:
            if not error.already_exists:
                raise

    async def _scale(self, one: ReplicaSetObject, replicas: int) -> None:
        meta = one.metadata
        patch = {"spec": {"replicas": replicas}}
        await self._client.patch(REPLICA_SETS, meta.name, patch, namespace=meta.namespace)

    async def _tell(
        self, found: DeploymentObject, new: ReplicaSetObject | None, old: list[ReplicaSetObject]
    ) -> None:
        every = [*old, *([new] if new is not None else [])]
        available = sum(_count(one, "availableReplicas") for one in every)
        there = sum(_count(one, "replicas") for one in every)
        wanted = 1 if found.spec.replicas is None else found.spec.replicas
        counts = {
            "observedGeneration": found.metadata.generation,
            "replicas": there,
            "updatedReplicas": _count(new, "replicas"),
            "readyReplicas": sum(_count(one, "readyReplicas") for one in every),
            "availableReplicas": available,
            "unavailableReplicas": max(max(wanted, there) - available, 0),
        }
        await pod_control.tell(self._client, DEPLOYMENTS, found, counts)


def _sizes(
    found: DeploymentObject,
    new: ReplicaSetObject | None,
    old: list[ReplicaSetObject],
    *,
    newest: str,
    pods_left: bool,
) -> dict[str, int]:
    """How many replicas each ReplicaSet should have as the next step, by name.

    `newest` is the name of the new one, also if it is not there yet; `pods_left` says whether the
    old ones have pods, if only such as are being deleted.
    """
    wanted = 1 if found.spec.replicas is None else found.spec.replicas
    sizes = {one.metadata.name: _wanted(one) for one in old}
    before = 0 if new is None else _wanted(new)
    left = sum(sizes.values())
    if found.spec.strategy.type == RECREATE:
        return {**dict.fromkeys(sizes, 0), newest: before if left or pods_left else wanted}
    if not left:
        return {**sizes, newest: wanted}
    surge, unavailable = _bounds(found.spec.strategy.rolling_update or RollingUpdate(), wanted)
    room = max(wanted + surge - left - before, 0)
    sizes[newest] = min(wanted, before + room) if before <= wanted else wanted
    not_yet_there = sizes[newest] - _count(new, "availableReplicas")
    dispensable = left + sizes[newest] - (wanted - unavailable) - max(not_yet_there, 0)
    for one in old:
        fewer = min(sizes[one.metadata.name], max(dispensable, 0))
        sizes[one.metadata.name] -= fewer
        dispensable -= fewer
    return sizes


def _bounds(rolling: RollingUpdate, wanted: int) -> tuple[int, int]:
    surge = _share(rolling.max_surge, wanted)
    unavailable = _share(rolling.max_unavailable, wanted)
    if not ceil(surge) and not floor(unavailable):
        return 0, 1
    return ceil(surge), min(floor(unavailable), wanted)


def _share(text: int | str, whole: int) -> Fraction:
    if isinstance(text, int):
        return Fraction(text)
    return Fraction(text.removesuffix("%")) * whole / 100 if text.endswith("%") else Fraction(text)


def _wanted(one: ReplicaSetObject) -> int:
    return 1 if one.spec.replicas is None else one.spec.replicas


def _count(one: ReplicaSetObject | None, name: str) -> int:
    return int(one.status.get(name) or 0) if one is not None else 0

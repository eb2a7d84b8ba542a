"""What stands behind pods: disruption budgets and controllers, watched while scale-down is on.

Beside the caches of the world, so that who gives no nodes back needs no rights to them.
"""

import random
from collections import Counter
from typing import Any, TypeVar

from tonnage.autoscaler.world import ClusterView
from tonnage.clock import Clock
from tonnage.cluster.cache import Cache
from tonnage.cluster.client import Client
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.resources import Named
from tonnage.cluster.watch_events import Change, EventType
from tonnage.objects.conditions import is_ready
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import Pod
from tonnage.objects.storage import VolumeAttachment
from tonnage.objects.workloads import (
    DaemonSet,
    Job,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from tonnage.scaledown.budgets import Budgets
from tonnage.scaledown.controllers import ControllerIndex, Controllers

T = TypeVar("T", bound=Named)

KINDS: tuple[type, ...] = (
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    Job,
)
_CONTROLLERS: tuple[type, ...] = KINDS[1:]


class Workloads:
    """Caches of these kinds, as good as their watch while `mirror` runs."""

    def __init__(
        self,
        client: Client,
        world: ClusterView,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._world = world
        self.mirror = Mirror(client, clock=clock, rng=rng)
        self._caches: dict[type, Cache[Any]] = {kind: self.mirror.add(kind) for kind in KINDS}
        self._budgets: tuple[object, Budgets] | None = None
        self._controllers: Controllers | None = None
        self._known: dict[tuple[type, str, str], tuple[int | None]] = {}
        for kind in _CONTROLLERS:
            self._caches[kind].subscribe(self._controller_changed)
        world.cache(DaemonSet).subscribe(self._controller_changed)

    def cache(self, kind: type[T]) -> Cache[T]:
        return self._caches[kind]

    def objects(self) -> list[KubeObject]:
        """All that is known of these kinds."""
        return [one for cache in self._caches.values() for one in cache]

    def budgets(self) -> Budgets:
        """All budgets; the same value as before while nothing about them matters anew."""
        told = {
            (one.metadata.namespace, one.metadata.name): (
                one.spec.selector,
                one.status.disruptions_allowed,
                one.status.current_healthy >= one.status.desired_healthy,
            )
            for one in self.cache(PodDisruptionBudget)
        }
        if self._budgets is None or self._budgets[0] != told:
            self._budgets = told, Budgets(self.cache(PodDisruptionBudget))
        return self._budgets[1]

    def controllers(self) -> Controllers:
        """All controllers; the same value as before while there are no others."""
        if self._controllers is None:
            self._controllers = ControllerIndex(
                (
                    *(one for kind in _CONTROLLERS for one in self._caches[kind]),
                    *self._world.cache(DaemonSet),
                )
            )
        return self._controllers

    def _controller_changed(self, change: Change[Any]) -> None:
        obj = change.object
        key = (type(obj), obj.metadata.namespace, obj.metadata.name)
        gone = change.type is EventType.DELETED
        replicas = None if isinstance(obj, Job | DaemonSet) else obj.spec.replicas
        if gone:
            self._known.pop(key, None)
        elif self._known.get(key, ()) == (replicas,):
            return
        else:
            self._known[key] = (replicas,)
        self._controllers = None

    def hold(self, *, detaching: bool = True) -> str:
        """Why nothing may be removed: without budgets and controllers nobody knows what is safe.

        Nor, if volumes are to be waited for, without attachments.
        """
        caches = dict(self._caches)
        if detaching:
            caches[VolumeAttachment] = self._world.cache(VolumeAttachment)
        for kind, cache in caches.items():
            missing = cache.obstacle
            if missing is not None and missing.forbidden:
                return missing.right
            if missing is not None:
                return f"{kind.__name__} objects cannot be read"
            if not cache.synced:
                return f"{kind.__name__} objects are not all known yet"
            if cache.stale:
                return f"nothing was heard of {kind.__name__} objects for too long"
        return ""

    def unsettled(self) -> frozenset[str]:
        """StatefulSets, by their UID, that lack replicas or have some that are not ready."""
        ready: Counter[str] = Counter()
        for pod in self._world.cache(Pod):
            owner = pod.metadata.controller
            if owner is not None and owner.kind == "StatefulSet" and _is_settled(pod):
                ready[owner.uid] += 1
        return frozenset(
            one.metadata.uid
            for one in self.cache(StatefulSet)
            if ready[one.metadata.uid] < (1 if one.spec.replicas is None else one.spec.replicas)
        )

    def others_are_ready(self, pod: Pod) -> bool:
        """Whether all replicas of the pod's StatefulSet but itself are there and ready."""
        controller = pod.metadata.controller
        assert controller is not None
        others = [
            other
            for other in self._world.cache(Pod)
            if other.metadata.namespace == pod.metadata.namespace
            and other.metadata.uid != pod.metadata.uid
            and (owner := other.metadata.controller) is not None
            and owner.uid == controller.uid
        ]
        if any(not is_ready(other) or other.metadata.deletion_timestamp for other in others):
            return False
        replicas = self._replicas(pod)
        return replicas is None or len(others) >= replicas - 1

    def wants(self, pod: Pod) -> bool:
        """Whether the StatefulSet will bring a pod of this name back."""
        replicas = self._replicas(pod)
        ordinal = pod.metadata.name.rpartition("-")[2]
        return replicas is None or not ordinal.isdecimal() or int(ordinal) < replicas

    def _replicas(self, pod: Pod) -> int | None:
        controller = pod.metadata.controller
        if controller is None:
            return None
        found = self.cache(StatefulSet).get(controller.name, namespace=pod.metadata.namespace)
        if found is None:
            return 0
        return 1 if found.spec.replicas is None else found.spec.replicas


def _is_settled(pod: Pod) -> bool:
    return is_ready(pod) and pod.metadata.deletion_timestamp is None

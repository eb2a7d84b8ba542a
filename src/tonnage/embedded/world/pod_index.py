"""Pods by the node they are on and by who made them, kept up to date by every change."""

from collections import defaultdict
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from tonnage.clock import Clock
from tonnage.cluster.cache import Cache
from tonnage.cluster.resources import Named
from tonnage.cluster.watch_events import Change, EventType
from tonnage.embedded.world.work_queue import WorkQueue
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import FINISHED, Pod

T = TypeVar("T", bound=Named)

PodKey: TypeAlias = tuple[str, str]
"""Namespace and name."""


_EXPECTED_FOR = 60.0
"""Seconds after which a pod that was made and never seen is taken for gone."""


def is_active(pod: Pod) -> bool:
    """Whether it runs, or is going to."""
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in FINISHED


class PodsOnNodes:
    """The pods of each node, finished ones included."""

    def __init__(self, pods: Cache[Pod]) -> None:
        self._pods = pods
        self._keys: defaultdict[str, set[PodKey]] = defaultdict(set)
        pods.subscribe(self._changed)

    def on(self, node: str) -> list[Pod]:
        """In the order of their names."""
        found = (self._pods.get(name, namespace=space) for space, name in sorted(self._keys[node]))
        return [pod for pod in found if pod is not None]

    def _changed(self, change: Change[Pod]) -> None:
        node, meta = change.object.spec.node_name, change.object.metadata
        if change.type is EventType.DELETED:
            self._keys[node].discard((meta.namespace, meta.name))
        elif node:
            self._keys[node].add((meta.namespace, meta.name))


class OwnedPods:
    """The pods of each controller, those that it has just made and not seen yet among them."""

    def __init__(self, pods: Cache[Pod], clock: Clock) -> None:
        self._clock = clock
        self._by_owner: defaultdict[str, dict[PodKey, Pod]] = defaultdict(dict)
        self._expected: defaultdict[str, dict[PodKey, float]] = defaultdict(dict)
        self._listeners: defaultdict[str, list[Callable[[Pod], None]]] = defaultdict(list)
        pods.subscribe(self._changed)

    def follow(self, kind: str, listener: Callable[[Pod], None]) -> None:
        """Be told of every change of a pod whose controller is of this kind."""
        self._listeners[kind].append(listener)

    def look_on_change(self, kind: str, workloads: Cache[T], queue: WorkQueue[PodKey]) -> None:
        """Have a workload looked at whenever it, or a pod of it, has changed."""

        def workload_changed(change: Change[T]) -> None:
            meta = change.object.metadata
            queue.note((meta.namespace, meta.name))

        def pod_changed(pod: Pod) -> None:
            if pod.metadata.controller is not None:
                queue.note((pod.metadata.namespace, pod.metadata.controller.name))

        workloads.subscribe(workload_changed)
        self.follow(kind, pod_changed)

    def of(self, uid: str) -> list[Pod]:
        return list(self._by_owner[uid].values())

    def has(self, uid: str, pod: Pod) -> bool:
        """Whether the pod is there, as opposed to having been."""
        return (pod.metadata.namespace, pod.metadata.name) in self._by_owner[uid]

    def expect(self, uid: str, pod: ObjectMeta) -> None:
        """A pod was made for this controller."""
        key = (pod.namespace, pod.name)
        if key not in self._by_owner[uid]:
            self._expected[uid][key] = self._clock.monotonic()

    def expected(self, uid: str) -> int:
        """How many pods were made and not seen yet."""
        too_old = self._clock.monotonic() - _EXPECTED_FOR
        return sum(since > too_old for since in self._expected[uid].values())

    def _changed(self, change: Change[Pod]) -> None:
        pod, meta = change.object, change.object.metadata
        owner = meta.controller
        if owner is None:
            return
        key = (meta.namespace, meta.name)
        self._expected[owner.uid].pop(key, None)
        if change.type is EventType.DELETED:
            self._by_owner[owner.uid].pop(key, None)
        else:
            self._by_owner[owner.uid][key] = pod
        for listener in self._listeners[owner.kind]:
            listener(pod)

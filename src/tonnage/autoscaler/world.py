"""The cluster as the watch tells it: caches, a standing snapshot, and whether to believe them."""

import asyncio
import logging
import random
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from tonnage.clock import Clock
from tonnage.cluster.cache import Cache, Obstacle
from tonnage.cluster.client import EVERYTHING, Client, Selection
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.reflector import Pace
from tonnage.cluster.resources import Named
from tonnage.cluster.watching import Change, EventType
from tonnage.filters.features import Features
from tonnage.objects.nodes import Namespace, Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tonnage.objects.workloads import DaemonSet
from tonnage.scaleup import deciding
from tonnage.scaleup.options import Options
from tonnage.snapshot.snapshot import FINISHED

T = TypeVar("T", bound=Named)

_log = logging.getLogger(__name__)

_ESSENTIAL: tuple[type, ...] = (Node, Pod)
"""Without these nothing can be decided."""

_OF_VOLUMES: tuple[type, ...] = (PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode)
"""Without these nothing can be decided for pods with volumes."""

KINDS: tuple[type, ...] = (
    *_ESSENTIAL,
    *_OF_VOLUMES,
    CSIDriver,
    CSIStorageCapacity,
    VolumeAttachment,
    Namespace,
    DaemonSet,
)
UNFINISHED = Selection(fields="status.phase!=Succeeded,status.phase!=Failed")


class Trust(NamedTuple):
    """Whether to act on what is known. `hold` says why not, `problems` what is amiss besides.

    `blind_to_volumes` names the kinds for want of which pods with volumes are left alone.
    """

    hold: str
    problems: tuple[str, ...]
    obstacles: tuple[Obstacle, ...]
    blind_to_volumes: tuple[str, ...]


class World:
    """The snapshot equals what the caches hold, without objects it could not take.

    Such objects are named in `rejected` and change nothing else. `waiting` are the pods the
    scheduler found no node for, by namespace/name, each with the moment we learned of it; a new
    one sets `woken`.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        options: Options,
        features: Features,
        pace: Pace | None = None,
    ) -> None:
        self._clock = clock
        self._options = options
        self._features = features
        self._schedulers: frozenset[str] = frozenset()
        self.mirror = Mirror(client, clock=clock, rng=rng, pace=pace)
        self.snapshot = deciding.empty_snapshot(features)
        self.woken = asyncio.Event()
        self.waiting: dict[str, float] = {}
        self.rejected: dict[tuple[str, str], str] = {}
        self.pods_by_node: dict[str, dict[str, Pod]] = {}
        self._node_of: dict[str, str] = {}
        self._rebuild_wanted = False
        self._caches: dict[type, Cache[Any]] = {}
        for kind in KINDS:
            cache: Cache[Any] = self.mirror.add(kind, UNFINISHED if kind is Pod else EVERYTHING)
            self._caches[kind] = cache
            cache.subscribe(self._take)

    def cache(self, kind: type[T]) -> Cache[T]:
        return self._caches[kind]

    def pod(self, key: str) -> Pod | None:
        namespace, _, name = key.partition("/")
        return self.cache(Pod).get(name, namespace=namespace)

    def configure(
        self, options: Options, features: Features, *, schedulers: Iterable[str] = ()
    ) -> None:
        """Go by other options from here on; the snapshot is built anew only if it depends on it."""
        same = (
            options.expendable_pods_priority_cutoff == self._options.expendable_pods_priority_cutoff
            and features == self._features
        )
        self._options, self._features = options, features
        wanted = frozenset(schedulers)
        if wanted != self._schedulers:
            self._schedulers = wanted
            self.waiting.clear()
            for pod in self.cache(Pod):
                self._note_waiting(pod)
        if not same or self._rebuild_wanted:
            self._rebuild()

    def trust(self, *, csi_aware: bool) -> Trust:
        """Judge the caches, and the objects in them that could not be used."""
        obstacles = [cache.obstacle for cache in self._caches.values() if cache.obstacle]
        blocked = {kind for kind, cache in self._caches.items() if cache.obstacle}
        problems = [_described(one) for one in obstacles]
        holds: list[str] = []
        for kind, cache in self._caches.items():
            if kind in blocked:
                if kind in _ESSENTIAL:
                    holds.append(f"{kind.__name__} objects cannot be read")
            elif not cache.synced:
                holds.append(f"{kind.__name__} objects are not all known yet")
            elif cache.stale:
                holds.append(f"nothing was heard of {kind.__name__} objects for too long")
            for key, problem in cache.problems.items():
                problems.append(f"{kind.__name__} {_shown(key)}: {problem}")
        problems.extend(
            f"{kind} {name}: not counted: {problem}"
            for (kind, name), problem in self.rejected.items()
        )
        blind = [
            kind.__name__
            for kind in _OF_VOLUMES
            if kind in blocked and (csi_aware or kind is not CSINode)
        ]
        return Trust("; ".join(holds), tuple(problems), tuple(obstacles), tuple(blind))

    @property
    def synced(self) -> bool:
        return all(cache.synced or cache.obstacle for cache in self._caches.values())

    def decided_on(self, pods: Iterable[str]) -> list[float]:
        """For each of the pods that still wait, the seconds it has waited for us."""
        now = self._clock.monotonic()
        return [now - self.waiting[key] for key in pods if key in self.waiting]

    def _take(self, change: Change[Any]) -> None:
        """One change of the watch; whatever is wrong with the object, the others go on."""
        obj = change.object
        if isinstance(obj, Pod):
            self._take_pod(change)
        try:
            self._feed(change.type, obj)
        except Exception as error:
            self._reject(obj, error)

    def _feed(self, type_: EventType, obj: Named) -> None:
        if self.rejected:
            self.rejected.pop(_name(obj), None)
        if isinstance(obj, Pod):
            counted = deciding.as_counted(obj, self._options)
            if counted is None or type_ is EventType.DELETED:
                self.snapshot.drop_pod(obj.metadata.namespace, obj.metadata.name)
            else:
                self.snapshot.put_pod(counted)
        else:
            self.snapshot.apply(type_.value, obj)

    def _reject(self, obj: Named, error: Exception) -> None:
        kind, name = _name(obj)
        self.rejected[kind, name] = f"{type(error).__name__}: {error}"
        # Half of the change may have been made, and only a rebuild takes it back for sure.
        self._rebuild_wanted = True
        _log.error("object not counted", extra={"kind": kind, "object": name, "error": str(error)})

    def _rebuild(self) -> None:
        self.snapshot = deciding.empty_snapshot(self._features)
        self._rebuild_wanted = False
        left_out = dict(self.rejected)
        self.rejected = {}
        for cache in self._caches.values():
            for obj in cache:
                if _name(obj) in left_out:
                    self.rejected[_name(obj)] = left_out[_name(obj)]
                    continue
                try:
                    self._feed(EventType.ADDED, obj)
                except Exception as error:
                    self._reject(obj, error)
        _log.info("snapshot built anew", extra={"left_out": len(self.rejected)})

    def _take_pod(self, change: Change[Pod]) -> None:
        pod = change.object
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        node = pod.spec.node_name
        if change.type is EventType.DELETED or pod.status.phase in FINISHED:
            node = ""
            self.waiting.pop(key, None)
        else:
            self._note_waiting(pod)
        before = self._node_of.pop(key, "")
        if before and before != node:
            held = self.pods_by_node[before]
            del held[key]
            if not held:
                del self.pods_by_node[before]
        if node:
            self._node_of[key] = node
            self.pods_by_node.setdefault(node, {})[key] = pod

    def _note_waiting(self, pod: Pod) -> None:
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        scheduler = pod.spec.scheduler_name or "default-scheduler"
        if not is_unschedulable(pod) or (self._schedulers and scheduler not in self._schedulers):
            self.waiting.pop(key, None)
        elif key not in self.waiting:
            self.waiting[key] = self._clock.monotonic()
            self.woken.set()


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
        one.type == "PodScheduled" and one.status == "False" and one.reason == "Unschedulable"
        for one in pod.status.conditions
    )


def _name(obj: Named) -> tuple[str, str]:
    meta = obj.metadata
    return type(obj).__name__, _shown((meta.namespace, meta.name))


def _shown(key: tuple[str, str]) -> str:
    return "/".join(part for part in key if part) or "without a name"


def _described(obstacle: Obstacle) -> str:
    group = f"group {obstacle.group}" if obstacle.group else "the core group"
    if obstacle.forbidden:
        return f"missing right: verb {obstacle.verb}, kind {obstacle.kind}, {group}"
    return f"the API server does not serve {obstacle.kind} of {group}"

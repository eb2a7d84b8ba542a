"""A snapshot that stands: fed by the watch, equal to the caches, and honest about what it lacks.

The autoscaler, the scheduler and the extender all decide on one. It lives with what shells share.
"""

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import msgspec

from tonnage.clock import Clock
from tonnage.cluster.cache import Cache, Obstacle
from tonnage.cluster.client import EVERYTHING, Client, Selection
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.resources import Named, Resource, of
from tonnage.cluster.watch_events import Change, EventType
from tonnage.groups import cluster_state
from tonnage.objects import codec, oddities, pod_changes
from tonnage.objects.nodes import Namespace, Node
from tonnage.objects.pods import Pod
from tonnage.objects.shared_values import SharedPods
from tonnage.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tonnage.objects.validation import describe
from tonnage.rules.features import Features

T = TypeVar("T", bound=Named)

_log = logging.getLogger(__name__)

ESSENTIAL: tuple[type, ...] = (Node, Pod)
"""Without these nothing can be decided."""

OF_VOLUMES: tuple[type, ...] = (PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode)
"""Without these nothing can be decided for pods with volumes."""

OF_SCHEDULING: tuple[type, ...] = (
    *ESSENTIAL,
    *OF_VOLUMES,
    CSIDriver,
    CSIStorageCapacity,
    VolumeAttachment,
    Namespace,
)
"""All that the filters look at."""

UNFINISHED = Selection(fields="status.phase!=Succeeded,status.phase!=Failed")


class Trust(NamedTuple):
    """Whether to act on what is known. `hold` says why not, `problems` what is amiss besides.

    `blind_to_volumes` names the kinds for want of which pods with volumes are left alone.
    """

    hold: str
    problems: tuple[str, ...]
    obstacles: tuple[Obstacle, ...]
    blind_to_volumes: tuple[str, ...]


_NOTHING_AMISS = Trust("", (), (), ())


class LiveCluster:
    """The snapshot equals what the caches hold, without objects it could not take.

    Such objects are named in `rejected` and change nothing else; those that are used though
    something is wrong with them in `odd`. `counted` says how a pod is held in the snapshot, or that
    it is not.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        features: Features,
        counted: Callable[[Pod], Pod | None],
        kinds: tuple[type, ...] = OF_SCHEDULING,
    ) -> None:
        self._features = features
        self._counted = counted
        self.mirror = Mirror(client, clock=clock, rng=rng)
        self.snapshot = cluster_state.empty_snapshot(features)
        self.rejected: dict[tuple[str, str], str] = {}
        self.odd: dict[tuple[str, str], str] = {}
        self._unbound: dict[str, dict[tuple[str, str], None]] = {}
        """The claims that have no volume yet, by the class they name: of classes there are few."""
        self.changes = 0
        """Moves with every change of an object that counts, and when all are counted anew."""
        self._rebuild_wanted = False
        self._deferred: list[Change[Any]] | None = None
        self._caches: dict[type, Cache[Any]] = {}
        for kind in kinds:
            cache: Cache[Any] = (
                self.mirror.add(_sharing_pods(), UNFINISHED)
                if kind is Pod
                else self.mirror.add(kind, EVERYTHING)
            )
            self._caches[kind] = cache
            cache.subscribe(self._take)

    def unsynced(self) -> str:
        """Which kinds are not known yet, for those who ask whether we are ready.

        What may not be read is not waited for.
        """
        missing = [
            one.kind for one in self.mirror.status if not one.synced and one.obstacle is None
        ]
        return f"not synced: {', '.join(missing)}" if missing else ""

    def cache(self, kind: type[T]) -> Cache[T]:
        return self._caches[kind]

    def pod(self, key: str) -> Pod | None:
        """The pod of that namespace/name."""
        namespace, _, name = key.partition("/")
        return self.cache(Pod).get(name, namespace=namespace)

    def node(self, name: str) -> Node | None:
        return self.cache(Node).get(name)

    def is_rejected(self, obj: Named) -> bool:
        """Whether the snapshot could not take the object."""
        return bool(self.rejected) and _name(obj) in self.rejected

    def recount(self, pod: Pod) -> None:
        """Take the pod in once more: it counts in another way now."""
        self._take(Change(EventType.MODIFIED, pod))

    @property
    def synced(self) -> bool:
        return all(cache.synced or cache.obstacle for cache in self._caches.values())

    def trust(self, *, csi_aware: bool = True) -> Trust:
        """Judge the caches, and the objects in them that could not be used."""
        classless = self._classless()
        wrong = self.rejected or self.odd or classless
        if not wrong and all(cache.sound for cache in self._caches.values()):
            return _NOTHING_AMISS
        obstacles = [cache.obstacle for cache in self._caches.values() if cache.obstacle]
        blocked = {kind for kind, cache in self._caches.items() if cache.obstacle}
        problems = [_described(obstacle) for obstacle in obstacles]
        holds: list[str] = []
        for kind, cache in self._caches.items():
            if kind in blocked:
                if kind in ESSENTIAL:
                    holds.append(f"{kind.__name__} objects cannot be read")
            elif not cache.synced:
                holds.append(f"{kind.__name__} objects are not all known yet")
            elif cache.stale:
                holds.append(f"nothing was heard of {kind.__name__} objects for too long")
                if cache.last_error:
                    problems.append(f"{kind.__name__} objects: {cache.last_error}")
            for key, problem in cache.problems.items():
                name = f"{kind.__name__} {_shown(key)}: "
                problems.append(name + problem.removeprefix(name))
        problems.extend(
            f"{kind} {name}: not counted: {problem}"
            for (kind, name), problem in self.rejected.items()
        )
        problems.extend(f"{kind} {name}: {problem}" for (kind, name), problem in self.odd.items())
        problems.extend(classless)
        blind = [
            kind.__name__
            for kind in OF_VOLUMES
            if kind in blocked and (csi_aware or kind is not CSINode)
        ]
        return Trust("; ".join(holds), tuple(problems), tuple(obstacles), tuple(blind))

    def settle(self, features: Features, *, recount: bool = False) -> None:
        """Build the snapshot anew if need be: other features, other pods, or half a change made."""
        before, self._features = self._features, features
        # Who enforces the opt-in is asked when a pod is judged, and may change at any time.
        same = msgspec.structs.replace(before, enforce_opt_in=features.enforce_opt_in) == features
        if recount or self._rebuild_wanted or not same:
            self._rebuild()

    @property
    def still(self) -> bool:
        """Whether somebody has the snapshot for himself now."""
        return self._deferred is not None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Leave the snapshot alone inside the block, for who reads it in another thread.

        What the watch tells meanwhile is taken in afterwards.
        """
        assert self._deferred is None, "somebody else has the snapshot for himself"
        self._deferred = []
        try:
            yield
        finally:
            deferred, self._deferred = self._deferred, None
            for change in deferred:
                self._take(change)

    def _take(self, change: Change[Any]) -> None:
        """One change of the watch; whatever is wrong with the object, the others go on."""
        if self._deferred is not None:
            self._deferred.append(change)
            return
        try:
            if not self._is_as_held(change):
                self.changes += 1
                self._feed(change.type, change.object)
            self._remark(change)
        except Exception as error:
            self._reject(change.object, error)
        self.tidy()

    def _is_as_held(self, change: Change[Any]) -> bool:
        """Whether a pod differs at most in what it was told by a scheduler, which nobody counts.

        Pods that find no node are told why many times.
        """
        pod, before = change.object, change.before
        if not isinstance(pod, Pod) or before is None or change.type is not EventType.MODIFIED:
            return False
        record = self.snapshot.pods.get(pod.metadata.key)
        if (
            record is None
            or record.node_name != pod.spec.node_name
            or record.nominated != pod.status.nominated_node_name
            or not pod_changes.only_told(before, pod)
            or self._counted(pod) is not pod
        ):
            return False
        record.meta = pod.metadata
        return True

    def tidy(self) -> None:
        """Let go what is left of objects that are gone or were only asked about, if it is much."""
        if self.snapshot.cluttered:
            self.snapshot.tidy()

    def _feed(self, type_: EventType, obj: Named) -> None:
        if self.rejected:
            self.rejected.pop(_name(obj), None)
        if isinstance(obj, Pod):
            counted = self._counted(obj)
            if counted is None or type_ is EventType.DELETED:
                self.snapshot.drop_pod(obj.metadata.namespace, obj.metadata.name)
            else:
                self.snapshot.put_pod(counted)
        else:
            self.snapshot.apply(type_.value, obj)

    def _remark(self, change: Change[Any]) -> None:
        """Take note of what is wrong with an object that is used all the same."""
        obj, there = change.object, change.type is not EventType.DELETED
        fault = oddities.first_oddity(obj) if there else None
        if fault is not None:
            field = codec.render(fault.path)
            self.odd[_name(obj)] = f"{field}: expected {fault.expected}, found {fault.found}"
        elif self.odd:
            self.odd.pop(_name(obj), None)
        if isinstance(obj, PersistentVolumeClaim):
            key = (obj.metadata.namespace, obj.metadata.name)
            before = change.before.class_name if change.before is not None else ""
            if key in (unbound := self._unbound.get(before, {})):
                del unbound[key]
                if not unbound:
                    del self._unbound[before]
            if there and obj.class_name and not obj.spec.volume_name:
                self._unbound.setdefault(obj.class_name, {})[key] = None

    def _classless(self) -> list[str]:
        """Claims without a volume that name a class which is not there."""
        classes = self._caches.get(StorageClass)
        if classes is None or not classes.synced:
            return []
        return [
            f"PersistentVolumeClaim {_shown(key)}: spec.storageClassName: expected a StorageClass"
            f" that is there, found {describe(name)}"
            for name, claims in self._unbound.items()
            if classes.get(name) is None and ("", name) not in classes.problems
            for key in claims
        ]

    def _reject(self, obj: Named, error: Exception) -> None:
        kind, name = _name(obj)
        self.rejected[kind, name] = f"{type(error).__name__}: {error}"
        # Half of the change may have been made, and only a rebuild takes it back for sure.
        self._rebuild_wanted = True
        _log.error("object not counted", extra={"kind": kind, "object": name, "error": str(error)})

    def _rebuild(self) -> None:
        self.snapshot = cluster_state.empty_snapshot(self._features)
        self.changes += 1
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


def _sharing_pods() -> Resource[Pod]:
    """Pods whose equal parts are kept once; half the memory, in a large cluster."""
    plain, sharing = of(Pod), SharedPods()

    def decode(data: bytes | msgspec.Raw) -> Pod:
        pod = plain.decode(data)
        # Whoever remembers pods for everybody in the process has done it already.
        return pod if codec.remembers() else sharing.of(pod)

    return plain.decoded_by(decode)


def _name(obj: Named) -> tuple[str, str]:
    meta = obj.metadata
    return type(obj).__name__, _shown((meta.namespace, meta.name))


def _shown(key: tuple[str, str]) -> str:
    return "/".join(part for part in key if part) or "without a name"


def _described(obstacle: Obstacle) -> str:
    if obstacle.forbidden:
        return obstacle.right
    group = f"group {obstacle.group}" if obstacle.group else "the core group"
    return f"the API server does not serve {obstacle.kind} of {group}"

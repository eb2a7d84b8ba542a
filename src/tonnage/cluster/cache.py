"""What the server last said about one kind, and whether that may still be believed."""

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Generic, TypeAlias

import msgspec

from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.resources import Resource, T
from tonnage.cluster.watch_events import Change, EventType, Unreadable

Key: TypeAlias = tuple[str, str]
"""Namespace, empty for kinds without, and name."""

# Up to Python 3.11 it takes a call to get at a member of an enumeration.
_ADDED, _MODIFIED, _DELETED = EventType.ADDED, EventType.MODIFIED, EventType.DELETED


_LONGEST_VERSION = 20
"""Digits of 64 bits."""


def version_number(resource_version: str) -> int | None:
    """A version as a number: within a kind, later ones are larger. `None` if it is not one."""
    plain = resource_version.isdecimal() and len(resource_version) <= _LONGEST_VERSION
    return int(resource_version) if plain else None


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """Why a kind cannot be read at all: a right is missing, or the server lacks the kind."""

    verb: str
    kind: str
    group: str
    forbidden: bool
    message: str

    @property
    def right(self) -> str:
        """What is missing, if it is a right."""
        return errors.missing_right(self.verb, self.kind, self.group)


class CacheStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A cache in figures, for status pages, metrics and logs."""

    kind: str
    group: str
    objects: int
    problems: int
    synced: bool
    stale: bool
    age: float
    relists: int
    corrections: int
    """Lists that were asked for because what was known turned out to be wrong."""
    failures: int
    """Attempts in a row that failed."""
    last_error: str
    obstacle: Obstacle | None


class Cache(Generic[T]):
    """One kind's objects; subscribers saw exactly the changes that lead to what is in here.

    Only its reflector writes to it. An object that cannot be decoded is listed in `problems`;
    if an earlier version of it could be, that one stays: what occupies a node should not vanish
    because we cannot read it.
    """

    def __init__(self, resource: Resource[T], *, clock: Clock, stale_after: float) -> None:
        self.resource = resource
        self.resource_version = ""
        self.obstacle: Obstacle | None = None
        self.failures = 0
        self.last_error = ""
        self.corrections = 0
        self._clock = clock
        self._stale_after = stale_after
        self._objects: dict[Key, T] = {}
        self._problems: dict[Key, str] = {}
        self._subscribers: list[Callable[[Change[T]], None]] = []
        self._synced = asyncio.Event()
        self._heard_at = -math.inf
        self._lists = 0
        self._reached: int | None = None
        self._removed: set[Key] | None = None
        self.doubtful = False
        """An event came after one that it should have come before: something may be wrong here."""

    @property
    def synced(self) -> bool:
        """Whether everything was seen at least once."""
        return self._synced.is_set()

    @property
    def age(self) -> float:
        """Seconds since the server last said anything about this kind, if only a bookmark."""
        return self._clock.monotonic() - self._heard_at

    @property
    def stale(self) -> bool:
        """Not to be acted on: never complete, or silent for too long."""
        return not self.synced or self.age > self._stale_after

    @property
    def sound(self) -> bool:
        """Nothing is amiss: it may be acted on, and all of it could be read."""
        return self.obstacle is None and not self._problems and not self.stale

    @property
    def objects(self) -> Mapping[Key, T]:
        return MappingProxyType(self._objects)

    @property
    def problems(self) -> Mapping[Key, str]:
        """Objects that could not be decoded, or not all of them, and what is wrong with each."""
        return MappingProxyType(self._problems)

    @property
    def status(self) -> CacheStatus:
        return CacheStatus(
            kind=self.resource.kind,
            group=self.resource.group,
            objects=len(self._objects),
            problems=len(self._problems),
            synced=self.synced,
            stale=self.stale,
            age=self.age,
            relists=max(self._lists - 1, 0),
            corrections=self.corrections,
            failures=self.failures,
            last_error=self.last_error,
            obstacle=self.obstacle,
        )

    def get(self, name: str, *, namespace: str = "") -> T | None:
        return self._objects.get((namespace, name))

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def subscribe(self, subscriber: Callable[[Change[T]], None]) -> Callable[[], None]:
        """Tell `subscriber` all that is there, then every change in order; returns the way out.

        It is called from within the watch, so it must be quick and must not fail.
        """
        for obj in self._objects.values():
            subscriber(Change(EventType.ADDED, obj))
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def heard(self) -> None:
        """The server said something."""
        self._heard_at = self._clock.monotonic()

    def reach(self, resource_version: str) -> None:
        """Everything up to a version is in; a watch never goes back."""
        self._reach(resource_version, version_number(resource_version))

    @contextmanager
    def noting_removals(self) -> Iterator[Collection[Key]]:
        """What goes inside the block."""
        self._removed = set()
        try:
            yield self._removed
        finally:
            self._removed = None

    def apply(self, event: Change[T] | Unreadable) -> None:
        """Take in one event of a watch.

        One that comes too late casts doubt, and counts only if it is news of an object we hold:
        better to miss one until the next list than to believe in one that is gone.
        """
        if isinstance(event, Unreadable):
            self._apply_unreadable(event)
            self.reach(event.resource_version)
            return
        meta = event.object.metadata
        key = (meta.namespace, meta.name)
        number = version_number(meta.resource_version)
        if number is not None and self._reached is not None and number < self._reached:
            self.doubtful = True
            held = self._objects.get(key)
            if held is None or (version_number(held.metadata.resource_version) or 0) > number:
                return
        self._problems.pop(key, None)
        if event.type is _DELETED:
            self._remove(key, event.object)
        else:
            self._put(key, event.object)
            if event.remark:
                self._problems[key] = event.remark
        self._reach(meta.resource_version, number)

    def replace(
        self,
        objects: Iterable[T],
        unreadable: Iterable[Unreadable],
        *,
        resource_version: str,
        remarks: Mapping[Key, str] = MappingProxyType({}),
    ) -> None:
        """Take in a complete list; what is missing from it was deleted while we were not told."""
        new = {(obj.metadata.namespace, obj.metadata.name): obj for obj in objects}
        self._problems = {(bad.namespace, bad.name): bad.problem for bad in unreadable}
        self._problems |= remarks
        for key in [key for key in self._objects if key not in new and key not in self._problems]:
            self._remove(key, self._objects[key])
        for key, obj in new.items():
            self._put(key, obj)
        self.resource_version = resource_version
        self._reached = version_number(resource_version)
        self.doubtful = False
        self._lists += 1
        self.heard()
        self._synced.set()

    def _reach(self, resource_version: str, number: int | None) -> None:
        if resource_version and (number is None or number >= (self._reached or 0)):
            self.resource_version = resource_version
            self._reached = number

    def _apply_unreadable(self, event: Unreadable) -> None:
        key = (event.namespace, event.name)
        if event.type is not EventType.DELETED:
            self._problems[key] = event.problem
            return
        self._problems.pop(key, None)
        if key in self._objects:
            self._remove(key, self._objects[key])

    def _put(self, key: Key, obj: T) -> None:
        old = self._objects.get(key)
        if old is not None and old.metadata.uid != obj.metadata.uid:
            # Deleted and made anew under the same name while we were not told.
            self._remove(key, old)
            old = None
        if old is None:
            self._objects[key] = obj
            self._tell(Change(_ADDED, obj))
        elif old.metadata.resource_version != obj.metadata.resource_version:
            self._objects[key] = obj
            self._tell(Change(_MODIFIED, obj, before=old))

    def _remove(self, key: Key, last: T) -> None:
        if self._objects.pop(key, None) is not None:
            if self._removed is not None:
                self._removed.add(key)
            self._tell(Change(_DELETED, last, before=last))

    def _tell(self, change: Change[T]) -> None:
        for subscriber in self._subscribers:
            subscriber(change)

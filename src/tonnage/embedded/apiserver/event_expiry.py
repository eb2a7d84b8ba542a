"""Events are news, not state: a while after they were last written they are gone."""

from collections import deque
from typing import NamedTuple

from tonnage.clock import Clock
from tonnage.embedded.apiserver.store import Collection, ObjectStore, Occurrence

EVENT_TTL = 3600.0
"""Seconds, as a kube-apiserver keeps them."""


class _Due(NamedTuple):
    """When an event goes, unless it is of another version by then."""

    at: float
    namespace: str
    name: str
    version: int


class EventExpiry:
    """Removes events whose time is over, whenever somebody asks the server for anything."""

    def __init__(self, store: ObjectStore, clock: Clock, *, after: float) -> None:
        self._store = store
        self._clock = clock
        self._after = after
        self._events = store.built_in("events")
        self._due: deque[_Due] = deque()
        store.observers.append(self._observe)

    def adopt(self) -> None:
        """Nobody knows how old those are that an earlier run kept: as good as new."""
        for obj in self._events.within():
            self._due.append(self._deadline(obj.namespace, obj.name, obj.version))

    def remove_expired(self) -> None:
        now = self._clock.monotonic()
        while self._due and self._due[0].at <= now:
            due = self._due.popleft()
            obj = self._events.get(due.namespace, due.name)
            if obj is not None and obj.version == due.version:
                self._store.remove(self._events, obj)

    def _observe(self, collection: Collection, occurrence: Occurrence) -> None:
        if collection is self._events and occurrence.after is not None:
            obj = occurrence.after
            self._due.append(self._deadline(obj.namespace, obj.name, obj.version))

    def _deadline(self, namespace: str, name: str, version: int) -> _Due:
        return _Due(self._clock.monotonic() + self._after, namespace, name, version)

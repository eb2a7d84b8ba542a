"""Telling users what happened, as Events on the objects it happened to.

Saying is never waiting: `record` returns at once, a task of its own does the writing, and what
cannot be written is counted, not retried for ever. The same thing said again raises the count of
the event that is there; too much about one object for one reason is held back.
"""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.cluster.records import Event, EventSource, InvolvedObject
from tonnage.cluster.resources import Named, of
from tonnage.errors import ClusterError
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.timestamps import rfc3339

_log = logging.getLogger(__name__)

_MESSAGE_LIMIT = 1024
_NAME_LIMIT = 253


class Severity(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


class Drop(StrEnum):
    """Why an event was not written."""

    RATE = "rate"
    QUEUE = "queue"
    REFUSED = "refused"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much is said about one object for one reason, and how much is remembered."""

    burst: int = 25
    seconds_per_event: float = 300.0
    seconds_per_summary: float = 10.0
    """The same for a ConfigMap, which stands for many things that are no objects themselves."""
    queue: int = 1000
    remembered: int = 4096


class Recorder:
    """Writes each distinct statement about an object once, and then only its count.

    `dropped` says how many writes were held back, by reason; a statement held back is still
    counted, so the next write of it tells the whole number. `refused` is the right that was missing
    at the last write, if one was.
    """

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        instance: str,
        clock: Clock,
        new_id: Callable[[], str],
        limits: Limits | None = None,
    ) -> None:
        self._client = client
        self._component = component
        self._instance = instance
        self._clock = clock
        self._new_id = new_id
        self._limits = limits or Limits()
        self._series = _Recent[_Statement, _Series](self._limits.remembered)
        self._buckets = _Recent[tuple[InvolvedObject, str], _Bucket](self._limits.remembered)
        self._waiting: OrderedDict[_Statement, None] = OrderedDict()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.dropped: Counter[Drop] = Counter()
        self.refused: errors.Forbidden | None = None

    def record(
        self,
        about: Named | InvolvedObject,
        *,
        reason: str,
        message: str,
        severity: Severity = Severity.NORMAL,
    ) -> None:
        """Say something about an object. `reason` is one CamelCase word, the message for people."""
        reference = about if isinstance(about, InvolvedObject) else reference_to(about)
        statement = _Statement(
            # The same object in another version is still the same object.
            about=msgspec.structs.replace(reference, resource_version=""),
            severity=severity,
            reason=reason,
            message=_shortened(message, _MESSAGE_LIMIT),
        )
        now = rfc3339(self._clock.now())
        series = self._series.get(statement, lambda: _Series(now))
        series.count += 1
        series.last = now
        if statement in self._waiting:
            return
        if len(self._waiting) >= self._limits.queue:
            self.dropped[Drop.QUEUE] += 1
        elif not self._bucket(statement).take(self._clock.monotonic()):
            self.dropped[Drop.RATE] += 1
        else:
            self._waiting[statement] = None
            self._idle.clear()
            self._wake.set()

    async def run(self) -> None:
        """Write what is recorded until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                statement, _ = self._waiting.popitem(last=False)
                await self._write(statement)
            self._idle.set()

    async def flush(self) -> None:
        """Wait until everything recorded so far is written or dropped; `run` must be running."""
        await self._idle.wait()

    async def _write(self, statement: "_Statement") -> None:
        now = rfc3339(self._clock.now())
        series = self._series.get(statement, lambda: _Series(now))
        try:
            if not series.name or not await self._raise_count(statement, series):
                await self._create(statement, series)
            self.refused = None
        except ClusterError as error:
            self.dropped[Drop.REFUSED] += 1
            if isinstance(error, errors.Forbidden) and error.by_rights:
                self.refused = error
            _log.warning(
                "event not written", extra={"reason": statement.reason, "error": str(error)}
            )

    async def _raise_count(self, statement: "_Statement", series: "_Series") -> bool:
        """False if the server has forgotten the event, as it does after an hour."""
        change = {"count": max(series.count, 1), "lastTimestamp": series.last}
        try:
            await self._client.patch(
                Event, series.name, change, namespace=statement.about.namespace or "default"
            )
        except errors.NotFound:
            return False
        return True

    async def _create(self, statement: "_Statement", series: "_Series") -> None:
        suffix = f".{self._new_id()}"
        stem = statement.about.name[: _NAME_LIMIT - len(suffix)].rstrip("-.")
        name = stem + suffix
        event = Event(
            metadata=ObjectMeta(name=name, namespace=statement.about.namespace or "default"),
            involved_object=statement.about,
            type=statement.severity.value,
            reason=statement.reason,
            message=statement.message,
            source=EventSource(component=self._component),
            count=max(series.count, 1),
            first_timestamp=series.first,
            last_timestamp=series.last,
            reporting_component=self._component,
            reporting_instance=self._instance,
        )
        await self._client.create(Event, event)
        series.name = name

    def _bucket(self, statement: "_Statement") -> "_Bucket":
        limits, about = self._limits, statement.about
        is_summary = about.kind == "ConfigMap"
        seconds = limits.seconds_per_summary if is_summary else limits.seconds_per_event
        now = self._clock.monotonic()
        return self._buckets.get(
            (about, statement.reason), lambda: _Bucket(limits.burst, seconds, now)
        )


def reference_to(obj: Named) -> InvolvedObject:
    """How an event names the object it is about."""
    resource = of(type(obj))
    meta = obj.metadata
    return InvolvedObject(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


class _Statement(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """What makes two events the same."""

    about: InvolvedObject
    severity: Severity
    reason: str
    message: str


class _Series:
    """How often a statement was made, and the event that says so."""

    def __init__(self, now: str) -> None:
        self.name = ""
        self.count = 0
        self.first = now
        self.last = now


class _Bucket:
    """A token bucket."""

    def __init__(self, size: int, seconds_per_token: float, now: float) -> None:
        self._size = float(size)
        self._seconds_per_token = seconds_per_token
        self._tokens = self._size
        self._filled_at = now

    def take(self, now: float) -> bool:
        gained = (now - self._filled_at) / self._seconds_per_token
        self._tokens = min(self._tokens + gained, self._size)
        self._filled_at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


K = TypeVar("K")
V = TypeVar("V")


class _Recent(Generic[K, V]):
    """A dictionary that forgets what was not asked for longest."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, make: Callable[[], V]) -> V:
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
            return found
        if len(self._entries) >= self._size:
            self._entries.popitem(last=False)
        value = self._entries[key] = make()
        return value


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."

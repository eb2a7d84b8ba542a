"""Keeping a cache like the server: list, watch, and what to do when either fails.

(start) -> sync      a streaming list where the server has them, pages where not
sync    -> follow    the watch from the version of the list, resumed at the last seen one
follow  -> follow    the server ends the watch, the connection is cut, the server is silent
follow  -> sync      the version is forgotten (410), resuming keeps failing, or a watch was silent
                     from its beginning: some servers send no bookmarks, and then only a list tells
                     a kind that is quiet from one we are not told of
follow  -> sync      an event came too late, or a check has found the cache wrong
any     -> blocked   a right or the kind is missing; tried again, slowly if it stays so, from where
                     we were
"""

import logging
import random
from collections.abc import Collection, Iterable, Mapping
from contextlib import aclosing
from typing import Generic

import msgspec

from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.backoff import Backoff
from tonnage.cluster.cache import Cache, Key, Obstacle, version_number
from tonnage.cluster.calls import pause_asked_for
from tonnage.cluster.client import EVERYTHING, Client, Selection
from tonnage.cluster.resources import T
from tonnage.cluster.watch_events import Bookmark, Change, EventType, Unreadable
from tonnage.errors import ClusterError

_STREAM_ATTEMPTS = 2
"""Streaming lists that may fail in a row before pages are used instead."""
_RESUME_ATTEMPTS = 5
"""Resumed watches that the server may answer with nonsense before everything is listed anew."""

_CATCHING_UP = 5.0
"""Seconds between two looks at whether the watch has reached a version."""

_PASSING_REFUSALS = 4
"""Refusals in a row that may be those of a server that has started and not read its roles yet."""

_log = logging.getLogger(__name__)


class ReflectorPace(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds between attempts, and how much silence is too much.

    Servers send a bookmark about every minute, so silence beyond that is a sign.
    """

    first_wait: float = 0.5
    longest_wait: float = 30.0
    blocked_wait: float = 60.0
    inactivity: float = 90.0
    initial_silence: float = 30.0
    """Within a streaming list: a server that does not know them never says that it is complete."""
    longest_pause: float = 60.0
    """A server that asks to be left alone for longer is asked again after this: whoever is blind
    for hours because of one answer is no use."""
    between_corrections: float = 60.0
    """At least so long from one list to the next that is made for doubt: servers that are wrong
    all the time are not asked for everything all the time."""


class Reflector(Generic[T]):
    """Makes one cache follow the server; the only one that writes to it."""

    def __init__(
        self,
        client: Client,
        cache: Cache[T],
        *,
        clock: Clock,
        rng: random.Random,
        selection: Selection = EVERYTHING,
        pace: ReflectorPace | None = None,
    ) -> None:
        self._client = client
        self._cache = cache
        self._clock = clock
        self._rng = rng
        self._selection = selection
        self._pace = pace or ReflectorPace()
        self._backoff = Backoff(rng, first=self._pace.first_wait, most=self._pace.longest_wait)
        self._must_sync = True
        self._streams_left = _STREAM_ATTEMPTS
        self._following_since = 0.0
        self._open = False
        self._told = False
        self._wrong = False
        self._synced_at = 0.0

    async def run(self) -> None:
        """Follow the server until cancelled."""
        while True:
            try:
                if self._must_sync:
                    await self._sync()
                await self._follow()
                wait = self._ended()
            except errors.Gone as error:
                self._must_sync = True
                wait = self._failed(error)
            except errors.Forbidden as error:
                wait = self._blocked(error, verb=error.verb, forbidden=True)
            except errors.NotFound as error:
                wait = self._blocked(error, verb="list", forbidden=False)
            except ClusterError as error:
                wait = self._failed(error)
            await self._clock.sleep(wait)

    async def _sync(self) -> None:
        if self._streams_left:
            try:
                await self._stream()
                return
            except errors.Invalid:
                self._streams_left = 0
            except (errors.ConnectionFailed, errors.ServerError, errors.Gone):
                self._streams_left -= 1
                raise
        listing = await self._client.list(self._cache.resource, self._selection)
        self._synced(
            listing.items,
            listing.unreadable,
            version=listing.resource_version,
            remarks=listing.remarks,
        )

    async def _stream(self) -> None:
        """A list that comes as events and ends with a bookmark that says so."""
        good: dict[Key, T] = {}
        bad: dict[Key, Unreadable] = {}
        remarks: dict[Key, str] = {}
        watch = self._client.watch(
            self._cache.resource,
            self._selection,
            resource_version="",
            initial_events=True,
            inactivity=self._pace.initial_silence,
        )
        async with aclosing(watch) as events:
            async for event in events:
                match event:
                    case Bookmark() if event.initial_events_end:
                        self._streams_left = _STREAM_ATTEMPTS
                        self._synced(
                            good.values(),
                            bad.values(),
                            version=event.resource_version,
                            remarks=remarks,
                        )
                        return
                    case Change():
                        meta = event.object.metadata
                        key = (meta.namespace, meta.name)
                        bad.pop(key, None)
                        remarks.pop(key, None)
                        good[key] = event.object
                        if event.type is EventType.DELETED:
                            del good[key]
                        elif event.remark:
                            remarks[key] = event.remark
                    case Unreadable():
                        key = (event.namespace, event.name)
                        good.pop(key, None)
                        remarks.pop(key, None)
                        bad[key] = event
                        if event.type is EventType.DELETED:
                            del bad[key]
        raise errors.ConnectionFailed(
            f"streaming list of {self._cache.resource.full_name}: ended before it was complete"
        )

    async def _follow(self) -> None:
        self._following_since = self._clock.monotonic()
        self._open = self._told = False
        watch = self._client.watch(
            self._cache.resource,
            self._selection,
            resource_version=self._cache.resource_version,
            inactivity=self._pace.inactivity,
            opened=self._allowed,
        )
        async with aclosing(watch) as events:
            async for event in events:
                self._told = True
                self._cache.heard()
                self._recovered()
                if isinstance(event, Bookmark):
                    self._cache.reach(event.resource_version)
                else:
                    self._cache.apply(event)
                if self._doubts():
                    return

    async def check(self) -> None:
        """Compare the cache with what the server has by versions; if it is wrong, list anew.

        Nothing is concluded while the cache does not know yet what the list knows.
        """
        cache = self._cache
        if not cache.synced or cache.obstacle is not None or self._must_sync:
            return
        with cache.noting_removals() as removed:
            listed, version = await self._client.versions(cache.resource, self._selection)
            at = version_number(version)
            if at is None or not await self._catches_up(at):
                return
            wrong = differing(cache, listed, at=at, removed=removed)
        if wrong:
            self._wrong = True
            _log.warning(
                "cache differs from the server",
                extra={
                    "kind": cache.resource.kind,
                    "objects": len(wrong),
                    "first": "/".join(part for part in wrong[0] if part),
                },
            )

    async def _catches_up(self, version: int) -> bool:
        """Wait for the watch to reach a version, which a bookmark tells if nothing else does."""
        deadline = self._clock.monotonic() + 2 * self._pace.inactivity
        while (version_number(self._cache.resource_version) or 0) < version:
            if self._clock.monotonic() > deadline:
                return False
            await self._clock.sleep(_CATCHING_UP)
        return True

    def _doubts(self) -> bool:
        """Whether all is to be listed anew because what is known may be wrong."""
        if not (self._wrong or self._cache.doubtful):
            return False
        if self._clock.monotonic() - self._synced_at < self._pace.between_corrections:
            return False
        self._must_sync = True
        self._cache.corrections += 1
        _log.warning("listing anew", extra={"kind": self._cache.resource.kind})
        return True

    def _synced(
        self,
        objects: Iterable[T],
        unreadable: Iterable[Unreadable],
        *,
        version: str,
        remarks: Mapping[Key, str],
    ) -> None:
        self._cache.replace(objects, unreadable, resource_version=version, remarks=remarks)
        self._cache.obstacle = None
        self._must_sync = self._wrong = False
        self._synced_at = self._clock.monotonic()
        _log.info(
            "kind synced", extra={"kind": self._cache.resource.kind, "objects": len(self._cache)}
        )

    def _allowed(self) -> None:
        """The server lets us watch; a quiet kind may have nothing to tell for long after that."""
        self._open = True
        if self._cache.obstacle is not None:
            self._cache.obstacle = None
            _log.info("kind can be read", extra={"kind": self._cache.resource.kind})

    def _recovered(self) -> None:
        """The watch works; whatever went wrong before is over."""
        if self._backoff.failures:
            self._backoff.reset()
            self._cache.failures = 0
            self._cache.last_error = ""
            _log.info("watch recovered", extra={"kind": self._cache.resource.kind})

    def _ended(self) -> float:
        """The server ended the watch, as it does every few minutes; at once is a failure too."""
        lasted = self._clock.monotonic() - self._following_since
        if self._told or lasted >= self._pace.longest_wait:
            self._recovered()
            return 0.0
        return self._backoff.next()

    def _failed(self, error: ClusterError) -> float:
        wait = max(self._backoff.next(), min(pause_asked_for(error), self._pace.longest_pause))
        self._cache.failures = self._backoff.failures
        self._cache.last_error = str(error)
        if isinstance(error, errors.ServerError) and self._backoff.failures >= _RESUME_ATTEMPTS:
            self._must_sync = True
        if self._was_silent():
            self._must_sync = True
        _log.warning(
            "watch failed",
            extra={"kind": self._cache.resource.kind, "error": str(error), "retry_in": wait},
        )
        return wait

    def _was_silent(self) -> bool:
        """Whether the watch that has failed was open for long and told nothing, not a bookmark."""
        lasted = self._clock.monotonic() - self._following_since
        return self._open and not self._told and lasted > self._pace.inactivity / 2

    def _blocked(self, error: errors.ApiError, *, verb: str, forbidden: bool) -> float:
        resource = self._cache.resource
        obstacle = Obstacle(
            verb=verb,
            kind=resource.kind,
            group=resource.group,
            forbidden=forbidden,
            message=str(error),
        )
        if obstacle != self._cache.obstacle:
            self._cache.obstacle = obstacle
            _log.error(
                "kind cannot be read",
                extra={"verb": verb, "kind": resource.kind, "group": resource.group},
            )
        self._cache.failures += 1
        self._cache.last_error = str(error)
        wait = self._backoff.next()
        if self._backoff.failures <= _PASSING_REFUSALS:
            return wait
        return self._pace.blocked_wait * self._rng.uniform(0.8, 1.2)


def differing(
    cache: Cache[T], listed: Mapping[Key, str], *, at: int, removed: Collection[Key]
) -> list[Key]:
    """The objects that the cache has otherwise than a list of versions `at` one.

    For a cache that knows everything up to `at`: what differs has changed since then, was `removed`
    since, could not be read, or is wrong.
    """
    unread = cache.problems
    wrong = []
    for key, version in listed.items():
        held = cache.objects.get(key)
        if held is None:
            if key not in removed and key not in unread:
                wrong.append(key)
            continue
        told = held.metadata.resource_version
        if told != version and _no_later(told, at) and key not in unread:
            wrong.append(key)
    for key, held in cache.objects.items():
        if key not in listed and _no_later(held.metadata.resource_version, at):
            wrong.append(key)
    return wrong


def _no_later(resource_version: str, at: int) -> bool:
    number = version_number(resource_version)
    return number is not None and number <= at

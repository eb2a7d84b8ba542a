"""The part of a cluster we look at: one cache per kind, all kept by one task group."""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any

from tonnage.clock import Clock
from tonnage.cluster.cache import Cache, CacheStatus
from tonnage.cluster.client import EVERYTHING, Client, Selection
from tonnage.cluster.reflector import Reflector, ReflectorPace
from tonnage.cluster.resources import Resource, T, of
from tonnage.errors import ClusterError

STALE_AFTER = 180.0
"""Two bookmarks missed, and the time to connect again."""


_LOOK_AGAIN = 3600.0
"""Seconds after which somebody who wants no checks is asked again."""

_log = logging.getLogger(__name__)


class Mirror:
    """Caches that follow the server side by side; a kind in trouble leaves the others alone."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        pace: ReflectorPace | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._pace = pace
        self.check_interval: Callable[[], float] = float
        """Seconds between two checks of all caches against the server; none by default."""
        self._caches: list[Cache[Any]] = []
        self._reflectors: list[Reflector[Any]] = []

    def add(self, kind: type[T] | Resource[T], selection: Selection = EVERYTHING) -> Cache[T]:
        """Follow one more kind; before `run`."""
        cache = Cache(of(kind), clock=self._clock, stale_after=STALE_AFTER)
        reflector = Reflector(
            self._client,
            cache,
            clock=self._clock,
            rng=self._rng,
            selection=selection,
            pace=self._pace,
        )
        self._caches.append(cache)
        self._reflectors.append(reflector)
        return cache

    @property
    def status(self) -> tuple[CacheStatus, ...]:
        return tuple(cache.status for cache in self._caches)

    async def run(self) -> None:
        """Follow all kinds until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())
            group.create_task(self._check())

    async def _check(self) -> None:
        """Now and then compare what is known with what is there, one kind after the other."""
        while True:
            interval = self.check_interval()
            await self._clock.sleep(interval or _LOOK_AGAIN)
            for reflector in self._reflectors if interval else ():
                try:
                    await reflector.check()
                except ClusterError as error:
                    _log.warning("cache not checked", extra={"error": str(error)})

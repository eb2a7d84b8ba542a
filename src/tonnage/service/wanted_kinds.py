"""Kinds that few clusters have: watched from the moment that somebody wants to know of them.

Who never asks needs no rights to them, and a server that does not serve them is no problem.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

from tonnage.clock import Clock
from tonnage.cluster.cache import Cache
from tonnage.cluster.client import Client
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.resources import Named

T = TypeVar("T", bound=Named)


class WantedKinds:
    """Every cache that was asked for follows the server for as long as this is entered."""

    def __init__(self, client: Client, *, clock: Clock, changed: Callable[[], None]) -> None:
        self._client = client
        self._clock = clock
        self._changed = changed
        self._caches: dict[type, Cache[Any]] = {}
        self._watches: list[asyncio.Task[None]] = []

    def cache(self, kind: type[T]) -> Cache[T]:
        """The cache of a kind; the first time that it is asked for its watch begins."""
        known = self._caches.get(kind)
        if known is None:
            mirror = Mirror(self._client, clock=self._clock, rng=random.Random(0))
            known = self._caches[kind] = mirror.add(kind)
            known.subscribe(lambda _: self._changed())
            self._watches.append(asyncio.ensure_future(mirror.run()))
        return known

    def objects(self) -> Iterator[Any]:
        """All that is known of kinds that were asked for."""
        for cache in self._caches.values():
            yield from cache

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        watches, self._watches, self._caches = self._watches, [], {}
        for task in watches:
            task.cancel()
        await asyncio.gather(*watches, return_exceptions=True)

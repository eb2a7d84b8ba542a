"""Mirrors of a played API server, and what their caches tell."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.cluster.apiserver import ApiServer
from tonnage.cluster.cache import Cache
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.watch_events import EventType
from tonnage.objects.pods import Pod
from tonnage.testing.clock import VirtualClock

ALL_PODS = "/api/v1/pods"
PODS = "/api/v1/namespaces/default/pods"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"

Seen = list[tuple[EventType, str]]


def a_mirror(server: ApiServer, clock: VirtualClock) -> Mirror:
    return Mirror(server.client(clock), clock=clock, rng=random.Random(3))


@asynccontextmanager
async def running(mirror: Mirror) -> AsyncIterator[None]:
    task = asyncio.ensure_future(mirror.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def pods_of(server: ApiServer, clock: VirtualClock) -> AsyncIterator[Cache[Pod]]:
    """A synced cache of pods that follows the server."""
    mirror = a_mirror(server, clock)
    cache = mirror.add(Pod)
    async with running(mirror):
        await cache.wait_synced()
        await server.watching()
        yield cache


def names(cache: Cache[Pod]) -> list[str]:
    return sorted(each.metadata.name for each in cache)


def subscribed(cache: Cache[Pod]) -> Seen:
    """Everything the cache tells from here on."""
    seen: Seen = []
    cache.subscribe(lambda change: seen.append((change.type, change.object.metadata.name)))
    seen.clear()
    return seen

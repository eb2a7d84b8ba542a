"""Watching, and caches that live on it."""

import asyncio
import random
from contextlib import aclosing, suppress

from tests.contracts.cluster.context import (
    Contract,
    ContractContext,
    refused,
    staged,
)
from tonnage.cluster import errors
from tonnage.cluster.client import Selection
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.records import ConfigMap
from tonnage.cluster.watch_events import Bookmark, Change, EventType

ADDED, MODIFIED, DELETED = EventType.ADDED, EventType.MODIFIED, EventType.DELETED


class WatchContract(Contract):
    @staged
    async def test_a_watch_tells_what_happened_after_a_list(self, context: ContractContext) -> None:
        chosen = Selection(namespace=context.namespace, fields="metadata.name=watched")
        listing = await context.client.list(ConfigMap, chosen)
        await context.config_map("watched", data={"a": "1"})
        await context.patch("watched", {"data": {"a": "2"}})
        await context.config_map("another")
        await context.delete("watched")
        seen = await _changes(context, chosen, listing.resource_version, count=3)
        assert [(one.type, one.object.data) for one in seen] == [
            (ADDED, {"a": "1"}),
            (MODIFIED, {"a": "2"}),
            (DELETED, {"a": "2"}),
        ]

    @staged
    async def test_versions_grow_in_a_watch_and_deletions_have_one_too(
        self, context: ContractContext
    ) -> None:
        made = await context.config_map("watched")
        await context.patch("watched", {"data": {"a": "2"}})
        await context.delete("watched")
        seen = await _changes(context, context.here, made.metadata.resource_version, count=2)
        versions = [int(one.object.metadata.resource_version) for one in seen]
        assert int(made.metadata.resource_version) < versions[0] < versions[1]

    @staged
    async def test_to_a_selection_an_object_comes_and_goes_with_its_labels(
        self, context: ContractContext
    ) -> None:
        chosen = Selection(namespace=context.namespace, labels="in=yes")
        before = await context.client.list(ConfigMap, chosen)
        await context.config_map("moving", labels={"in": "no"})
        for value in ("yes", "no"):
            await context.patch("moving", {"metadata": {"labels": {"in": value}}})
        seen = await _changes(context, chosen, before.resource_version, count=2)
        assert [(one.type, one.object.metadata.labels["in"]) for one in seen] == [
            (ADDED, "yes"),
            (DELETED, "yes"),
        ]

    @staged
    async def test_a_streaming_list_has_everything_and_says_when_that_was_all(
        self, context: ContractContext
    ) -> None:
        for name in ("a", "b"):
            await context.config_map(name, labels={"listed": "yes"})
        chosen = Selection(namespace=context.namespace, labels="listed=yes")
        seen: list[str] = []
        watch = context.client.watch(ConfigMap, chosen, resource_version="", initial_events=True)
        async with context.clock.timeout(150.0), aclosing(watch) as events:
            async for event in events:
                if isinstance(event, Bookmark) and event.initial_events_end:
                    break
                assert isinstance(event, Change)
                seen.append(event.object.metadata.name)
        assert sorted(seen) == ["a", "b"]

    @staged
    async def test_a_quiet_watch_is_told_how_far_it_is(self, context: ContractContext) -> None:
        made = await context.config_map("one")
        version = made.metadata.resource_version
        watch = context.client.watch(ConfigMap, context.here, resource_version=version)
        async with context.clock.timeout(150.0), aclosing(watch) as events:
            async for event in events:
                if isinstance(event, Bookmark):
                    assert int(event.resource_version) >= int(version)
                    return
        raise AssertionError("no bookmark came")

    @staged
    async def test_a_version_that_is_forgotten_is_gone(self, context: ContractContext) -> None:
        await context.config_map("one")
        await self.forget(context)
        watch = context.client.watch(ConfigMap, context.here, resource_version="1")
        await refused(anext(watch), errors.Gone)

    @staged
    async def test_a_cache_has_what_was_there_and_follows_what_happens(
        self, context: ContractContext
    ) -> None:
        await context.config_map("before")
        mirror = Mirror(context.client, clock=context.clock, rng=random.Random(1))
        cache = mirror.add(ConfigMap, context.here)
        mirroring = asyncio.ensure_future(mirror.run())
        try:
            await cache.wait_synced()
            assert cache.get("before", namespace=context.namespace) is not None
            await context.config_map("after")
            await context.delete("before")

            async def followed() -> bool:
                there = [cache.get(one, namespace=context.namespace) for one in ("before", "after")]
                return there[0] is None and there[1] is not None

            await context.eventually(followed)
        finally:
            mirroring.cancel()
            with suppress(asyncio.CancelledError):
                await mirroring


async def _changes(
    context: ContractContext, selection: Selection, version: str, *, count: int
) -> list[Change[ConfigMap]]:
    """The first changes after a version."""
    found: list[Change[ConfigMap]] = []
    watch = context.client.watch(ConfigMap, selection, resource_version=version)
    async with context.clock.timeout(150.0), aclosing(watch) as events:
        async for event in events:
            if isinstance(event, Change):
                found.append(event)
                if len(found) == count:
                    break
    return found

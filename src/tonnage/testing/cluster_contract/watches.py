"""Watching, and caches that live on it."""

import asyncio
import random
from contextlib import aclosing, suppress

from tonnage.cluster import errors
from tonnage.cluster.client import Selection
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.records import ConfigMap
from tonnage.cluster.watch_events import Bookmark, Change, EventType
from tonnage.testing.cluster_contract.context import (
    Contract,
    ContractContext,
    refused,
    staged,
)

ADDED, MODIFIED, DELETED = EventType.ADDED, EventType.MODIFIED, EventType.DELETED


class WatchContract(Contract):
    @staged
    async def test_a_watch_tells_what_happened_after_a_list(self, stage: ContractContext) -> None:
        chosen = Selection(namespace=stage.namespace, fields="metadata.name=watched")
        listing = await stage.client.list(ConfigMap, chosen)
        await stage.config_map("watched", data={"a": "1"})
        await stage.patch("watched", {"data": {"a": "2"}})
        await stage.config_map("another")
        await stage.delete("watched")
        seen = await _changes(stage, chosen, listing.resource_version, count=3)
        assert [(one.type, one.object.data) for one in seen] == [
            (ADDED, {"a": "1"}),
            (MODIFIED, {"a": "2"}),
            (DELETED, {"a": "2"}),
        ]

    @staged
    async def test_versions_grow_in_a_watch_and_deletions_have_one_too(
        self, stage: ContractContext
    ) -> None:
        made = await stage.config_map("watched")
        await stage.patch("watched", {"data": {"a": "2"}})
        await stage.delete("watched")
        seen = await _changes(stage, stage.here, made.metadata.resource_version, count=2)
        versions = [int(one.object.metadata.resource_version) for one in seen]
        assert int(made.metadata.resource_version) < versions[0] < versions[1]

    @staged
    async def test_to_a_selection_an_object_comes_and_goes_with_its_labels(
        self, stage: ContractContext
    ) -> None:
        chosen = Selection(namespace=stage.namespace, labels="in=yes")
        before = await stage.client.list(ConfigMap, chosen)
        await stage.config_map("moving", labels={"in": "no"})
        for value in ("yes", "no"):
            await stage.patch("moving", {"metadata": {"labels": {"in": value}}})
        seen = await _changes(stage, chosen, before.resource_version, count=2)
        assert [(one.type, one.object.metadata.labels["in"]) for one in seen] == [
            (ADDED, "yes"),
            (DELETED, "yes"),
        ]

    @staged
    async def test_a_streaming_list_has_everything_and_says_when_that_was_all(
        self, stage: ContractContext
    ) -> None:
        for name in ("a", "b"):
            await stage.config_map(name, labels={"listed": "yes"})
        chosen = Selection(namespace=stage.namespace, labels="listed=yes")
        seen: list[str] = []
        watch = stage.client.watch(ConfigMap, chosen, resource_version="", initial_events=True)
        async with stage.clock.timeout(150.0), aclosing(watch) as events:
            async for event in events:
                if isinstance(event, Bookmark) and event.initial_events_end:
                    break
                assert isinstance(event, Change)
                seen.append(event.object.metadata.name)
        assert sorted(seen) == ["a", "b"]

    @staged
    async def test_a_quiet_watch_is_told_how_far_it_is(self, stage: ContractContext) -> None:
        made = await stage.config_map("one")
        version = made.metadata.resource_version
        watch = stage.client.watch(ConfigMap, stage.here, resource_version=version)
        async with stage.clock.timeout(150.0), aclosing(watch) as events:
            async for event in events:
                if isinstance(event, Bookmark):
                    assert int(event.resource_version) >= int(version)
                    return
        raise AssertionError("no bookmark came")

    @staged
    async def test_a_version_that_is_forgotten_is_gone(self, stage: ContractContext) -> None:
        await stage.config_map("one")
        await self.forget(stage)
        watch = stage.client.watch(ConfigMap, stage.here, resource_version="1")
        await refused(anext(watch), errors.Gone)

    @staged
    async def test_a_cache_has_what_was_there_and_follows_what_happens(
        self, stage: ContractContext
    ) -> None:
        await stage.config_map("before")
        mirror = Mirror(stage.client, clock=stage.clock, rng=random.Random(1))
        cache = mirror.add(ConfigMap, stage.here)
        mirroring = asyncio.ensure_future(mirror.run())
        try:
            await cache.wait_synced()
            assert cache.get("before", namespace=stage.namespace) is not None
            await stage.config_map("after")
            await stage.delete("before")

            async def followed() -> bool:
                there = [cache.get(one, namespace=stage.namespace) for one in ("before", "after")]
                return there[0] is None and there[1] is not None

            await stage.eventually(followed)
        finally:
            mirroring.cancel()
            with suppress(asyncio.CancelledError):
                await mirroring


async def _changes(
    stage: ContractContext, selection: Selection, version: str, *, count: int
) -> list[Change[ConfigMap]]:
    """The first changes after a version."""
    found: list[Change[ConfigMap]] = []
    watch = stage.client.watch(ConfigMap, selection, resource_version=version)
    async with stage.clock.timeout(150.0), aclosing(watch) as events:
        async for event in events:
            if isinstance(event, Change):
                found.append(event)
                if len(found) == count:
                    break
    return found

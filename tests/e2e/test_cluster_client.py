"""Our client, cache and lease against a real API server."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress

import msgspec
import pytest

from tests.e2e import manifests
from tests.e2e.connections import connected
from tests.e2e.controlplane import API_SERVER
from tests.e2e.workspace import Workspace
from tonnage.clock import SystemClock
from tonnage.cluster import errors
from tonnage.cluster.cache import Cache
from tonnage.cluster.client import Client, PatchStyle, Selection
from tonnage.cluster.lease import LeaderLease, LeadershipLost, Timing
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.records import ConfigMap
from tonnage.cluster.reflector import ReflectorPace
from tonnage.cluster.resources import Resource
from tonnage.cluster.watch_events import Change, EventType
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import CSIDriver, CSINode
from tonnage.objects.workloads import Lease

CLOCK = SystemClock()
QUICK = Timing(lease_duration=8.0, renew_deadline=4.0, retry_period=0.5)


def config_map(work: Workspace, name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=work.namespace), data=data)


async def until(condition: Callable[[], bool], *, within: float = 150.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it never came to be so"
        await asyncio.sleep(0.05)


@asynccontextmanager
async def mirrored(client: Client, selection: Selection) -> AsyncIterator[Cache[ConfigMap]]:
    pace = ReflectorPace(first_wait=0.2, longest_wait=1.0)
    mirror = Mirror(client, clock=CLOCK, rng=random.Random(1), pace=pace)
    cache = mirror.add(ConfigMap, selection)
    task = asyncio.ensure_future(mirror.run())
    try:
        async with asyncio.timeout(150):
            await cache.wait_synced()
        yield cache
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def a_lease(client: Client, work: Workspace, identity: str) -> LeaderLease:
    return LeaderLease(
        client, name="leader", namespace=work.namespace, identity=identity, clock=CLOCK,
        rng=random.Random(identity), timing=QUICK,
    )  # fmt: skip


async def test_the_version_is_the_built_one(work: Workspace) -> None:
    async with connected(work.cluster.kubeconfig()) as client:
        assert await client.version() == work.cluster.versions["kubernetes"]


async def test_nodes_and_their_drivers_are_read_as_they_were_made(work: Workspace) -> None:
    name = f"{work.namespace}-n1"
    work.create(
        manifests.node(name, cpu="7"),
        manifests.csinode(name, {"a.example.com": 25, "b.example.com": None}),
        manifests.csidriver(name, opt_in=True),
    )
    async with connected(work.cluster.kubeconfig()) as client:
        node = await client.get(Node, name)
        csinode = await client.get(CSINode, name)
        driver = await client.get(CSIDriver, name)
    assert node.status.allocatable["cpu"] == "7"
    assert [(one.name, one.limit) for one in csinode.spec.drivers] == [
        ("a.example.com", 25),
        ("b.example.com", None),
    ]
    assert driver.spec.prevent_pod_scheduling_if_missing is True


async def test_a_list_in_pages_is_complete(work: Workspace) -> None:
    async with connected(work.cluster.kubeconfig()) as client:
        names = {f"page-{number}" for number in range(7)}
        for name in names:
            await client.create(ConfigMap, config_map(work, name))
        selection = Selection(namespace=work.namespace)
        listing = await client.list(ConfigMap, selection, page=2)
    assert names <= {one.metadata.name for one in listing.items}


async def test_a_list_by_field_holds_only_what_was_asked_for(work: Workspace) -> None:
    node = f"{work.namespace}-n1"
    work.create(
        manifests.node(node),
        manifests.pod("placed", namespace=work.namespace, nodeName=node),
        manifests.pod("waiting", namespace=work.namespace, nodeSelector={"no": "where"}),
    )
    selection = Selection(namespace=work.namespace, fields="spec.nodeName=")
    async with connected(work.cluster.kubeconfig()) as client:
        listing = await client.list(Pod, selection)
    assert [one.metadata.name for one in listing.items] == ["waiting"]


async def test_a_watch_tells_what_happens_after_a_list(work: Workspace) -> None:
    selection = Selection(namespace=work.namespace, fields="metadata.name=watched")
    seen: list[tuple[EventType, dict[str, str]]] = []
    async with connected(work.cluster.kubeconfig()) as client:
        listing = await client.list(ConfigMap, selection)
        watch = client.watch(ConfigMap, selection, resource_version=listing.resource_version)
        await client.create(ConfigMap, config_map(work, "watched", a="1"))
        await client.patch(ConfigMap, "watched", {"data": {"a": "2"}}, namespace=work.namespace)
        await client.delete(ConfigMap, "watched", namespace=work.namespace)
        async with asyncio.timeout(150), aclosing(watch) as events:
            async for event in events:
                if isinstance(event, Change):
                    seen.append((event.type, event.object.data))
                    if event.type is EventType.DELETED:
                        break
    assert seen == [
        (EventType.ADDED, {"a": "1"}),
        (EventType.MODIFIED, {"a": "2"}),
        (EventType.DELETED, {"a": "2"}),
    ]


@pytest.mark.parametrize("style", [PatchStyle.MERGE, PatchStyle.STRATEGIC, PatchStyle.APPLY])
async def test_a_patch_leaves_alone_what_it_does_not_name(
    work: Workspace, style: PatchStyle
) -> None:
    async with connected(work.cluster.kubeconfig()) as client:
        await client.create(ConfigMap, config_map(work, "patched", kept="1", changed="1"))
        change = {"metadata": {"name": "patched"}, "data": {"changed": "2"}}
        await client.patch(
            ConfigMap, "patched", change, style=style, namespace=work.namespace, force=True
        )
        found = await client.get(ConfigMap, "patched", namespace=work.namespace)
    assert found.data == {"kept": "1", "changed": "2"}


async def test_writing_an_old_version_is_a_conflict(work: Workspace) -> None:
    async with connected(work.cluster.kubeconfig()) as client:
        old = await client.create(ConfigMap, config_map(work, "contended", a="1"))
        await client.replace(ConfigMap, msgspec.structs.replace(old, data={"a": "2"}))
        with pytest.raises(errors.Conflict) as caught:
            await client.replace(ConfigMap, msgspec.structs.replace(old, data={"a": "3"}))
    assert not caught.value.already_exists


async def test_creating_what_exists_is_a_conflict_that_says_so(work: Workspace) -> None:
    async with connected(work.cluster.kubeconfig()) as client:
        await client.create(ConfigMap, config_map(work, "twice"))
        with pytest.raises(errors.Conflict) as caught:
            await client.create(ConfigMap, config_map(work, "twice"))
    assert caught.value.already_exists


async def test_deleting_another_of_the_same_name_is_a_conflict(work: Workspace) -> None:
    async with connected(work.cluster.kubeconfig()) as client:
        await client.create(ConfigMap, config_map(work, "kept"))
        with pytest.raises(errors.Conflict):
            await client.delete(ConfigMap, "kept", namespace=work.namespace, uid="another")
        assert await client.get(ConfigMap, "kept", namespace=work.namespace)


async def test_what_is_not_there_is_told_from_a_kind_that_is_not_served(work: Workspace) -> None:
    unknown = Resource(
        ConfigMap, group="example.com", version="v1", plural="things", namespaced=True
    )
    async with connected(work.cluster.kubeconfig()) as client:
        with pytest.raises(errors.NotFound) as absent:
            await client.get(ConfigMap, "absent", namespace=work.namespace)
        with pytest.raises(errors.NotFound) as not_served:
            await client.get(unknown, "absent", namespace=work.namespace)
    assert (absent.value.kind_missing, not_served.value.kind_missing) == (False, True)


async def test_a_missing_right_is_named(work: Workspace) -> None:
    async with connected(work.cluster.kubeconfig("nobody")) as client:
        with pytest.raises(errors.Forbidden) as caught:
            await client.list(CSINode)
    error = caught.value
    assert (error.verb, error.kind, error.group) == ("list", "CSINode", "storage.k8s.io")


async def test_a_cache_has_what_was_there_and_follows_what_happens(work: Workspace) -> None:
    async with connected(work.cluster.kubeconfig()) as client:
        await client.create(ConfigMap, config_map(work, "before"))
        async with mirrored(client, Selection(namespace=work.namespace)) as cache:
            assert cache.get("before", namespace=work.namespace) is not None
            await client.create(ConfigMap, config_map(work, "after"))
            await until(lambda: cache.get("after", namespace=work.namespace) is not None)
            await client.delete(ConfigMap, "before", namespace=work.namespace)
            await until(lambda: cache.get("before", namespace=work.namespace) is None)


async def test_a_server_that_was_restarted_has_forgotten_versions_and_a_cache_is_listed_anew(
    work: Workspace,
) -> None:
    selection = Selection(namespace=work.namespace)
    async with connected(work.cluster.kubeconfig()) as client:
        await client.create(ConfigMap, config_map(work, "before"))
        async with mirrored(client, selection) as cache:
            # Of something that the cache does not follow, so that what it has seen is not the
            # newest version when the server starts again.
            await client.create(Lease, Lease(metadata=config_map(work, "other").metadata))
            await asyncio.to_thread(work.cluster.restart, API_SERVER)
            with pytest.raises(errors.Gone):
                await anext(client.watch(ConfigMap, selection, resource_version="1"))
            await client.delete(ConfigMap, "before", namespace=work.namespace)
            await client.create(ConfigMap, config_map(work, "after"))
            await until(lambda: cache.get("after", namespace=work.namespace) is not None)
            await until(lambda: cache.get("before", namespace=work.namespace) is None)
            assert cache.status.relists > 0


async def test_a_lease_is_led_under_and_given_back(work: Workspace) -> None:
    async with connected(work.cluster.kubeconfig()) as client:
        lease = a_lease(client, work, "one")

        async def lead() -> None:
            held = await client.get(Lease, "leader", namespace=work.namespace)
            assert lease.leading()
            assert held.spec.holder_identity == "one"

        await lease.lead(lead)
        freed = await client.get(Lease, "leader", namespace=work.namespace)
    assert not freed.spec.holder_identity


async def test_one_of_two_candidates_leads_until_it_is_done(work: Workspace) -> None:
    order: list[str] = []

    async def lead(name: str) -> None:
        order.append(f"{name} begins")
        await asyncio.sleep(0.2)
        order.append(f"{name} ends")

    async with connected(work.cluster.kubeconfig()) as client, asyncio.timeout(150):
        one, two = a_lease(client, work, "one"), a_lease(client, work, "two")
        await asyncio.gather(one.lead(lambda: lead("one")), two.lead(lambda: lead("two")))
    first, second = order[0].split()[0], order[2].split()[0]
    assert {first, second} == {"one", "two"}
    assert order == [f"{name} {what}" for name in (first, second) for what in ("begins", "ends")]


async def test_a_leader_whose_server_stands_still_stops_before_its_lease_is_over(
    work: Workspace,
) -> None:
    async with connected(work.cluster.kubeconfig()) as client:
        lease = a_lease(client, work, "one")
        began = asyncio.Event()
        stopped_after = 0.0
        started = time.monotonic()

        async def lead() -> None:
            nonlocal stopped_after
            began.set()
            try:
                await asyncio.sleep(600)
            finally:
                stopped_after = time.monotonic() - started

        leading = asyncio.ensure_future(lease.lead(lead))
        await began.wait()
        with work.cluster.paused(API_SERVER):
            started = time.monotonic()
            with pytest.raises(LeadershipLost):
                await leading
    assert stopped_after < QUICK.lease_duration

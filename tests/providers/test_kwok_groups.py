"""Groups of the kwok-style provider that stand in a ConfigMap."""

import random

import pytest

from tests.cluster.apiserver import ApiServer
from tonnage.errors import ProviderError
from tonnage.providers import kwok_groups
from tonnage.providers.kwok import KwokProvider
from tonnage.testing.clock import VirtualClock

MANIFEST = """
apiVersion: tonnage.dev/v1alpha1
kind: NodeGroup
metadata: {name: a}
spec: {maxSize: %s}
"""


def put_groups(server: ApiServer, text: str) -> None:
    server.put(
        "/api/v1/namespaces/kube-system/configmaps",
        {"metadata": {"name": "groups", "namespace": "kube-system"}, "data": {"groups.yaml": text}},
    )


def from_config_map(server: ApiServer, clock: VirtualClock) -> KwokProvider:
    client = server.client(clock)
    return KwokProvider(
        client,
        clock,
        kwok_groups.StoredGroups(client, "groups", namespace="kube-system"),
        namespace="kube-system",
        rng=random.Random(1),
    )


async def test_groups_in_a_configmap_are_read_again_by_every_refresh(clock):
    async with ApiServer() as server:
        kwok = from_config_map(server, clock)
        for size in (5, 7):
            put_groups(server, MANIFEST % size)
            await kwok.refresh()
            assert [group.max_size for group in await kwok.groups()] == [size]


async def test_a_slip_in_the_configmap_leaves_the_groups_as_they_were(clock):
    async with ApiServer() as server:
        kwok = from_config_map(server, clock)
        put_groups(server, MANIFEST % 5)
        await kwok.refresh()
        put_groups(server, MANIFEST % "many")
        await kwok.refresh()
        assert [group.max_size for group in await kwok.groups()] == [5]


async def test_a_slip_in_the_configmap_at_the_start_is_named(clock):
    async with ApiServer() as server:
        put_groups(server, MANIFEST % "many")
        with pytest.raises(ProviderError, match=r"kube-system/groups: data\.groups\.yaml.*maxSize"):
            await from_config_map(server, clock).refresh()


async def test_a_slip_in_one_group_of_a_configmap_leaves_the_others_alone(clock):
    async with ApiServer() as server:
        kwok = from_config_map(server, clock)
        other = MANIFEST.replace("name: a", "name: b")
        put_groups(server, f"{MANIFEST % 5}---{other % 1}")
        await kwok.refresh()
        put_groups(server, f"{MANIFEST.replace('maxSize', 'maxsize') % 7}---{other % 2}")
        await kwok.refresh()
        sizes = {group.id: group.max_size for group in await kwok.groups()}
        assert sizes == {"a": 5, "b": 2}


async def test_a_bad_group_of_a_configmap_is_left_out_at_the_start(clock):
    async with ApiServer() as server:
        kwok = from_config_map(server, clock)
        other = MANIFEST.replace("name: a", "name: b")
        put_groups(server, f"{MANIFEST.replace('maxSize', 'maxsize') % 7}---{other % 2}")
        await kwok.refresh()
        assert [group.id for group in await kwok.groups()] == ["b"]

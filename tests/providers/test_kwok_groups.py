"""Groups of the kwok-style provider that stand in a ConfigMap, also if somebody edits it badly."""

import json
import random

import msgspec
import pytest

from tests.cluster.apiserver import ApiServer
from tests.providers.test_kwok import LEDGER, NODES, made
from tonnage.clock import Clock
from tonnage.objects.scenarios import NodeGroup
from tonnage.providers import kwok_groups
from tonnage.providers.kwok import KwokProvider
from tonnage.providers.kwok_objects import STOCK_ANNOTATION

GROUPS = "/api/v1/namespaces/kube-system/configmaps/groups"
MANIFEST = """
apiVersion: tonnage.dev/v1alpha1
kind: NodeGroup
metadata: {name: a}
spec: {maxSize: %s}
"""
OTHER = MANIFEST.replace("name: a", "name: b")
WHERE = "ConfigMap kube-system/groups: data.groups.yaml: document 1"


def put_groups(server: ApiServer, text: str, **others: str) -> None:
    server.put(
        GROUPS.rpartition("/")[0],
        {
            "metadata": {"name": "groups", "namespace": "kube-system"},
            "data": {"groups.yaml": text, **others},
        },
    )


def from_config_map(server: ApiServer, clock: Clock) -> KwokProvider:
    client = server.client(clock)
    return KwokProvider(
        client,
        clock,
        kwok_groups.StoredGroups(client, "groups", namespace="kube-system"),
        namespace="kube-system",
        rng=random.Random(1),
    )


async def sizes(kwok: KwokProvider) -> dict[str, int]:
    await kwok.refresh()
    return {group.id: group.max_size for group in await kwok.groups()}


def written(group: NodeGroup) -> str:
    head = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "NodeGroup"}
    return json.dumps({**head, **msgspec.to_builtins(group)})


async def test_groups_in_a_configmap_are_read_again_by_every_refresh(clock):
    async with ApiServer() as server:
        kwok = from_config_map(server, clock)
        for size in (5, 7):
            put_groups(server, MANIFEST % size)
            assert await sizes(kwok) == {"a": size}


SLIPS = {
    "no YAML": ("spec: {maxSize: [", ", line 1: not YAML: "),
    "an unknown field": (
        MANIFEST.replace("maxSize", "maxsize") % 7,
        ", line 5: NodeGroup a: spec.maxsize: expected maxSize or another known field",
    ),
    "text for a number": (
        MANIFEST % "many",
        ', line 5: NodeGroup a: spec.maxSize: expected a whole number, found "many"',
    ),
    "more at least than at most": (
        MANIFEST.replace("{maxSize", "{minSize: 8, maxSize") % 7,
        ", line 5: NodeGroup a: spec.minSize: expected at most maxSize, which is 7, found 8",
    ),
    "a quantity that is none": (
        MANIFEST % '7, template: {node: {status: {allocatable: {cpu: "4 cores"}}}}',
        ", line 5: NodeGroup a: spec.template.node.status.allocatable.cpu: expected a quantity",
    ),
    "an unknown kind": (
        MANIFEST.replace("NodeGroup", "NodeGruop") % 7,
        ", line 3: kind: expected tonnage.dev/v1alpha1 NodeGroup or",
    ),
    "no name": (
        MANIFEST.replace("{name: a}", "{}") % 7,
        ", line 4: NodeGroup (no name): metadata.name: expected a name, found none",
    ),
    "no document": ("just words", ", line 1: expected an object with apiVersion and kind"),
}


@pytest.mark.parametrize(("text", "complaint"), SLIPS.values(), ids=SLIPS)
async def test_a_slip_leaves_the_group_as_it_was_and_is_named(clock, text, complaint):
    async with ApiServer() as server:
        kwok = from_config_map(server, clock)
        put_groups(server, f"{MANIFEST % 5}---{OTHER % 1}")
        await kwok.refresh()
        put_groups(server, f"{text}\n---{OTHER % 2}")
        assert await sizes(kwok) == {"a": 5, "b": 2}
        (problem,) = await kwok.problems()
        assert problem.startswith(f"{WHERE}{complaint}")


@pytest.mark.parametrize(("text", "complaint"), SLIPS.values(), ids=SLIPS)
async def test_a_slip_at_the_start_leaves_the_group_out_and_is_named(clock, text, complaint):
    async with ApiServer() as server:
        kwok = from_config_map(server, clock)
        put_groups(server, f"{text}\n---{OTHER % 2}")
        assert await sizes(kwok) == {"b": 2}
        (problem,) = await kwok.problems()
        assert problem.startswith(f"{WHERE}{complaint}")


@pytest.mark.parametrize(("text", "complaint"), SLIPS.values(), ids=SLIPS)
async def test_after_a_restart_a_misspelt_group_with_machines_is_what_it_was(
    clock, text, complaint
):
    async with ApiServer() as server:
        put_groups(server, f"{MANIFEST % 5}---{OTHER % 1}")
        before = from_config_map(server, clock)
        await before.refresh()
        await before.increase("a", 2)
        put_groups(server, f"{text}\n---{OTHER % 2}")
        again = from_config_map(server, clock)
        assert await sizes(again) == {"a": 5, "b": 2}
        found = {group.id: group.target for group in await again.groups()}
        assert found == {"a": 2, "b": 0}
        assert complaint in (await again.problems())[0]


async def test_a_machine_asked_for_before_a_slip_is_made_after_a_restart(clock):
    async with ApiServer() as server:
        put_groups(server, MANIFEST % 5)
        before = from_config_map(server, clock)
        await before.refresh()
        await before.increase("a", 2)
        for node in made(server, NODES):
            del server.objects[f"{NODES}/{node['metadata']['name']}"]
        put_groups(server, MANIFEST % "many")
        await from_config_map(server, clock).refresh()
        assert len(made(server, NODES)) == 2


async def test_a_group_taken_out_is_gone_and_its_nodes_stay(clock):
    async with ApiServer() as server:
        put_groups(server, f"{MANIFEST % 5}---{OTHER % 1}")
        kwok = from_config_map(server, clock)
        await kwok.refresh()
        await kwok.increase("a", 2)
        put_groups(server, OTHER % 1)
        assert await sizes(kwok) == {"b": 1}
        assert list(await kwok.problems()) == []
        assert len(made(server, NODES)) == 2


async def test_a_group_taken_out_does_not_come_back_with_a_slip_elsewhere(clock):
    async with ApiServer() as server:
        put_groups(server, f"{MANIFEST % 5}---{OTHER % 1}")
        kwok = from_config_map(server, clock)
        await kwok.refresh()
        await kwok.increase("a", 2)
        put_groups(server, OTHER % 1)
        await kwok.refresh()
        put_groups(server, "spec: [")
        assert await sizes(kwok) == {"b": 1}


async def test_a_group_that_no_node_can_be_named_after_leaves_the_others_alone(clock):
    async with ApiServer() as server:
        kwok = from_config_map(server, clock)
        put_groups(server, f"{MANIFEST.replace('name: a', 'name: A_1') % 5}---{OTHER % 2}")
        assert await sizes(kwok) == {"b": 2}
        (problem,) = await kwok.problems()
        assert problem.startswith("NodeGroup A_1: metadata.name: expected at most 63")


async def test_an_annotation_that_cannot_be_read_leaves_the_group_as_it_was(clock):
    async with ApiServer() as server:
        kwok = from_config_map(server, clock)
        put_groups(server, f"{MANIFEST % 5}---{OTHER % 1}")
        await kwok.refresh()
        stock = f'name: a, annotations: {{{STOCK_ANNOTATION}: "lots"}}'
        put_groups(server, f"{MANIFEST.replace('name: a', stock) % 7}---{OTHER % 2}")
        assert await sizes(kwok) == {"a": 5, "b": 2}
        (problem,) = await kwok.problems()
        assert STOCK_ANNOTATION in problem


async def test_of_two_groups_with_one_name_the_first_is_used_and_the_other_named(clock):
    async with ApiServer() as server:
        kwok = from_config_map(server, clock)
        put_groups(server, MANIFEST % 5, **{"more.yaml": MANIFEST % 7})
        assert await sizes(kwok) == {"a": 5}
        (problem,) = await kwok.problems()
        assert problem.endswith(
            "data.more.yaml: document 1, line 2: NodeGroup a: declared twice; the first is used"
        )


async def test_without_their_configmap_the_groups_stay_and_that_is_said(clock):
    async with ApiServer() as server:
        kwok = from_config_map(server, clock)
        put_groups(server, MANIFEST % 5)
        await kwok.refresh()
        del server.objects[GROUPS]
        assert await sizes(kwok) == {"a": 5}
        assert list(await kwok.problems()) == [
            "ConfigMap kube-system/groups: expected NodeGroups, found none"
        ]


async def test_a_mended_configmap_is_no_problem_any_more(clock):
    async with ApiServer() as server:
        kwok = from_config_map(server, clock)
        put_groups(server, MANIFEST % "many")
        await kwok.refresh()
        put_groups(server, MANIFEST % 5)
        assert await sizes(kwok) == {"a": 5}
        assert list(await kwok.problems()) == []


async def test_a_group_without_machines_is_not_noted_in_the_ledger(clock):
    async with ApiServer() as server:
        put_groups(server, MANIFEST % 5)
        kwok = from_config_map(server, clock)
        await kwok.refresh()
        assert json.loads(server.objects[LEDGER]["data"]["a"]) == {}

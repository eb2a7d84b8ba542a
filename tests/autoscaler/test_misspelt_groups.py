"""Somebody edits the node groups of a running autoscaler, and makes a mistake."""

import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml

from tests.autoscaler.harness import metric
from tests.autoscaler.test_refusals import put_pods
from tests.embedded.embedded_cluster import Cluster, group, living
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.declared_groups import DeclaredGroups, resized
from tonnage.autoscaler.program import AutoscalerProgram, AutoscalerSettings
from tonnage.autoscaler.world import ClusterView
from tonnage.cluster.client import Client, Selection
from tonnage.cluster.records import ConfigMap, Event
from tonnage.embedded.apiserver import InProcessTransport
from tonnage.embedded.world import Delay
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.scenarios import NodeGroup
from tonnage.providers.declarations import Declarations
from tonnage.providers.kwok import KwokProvider
from tonnage.providers.kwok_groups import StoredGroups
from tonnage.providers.kwok_objects import GROUP_LABEL
from tonnage.providers.protocol import Provider
from tonnage.service import lifecycle
from tonnage.service.config_file import ConfigFile
from tonnage.testing.clock import VirtualClock

SYSTEM = "kube-system"
SLOW = Delay(120.0)
"""Nodes that take two minutes, so that there is a time at which they are only asked for."""

LONG = 400.0
"""Until after they have come, and have been looked at several times."""


class Slip(NamedTuple):
    """What somebody meant to write, and wrote."""

    good: str
    bad: str


UNKNOWN_FIELD = Slip("maxSize", "maxsize")
SLIPS = {
    "an unknown field": UNKNOWN_FIELD,
    "nearly a field of its Node": Slip('"allocatable": {"cpu"', '"allocateable": {"cpu"'),
    "no YAML": Slip('"spec": {', '"spec": ['),
    "a quantity that is none": Slip('"allocatable": {"cpu": "4"', '"allocatable": {"cpu": "four"'),
}


def written(one: NodeGroup) -> str:
    head = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "NodeGroup"}
    return json.dumps({**head, **msgspec.to_builtins(one)})


DEAR = group("dear", max_size=20, price="9")
CHEAP = group("cheap", max_size=20, price="1")


async def put_groups(cluster: Cluster, slip: Slip | None = None) -> None:
    """A cheap group and a dear one; with a slip, the cheap one is misspelt."""
    data = {"cheap": written(CHEAP), "dear": written(DEAR)}
    if slip is not None:
        data["cheap"] = data["cheap"].replace(slip.good, slip.bad)
        assert data["cheap"] != written(CHEAP)
    await cluster.client.patch(ConfigMap, "groups", {"data": data}, namespace=SYSTEM)


def a_program(
    cluster: Cluster, clock: VirtualClock, identity: str, *, dry_run: bool = False
) -> AutoscalerProgram:
    rng = random.Random(1)
    client = Client(InProcessTransport(cluster.server), clock=clock, rng=rng)
    source = StoredGroups(client, "groups", namespace=SYSTEM)
    numbers = iter(range(10**9))

    def provider(world: ClusterView) -> Provider:
        if dry_run:
            return DeclaredGroups(source, world, label=GROUP_LABEL)
        return KwokProvider(client, clock, source, namespace=SYSTEM, rng=rng)

    return AutoscalerProgram(
        client,
        provider,
        config=ConfigFile(None, AutoscalerConfig, given={"expander": "price", "claimBindWait": 0}),
        settings=AutoscalerSettings(
            identity=identity, address="127.0.0.1:0", leader_elect=False, dry_run=dry_run
        ),
        server_version="v1.37.0",
        clock=clock,
        rng=rng,
        new_id=lambda: f"{identity}{next(numbers)}",
    )


@asynccontextmanager
async def a_cluster(clock: VirtualClock, slip: Slip | None = None) -> AsyncIterator[Cluster]:
    """A cluster with both groups, and a node of neither."""
    async with living(clock, binds=False, start=SLOW) as cluster:
        meta = ObjectMeta(name="groups", namespace=SYSTEM)
        await cluster.client.create(ConfigMap, ConfigMap(metadata=meta))
        await put_groups(cluster, slip)
        cluster.node("old", labels={GROUP_LABEL: "none"})
        yield cluster


async def ask_for_three(cluster: Cluster, clock: VirtualClock) -> set[str]:
    """Which nodes of the cheap group the autoscaler asks for; none of them is there yet."""
    put_pods(cluster, ["p-1", "p-2", "p-3"])
    await clock.sleep(30)
    assert nodes(cluster) == {"cheap": 3}
    return identities(cluster)


def nodes(cluster: Cluster) -> dict[str, int]:
    groups = (one["metadata"]["labels"][GROUP_LABEL] for one in cluster.all("nodes"))
    return dict(Counter(name for name in groups if name != "none"))


def identities(cluster: Cluster) -> set[str]:
    return {one["metadata"]["uid"] for one in cluster.all("nodes")}


async def status(cluster: Cluster) -> dict[str, Any]:
    found = await cluster.client.get(ConfigMap, "cluster-autoscaler-status", namespace=SYSTEM)
    document: dict[str, Any] = yaml.safe_load(found.data["status"])
    return document


async def events(cluster: Cluster) -> list[Event]:
    found = await cluster.client.list(Event, Selection(namespace=SYSTEM))
    return [one for one in found.items if one.reason == "NodeGroupProblem"]


@pytest.mark.parametrize("slip", [pytest.param(one, id=name) for name, one in SLIPS.items()])
async def test_nodes_that_are_coming_are_waited_for_and_neither_bought_again_nor_deleted(
    clock: VirtualClock, slip: Slip
) -> None:
    async with a_cluster(clock) as cluster:
        async with lifecycle.beside(a_program(cluster, clock, "a").run()):
            before = await ask_for_three(cluster, clock)
            await put_groups(cluster, slip)
            await clock.sleep(LONG)
        assert nodes(cluster) == {"cheap": 3}
        assert identities(cluster) == before


@pytest.mark.parametrize("slip", [pytest.param(one, id=name) for name, one in SLIPS.items()])
async def test_after_a_restart_they_are_waited_for_too(clock: VirtualClock, slip: Slip) -> None:
    async with a_cluster(clock) as cluster:
        async with lifecycle.beside(a_program(cluster, clock, "a").run()):
            before = await ask_for_three(cluster, clock)
        await put_groups(cluster, slip)
        async with lifecycle.beside(a_program(cluster, clock, "b").run()):
            await clock.sleep(LONG)
        assert nodes(cluster) == {"cheap": 3}
        assert identities(cluster) == before


async def test_a_misspelt_group_goes_on_growing_as_it_was(clock: VirtualClock) -> None:
    async with a_cluster(clock) as cluster:
        async with lifecycle.beside(a_program(cluster, clock, "a").run()):
            await clock.sleep(30)
            await put_groups(cluster, UNKNOWN_FIELD)
            await clock.sleep(30)
            put_pods(cluster, ["late"])
            await clock.sleep(30)
        assert nodes(cluster) == {"cheap": 1}


async def test_a_group_misspelt_from_the_start_leaves_the_others_to_help(
    clock: VirtualClock,
) -> None:
    async with a_cluster(clock, UNKNOWN_FIELD) as cluster:
        put_pods(cluster, ["p"])
        async with lifecycle.beside(a_program(cluster, clock, "a").run()):
            await clock.sleep(60)
        assert nodes(cluster) == {"dear": 1}


async def test_a_slip_is_told_in_status_metrics_and_one_event_until_it_is_mended(
    clock: VirtualClock,
) -> None:
    async with a_cluster(clock) as cluster:
        program = a_program(cluster, clock, "a")
        async with lifecycle.beside(program.run()):
            await clock.sleep(30)
            assert metric(program, "tonnage_node_group_problems") == 0
            await put_groups(cluster, UNKNOWN_FIELD)
            await clock.sleep(120)
            (problem,) = (await status(cluster))["tonnage"]["problems"]
            assert problem.startswith(
                "ConfigMap kube-system/groups: data.cheap: document 1, line 1: NodeGroup cheap: "
                "spec.maxsize: expected maxSize or another known field"
            )
            assert metric(program, "tonnage_node_group_problems") == 1
            assert metric(program, "tonnage_problems") == 1
            (event,) = await events(cluster)
            assert (event.message, event.type, event.count) == (problem, "Warning", 1)
            assert event.involved_object.name == "cluster-autoscaler-status"
            await put_groups(cluster)
            await clock.sleep(30)
            assert (await status(cluster))["tonnage"]["problems"] == []
            assert metric(program, "tonnage_node_group_problems") == 0


@pytest.mark.parametrize("price", ["0", "-1", "0.9 EUR", "cheap"])
async def test_a_price_that_cannot_be_used_is_told_in_the_status_and_the_loop_goes_on(
    clock: VirtualClock, price: str
) -> None:
    slip = Slip('"pricePerHour": "1"', f'"pricePerHour": "{price}"')
    async with a_cluster(clock, slip) as cluster:
        program = a_program(cluster, clock, "a")
        async with lifecycle.beside(program.run()):
            put_pods(cluster, ["p"])
            await clock.sleep(60)
            (problem,) = (await status(cluster))["tonnage"]["problems"]
            assert problem == (
                "group cheap: spec.pricePerHour: expected a price of an hour, above 0 and below"
                f' 1,000,000,000, without a currency, found "{price}"; not used'
            )
            assert metric(program, "tonnage_node_group_problems") == 1
            assert [one.message for one in await events(cluster)] == [problem]
            # Groups are chosen by price, and only the other has one.
            assert nodes(cluster) == {"dear": 1}
            await put_groups(cluster)
            put_pods(cluster, ["q"])
            await clock.sleep(60)
            assert (await status(cluster))["tonnage"]["problems"] == []
        assert nodes(cluster) == {"dear": 1, "cheap": 1}


async def test_a_dry_run_goes_by_what_was_good_too(clock: VirtualClock) -> None:
    async with a_cluster(clock) as cluster:
        program = a_program(cluster, clock, "a", dry_run=True)
        async with lifecycle.beside(program.run()):
            await clock.sleep(30)
            await put_groups(cluster, UNKNOWN_FIELD)
            put_pods(cluster, ["p"])
            await clock.sleep(30)
        tonnage = program.autoscaler.document["tonnage"]
        assert [one["group"] for one in tonnage["done"]] == ["cheap"]
        assert "NodeGroup cheap: spec.maxsize" in tonnage["problems"][0]


def test_sizes_for_a_group_that_is_not_there_are_a_problem() -> None:
    found = resized(Declarations((CHEAP,)), {"cheap": (1, 2), "chaep": (3, 4)})
    (cheap,) = found.groups
    assert (cheap.spec.min_size, cheap.spec.max_size) == (1, 2)
    assert found.problems == ("--nodes: there is no node group chaep",)


def test_sizes_for_a_misspelt_group_are_no_second_problem() -> None:
    told = Declarations((), ("it is misspelt",), frozenset({"cheap"}))
    assert resized(told, {"cheap": (1, 2)}) == told

import asyncio
import random

import msgspec
import pytest

from tests.cluster.apiserver import ApiServer, Json, answer, status
from tonnage.clock import SystemClock
from tonnage.cluster.calls import CallPatience
from tonnage.errors import InputError, ProviderError
from tonnage.groups import node_group_objects
from tonnage.objects.nodes import Node, Taint
from tonnage.objects.scenarios import GroupTemplate, NodeGroup
from tonnage.providers.kwok import KwokProvider
from tonnage.providers.kwok_objects import CSI_NODE_ANNOTATION, GROUP_LABEL, STOCK_ANNOTATION
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock
from tonnage.testing.provider_contract import declared

NODES = "/api/v1/nodes"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
LEDGER = "/api/v1/namespaces/kube-system/configmaps/tonnage-kwok-groups"
READY = {"type": "Ready", "status": "True"}
TEMPLATE = GroupTemplate(
    node=builders.node("any", cpu="8", zone="z1", taints=[Taint(key="db", effect="NoSchedule")]),
    csi_node=builders.csinode("any", {"d": 25}),
)


def provider(
    server: ApiServer, clock: SystemClock | VirtualClock, *groups: NodeGroup, seed: int = 1, **more
) -> KwokProvider:
    client = server.client(clock, patience=CallPatience(first_wait=0.01))
    rng = random.Random(seed)
    return KwokProvider(client, clock, groups, namespace="kube-system", rng=rng, **more)


def put_node(server: ApiServer, node: Node, *, group: str, ready: bool = True) -> Json:
    wire: Json = msgspec.to_builtins(node)
    wire["metadata"]["labels"][GROUP_LABEL] = group
    if ready:
        wire.setdefault("status", {})["conditions"] = [READY]
    return server.put(NODES, wire)


def made(server: ApiServer, collection: str) -> list[Json]:
    return [obj for path, obj in server.objects.items() if path.startswith(collection + "/")]


def annotated(group: NodeGroup, annotations: dict[str, str]) -> NodeGroup:
    meta = msgspec.structs.replace(group.metadata, annotations=annotations)
    return msgspec.structs.replace(group, metadata=meta)


async def target(provider: KwokProvider) -> int:
    await provider.refresh()
    (group,) = await provider.groups()
    return group.target


async def grown(server: ApiServer, clock: VirtualClock, **more) -> Json:
    """The one node of a group that grew from zero to one."""
    kwok = provider(server, clock, declared("a", template=TEMPLATE), **more)
    await kwok.refresh()
    await kwok.increase("a", 1)
    (node,) = made(server, NODES)
    return node


# Objects


async def test_a_new_node_is_named_and_labelled_after_its_group(clock):
    async with ApiServer() as server:
        meta = (await grown(server, clock))["metadata"]
    assert meta["name"].startswith("a-")
    assert meta["labels"] == {
        GROUP_LABEL: "a",
        "kubernetes.io/hostname": meta["name"],
        "topology.kubernetes.io/zone": "z1",
    }


async def test_a_new_node_says_which_machine_it_is(clock):
    async with ApiServer() as server:
        node = await grown(server, clock)
    assert node["spec"]["providerID"] == f"kwok://a/{node['metadata']['name']}"


async def test_a_new_node_has_what_its_template_has(clock):
    async with ApiServer() as server:
        node = await grown(server, clock)
    assert node["status"]["allocatable"]["cpu"] == "8"


async def test_a_new_node_is_not_ready_and_keeps_pods_off(clock):
    async with ApiServer() as server:
        node = await grown(server, clock)
    (condition,) = node["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "False")
    assert [taint["key"] for taint in node["spec"]["taints"]] == [
        "db",
        "node.kubernetes.io/not-ready",
    ]


async def test_startup_taints_are_put_on_new_nodes(clock):
    taint = Taint(key="d/agent-not-ready", effect="NoExecute")
    async with ApiServer() as server:
        node = await grown(server, clock, startup_taints=[taint])
    assert {"key": taint.key, "effect": taint.effect} in node["spec"]["taints"]


@pytest.mark.parametrize(
    ("annotations", "drivers"),
    [
        ({}, [["d"]]),
        ({CSI_NODE_ANNOTATION: "registered"}, [["d"]]),
        ({CSI_NODE_ANNOTATION: "empty"}, [[]]),
        ({CSI_NODE_ANNOTATION: "absent"}, []),
    ],
)
async def test_a_csinode_comes_with_the_node_as_the_group_says(clock, annotations, drivers):
    async with ApiServer() as server:
        group = annotated(declared("a", template=TEMPLATE), annotations)
        await provider(server, clock, group).increase("a", 1)
        found = made(server, CSI_NODES)
    listed = [one.get("spec", {}).get("drivers", []) for one in found]
    assert [[driver["name"] for driver in each] for each in listed] == drivers


@pytest.mark.parametrize("annotation", [CSI_NODE_ANNOTATION, STOCK_ANNOTATION])
async def test_an_annotation_that_says_nothing_known_is_refused(clock, annotation):
    async with ApiServer() as server:
        with pytest.raises(InputError, match=annotation):
            provider(server, clock, annotated(declared("a"), {annotation: "soon"}))


async def test_a_csinode_is_owned_by_its_node(clock):
    async with ApiServer() as server:
        node = await grown(server, clock)
        (csi_node,) = made(server, CSI_NODES)
    (owner,) = csi_node["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Node", node["metadata"]["uid"])


async def test_a_deletion_removes_node_and_csinode(clock):
    async with ApiServer() as server:
        kwok = provider(server, clock, declared("a", template=TEMPLATE))
        await kwok.increase("a", 2)
        gone, stays = (node["metadata"]["name"] for node in made(server, NODES))
        await kwok.delete("a", [gone])
        left = [one["metadata"]["name"] for one in made(server, NODES) + made(server, CSI_NODES)]
    assert left == [stays, stays]


async def test_deleting_what_is_long_gone_is_no_error(clock):
    async with ApiServer() as server:
        put_node(server, builders.node("n1"), group="a")
        kwok = provider(server, clock, declared("a"))
        await kwok.refresh()
        await kwok.delete("a", ["n1"])
        assert await target(kwok) == 0
        await kwok.delete("a", ["n1"])
        assert await target(kwok) == 0


async def test_a_node_that_is_not_ours_is_never_deleted(clock):
    async with ApiServer() as server:
        server.put(NODES, {"metadata": {"name": "real"}})
        kwok = provider(server, clock, declared("a"))
        await kwok.refresh()
        with pytest.raises(ProviderError, match="real is not one of its nodes"):
            await kwok.delete("a", ["real"])
        assert f"{NODES}/real" in server.objects


async def test_an_instance_runs_once_its_node_has_been_ready(clock):
    async with ApiServer() as server:
        kwok = provider(server, clock, declared("a"))
        await kwok.increase("a", 1)
        (node,) = made(server, NODES)
        for conditions, state in [
            ([], "creating"),
            (
                [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusNeverUpdated"}],
                "creating",
            ),
            ([READY], "running"),
            ([{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}], "running"),
        ]:
            server.put(NODES, {**node, "status": {"conditions": conditions}})
            await kwok.refresh()
            assert [one.state for one in await kwok.instances("a")] == [state]


async def test_a_target_given_up_takes_nodes_that_never_started(clock):
    async with ApiServer() as server:
        put_node(server, builders.node("n1"), group="a")
        kwok = provider(server, clock, declared("a"))
        await kwok.refresh()
        await kwok.increase("a", 2)
        await kwok.decrease_target("a", 2)
        assert [node["metadata"]["name"] for node in made(server, NODES)] == ["n1"]


async def test_a_node_that_started_since_the_last_look_is_not_given_up(clock):
    async with ApiServer() as server:
        kwok = provider(server, clock, declared("a"))
        await kwok.increase("a", 1)
        (node,) = made(server, NODES)
        server.put(NODES, {**node, "status": {"conditions": [READY]}})
        with pytest.raises(ProviderError, match="below the 1 nodes"):
            await kwok.decrease_target("a", 1)
        assert len(made(server, NODES)) == 1


async def test_an_all_or_nothing_group_comes_and_goes_as_a_whole(clock):
    async with ApiServer() as server:
        kwok = provider(server, clock, declared("a", max_size=2, scaling="zeroOrMax"))
        with pytest.raises(ProviderError, match="either none or 2"):
            await kwok.increase("a", 1)
        await kwok.increase("a", 2)
        nodes = [node["metadata"]["name"] for node in made(server, NODES)]
        with pytest.raises(ProviderError, match="all or none"):
            await kwok.delete("a", nodes[:1])
        await kwok.delete("a", nodes)
        assert made(server, NODES) == []


# What survives


async def test_targets_survive_a_restart(clock):
    async with ApiServer() as server:
        await provider(server, clock, declared("a")).increase("a", 3)
        assert await target(provider(server, clock, declared("a"))) == 3


async def test_a_target_declared_does_not_undo_what_was_asked_for_later(clock):
    async with ApiServer() as server:
        kwok = provider(server, clock, declared("a", target=3))
        await kwok.refresh()
        await kwok.decrease_target("a", 3)
        assert await target(provider(server, clock, declared("a", target=3))) == 0


async def test_nodes_still_missing_after_a_crash_are_made_by_the_next_refresh(clock):
    async with ApiServer() as server:
        kwok = provider(server, clock, declared("a"))
        await kwok.increase("a", 2)
        for node in made(server, NODES):
            server.remove(f"{NODES}/{node['metadata']['name']}")
        await provider(server, clock, declared("a")).refresh()
        assert len(made(server, NODES)) == 2


async def test_a_deletion_cut_short_is_finished_by_the_next_refresh(clock):
    async with ApiServer() as server:
        put_node(server, builders.node("n1"), group="a")
        kwok = provider(server, clock, declared("a"))
        await kwok.refresh()
        server.script("DELETE", f"{NODES}/n1", answer(lambda: status(403, "Forbidden")))
        await kwok.delete("a", ["n1"])
        assert len(made(server, NODES)) == 1
        await provider(server, clock, declared("a")).refresh()
        assert made(server, NODES) == []


async def test_without_the_ledger_targets_are_read_off_the_nodes(clock):
    async with ApiServer() as server:
        kwok = provider(server, clock, declared("a"))
        await kwok.increase("a", 2)
        server.remove(LEDGER)
        assert await target(provider(server, clock, declared("a"))) == 2
        assert len(made(server, NODES)) == 2


async def test_an_increase_whose_answer_was_lost_counts_once(clock):
    async with ApiServer() as server:
        kwok = provider(server, clock, declared("a"))
        await kwok.increase("a", 1)

        async def written_but_not_told(request):
            server.put(LEDGER.rpartition("/")[0], msgspec.json.decode(server.bodies[-1]))
            request.transport.abort()
            return status(500, "InternalError")

        server.script("PUT", LEDGER, written_but_not_told)
        await kwok.increase("a", 2)
        assert await target(kwok) == 3
        assert len(made(server, NODES)) == 3


async def test_two_replicas_that_grow_a_group_at_once_both_count(clock):
    async with ApiServer() as server:
        first = provider(server, clock, declared("a"), seed=1)
        second = provider(server, clock, declared("a"), seed=2)
        await asyncio.gather(first.increase("a", 2), second.increase("a", 3))
        assert await target(first) == await target(second) == 5
        assert len(made(server, NODES)) == 5


async def test_two_replicas_together_never_pass_the_maximum(clock):
    async with ApiServer() as server:
        group = declared("a", max_size=3)
        replicas = [provider(server, clock, group, seed=seed) for seed in (1, 2)]
        results = await asyncio.gather(
            *(one.increase("a", 2) for one in replicas), return_exceptions=True
        )
        assert [type(one) for one in results if one is not None] == [ProviderError]
        assert len(made(server, NODES)) == 2


# Failures


async def test_a_group_out_of_stock_says_so_on_the_instances_that_are_missing(clock):
    group = annotated(declared("a"), {STOCK_ANNOTATION: "1"})
    async with ApiServer() as server:
        kwok = provider(server, clock, group)
        await kwok.increase("a", 3)
        found = [one.error.error_class for one in await kwok.instances("a") if one.error]
        assert found == ["outOfResources", "outOfResources"]
        assert len(made(server, NODES)) == 1


@pytest.mark.parametrize(
    ("message", "expected"),
    [("exceeded quota: nodes", ("quota", "Forbidden")), ("no such right", ("other", "Forbidden"))],
)
async def test_a_node_the_server_refuses_is_an_error_of_its_instance(clock, message, expected):
    async with ApiServer() as server:
        kwok = provider(server, clock, declared("a"))
        server.script("POST", NODES, answer(lambda: status(403, "Forbidden", message=message)))
        await kwok.increase("a", 1)
        (instance,) = await kwok.instances("a")
        assert instance.error is not None
        assert (instance.error.error_class, instance.error.code) == expected
        await kwok.refresh()
        (instance,) = await kwok.instances("a")
        assert instance.error is None


@pytest.mark.parametrize("code", [409, 429, 500])
async def test_a_node_refused_in_passing_is_no_error_and_is_made_by_the_next_refresh(clock, code):
    async with ApiServer() as server:
        kwok = provider(server, clock, declared("a"))
        server.script("POST", NODES, *[answer(lambda: status(code, "NotNow")) for _ in range(4)])
        await kwok.increase("a", 1)
        (instance,) = await kwok.instances("a")
        assert (instance.error, instance.state) == (None, "creating")
        for _ in range(4):
            await kwok.refresh()
        assert len(made(server, NODES)) == 1


async def test_a_csinode_refused_in_passing_is_made_by_the_next_refresh(clock):
    async with ApiServer() as server:
        kwok = provider(server, clock, declared("a", template=TEMPLATE))
        server.script("POST", CSI_NODES, answer(lambda: status(409, "Conflict")))
        await kwok.increase("a", 1)
        assert (len(made(server, NODES)), len(made(server, CSI_NODES))) == (1, 0)
        await kwok.refresh()
        assert (len(made(server, NODES)), len(made(server, CSI_NODES))) == (1, 1)


async def test_a_csinode_missing_after_a_crash_is_made_by_the_first_refresh(clock):
    async with ApiServer() as server:
        server.script("POST", CSI_NODES, answer(lambda: status(409, "Conflict")))
        await provider(server, clock, declared("a", template=TEMPLATE)).increase("a", 1)
        await provider(server, clock, declared("a", template=TEMPLATE)).refresh()
        assert len(made(server, CSI_NODES)) == 1


async def test_a_server_that_fails_is_a_provider_that_fails(clock):
    async with ApiServer() as server:
        kwok = provider(server, clock, declared("a"))
        server.script("GET", NODES, answer(lambda: status(403, "Forbidden")))
        with pytest.raises(ProviderError, match="list nodes"):
            await kwok.refresh()


async def test_a_server_that_says_nothing_is_given_up_in_time(clock):
    async with ApiServer() as server:
        kwok = provider(server, clock, declared("a"), timeout=30.0)
        server.freeze()
        with pytest.raises(ProviderError, match="not done in time"):
            await kwok.increase("a", 1)
        assert clock.monotonic() == pytest.approx(30.0, abs=1.0)


# A node that cannot be read


def spoil_a_node(server: ApiServer) -> Json:
    return server.put(NODES, {**made(server, NODES)[0], "status": {"allocatable": {"cpu": "four"}}})


async def test_a_node_that_can_no_longer_be_read_is_still_one_of_its_group(clock):
    async with ApiServer() as server:
        kwok = provider(server, clock, declared("a"))
        await kwok.refresh()
        await kwok.increase("a", 2)
        spoil_a_node(server)
        await kwok.refresh()
        (group,) = await kwok.groups()
        assert (len(group.nodes), group.target) == (2, 2)
        assert len(made(server, NODES)) == 2


async def test_a_node_that_cannot_be_read_from_the_start_is_neither_made_nor_given_up(clock):
    async with ApiServer() as server:
        kwok = provider(server, clock, declared("a"))
        await kwok.refresh()
        await kwok.increase("a", 2)
        spoilt = spoil_a_node(server)
        again = provider(server, clock, declared("a"), seed=2)
        await again.refresh()
        found = {one.node: one.state for one in await again.instances("a")}
        assert found[spoilt["metadata"]["name"]] == "running"
        await again.decrease_target("a", 1)
        assert made(server, NODES) == [spoilt]


# A ledger that somebody has edited


async def with_a_spoilt_ledger(server: ApiServer, clock: VirtualClock) -> KwokProvider:
    """Two groups of three; what the ledger says of `a` can no longer be read."""
    kwok = provider(server, clock, declared("a"), declared("b"))
    await kwok.refresh()
    for group in ("a", "b"):
        await kwok.increase(group, 3)
    ledger = server.objects[LEDGER]
    server.put(LEDGER.rpartition("/")[0], {**ledger, "data": {**ledger["data"], "a": "three"}})
    await kwok.refresh()
    return kwok


async def test_an_entry_of_the_ledger_that_makes_no_sense_is_named_by_its_group(clock):
    async with ApiServer() as server:
        kwok = await with_a_spoilt_ledger(server, clock)
        a, b = await kwok.groups()
        (problem,) = a.problems
        assert 'kube-system/tonnage-kwok-groups: data.a: expected JSON such as {"wan' in problem
        assert problem.endswith('found "three"')
        assert b.problems == ()


async def test_a_group_whose_entry_makes_no_sense_keeps_its_target_and_is_not_scaled(clock):
    async with ApiServer() as server:
        kwok = await with_a_spoilt_ledger(server, clock)
        a, _ = await kwok.groups()
        assert (a.target, a.min_size, a.max_size) == (3, 0, 3)
        with pytest.raises(ProviderError, match=r"group a: not scaled: .*data\.a"):
            await kwok.delete("a", [a.nodes[0]])
        assert len(made(server, NODES)) == 6


async def test_an_entry_that_makes_no_sense_is_left_as_it_is_while_others_change(clock):
    async with ApiServer() as server:
        kwok = await with_a_spoilt_ledger(server, clock)
        await kwok.increase("b", 1)
        assert server.objects[LEDGER]["data"]["a"] == "three"
        assert [group.target for group in await kwok.groups()] == [3, 4]


async def test_after_a_restart_a_group_whose_entry_makes_no_sense_has_the_nodes_it_has(clock):
    async with ApiServer() as server:
        await with_a_spoilt_ledger(server, clock)
        again = provider(server, clock, declared("a"), declared("b"))
        await again.refresh()
        assert [group.target for group in await again.groups()] == [3, 3]


def test_a_group_whose_name_no_node_can_carry_is_refused():
    clock = VirtualClock()
    with pytest.raises(InputError, match=r"NodeGroup A_1: metadata\.name"):
        provider(ApiServer(), clock, declared("A_1"))


async def test_a_price_is_told_without_going_through_the_nodes(clock, monkeypatch):
    """Each group is asked for its own in every round."""
    async with ApiServer() as server:
        kwok = provider(server, clock, declared("a", template=TEMPLATE, price="0.25"))
        await kwok.refresh()
        await kwok.increase("a", 3)
        looked_at = []
        original = node_group_objects.from_objects

        def noted(groups, nodes):
            looked_at.extend(nodes)
            return original(groups, nodes)

        monkeypatch.setattr(node_group_objects, "from_objects", noted)
        assert (await kwok.price("a"), looked_at) == (0.25, [])

"""Nodes and pods of the played world, on a loopback API server and in virtual time."""

import random

import msgspec
import pytest

from tests.cluster.apiserver import answer, status
from tests.embedded.loopback import CSI_NODES, LEASES, NODES, PODS, TAINT, driver, played
from tonnage.embedded.world import Delay, Flapping
from tonnage.objects.nodes import Taint
from tonnage.objects.scenarios import GroupTemplate
from tonnage.providers.kwok import KwokProvider
from tonnage.providers.kwok_objects import CSI_NODE_ANNOTATION
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock, run
from tonnage.testing.provider_contract import declared

# Nodes


async def test_a_node_is_ready_after_its_start_and_not_before(clock):
    async with played(clock) as stage:
        stage.node()
        await stage.after(9)
        assert stage.ready() is None
        await stage.after(2)
        assert stage.ready() == "True"


async def test_a_node_without_the_label_is_left_alone(clock):
    async with played(clock) as stage:
        stage.server.put(NODES, {"metadata": {"name": "real"}})
        await stage.after(30)
        assert stage.ready("real") is None


@pytest.mark.parametrize("pattern", ["n1", "n?", "bad-*"])
async def test_a_node_meant_to_never_start_never_does(clock, pattern):
    async with played(clock, never_start=(pattern,)) as stage:
        stage.node(group="bad-group")
        await stage.after(600)
        assert stage.ready() is None


async def test_other_nodes_start_beside_one_that_does_not(clock):
    async with played(clock, never_start=("n1",)) as stage:
        stage.node("n1")
        stage.node("n2")
        await stage.after(20)
        assert (stage.ready("n1"), stage.ready("n2")) == (None, "True")


async def test_a_flapping_node_comes_and_goes(clock):
    flapping = Flapping(nodes=("n1",), up=Delay(60.0), down=Delay(30.0))
    async with played(clock, flapping=(flapping,)) as stage:
        stage.node()
        seen = []
        for wait in (20, 60, 30, 60):
            await stage.after(wait)
            seen.append(stage.ready())
        assert seen == ["True", "False", "True", "False"]


async def test_where_nobody_else_does_the_not_ready_taint_follows_the_condition(clock):
    flapping = Flapping(nodes=("n1",), up=Delay(60.0), down=Delay(30.0))
    async with played(clock, controllers=True, flapping=(flapping,)) as stage:
        stage.node(taints=[Taint(key=TAINT, effect="NoSchedule"), Taint(key="own", effect="x")])
        seen = []
        for wait in (5, 15, 60):
            await stage.after(wait)
            seen.append(stage.taints())
        # One that keeps new pods off, and one that ends those that are there, in a while.
        assert seen == [[TAINT, "own"], ["own"], ["own", TAINT, TAINT]]


async def test_a_nodes_lease_is_renewed_while_it_lives(clock):
    async with played(clock, heartbeat=20.0) as stage:
        stage.node()
        await stage.after(15)
        first = stage.get(LEASES, "n1")["spec"]["renewTime"]
        await stage.after(20)
        assert stage.get(LEASES, "n1")["spec"]["renewTime"] > first
        stage.server.remove(f"{NODES}/n1")
        await stage.after(1)
        assert stage.find(LEASES, "n1") is None


async def test_a_node_that_is_ready_already_does_not_start_again(clock):
    async with played(clock) as stage:
        stage.node(ready=True)
        stage.pod()
        await stage.after(1)
        assert stage.get(PODS, "p")["status"]["phase"] == "Running"


async def test_a_server_that_refuses_for_a_while_delays_a_start_and_no_more(clock):
    async with played(clock) as stage:
        refusal = answer(lambda: status(403, "Forbidden"))
        stage.server.script("PATCH", f"{NODES}/n1/status", *[refusal] * 3)
        stage.node()
        await stage.after(12)
        assert stage.ready() == "True"


# Pods


async def test_a_pod_runs_once_its_node_has_started(clock):
    async with played(clock) as stage:
        stage.node()
        stage.pod()
        await stage.after(9)
        assert stage.get(PODS, "p")["status"]["phase"] == "Pending"
        await stage.after(2)
        assert stage.get(PODS, "p")["status"]["phase"] == "Running"


async def test_a_running_pod_has_an_address_and_ready_containers(clock):
    async with played(clock) as stage:
        stage.node()
        stage.pod()
        await stage.after(11)
        found = stage.get(PODS, "p")["status"]
    assert found["podIP"] == found["podIPs"][0]["ip"]
    assert found["startTime"] == "2030-01-01T00:00:10Z"
    assert [(one["name"], one["ready"]) for one in found["containerStatuses"]] == [("main", True)]
    assert {"type": "Ready", "status": "True"}.items() <= found["conditions"][-1].items()


async def test_what_the_scheduler_said_of_a_pod_stays(clock):
    async with played(clock) as stage:
        stage.node()
        pod = stage.pod()
        scheduled = {"type": "PodScheduled", "status": "True"}
        stage.server.put(PODS, {**pod, "status": {"phase": "Pending", "conditions": [scheduled]}})
        await stage.after(11)
        assert scheduled in stage.get(PODS, "p")["status"]["conditions"]


async def test_a_deleted_pod_is_gone_after_it_stopped(clock):
    async with played(clock, pod_stop=Delay(5.0)) as stage:
        stage.node()
        stage.pod()
        await stage.after(11)
        stage.pod(deletionTimestamp="2030-01-01T00:00:00Z")
        await stage.after(4)
        assert stage.find(PODS, "p") is not None
        await stage.after(2)
        assert stage.find(PODS, "p") is None


async def test_a_pod_ends_with_its_node(clock):
    async with played(clock) as stage:
        stage.node()
        stage.pod()
        await stage.after(11)
        stage.server.remove(f"{NODES}/n1")
        await stage.after(1)
        assert stage.find(PODS, "p") is None


async def test_pods_elsewhere_are_left_alone(clock):
    async with played(clock) as stage:
        stage.pod(node="real")
        stage.pod("q", node="real", deletionTimestamp="2030-01-01T00:00:00Z")
        await stage.after(60)
        assert stage.get(PODS, "p")["status"]["phase"] == "Pending"
        assert stage.find(PODS, "q") is not None


# Together


async def test_a_group_grown_by_its_provider_comes_to_life(clock):
    template = GroupTemplate(node=builders.node("any"), csi_node=builders.csinode("any", {"d": 25}))
    group = declared("a", template=template)
    told = msgspec.structs.replace(group.metadata, annotations={CSI_NODE_ANNOTATION: "absent"})
    group = msgspec.structs.replace(group, metadata=told)
    async with played(clock, controllers=True, drivers=(driver(),)) as stage:
        kwok = KwokProvider(
            stage.server.client(clock),
            clock,
            [group],
            namespace="default",
            rng=random.Random(1),
        )
        await kwok.refresh()
        await kwok.increase("a", 2)
        await stage.after(40)
        await kwok.refresh()
        assert [one.state for one in await kwok.instances("a")] == ["running", "running"]
        assert [stage.limits(name) for name in stage.names(NODES)] == [{"d": 25}] * 2
        await kwok.delete("a", stage.names(NODES))
        await stage.after(5)
        assert stage.names(NODES) + stage.names(CSI_NODES) == []


def starts(seed: int, *, names: str) -> dict[str, str]:
    """When each node became Ready."""
    clock = VirtualClock(grace=0.005)

    async def play() -> dict[str, str]:
        async with played(clock, seed=seed, start=Delay(1.0, 100.0)) as stage:
            for name in names:
                stage.node(name)
            await stage.after(101)
            return {
                name: stage.get(NODES, name)["status"]["conditions"][-1]["lastTransitionTime"]
                for name in names
            }

    return run(play, clock=clock)


def test_a_seed_decides_what_happens_whatever_the_order_of_events():
    assert starts(1, names="abc") == starts(1, names="cba") != starts(2, names="abc")

"""What a pod that fits nowhere is told, and how often."""

from tests.scheduler.harness import Cluster, a_program, running, scheduling
from tonnage.cluster.transport import Response
from tonnage.objects.nodes import Taint
from tonnage.objects.pods import Pod
from tonnage.testing.clock import VirtualClock

_TAINTED = [Taint(key="k", effect="NoSchedule")]


async def test_other_reasons_are_told_at_once(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("small", cpu="1")
        await cluster.pod("big", cpu="2")
        assert "taint" not in await cluster.refused("big")
        await cluster.node("tainted", cpu="4", taints=_TAINTED)
        await clock.sleep(5)
        assert "1 node(s) had untolerated taint(s)" in await cluster.refused("big")


async def test_other_numbers_are_told_once_a_minute(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("tainted-0", cpu="4", taints=_TAINTED)
        await cluster.node("small", cpu="1")
        await cluster.pod("big", cpu="2")
        assert (await cluster.refused("big")).startswith("0/2 nodes are available")
        for number in range(1, 4):
            await cluster.node(f"tainted-{number}", cpu="4", taints=_TAINTED)
            await clock.sleep(11)
            assert (await cluster.refused("big")).startswith("0/2 nodes are available")
        await clock.sleep(60)
        assert (await cluster.refused("big")).startswith("0/5 nodes are available")
        first, last = await cluster.events("FailedScheduling")
        assert first.message.startswith("0/2")
        assert last.message.startswith("0/5")


async def test_reasons_in_another_order_are_told_once_a_minute(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        for number in range(2):
            await cluster.node(f"small-{number}", cpu="1")
        await cluster.node("tainted-0", cpu="4", taints=_TAINTED)
        await cluster.pod("big", cpu="2")
        first = await cluster.refused("big")
        assert first.startswith("0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 I")
        for number in range(1, 4):
            await cluster.node(f"tainted-{number}", cpu="4", taints=_TAINTED)
        await clock.sleep(11)
        assert await cluster.refused("big") == first
        await clock.sleep(60)
        last = await cluster.refused("big")
        assert last.startswith("0/6 nodes are available: 2 Insufficient cpu, 4 node(s) had")


async def test_a_pod_with_a_node_is_told_no_numbers_any_more(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("tainted-0", cpu="4", taints=_TAINTED)
        await cluster.node("small", cpu="1")
        await cluster.pod("big", cpu="2")
        await cluster.refused("big")
        await cluster.node("tainted-1", cpu="4", taints=_TAINTED)
        await clock.sleep(11)
        await cluster.node("large", cpu="4")
        await cluster.bound("big", within=12)
        await clock.sleep(120)
        condition = await cluster.condition("big")
        assert condition is not None
        assert condition.status == "True"
        assert len(await cluster.events("FailedScheduling")) == 1


async def test_a_promise_that_was_made_meanwhile_is_kept(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await _refused_with_other_numbers(cluster)
        promised = {"status": {"nominatedNodeName": "small"}}
        await cluster.patch(Pod, "big", promised, namespace="default", subresource="status")
        await clock.sleep(60)
        assert (await cluster.refused("big")).startswith("0/3 nodes are available")
        assert (await cluster.get(Pod, "big")).status.nominated_node_name == "small"


async def test_who_does_not_lead_any_more_tells_nothing(clock: VirtualClock) -> None:
    cluster = Cluster(clock)
    program = a_program(cluster, elect=True)
    async with running(program):
        await _refused_with_other_numbers(cluster)
        cluster.transport.fault = lambda request: (
            Response(status=500) if "/leases" in request.path else None
        )
        await clock.sleep(40)
        assert not program.leadership.leading()
        await clock.sleep(60)
        assert (await cluster.refused("big")).startswith("0/2 nodes are available")


async def _refused_with_other_numbers(cluster: Cluster) -> None:
    """A pod is refused again, and has yet to be told of the nodes that came meanwhile."""
    await cluster.node("tainted-0", cpu="4", taints=_TAINTED)
    await cluster.node("small", cpu="1")
    await cluster.pod("big", cpu="2")
    await cluster.refused("big")
    await cluster.node("tainted-1", cpu="4", taints=_TAINTED)
    await cluster.clock.sleep(11)
    assert (await cluster.refused("big")).startswith("0/2 nodes are available")

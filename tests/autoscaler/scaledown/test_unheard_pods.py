"""A pod that came while nothing was heard of it: its node is not removed from under it."""

import msgspec

from tests.autoscaler.harness import PODS, Cloud, autoscaling, put_node, put_pod, started
from tests.cluster.apiserver import ApiServer
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

WAIT = 60.0


async def removed(clock: VirtualClock, *, unheard: bool) -> list[str]:
    """What is removed of a busy node and an idle one; `unheard`, a pod is on the idle one."""
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_node(server, clock, "busy", age=7200)
        put_node(server, clock, "idle", age=7200)
        put_pod(server, "web", on="busy", cpu="3")
        settings = {"scaleDownUnneededTime": WAIT, "scaleDownDelayAfterAdd": 0}
        async with autoscaling(server, cloud, clock, scaleDownEnabled=True, **settings):
            await clock.sleep(WAIT / 2)
            if unheard:
                # There for whoever asks, and no watch tells of it.
                pod = msgspec.to_builtins(builders.pod("late", cpu="1", on="idle"))
                server.objects[f"{PODS}/late"] = pod
            await clock.sleep(3 * WAIT)
            return cloud.deleted


async def test_its_node_stays(clock: VirtualClock) -> None:
    assert await removed(clock, unheard=True) == []


async def test_a_node_without_one_goes(clock: VirtualClock) -> None:
    assert await removed(clock, unheard=False) == ["idle"]

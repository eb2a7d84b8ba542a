"""A clock that jumps while a node waits to be removed: it does not go early, nor stay for it."""

import pytest

from tests.autoscaler.harness import Cloud, autoscaling, put_node, put_pod, started
from tests.cluster.apiserver import ApiServer, until
from tonnage.testing.clock import VirtualClock

WAIT = 200.0
SCAN = 10.0


@pytest.mark.parametrize("back", [True, False])
@pytest.mark.parametrize("step", [3600.0, -3600.0])
async def test_a_node_is_unneeded_for_as_long_as_ever(
    clock: VirtualClock, step: float, back: bool
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_node(server, clock, "busy", age=7200)
        put_node(server, clock, "idle", age=7200)
        put_pod(server, "web", on="busy", cpu="3")
        settings = {"scaleDownUnneededTime": WAIT, "scaleDownDelayAfterAdd": 0}
        began = clock.monotonic()
        async with autoscaling(server, cloud, clock, scaleDownEnabled=True, **settings):
            await clock.sleep(WAIT / 2)
            clock.step(step)
            await clock.sleep(WAIT / 5)
            if back:
                clock.step(-step)
            await until(lambda: bool(cloud.deleted), clock=clock)
        # A clock that was set is followed, by a tenth of the time that passes.
        assert 0.9 * WAIT <= clock.monotonic() - began <= 1.1 * WAIT + 3 * SCAN
        assert cloud.deleted == ["idle"]

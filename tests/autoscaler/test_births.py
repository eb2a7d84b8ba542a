"""Nodes that come while the clock of the API server is an hour off."""

import pytest

from tests.autoscaler.harness import (
    Cloud,
    autoscaling,
    put_node,
    put_pod,
    started,
    status,
)
from tests.cluster.apiserver import ApiServer, until
from tonnage.testing.clock import VirtualClock

HOUR = 3600.0


def coming_up(server: ApiServer) -> list[str]:
    return [one["node"] for one in status(server)["tonnage"]["comingUp"]]


async def bought(cloud: Cloud, clock: VirtualClock) -> None:
    """A node for the pod is asked for, and has not come yet."""
    await until(lambda: bool(cloud.asked), clock=clock)
    await clock.sleep(30)


@pytest.mark.parametrize("off", [HOUR, -HOUR])
async def test_a_node_that_has_just_come_is_given_its_time(clock: VirtualClock, off: float) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock):
            await bought(cloud, clock)
            put_node(server, clock, "g-1", ready=False, age=off)
            await clock.sleep(800)
            assert coming_up(server) == ["g-1"]
            assert cloud.asked == [("increase", "g", 1)]
            await clock.sleep(200)
            assert coming_up(server) == []


async def test_its_time_survives_a_restart(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock):
            await bought(cloud, clock)
            put_node(server, clock, "g-1", ready=False, age=HOUR)
            await clock.sleep(400)
        async with autoscaling(server, cloud, clock):
            await clock.sleep(400)
            assert coming_up(server) == ["g-1"]
            assert cloud.asked == [("increase", "g", 1)]
            await clock.sleep(200)
            assert coming_up(server) == []


async def test_a_node_that_was_there_before_is_as_old_as_it_says(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "g-1", ready=False, age=HOUR)
        async with autoscaling(server, Cloud(server), clock):
            await clock.sleep(60)
            assert coming_up(server) == []

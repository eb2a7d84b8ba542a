"""What is said of pods that nothing is bought for."""

import logging

import pytest

from tests.autoscaler.harness import PODS, Cloud, autoscaling, events, put_node, put_pod, started
from tests.cluster.apiserver import ApiServer
from tonnage.testing.clock import VirtualClock


async def test_a_cluster_with_all_the_nodes_it_may_have_says_so_once_each_time(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "g-1", age=7200)
        put_pod(server, "busy", cpu="4", on="g-1")
        async with autoscaling(server, Cloud(server), clock, maxNodesTotal=1):
            await clock.sleep(20)
            assert events(server, "MaxNodesTotalReached") == []
            put_pod(server, "web")
            await clock.sleep(60)
            (event,) = events(server, "MaxNodesTotalReached")
            assert (event["type"], event["count"]) == ("Warning", 1)
            server.remove(f"{PODS}/web")
            await clock.sleep(20)
            put_pod(server, "again")
            await clock.sleep(60)
            (event,) = events(server, "MaxNodesTotalReached")
            assert event["count"] == 2


async def test_the_log_names_a_pod_with_its_namespace(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with ApiServer() as server:
        started(server)
        async with autoscaling(server, Cloud(server), clock):
            put_pod(server, "web")
            await clock.sleep(20)
    (told,) = [one for one in caplog.records if getattr(one, "event", "") == "TriggeredScaleUp"]
    assert vars(told)["about"] == "default/web"

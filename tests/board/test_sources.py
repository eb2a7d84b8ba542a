"""Where moments come from: a watched cluster, and an autoscaler in the same process."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from tests.board.boards import DRIVER, a_feed, shown
from tests.scaleup.groups import group
from tonnage.board import server
from tonnage.board.feed import Feed
from tonnage.board.sources import FollowedAutoscaler, WatchedCluster
from tonnage.clock import SystemClock
from tonnage.cluster.client import Client
from tonnage.embedded.apiserver import ApiServer, InProcessTransport
from tonnage.rules import features
from tonnage.service import lifecycle, workers
from tonnage.service.connections import Connection
from tonnage.simulation import demo_story, runner
from tonnage.simulation.manifests import Manifests


@asynccontextmanager
async def watching(api: ApiServer, groups) -> AsyncIterator[Feed]:
    clock, rng = SystemClock(), random.Random(1)
    client = Client(InProcessTransport(api), clock=clock, rng=rng)
    feed = a_feed()
    watched = WatchedCluster(
        Connection(client, clock, rng),
        feed,
        features=features.of_version(),
        groups=lambda _: groups,
        settings={},
        worker=workers.here,
    )
    async with lifecycle.beside(watched.run()):
        async with asyncio.timeout(20):
            await feed.ready()
        yield feed


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
CSINODE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSINode",
    "metadata": {"name": "n1"},
    "spec": {"drivers": [{"name": DRIVER, "nodeID": "n1", "allocatable": {"count": 3}}]},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "9"}}}]},
}


async def test_a_watched_cluster_is_shown_and_followed() -> None:
    api = ApiServer(clock=SystemClock(), rng=random.Random(1))
    manifests = Manifests(api)
    for one in (NODE, CSINODE):
        manifests.apply(one)
    async with watching(api, [group("db", nodes=("n1",))]) as feed:
        state = shown(feed)
        assert list(state["tables"]["nodes"]) == ["n1"]
        assert state["values"]["head"]["pending"] == 0
        manifests.apply(POD)
        async with asyncio.timeout(20):
            while not shown(feed)["tables"]["pending"]:
                await asyncio.sleep(0.02)
        (row,) = shown(feed)["tables"]["pending"].values()
        assert row["reason"] == "0/1 nodes are available: 1 Insufficient cpu."
        assert shown(feed)["tables"]["removals"]["n1"]["group"] == "db"
    api.close()


def test_the_rounds_of_an_autoscaler_are_its_moments() -> None:
    act = demo_story.acts()[0]
    ended = runner.played(act.simulation)
    assert ended.autoscaler is not None
    feed = a_feed()
    followed = FollowedAutoscaler(feed, lambda: ended.autoscaler, clock=ended.clock)
    feed.publish(followed.moment(ended.autoscaler))
    state = shown(feed)
    assert {"db", "local"} <= set(state["tables"]["groups"])
    assert [one["text"] for one in state["tables"]["decisions"].values()] == ["+5 db", "+3 local"]


async def test_the_board_beside_an_autoscaler_shows_its_rounds() -> None:
    ended = await asyncio.to_thread(runner.played, demo_story.acts()[0].simulation)
    assert ended.autoscaler is not None
    async with (
        server.beside_autoscaler(
            ended.autoscaler, "127.0.0.1:0", title="a", clock=SystemClock(), certificates=None
        ) as served,
        aiohttp.ClientSession(served.url) as session,
        asyncio.timeout(20),
        session.get("/api/state") as answer,
    ):
        state = await answer.json()
    assert state["values"]["head"]["decides"] is True
    assert len(state["tables"]["nodes"]) == 8

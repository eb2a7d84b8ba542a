"""The snapshot that the watch feeds."""

import random

from tests.autoscaler.harness import PODS, put_pod
from tests.cluster.apiserver import ApiServer, until
from tonnage.objects.meta import Condition
from tonnage.objects.pods import Pod
from tonnage.rules import features
from tonnage.service import lifecycle
from tonnage.service.live_cluster import LiveCluster
from tonnage.testing.clock import VirtualClock


def standing(server: ApiServer, clock: VirtualClock) -> LiveCluster:
    return LiveCluster(
        server.client(clock),
        clock=clock,
        rng=random.Random(1),
        features=features.of_version(),
        counted=lambda pod: pod,
    )


async def test_equal_parts_of_pods_are_kept_once(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        for name in ("web-1", "web-2"):
            put_pod(server, name, labels={"app": "web"})
        cluster = standing(server, clock)
        async with lifecycle.beside(cluster.mirror.run()):
            await cluster.cache(Pod).wait_synced()
            one, other = cluster.pod("default/web-1"), cluster.pod("default/web-2")
    assert one is not None
    assert other is not None
    assert one.metadata.labels is other.metadata.labels
    assert one.spec.containers is other.spec.containers


async def test_what_comes_while_it_stands_still_is_taken_in_afterwards(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        put_pod(server, "first")
        put_pod(server, "leaves")
        cluster = standing(server, clock)
        async with lifecycle.beside(cluster.mirror.run()):
            await cluster.cache(Pod).wait_synced()
            with cluster.frozen():
                put_pod(server, "second")
                server.remove(f"{PODS}/leaves")
                await until(lambda: cluster.pod("default/second") is not None, clock=clock)
                await until(lambda: cluster.pod("default/leaves") is None, clock=clock)
                assert set(cluster.snapshot.pods) == {"default/first", "default/leaves"}
            assert set(cluster.snapshot.pods) == {"default/first", "default/second"}


async def test_a_pod_that_is_only_told_why_it_waits_stays_as_it_is_held(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        put_pod(server, "web", unschedulable=False)
        cluster = standing(server, clock)
        async with lifecycle.beside(cluster.mirror.run()):
            await cluster.cache(Pod).wait_synced()
            held = cluster.snapshot.pods["default/web"]
            put_pod(server, "web")
            await until(lambda: bool(_conditions(cluster)), clock=clock)
            told = cluster.snapshot.pods["default/web"]
            put_pod(server, "web", labels={"app": "web"})
            await until(lambda: bool(cluster.snapshot.pods["default/web"].meta.labels), clock=clock)
            relabelled = cluster.snapshot.pods["default/web"]
    assert told is held
    assert relabelled is not held


def _conditions(cluster: LiveCluster) -> tuple[Condition, ...]:
    pod = cluster.pod("default/web")
    assert pod is not None
    assert cluster.snapshot.pods["default/web"].meta is pod.metadata
    return pod.status.conditions

"""Who enforces the opt-in of drivers, in a cluster where kube-scheduler does not."""

import msgspec

from tests.autoscaler.harness import (
    DRIVER,
    PODS,
    Cloud,
    autoscaling,
    put,
    put_node,
    put_pod,
    started,
    status,
)
from tests.cluster.apiserver import ApiServer, until
from tonnage.objects.storage import OPT_IN_ANNOTATION
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

CSIDRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
OFF = {"VolumeLimitScaling": False}
EXTENDER = builders.pod("x", on="other", labels={"app.kubernetes.io/name": "tonnage-extender"})


def waiting(server: ApiServer, clock: VirtualClock) -> None:
    """Somebody refused a pod because the only node, which has room, lacks its driver."""
    started(server)
    put(server, CSIDRIVERS, builders.csidriver(DRIVER, opt_in=True))
    put_node(server, clock, "other", of="other", drivers={}, age=3600.0)
    put_pod(server, "db", claims=["data"])


async def test_an_extender_that_comes_is_counted_on_and_one_that_goes_is_not(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        waiting(server, clock)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock, featureGates=OFF):
            await clock.sleep(60)
            assert cloud.asked == []
            assert status(server)["tonnage"]["optInEnforcedBy"] == "kube-scheduler"
            put(server, PODS, EXTENDER)
            await until(lambda: cloud.asked == [("increase", "g", 1)], clock=clock)
            seen = "Tonnage: pod default/x is tonnage extender"
            assert status(server)["tonnage"]["optInEnforcedBy"] == seen
            server.remove(f"{PODS}/x")
            await clock.sleep(60)
            assert status(server)["tonnage"]["optInEnforcedBy"] == "kube-scheduler"


async def test_our_annotation_is_enough(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        waiting(server, clock)
        driver = builders.csidriver(DRIVER)
        annotations = {OPT_IN_ANNOTATION: "true"}
        meta = msgspec.structs.replace(driver.metadata, annotations=annotations)
        put(server, CSIDRIVERS, msgspec.structs.replace(driver, metadata=meta))
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock, featureGates=OFF):
            await until(lambda: cloud.asked == [("increase", "g", 1)], clock=clock)


async def test_the_operator_may_say_that_it_is_as_the_server_does(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        waiting(server, clock)
        put(server, PODS, EXTENDER)
        cloud = Cloud(server)
        settings = {"featureGates": OFF, "enforceOptIn": "as-server"}
        async with autoscaling(server, cloud, clock, **settings):
            await clock.sleep(60)
            assert cloud.asked == []


async def test_the_snapshot_is_not_built_anew_when_the_extender_comes(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        waiting(server, clock)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock, featureGates=OFF) as program:
            before = program.world.snapshot
            put(server, PODS, EXTENDER)
            await until(lambda: bool(cloud.asked), clock=clock)
            assert program.world.snapshot is before

"""What users can read in the played world when a volume does not come."""

from typing import Any

import pytest

from tests.embedded.embedded_cluster import DRIVER, Cluster, living
from tonnage.embedded.world import Delay, DriverBehaviour
from tonnage.objects.storage import SELECTED_NODE_ANNOTATION
from tonnage.testing.clock import VirtualClock

SENT_TO_N1 = {"annotations": {SELECTED_NODE_ANNOTATION: "n1"}}


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def driver(**more: Any) -> tuple[DriverBehaviour, ...]:
    return (DriverBehaviour(name=DRIVER, **more),)


def claim(cluster: Cluster, name: str, *, size: str = "1Gi", **more: object) -> None:
    spec = {
        "storageClassName": "disk",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
    }
    cluster.put("persistentvolumeclaims", name, spec=spec, **more)


def pod(cluster: Cluster, name: str, *, of: str) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": of}}]
    containers = [{"name": "main", "image": "x"}]
    cluster.put("pods", name, spec={"nodeName": "n1", "containers": containers, "volumes": volumes})


def told(cluster: Cluster) -> list[tuple[str, str, str]]:
    """Who was told what, in the order of names."""
    return sorted(
        (one["involvedObject"]["name"], one["reason"], one["message"])
        for one in cluster.all("events")
    )


async def test_a_claim_tells_that_its_driver_is_nowhere(clock):
    async with living(clock) as cluster:
        cluster.disk_class()
        cluster.nodes(1)
        claim(cluster, "c")
        await cluster.after(5)
        problem = f"driver {DRIVER} is not registered on any node"
        assert told(cluster) == [("c", "ProvisioningFailed", problem)]


async def test_a_claim_tells_that_its_driver_is_not_where_its_pod_will_be(clock):
    async with living(clock, drivers=driver(never_on=("n1",))) as cluster:
        cluster.disk_class(mode="WaitForFirstConsumer")
        cluster.nodes(2)
        claim(cluster, "c", metadata=SENT_TO_N1)
        await cluster.after(5)
        problem = f"driver {DRIVER} is not registered on node n1"
        assert told(cluster) == [("c", "ProvisioningFailed", problem)]


async def test_a_claim_tells_that_the_node_chosen_for_it_has_no_room(clock):
    async with living(clock, drivers=driver(capacity="10Gi")) as cluster:
        cluster.disk_class(mode="WaitForFirstConsumer")
        cluster.nodes(1)
        await cluster.after(5)
        claim(cluster, "c", size="20Gi", metadata=SENT_TO_N1)
        await cluster.after(1)
        problem = f"driver {DRIVER} has no 20Gi left on node n1"
        assert told(cluster) == [("c", "ProvisioningFailed", problem)]


async def test_a_claim_tells_that_no_node_has_room_for_it(clock):
    async with living(clock, drivers=driver(capacity="10Gi")) as cluster:
        cluster.disk_class()
        cluster.nodes(1)
        await cluster.after(5)
        claim(cluster, "c", size="20Gi")
        await cluster.after(1)
        problem = f"driver {DRIVER} has no 20Gi left on any node"
        assert told(cluster) == [("c", "ProvisioningFailed", problem)]


async def test_a_claim_tells_that_the_node_chosen_for_it_is_gone(clock):
    async with living(clock, drivers=driver()) as cluster:
        cluster.disk_class(mode="WaitForFirstConsumer")
        claim(cluster, "c", metadata=SENT_TO_N1)
        await cluster.after(1)
        problem = "node n1, which was chosen for the claim, is gone"
        assert told(cluster) == [("c", "ProvisioningFailed", problem)]


async def test_a_trouble_that_lasts_is_told_again_every_five_minutes_only(clock):
    async with living(clock) as cluster:
        cluster.disk_class()
        claim(cluster, "c")
        await cluster.after(3000)
        (event,) = cluster.all("events")
        assert event["type"] == "Warning"
        assert event["count"] > 2000
        writes = int(event["metadata"]["resourceVersion"])
        await cluster.after(600)
        (event,) = cluster.all("events")
        assert int(event["metadata"]["resourceVersion"]) - writes == 2


async def test_a_pod_tells_that_its_volume_is_refused(clock):
    async with living(clock, drivers=driver(limit=1)) as cluster:
        cluster.disk_class()
        cluster.nodes(1)
        await cluster.after(5)
        for name in ("first", "second"):
            claim(cluster, name)
        await cluster.after(1)
        pod(cluster, "p1", of="first")
        await cluster.after(5)
        pod(cluster, "p2", of="second")
        await cluster.after(5)
        ((who, reason, message),) = told(cluster)
        assert (who, reason) == ("p2", "FailedAttachVolume")
        assert "is not attached to node n1: rpc error: code = ResourceExhausted" in message


async def test_a_pod_tells_that_the_driver_of_its_volume_has_left_its_node(clock):
    async with living(clock, drivers=driver()) as cluster:
        cluster.disk_class()
        cluster.nodes(1)
        await cluster.after(5)
        claim(cluster, "c")
        await cluster.after(1)
        await cluster.world.drivers.unregister("n1", DRIVER)
        pod(cluster, "p", of="c")
        await cluster.after(5)
        problem = f"driver {DRIVER} is not registered on node n1"
        assert told(cluster) == [("p", "FailedMount", problem)]


async def test_where_all_goes_well_nobody_complains(clock):
    async with living(clock, drivers=driver(), attach=Delay(20.0)) as cluster:
        cluster.disk_class()
        cluster.nodes(1)
        await cluster.after(5)
        claim(cluster, "c")
        await cluster.after(1)
        pod(cluster, "p", of="c")
        await cluster.after(60)
        assert cluster.get("pods", "p")["status"]["phase"] == "Running"
        assert told(cluster) == []


async def test_a_bound_claim_says_how_it_may_be_accessed(clock):
    async with living(clock, drivers=driver()) as cluster:
        cluster.disk_class()
        cluster.nodes(1)
        await cluster.after(5)
        claim(cluster, "c")
        await cluster.after(1)
        found = cluster.get("persistentvolumeclaims", "c")["status"]
        assert found["accessModes"] == ["ReadWriteOnce"]

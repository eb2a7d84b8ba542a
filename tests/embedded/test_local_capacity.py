"""Local disks in the played world: what is left of them is published, and more cannot be had."""

import random
from typing import Any

import msgspec
import pytest

from tests.embedded.embedded_cluster import DRIVER, Cluster, living
from tonnage.embedded.world import Delay, DriverBehaviour, EmbeddedWorld, WorldBehaviour
from tonnage.errors import InputError
from tonnage.service import lifecycle
from tonnage.testing.clock import VirtualClock

SELECTED = "volume.kubernetes.io/selected-node"
KEY = f"topology.{DRIVER}/node"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def driver(**more: Any) -> tuple[DriverBehaviour, ...]:
    given = {"capacity": "100Gi", "published_after": Delay(1.0), **more}
    return (DriverBehaviour(name=DRIVER, **given),)


def claim(cluster: Cluster, name: str, size: str, *, node: str = "") -> None:
    meta = {"annotations": {SELECTED: node}} if node else {}
    spec = {
        "storageClassName": "disk",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
    }
    cluster.put("persistentvolumeclaims", name, metadata=meta, spec=spec)


def published(cluster: Cluster, *, key: str = KEY) -> dict[str, str]:
    """What is said to be left, by the value of the topology label."""
    return {
        one["nodeTopology"]["matchLabels"][key]: one["capacity"]
        for one in cluster.all("csistoragecapacities")
    }


def selected(cluster: Cluster, name: str) -> str | None:
    meta = cluster.get("persistentvolumeclaims", name)["metadata"]
    found: str | None = meta.get("annotations", {}).get(SELECTED)
    return found


async def on_one_node(cluster: Cluster, *, mode: str = "WaitForFirstConsumer") -> None:
    cluster.disk_class(mode=mode)
    cluster.nodes(1)
    await cluster.after(5)


async def test_a_driver_that_has_registered_publishes_what_its_node_has(clock):
    async with living(clock, drivers=driver(registers_after=Delay(20.0))) as cluster:
        cluster.disk_class()
        cluster.nodes(2)
        await cluster.after(15)
        assert published(cluster) == {}
        await cluster.after(10)
        assert published(cluster) == {"n1": "100Gi", "n2": "100Gi"}


async def test_an_object_matches_the_label_that_the_driver_gives_its_node(clock):
    async with living(clock, drivers=driver()) as cluster:
        await on_one_node(cluster)
        (one,) = cluster.all("csistoragecapacities")
        assert one["nodeTopology"] == {"matchLabels": {KEY: "n1"}}
        assert cluster.get("nodes", "n1")["metadata"]["labels"][KEY] == "n1"
        (entry,) = cluster.get("csinodes", "n1")["spec"]["drivers"]
        assert entry["topologyKeys"] == [KEY]
        assert (one["storageClassName"], one["maximumVolumeSize"]) == ("disk", "100Gi")


async def test_every_class_of_the_driver_has_an_object_of_its_own(clock):
    async with living(clock, drivers=driver()) as cluster:
        await on_one_node(cluster)
        cluster.put("storageclasses", "fast", provisioner=DRIVER)
        cluster.put("storageclasses", "other", provisioner="other.example.com")
        await cluster.after(5)
        names = {one["storageClassName"] for one in cluster.all("csistoragecapacities")}
        assert names == {"disk", "fast"}
        cluster.delete("storageclasses", "fast")
        await cluster.after(5)
        names = {one["storageClassName"] for one in cluster.all("csistoragecapacities")}
        assert names == {"disk"}


async def test_what_is_published_shrinks_some_time_after_a_volume_was_made(clock):
    async with living(clock, drivers=driver(published_after=Delay(10.0))) as cluster:
        await on_one_node(cluster)
        await cluster.after(10)
        claim(cluster, "c", "60Gi", node="n1")
        await cluster.after(5)
        assert len(cluster.names("persistentvolumes")) == 1
        assert published(cluster) == {"n1": "100Gi"}
        await cluster.after(10)
        assert published(cluster) == {"n1": "40Gi"}


async def test_what_is_published_grows_again_when_a_volume_is_gone(clock):
    async with living(clock, drivers=driver()) as cluster:
        await on_one_node(cluster)
        claim(cluster, "c", "60Gi", node="n1")
        await cluster.after(5)
        cluster.delete("persistentvolumeclaims", "c")
        await cluster.after(5)
        assert published(cluster) == {"n1": "100Gi"}


async def test_with_a_node_goes_what_was_published_for_it(clock):
    async with living(clock, drivers=driver()) as cluster:
        cluster.disk_class()
        cluster.nodes(2)
        await cluster.after(5)
        cluster.delete("nodes", "n1")
        await cluster.after(5)
        assert published(cluster) == {"n2": "100Gi"}


async def test_a_driver_that_crashes_leaves_what_it_published(clock):
    async with living(clock, drivers=driver()) as cluster:
        await on_one_node(cluster)
        await cluster.world.drivers.unregister("n1", DRIVER)
        await cluster.after(5)
        assert published(cluster) == {"n1": "100Gi"}


async def test_beyond_what_is_there_no_volume_is_made_and_the_node_is_given_back(clock):
    async with living(clock, drivers=driver()) as cluster:
        await on_one_node(cluster)
        claim(cluster, "c1", "60Gi", node="n1")
        await cluster.after(5)
        claim(cluster, "c2", "60Gi", node="n1")
        await cluster.after(5)
        assert len(cluster.names("persistentvolumes")) == 1
        assert (selected(cluster, "c1"), selected(cluster, "c2")) == ("n1", None)


async def test_of_two_claims_at_the_same_moment_one_gets_the_space(clock):
    async with living(clock, drivers=driver()) as cluster:
        await on_one_node(cluster)
        for name in ("c1", "c2"):
            claim(cluster, name, "60Gi", node="n1")
        await cluster.after(5)
        assert len(cluster.names("persistentvolumes")) == 1
        assert published(cluster) == {"n1": "40Gi"}


async def test_a_claim_that_was_sent_back_is_served_on_the_next_node_it_is_given(clock):
    async with living(clock, drivers=driver()) as cluster:
        cluster.disk_class(mode="WaitForFirstConsumer")
        cluster.nodes(2)
        await cluster.after(5)
        for name in ("c1", "c2"):
            claim(cluster, name, "60Gi", node="n1")
        await cluster.after(5)
        (left,) = [name for name in ("c1", "c2") if selected(cluster, name) is None]
        change = {"metadata": {"annotations": {SELECTED: "n2"}}}
        cluster.patch("persistentvolumeclaims", left, change)
        await cluster.after(5)
        assert published(cluster) == {"n1": "40Gi", "n2": "40Gi"}


async def test_a_volume_that_is_made_at_once_goes_where_there_is_room(clock):
    async with living(clock, drivers=driver()) as cluster:
        cluster.disk_class()
        cluster.nodes(2)
        await cluster.after(5)
        for name in ("c1", "c2", "c3"):
            claim(cluster, name, "60Gi")
        await cluster.after(30)
        assert published(cluster) == {"n1": "40Gi", "n2": "40Gi"}
        cluster.delete("persistentvolumeclaims", "c1")
        await cluster.after(30)
        assert published(cluster) == {"n1": "40Gi", "n2": "40Gi"}


async def test_nodes_of_one_topology_share_the_space(clock):
    shared = driver(topology={"zone": "zone"})
    async with living(clock, drivers=shared) as cluster:
        cluster.disk_class(mode="WaitForFirstConsumer")
        for name in ("n1", "n2"):
            cluster.node(name, labels={"zone": "a"})
        await cluster.after(5)
        claim(cluster, "c1", "60Gi", node="n1")
        await cluster.after(5)
        assert published(cluster, key="zone") == {"a": "40Gi"}
        cluster.delete("nodes", "n1")
        await cluster.after(5)
        assert published(cluster, key="zone") == {"a": "40Gi"}


async def test_a_world_that_begins_anew_knows_what_volumes_have_taken(clock):
    async with living(clock, drivers=driver()) as cluster:
        await on_one_node(cluster)
        claim(cluster, "c1", "60Gi", node="n1")
        await cluster.after(5)
        behaviour = WorldBehaviour(drivers=driver(), heartbeat=None)
        anew = EmbeddedWorld(cluster.client, clock, behaviour, random.Random(2))
        cluster.delete("csistoragecapacities", cluster.names("csistoragecapacities")[0])
        async with lifecycle.beside(anew.run()):
            await cluster.after(5)
            assert published(cluster) == {"n1": "40Gi"}


def test_a_capacity_is_read_from_a_file() -> None:
    text = b'{"drivers": [{"name": "d", "capacity": "100Gi", "publishedAfter": {"least": 60}}]}'
    (found,) = msgspec.json.decode(text, type=WorldBehaviour).drivers
    assert (found.capacity, found.published_after) == ("100Gi", Delay(60.0))


@pytest.mark.parametrize("capacity", ["much", "-1Gi"])
def test_a_capacity_that_is_no_amount_is_refused(capacity: str) -> None:
    with pytest.raises(InputError, match="`capacity`"):
        DriverBehaviour(name="d", capacity=capacity)

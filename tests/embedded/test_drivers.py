"""Drivers of the played world: when they register, and what they say."""

import msgspec
import pytest
from aiohttp import web

from tests.cluster.apiserver import answer, status
from tests.embedded.loopback import CSI_NODES, NODES, driver, played
from tonnage.embedded.world import Delay
from tonnage.errors import InputError
from tonnage.objects.nodes import Taint
from tonnage.testing import builders


async def test_a_csinode_without_drivers_comes_before_ready(clock):
    async with played(clock, drivers=(driver(),)) as stage:
        stage.node()
        await stage.after(9)
        assert stage.limits() is None
        await stage.after(2)
        assert (stage.ready(), stage.limits()) == ("True", {})


async def test_a_driver_registers_some_time_after_its_node_is_ready(clock):
    async with played(clock, drivers=(driver(),)) as stage:
        stage.node()
        await stage.after(29)
        assert stage.limits() == {}
        await stage.after(2)
        assert stage.limits() == {"d": 25}


async def test_the_first_driver_makes_the_csinode_if_the_kubelet_does_not(clock):
    async with played(clock, csi_node_at_start=False, drivers=(driver(),)) as stage:
        stage.node()
        await stage.after(29)
        assert stage.limits() is None
        await stage.after(2)
        assert stage.limits() == {"d": 25}


async def test_two_drivers_that_register_at_once_are_both_there(clock):
    async with played(clock, drivers=(driver("d"), driver("e", limit=None))) as stage:
        stage.node()
        await stage.after(40)
        assert stage.limits() == {"d": 25, "e": None}


async def test_two_drivers_untaint_a_node_at_once_and_nothing_else_is_lost(clock):
    drivers = tuple(driver(name, startup_taint=f"{name}/agent-not-ready") for name in "de")
    async with played(clock, drivers=drivers) as stage:
        stage.node(
            taints=[Taint(key=f"{name}/agent-not-ready", effect="NoExecute") for name in "def"]
        )
        await stage.after(29)
        assert len(stage.taints()) == 3
        await stage.after(11)
        assert stage.taints() == ["f/agent-not-ready"]


async def test_a_driver_meant_to_never_register_somewhere_registers_elsewhere(clock):
    async with played(clock, drivers=(driver(never_on=("a",)),)) as stage:
        stage.node("n1", group="a")
        stage.node("n2", group="b")
        await stage.after(600)
        assert (stage.limits("n1"), stage.limits("n2")) == ({}, {"d": 25})


async def test_a_limit_can_change_while_the_driver_runs(clock):
    async with played(clock, drivers=(driver(),)) as stage:
        stage.node()
        await stage.after(40)
        await stage.world.drivers.set_limit("n1", "d", 3)
        assert stage.limits() == {"d": 3}


async def test_a_changed_limit_is_still_there_after_a_crash(clock):
    async with played(clock, drivers=(driver(),)) as stage:
        stage.node()
        await stage.after(40)
        await stage.world.drivers.unregister("n1", "d")
        await stage.world.drivers.set_limit("n1", "d", 3)
        assert stage.limits() == {}
        await stage.world.drivers.register("n1", "d")
        assert stage.limits() == {"d": 3}


async def test_a_driver_that_crashes_comes_back(clock):
    crashing = driver(crashes_after=Delay(60.0), down_for=Delay(30.0))
    async with played(clock, drivers=(crashing,)) as stage:
        stage.node()
        seen = []
        for wait in (40, 60, 30, 60):
            await stage.after(wait)
            seen.append(stage.limits())
        assert seen == [{"d": 25}, {}, {"d": 25}, {}]


async def test_a_topology_key_becomes_a_label_and_is_listed(clock):
    zonal = driver(topology={"d/zone": "topology.kubernetes.io/zone"})
    async with played(clock, drivers=(zonal,)) as stage:
        stage.node(zone="z1")
        await stage.after(40)
        assert stage.get(NODES, "n1")["metadata"]["labels"]["d/zone"] == "z1"
        (entry,) = stage.get(CSI_NODES, "n1")["spec"]["drivers"]
        assert entry["topologyKeys"] == ["d/zone"]


async def test_a_csinode_goes_with_its_node(clock):
    async with played(clock, drivers=(driver(),)) as stage:
        stage.node()
        await stage.after(40)
        stage.server.remove(f"{NODES}/n1")
        await stage.after(1)
        assert stage.limits() is None


async def test_a_driver_nobody_knows_is_named(clock):
    async with played(clock, drivers=(driver(),)) as stage:
        stage.node()
        with pytest.raises(InputError, match="no driver x in this world; there is: d"):
            await stage.world.drivers.set_limit("n1", "x", 3)


async def test_a_driver_that_had_registered_before_keeps_the_limit_it_had_told(clock):
    async with played(clock, drivers=(driver(),)) as stage:
        # Past all watches, which may lag behind: the node is heard of first.
        registered = msgspec.to_builtins(builders.csinode("n1", {"d": 7}))
        stage.server.objects[f"{CSI_NODES}/n1"] = registered
        stage.node(ready=True)
        await stage.after(600)
        assert stage.limits() == {"d": 7}


async def test_a_driver_registers_though_the_csinode_of_a_former_node_is_collected_meanwhile(clock):
    async with played(clock, drivers=(driver(),)) as stage:
        path = f"{CSI_NODES}/n1"
        former = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "former"}
        stage.server.put(CSI_NODES, {"metadata": {"name": "n1", "ownerReferences": [former]}})

        def collected() -> web.Response:
            stage.server.remove(path)
            return status(404, "NotFound")

        stage.server.script("DELETE", path, answer(collected))
        stage.node()
        await stage.after(40)
        assert stage.limits() == {"d": 25}

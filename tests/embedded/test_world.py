"""The played world on a loopback API server, in virtual time."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from tests.cluster.apiserver import ApiServer, Json, answer, status
from tonnage.embedded.world import Delay, DriverBehaviour, Flapping, World, WorldBehaviour
from tonnage.errors import InputError
from tonnage.objects.nodes import Taint
from tonnage.objects.scenarios import GroupTemplate
from tonnage.objects.storage import VolumeAttachment
from tonnage.providers.kwok import KwokProvider
from tonnage.providers.kwok_objects import CSI_NODE_ANNOTATION, GROUP_LABEL
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock, run
from tonnage.testing.provider_contract import declared

CORE, STORAGE = "/api/v1", "/apis/storage.k8s.io/v1"
NODES, CSI_NODES = f"{CORE}/nodes", f"{STORAGE}/csinodes"
PODS, CLAIMS = (
    f"{CORE}/namespaces/default/pods",
    f"{CORE}/namespaces/default/persistentvolumeclaims",
)
VOLUMES, CLASSES = f"{CORE}/persistentvolumes", f"{STORAGE}/storageclasses"
ATTACHMENTS = f"{STORAGE}/volumeattachments"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
TAINT = "node.kubernetes.io/not-ready"
SELECTED = "volume.kubernetes.io/selected-node"


class Stage:
    """A server, a world on it, and words for what a test puts in and sees."""

    def __init__(self, server: ApiServer, clock: VirtualClock, world: World) -> None:
        self.server = server
        self.clock = clock
        self.world = world

    def node(self, name: str = "n1", *, group: str = "a", ready: bool = False, **more: Any) -> Json:
        wire: Json = msgspec.to_builtins(builders.node(name, labels={GROUP_LABEL: group}, **more))
        if ready:
            wire["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        return self.server.put(NODES, wire)

    def pod(self, name: str = "p", *, node: str = "n1", **meta: Any) -> Json:
        return self.server.put(
            PODS,
            {
                "metadata": {"name": name, "namespace": "default", **meta},
                "spec": {"nodeName": node, "containers": [{"name": "main"}]},
                "status": {"phase": "Pending"},
            },
        )

    def claim(self, name: str = "c", *, mode: str, selected: str = "") -> Json:
        self.server.put(
            CLASSES,
            {"metadata": {"name": "fast"}, "provisioner": "d", "volumeBindingMode": mode},
        )
        annotations = {SELECTED: selected} if selected else {}
        return self.server.put(
            CLAIMS,
            {
                "metadata": {"name": name, "namespace": "default", "annotations": annotations},
                "spec": {
                    "storageClassName": "fast",
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "5Gi"}},
                },
            },
        )

    def attachment(self) -> Json:
        spec = {"attacher": "d.io", "nodeName": "n1", "source": {"persistentVolumeName": "v"}}
        return self.server.put(ATTACHMENTS, {"metadata": {"name": "va"}, "spec": spec})

    def find(self, collection: str, name: str) -> Json | None:
        return self.server.objects.get(f"{collection}/{name}")

    def get(self, collection: str, name: str) -> Json:
        return self.server.objects[f"{collection}/{name}"]

    def names(self, collection: str) -> list[str]:
        prefix = f"{collection}/"
        return [
            path.removeprefix(prefix) for path in self.server.objects if path.startswith(prefix)
        ]

    def ready(self, name: str = "n1") -> str | None:
        conditions = self.get(NODES, name).get("status", {}).get("conditions", [])
        return next((one["status"] for one in conditions if one["type"] == "Ready"), None)

    def taints(self, name: str = "n1") -> list[str]:
        return [one["key"] for one in self.get(NODES, name)["spec"].get("taints", [])]

    def limits(self, node: str = "n1") -> dict[str, int | None] | None:
        found = self.find(CSI_NODES, node)
        if found is None:
            return None
        drivers = found.get("spec", {}).get("drivers", [])
        return {one["name"]: one.get("allocatable", {}).get("count") for one in drivers}

    async def after(self, seconds: float) -> None:
        await self.clock.sleep(seconds)


@asynccontextmanager
async def played(clock: VirtualClock, *, seed: int = 1, **behaviour: Any) -> AsyncIterator[Stage]:
    """A world with nodes that start after 10 s and nothing else that takes time."""
    at_once = Delay()
    chosen = {
        "start": Delay(10.0),
        "pod_start": at_once,
        "pod_stop": at_once,
        "provision": at_once,
        "attach": at_once,
        "detach": at_once,
        "heartbeat": None,
        **behaviour,
    }
    async with ApiServer() as server:
        world = World(
            server.client(clock), clock, WorldBehaviour(**chosen), rng=random.Random(seed)
        )
        running = asyncio.create_task(world.run())
        await server.watching(7)
        try:
            yield Stage(server, clock, world)
        finally:
            running.cancel()
            await asyncio.wait([running])
            if not running.cancelled():
                running.result()


def driver(name: str = "d", **more: Any) -> DriverBehaviour:
    return DriverBehaviour(name=name, **{"limit": 25, "registers_after": Delay(20.0), **more})


# Nodes


async def test_a_node_is_ready_after_its_start_and_not_before(clock):
    async with played(clock) as stage:
        stage.node()
        await stage.after(9)
        assert stage.ready() is None
        await stage.after(2)
        assert stage.ready() == "True"


async def test_a_node_without_the_label_is_left_alone(clock):
    async with played(clock) as stage:
        stage.server.put(NODES, {"metadata": {"name": "real"}})
        await stage.after(30)
        assert stage.ready("real") is None


@pytest.mark.parametrize("pattern", ["n1", "n?", "bad-*"])
async def test_a_node_meant_to_never_start_never_does(clock, pattern):
    async with played(clock, never_start=(pattern,)) as stage:
        stage.node(group="bad-group")
        await stage.after(600)
        assert stage.ready() is None


async def test_other_nodes_start_beside_one_that_does_not(clock):
    async with played(clock, never_start=("n1",)) as stage:
        stage.node("n1")
        stage.node("n2")
        await stage.after(20)
        assert (stage.ready("n1"), stage.ready("n2")) == (None, "True")


async def test_a_flapping_node_comes_and_goes(clock):
    flapping = Flapping(nodes=("n1",), up=Delay(60.0), down=Delay(30.0))
    async with played(clock, flapping=(flapping,)) as stage:
        stage.node()
        seen = []
        for wait in (20, 60, 30, 60):
            await stage.after(wait)
            seen.append(stage.ready())
        assert seen == ["True", "False", "True", "False"]


async def test_where_nobody_else_does_the_not_ready_taint_follows_the_condition(clock):
    flapping = Flapping(nodes=("n1",), up=Delay(60.0), down=Delay(30.0))
    async with played(clock, controllers=True, flapping=(flapping,)) as stage:
        stage.node(taints=[Taint(key=TAINT, effect="NoSchedule"), Taint(key="own", effect="x")])
        seen = []
        for wait in (5, 15, 60):
            await stage.after(wait)
            seen.append(stage.taints())
        # One that keeps new pods off, and one that ends those that are there, in a while.
        assert seen == [[TAINT, "own"], ["own"], ["own", TAINT, TAINT]]


async def test_a_nodes_lease_is_renewed_while_it_lives(clock):
    async with played(clock, heartbeat=20.0) as stage:
        stage.node()
        await stage.after(15)
        first = stage.get(LEASES, "n1")["spec"]["renewTime"]
        await stage.after(20)
        assert stage.get(LEASES, "n1")["spec"]["renewTime"] > first
        stage.server.remove(f"{NODES}/n1")
        await stage.after(1)
        assert stage.find(LEASES, "n1") is None


async def test_a_node_that_is_ready_already_does_not_start_again(clock):
    async with played(clock) as stage:
        stage.node(ready=True)
        stage.pod()
        await stage.after(1)
        assert stage.get(PODS, "p")["status"]["phase"] == "Running"


async def test_a_server_that_refuses_for_a_while_delays_a_start_and_no_more(clock):
    async with played(clock) as stage:
        refusal = answer(lambda: status(403, "Forbidden"))
        stage.server.script("PATCH", f"{NODES}/n1/status", *[refusal] * 3)
        stage.node()
        await stage.after(12)
        assert stage.ready() == "True"


# Pods


async def test_a_pod_runs_once_its_node_has_started(clock):
    async with played(clock) as stage:
        stage.node()
        stage.pod()
        await stage.after(9)
        assert stage.get(PODS, "p")["status"]["phase"] == "Pending"
        await stage.after(2)
        assert stage.get(PODS, "p")["status"]["phase"] == "Running"


async def test_a_running_pod_has_an_address_and_ready_containers(clock):
    async with played(clock) as stage:
        stage.node()
        stage.pod()
        await stage.after(11)
        found = stage.get(PODS, "p")["status"]
    assert found["podIP"] == found["podIPs"][0]["ip"]
    assert found["startTime"] == "2030-01-01T00:00:10Z"
    assert [(one["name"], one["ready"]) for one in found["containerStatuses"]] == [("main", True)]
    assert {"type": "Ready", "status": "True"}.items() <= found["conditions"][-1].items()


async def test_what_the_scheduler_said_of_a_pod_stays(clock):
    async with played(clock) as stage:
        stage.node()
        pod = stage.pod()
        scheduled = {"type": "PodScheduled", "status": "True"}
        stage.server.put(PODS, {**pod, "status": {"phase": "Pending", "conditions": [scheduled]}})
        await stage.after(11)
        assert scheduled in stage.get(PODS, "p")["status"]["conditions"]


async def test_a_deleted_pod_is_gone_after_it_stopped(clock):
    async with played(clock, pod_stop=Delay(5.0)) as stage:
        stage.node()
        stage.pod()
        await stage.after(11)
        stage.pod(deletionTimestamp="2030-01-01T00:00:00Z")
        await stage.after(4)
        assert stage.find(PODS, "p") is not None
        await stage.after(2)
        assert stage.find(PODS, "p") is None


async def test_a_pod_ends_with_its_node(clock):
    async with played(clock) as stage:
        stage.node()
        stage.pod()
        await stage.after(11)
        stage.server.remove(f"{NODES}/n1")
        await stage.after(1)
        assert stage.find(PODS, "p") is None


async def test_pods_elsewhere_are_left_alone(clock):
    async with played(clock) as stage:
        stage.pod(node="real")
        stage.pod("q", node="real", deletionTimestamp="2030-01-01T00:00:00Z")
        await stage.after(60)
        assert stage.get(PODS, "p")["status"]["phase"] == "Pending"
        assert stage.find(PODS, "q") is not None


# Drivers


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


# Storage


async def test_a_claim_waits_for_its_first_consumer(clock):
    async with played(clock, drivers=(driver(),)) as stage:
        stage.node()
        await stage.after(40)
        stage.claim(mode="WaitForFirstConsumer")
        await stage.after(60)
        assert stage.names(VOLUMES) == []
        stage.claim(mode="WaitForFirstConsumer", selected="n1")
        await stage.after(1)
        assert len(stage.names(VOLUMES)) == 1


async def test_a_volume_is_what_the_claim_asked_for_where_its_node_is(clock):
    zonal = driver(topology={"d/zone": "topology.kubernetes.io/zone"})
    async with played(clock, drivers=(zonal,)) as stage:
        stage.node(zone="z1")
        await stage.after(40)
        claim = stage.claim(mode="WaitForFirstConsumer", selected="n1")
        await stage.after(1)
        spec = stage.get(VOLUMES, f"pvc-{claim['metadata']['uid']}")["spec"]
    assert spec["claimRef"]["uid"] == claim["metadata"]["uid"]
    assert (spec["capacity"], spec["csi"]["driver"]) == ({"storage": "5Gi"}, "d")
    (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "d/zone", "operator": "In", "values": ["z1"]}]


async def test_a_volume_is_made_only_once_its_driver_is_on_the_node(clock):
    async with played(clock, drivers=(driver(),)) as stage:
        stage.node()
        stage.claim(mode="WaitForFirstConsumer", selected="n1")
        await stage.after(29)
        assert stage.names(VOLUMES) == []
        await stage.after(3)
        assert len(stage.names(VOLUMES)) == 1


async def test_a_claim_of_an_immediate_class_waits_for_nobody(clock):
    async with played(clock, drivers=(driver(),)) as stage:
        stage.node()
        await stage.after(40)
        stage.claim(mode="Immediate")
        await stage.after(1)
        assert len(stage.names(VOLUMES)) == 1


async def test_binding_is_left_to_the_servers_own_controllers(clock):
    async with played(clock, drivers=(driver(),)) as stage:
        stage.node()
        await stage.after(40)
        stage.claim(mode="Immediate")
        await stage.after(60)
        assert "volumeName" not in stage.get(CLAIMS, "c")["spec"]


async def test_where_nobody_else_does_claims_are_bound(clock):
    async with played(clock, controllers=True, drivers=(driver(),)) as stage:
        stage.node()
        await stage.after(40)
        stage.claim(mode="Immediate")
        await stage.after(1)
        claim, (volume,) = stage.get(CLAIMS, "c"), stage.names(VOLUMES)
    assert claim["spec"]["volumeName"] == volume
    assert "pv.kubernetes.io/bind-completed" in claim["metadata"]["annotations"]
    assert claim["status"] == {"phase": "Bound", "capacity": {"storage": "5Gi"}}


async def test_a_volume_goes_with_its_claim(clock):
    async with played(clock, drivers=(driver(),)) as stage:
        stage.node()
        await stage.after(40)
        stage.claim(mode="Immediate")
        await stage.after(1)
        stage.server.remove(f"{CLAIMS}/c")
        await stage.after(1)
        assert stage.names(VOLUMES) == []


async def test_an_attachment_becomes_true_after_a_while(clock):
    async with played(clock, attach=Delay(5.0)) as stage:
        stage.attachment()
        await stage.after(4)
        assert not stage.get(ATTACHMENTS, "va").get("status", {}).get("attached", False)
        await stage.after(2)
        assert stage.get(ATTACHMENTS, "va")["status"]["attached"] is True


async def test_an_attachment_that_is_deleted_stays_until_it_is_detached(clock):
    async with played(clock, detach=Delay(5.0)) as stage:
        attached = stage.attachment()
        await stage.after(1)
        client = stage.server.client(clock)
        await client.delete(VolumeAttachment, attached["metadata"]["name"])
        await stage.after(4)
        assert stage.find(ATTACHMENTS, "va") is not None
        await stage.after(2)
        assert stage.find(ATTACHMENTS, "va") is None


async def test_an_attachment_that_fails_says_so_and_is_tried_again(clock):
    async with played(clock, attach=Delay(5.0), attach_failure_chance=0.9) as stage:
        stage.attachment()
        await stage.after(6)
        assert "attachError" in stage.get(ATTACHMENTS, "va")["status"]
        await stage.after(1_000)
        assert stage.get(ATTACHMENTS, "va")["status"] == {"attached": True}


# Together


async def test_a_group_grown_by_its_provider_comes_to_life(clock):
    template = GroupTemplate(node=builders.node("any"), csi_node=builders.csinode("any", {"d": 25}))
    group = declared("a", template=template)
    told = msgspec.structs.replace(group.metadata, annotations={CSI_NODE_ANNOTATION: "absent"})
    group = msgspec.structs.replace(group, metadata=told)
    async with played(clock, controllers=True, drivers=(driver(),)) as stage:
        kwok = KwokProvider(
            stage.server.client(clock),
            clock,
            [group],
            namespace="default",
            rng=random.Random(1),
        )
        await kwok.refresh()
        await kwok.increase("a", 2)
        await stage.after(40)
        await kwok.refresh()
        assert [one.state for one in await kwok.instances("a")] == ["running", "running"]
        assert [stage.limits(name) for name in stage.names(NODES)] == [{"d": 25}] * 2
        await kwok.delete("a", stage.names(NODES))
        await stage.after(5)
        assert stage.names(NODES) + stage.names(CSI_NODES) == []


def starts(seed: int, *, names: str) -> dict[str, str]:
    """When each node became Ready."""
    clock = VirtualClock(grace=0.005)

    async def play() -> dict[str, str]:
        async with played(clock, seed=seed, start=Delay(1.0, 100.0)) as stage:
            for name in names:
                stage.node(name)
            await stage.after(101)
            return {
                name: stage.get(NODES, name)["status"]["conditions"][-1]["lastTransitionTime"]
                for name in names
            }

    return run(play, clock=clock)


def test_a_seed_decides_what_happens_whatever_the_order_of_events():
    assert starts(1, names="abc") == starts(1, names="cba") != starts(2, names="abc")

"""Volumes in the played world: bound, attached where their pods are, refused beyond the limit."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from tests.embedded.embedded_cluster import DRIVER, Cluster, Json, living, workload
from tonnage.cluster.transport import HttpRequest, Response, Stream, Transport
from tonnage.embedded.world import Delay, DriverBehaviour, DriverLimitChange, WorldBehaviour
from tonnage.objects.storage import SELECTED_NODE_ANNOTATION
from tonnage.testing.clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def driver(**more: Any) -> tuple[DriverBehaviour, ...]:
    return (DriverBehaviour(name=DRIVER, **{"limit": 25, **more}),)


def claim(cluster: Cluster, name: str, *, modes: str = "ReadWriteOnce", **spec: object) -> None:
    wanted = {"requests": {"storage": "1Gi"}}
    parts = {"storageClassName": "disk", "accessModes": [modes], "resources": wanted, **spec}
    cluster.put("persistentvolumeclaims", name, spec=parts)


def pod(cluster: Cluster, name: str, *claims: str, node: str = "n1", **spec: object) -> None:
    volumes = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": one}}
        for number, one in enumerate(claims)
    ]
    containers = [{"name": "main", "image": "x"}]
    parts = {"nodeName": node, "containers": containers, "volumes": volumes, **spec}
    cluster.put("pods", name, spec=parts)


def phase(cluster: Cluster, name: str) -> str:
    found: str = cluster.get("pods", name)["status"]["phase"]
    return found


def waiting(cluster: Cluster, name: str) -> str:
    (container,) = cluster.get("pods", name)["status"]["containerStatuses"]
    found: str = container["state"]["waiting"]["reason"]
    return found


def errors(cluster: Cluster) -> list[Json]:
    told = (one.get("status", {}).get("attachError") for one in cluster.all("volumeattachments"))
    return [one for one in told if one]


# Attaching


async def test_a_pod_runs_once_its_volume_is_attached(clock):
    async with living(clock, drivers=driver(), attach=Delay(10.0)) as cluster:
        cluster.disk_class()
        cluster.nodes(1)
        claim(cluster, "c")
        await cluster.after(5)
        pod(cluster, "p", "c")
        await cluster.after(8)
        assert (phase(cluster, "p"), waiting(cluster, "p")) == ("Pending", "ContainerCreating")
        await cluster.after(5)
        assert phase(cluster, "p") == "Running"
        (attachment,) = cluster.all("volumeattachments")
        assert (attachment["spec"]["attacher"], attachment["spec"]["nodeName"]) == (DRIVER, "n1")


async def test_a_pod_waits_for_a_claim_that_is_bound_after_it_came(clock):
    async with living(clock, drivers=driver(), provision=Delay(20.0)) as cluster:
        cluster.disk_class()
        cluster.nodes(1)
        claim(cluster, "c")
        pod(cluster, "p", "c")
        await cluster.after(15)
        assert phase(cluster, "p") == "Pending"
        await cluster.after(15)
        assert phase(cluster, "p") == "Running"


async def test_a_volume_is_detached_some_time_after_its_last_pod_is_gone(clock):
    async with living(clock, drivers=driver(), detach=Delay(30.0)) as cluster:
        cluster.disk_class()
        cluster.nodes(1)
        claim(cluster, "c")
        await cluster.after(5)
        pod(cluster, "p", "c")
        pod(cluster, "q", "c")
        await cluster.after(5)
        cluster.delete("pods", "p")
        await cluster.after(60)
        assert len(cluster.names("volumeattachments")) == 1
        cluster.delete("pods", "q")
        await cluster.after(25)
        (attachment,) = cluster.all("volumeattachments")
        assert "deletionTimestamp" in attachment["metadata"]
        await cluster.after(10)
        assert cluster.names("volumeattachments") == []


async def test_a_volume_for_one_node_waits_until_it_is_off_the_other(clock):
    async with living(clock, drivers=driver(), detach=Delay(30.0)) as cluster:
        cluster.disk_class()
        cluster.nodes(2)
        claim(cluster, "c")
        await cluster.after(5)
        pod(cluster, "p", "c", node="n1")
        await cluster.after(5)
        cluster.delete("pods", "p")
        pod(cluster, "q", "c", node="n2")
        await cluster.after(20)
        assert phase(cluster, "q") == "Pending"
        assert [one["spec"]["nodeName"] for one in cluster.all("volumeattachments")] == ["n1"]
        await cluster.after(15)
        assert phase(cluster, "q") == "Running"


async def test_a_shared_volume_is_attached_to_two_nodes_at_once(clock):
    async with living(clock, drivers=driver()) as cluster:
        cluster.disk_class()
        cluster.nodes(2)
        claim(cluster, "c", modes="ReadWriteMany")
        await cluster.after(5)
        pod(cluster, "p", "c", node="n1")
        pod(cluster, "q", "c", node="n2")
        await cluster.after(5)
        assert (phase(cluster, "p"), phase(cluster, "q")) == ("Running", "Running")
        assert sorted(cluster.attached()) == ["n1", "n2"]


async def test_a_driver_that_attaches_nothing_needs_no_attachment(clock):
    async with living(clock, drivers=driver()) as cluster:
        cluster.put("csidrivers", DRIVER, spec={"attachRequired": False})
        cluster.disk_class()
        cluster.nodes(1)
        claim(cluster, "c")
        await cluster.after(5)
        pod(cluster, "p", "c")
        await cluster.after(5)
        assert phase(cluster, "p") == "Running"
        assert cluster.names("volumeattachments") == []


async def test_attachments_end_with_their_node(clock):
    async with living(clock, drivers=driver()) as cluster:
        cluster.disk_class()
        cluster.nodes(1)
        claim(cluster, "c")
        await cluster.after(5)
        pod(cluster, "p", "c")
        await cluster.after(5)
        cluster.delete("nodes", "n1")
        await cluster.after(5)
        assert cluster.names("volumeattachments") == []


# The limit


async def test_beyond_the_nodes_limit_a_volume_is_refused_and_its_pod_stuck(clock):
    async with living(clock, drivers=driver(limit=2)) as cluster:
        await _crowd(cluster, 3)
        assert cluster.phases() == {"Running": 2, "Pending": 1}
        assert waiting(cluster, "p3") == "ContainerCreating"
        (error,) = errors(cluster)
        assert error["errorCode"] == 8
        assert error["message"].startswith("rpc error: code = ResourceExhausted desc = node n1")
        await cluster.after(3600)
        assert cluster.phases() == {"Running": 2, "Pending": 1}


async def test_a_pod_that_was_stuck_runs_when_a_slot_is_free(clock):
    async with living(clock, drivers=driver(limit=2)) as cluster:
        await _crowd(cluster, 3)
        cluster.delete("pods", "p1")
        await cluster.after(600)
        assert (phase(cluster, "p2"), phase(cluster, "p3")) == ("Running", "Running")
        assert errors(cluster) == []


async def test_what_counts_is_the_limit_that_is_real(clock):
    async with living(clock, drivers=driver(limit=25, real_limit=1)) as cluster:
        await _crowd(cluster, 2)
        assert cluster.limits("n1") == {DRIVER: 25}
        assert cluster.phases() == {"Running": 1, "Pending": 1}


async def test_a_limit_that_shrinks_is_reported_later_and_detaches_nothing(clock):
    change = DriverLimitChange(after=Delay(60.0), limit=1, reported_after=Delay(30.0))
    async with living(clock, drivers=driver(limit=2, changes=(change,))) as cluster:
        await _crowd(cluster, 2)
        await cluster.after(70 - clock.monotonic())
        cluster.delete("pods", "p1")
        claim(cluster, "c3")
        await cluster.after(2)
        pod(cluster, "p3", "c3")
        await cluster.after(5)
        assert cluster.limits("n1") == {DRIVER: 2}
        assert (phase(cluster, "p2"), phase(cluster, "p3")) == ("Running", "Pending")
        await cluster.after(30)
        assert cluster.limits("n1") == {DRIVER: 1}


async def test_a_limit_changed_by_order_lets_more_volumes_in(clock):
    async with living(clock, drivers=driver(limit=1)) as cluster:
        await _crowd(cluster, 2)
        await cluster.world.drivers.set_limit("n1", DRIVER, 2)
        assert cluster.limits("n1") == {DRIVER: 2}
        await cluster.after(600)
        assert cluster.phases() == {"Running": 2}


# Drivers that are not there


async def test_a_pod_waits_for_a_driver_that_is_not_registered_on_its_node(clock):
    async with living(clock, drivers=driver(registers_after=Delay(60.0))) as cluster:
        cluster.disk_class()
        cluster.nodes(1)
        claim(cluster, "c")
        pod(cluster, "p", "c")
        await cluster.after(50)
        assert phase(cluster, "p") == "Pending"
        await cluster.after(20)
        assert phase(cluster, "p") == "Running"


async def test_while_a_driver_is_down_no_pod_with_its_volumes_starts(clock):
    async with living(clock, drivers=driver()) as cluster:
        cluster.disk_class()
        cluster.nodes(1)
        claim(cluster, "c")
        await cluster.after(5)
        await cluster.world.drivers.unregister("n1", DRIVER)
        pod(cluster, "p", "c")
        await cluster.after(60)
        assert (phase(cluster, "p"), len(cluster.attached()["n1"])) == ("Pending", 1)
        await cluster.world.drivers.register("n1", DRIVER)
        await cluster.after(1)
        assert phase(cluster, "p") == "Running"


# Claims


async def test_a_claim_of_no_provisioner_gets_the_smallest_volume_that_is_large_enough(clock):
    async with living(clock) as cluster:
        for name, size in (("small", "1Gi"), ("large", "100Gi"), ("fitting", "10Gi")):
            volume(cluster, name, size)
        await cluster.after(1)
        spec: dict[str, Any] = {
            "storageClassName": "",
            "resources": {"requests": {"storage": "5Gi"}},
        }
        claim(cluster, "c", **spec)
        await cluster.after(1)
        assert cluster.get("persistentvolumeclaims", "c")["spec"]["volumeName"] == "fitting"
        found = cluster.get("persistentvolumes", "fitting")
        assert (found["spec"]["claimRef"]["name"], found["status"]["phase"]) == ("c", "Bound")
        assert cluster.get("persistentvolumes", "large")["status"]["phase"] == "Available"


async def test_a_volume_that_stays_is_released_with_its_claim(clock):
    async with living(clock) as cluster:
        volume(cluster, "v", "10Gi")
        claim(cluster, "c", storageClassName="")
        await cluster.after(1)
        cluster.delete("persistentvolumeclaims", "c")
        await cluster.after(1)
        assert cluster.get("persistentvolumes", "v")["status"]["phase"] == "Released"


async def test_two_claims_that_come_together_do_not_get_the_same_volume(clock):
    async with living(clock) as cluster:
        volume(cluster, "v", "10Gi")
        await cluster.after(1)
        for name in ("first", "second"):
            claim(cluster, name, storageClassName="")
        await cluster.after(1)
        claims = cluster.all("persistentvolumeclaims")
        assert [one["metadata"]["name"] for one in claims if one["spec"].get("volumeName")] == [
            cluster.get("persistentvolumes", "v")["spec"]["claimRef"]["name"]
        ]


async def test_a_volume_that_a_scheduler_has_just_given_away_is_not_given_to_another_claim(clock):
    async with living(clock) as cluster:
        volume(cluster, "v", "10Gi")
        await cluster.after(1)
        claim(cluster, "c", storageClassName="")
        theirs = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "another"}
        await asyncio.sleep(0)
        cluster.patch("persistentvolumes", "v", {"spec": {"claimRef": theirs}})
        await cluster.after(5)
        assert cluster.get("persistentvolumes", "v")["spec"]["claimRef"]["name"] == "another"
        assert "volumeName" not in cluster.get("persistentvolumeclaims", "c")["spec"]


async def test_a_claim_that_waits_for_its_pod_is_left_alone_before_its_class_is_known(clock):
    late = LateClasses(clock)
    async with living(clock, way=late) as cluster:
        cluster.disk_class(mode="WaitForFirstConsumer")
        volume(cluster, "v", "10Gi", storageClassName="disk")
        claim(cluster, "c")
        await cluster.after(2 * late.seconds)
        assert "volumeName" not in cluster.get("persistentvolumeclaims", "c")["spec"]


async def test_a_claim_that_waits_for_nobody_is_bound_when_its_class_becomes_known(clock):
    late = LateClasses(clock)
    async with living(clock, way=late) as cluster:
        cluster.disk_class(mode="Immediate")
        volume(cluster, "v", "10Gi", storageClassName="disk")
        claim(cluster, "c")
        await cluster.after(2 * late.seconds)
        assert cluster.get("persistentvolumeclaims", "c")["spec"]["volumeName"] == "v"


async def test_a_claim_that_was_sent_to_a_node_that_is_gone_is_free_to_be_sent_elsewhere(clock):
    async with living(clock, drivers=driver()) as cluster:
        cluster.disk_class(mode="WaitForFirstConsumer")
        claim(cluster, "c")
        send(cluster, "c", "gone")
        await cluster.after(5)
        assert sent_to(cluster, "c") is None


async def test_a_claim_whose_node_is_deleted_before_its_volume_is_made_gets_one_elsewhere(clock):
    by_host = driver(topology={"host": "kubernetes.io/hostname"})
    async with living(clock, drivers=by_host, provision=Delay(10.0)) as cluster:
        cluster.disk_class(mode="WaitForFirstConsumer")
        cluster.nodes(2)
        await cluster.after(5)
        claim(cluster, "c")
        send(cluster, "c", "n1")
        await cluster.after(5)
        cluster.delete("nodes", "n1")
        await cluster.after(10)
        assert sent_to(cluster, "c") is None
        send(cluster, "c", "n2")
        await cluster.after(15)
        (made,) = cluster.all("persistentvolumes")
        (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert [one["values"] for one in term["matchExpressions"]] == [["n2"]]


async def test_a_generic_ephemeral_volume_gets_a_claim_that_goes_with_its_pod(clock):
    async with living(clock, drivers=driver()) as cluster:
        cluster.disk_class()
        cluster.nodes(1)
        await cluster.after(5)
        spec = {
            "storageClassName": "disk",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        source = {"name": "s", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
        pod(cluster, "p", volumes=[source])
        await cluster.after(5)
        assert cluster.names("persistentvolumeclaims") == ["p-s"]
        assert phase(cluster, "p") == "Running"
        cluster.delete("pods", "p")
        await cluster.after(5)
        assert cluster.names("persistentvolumeclaims") + cluster.names("persistentvolumes") == []


def send(cluster: Cluster, name: str, node: str) -> None:
    """What a scheduler does with a claim that waits for its pod."""
    sent = {"metadata": {"annotations": {SELECTED_NODE_ANNOTATION: node}}}
    cluster.patch("persistentvolumeclaims", name, sent)


def sent_to(cluster: Cluster, name: str) -> str | None:
    meta = cluster.get("persistentvolumeclaims", name)["metadata"]
    found: str | None = meta.get("annotations", {}).get(SELECTED_NODE_ANNOTATION)
    return found


class LateClasses:
    """A way to the API on which StorageClasses are heard of long after everything else."""

    seconds = 10.0

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    def __call__(self, transport: Transport) -> Transport:
        self._transport = transport
        return self

    async def send(self, request: HttpRequest) -> Response:
        return await self._transport.send(request)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[Stream]:
        if request.path.endswith("/storageclasses"):
            await self._clock.sleep(self.seconds)
        async with self._transport.stream(request) as stream:
            yield stream

    async def close(self) -> None:
        await self._transport.close()


def volume(cluster: Cluster, name: str, size: str, **more: object) -> None:
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": DRIVER, "volumeHandle": name},
        **more,
    }
    cluster.put("persistentvolumes", name, spec=spec)


# Nodes in trouble


async def test_pods_leave_a_node_that_is_not_ready_for_five_minutes_and_not_before(clock):
    async with living(clock) as cluster:
        cluster.nodes(2)
        cluster.put("replicasets", "web", spec=workload(replicas=2))
        await cluster.after(10)
        await cluster.world.kubelets.report("n1", ready=False)
        await cluster.after(290)
        assert sorted(cluster.places().values()) == ["n1", "n2"]
        await cluster.after(30)
        assert sorted(cluster.places().values()) == ["n2", "n2"]


async def test_pods_stay_on_a_node_that_recovers_in_time(clock):
    async with living(clock) as cluster:
        cluster.nodes(1)
        cluster.put("replicasets", "web", spec=workload(replicas=1))
        await cluster.after(10)
        (before,) = cluster.names("pods")
        await cluster.world.kubelets.report("n1", ready=False)
        await cluster.after(200)
        await cluster.world.kubelets.report("n1", ready=True)
        await cluster.after(600)
        assert cluster.names("pods") == [before]


async def test_a_taint_that_ends_pods_does_so_at_once_for_those_that_do_not_tolerate_it(clock):
    async with living(clock) as cluster:
        cluster.nodes(1)
        tolerant = [{"key": "out", "operator": "Exists"}]
        pod(cluster, "p")
        pod(cluster, "q", tolerations=tolerant)
        await cluster.after(5)
        cluster.patch("nodes", "n1", {"spec": {"taints": [{"key": "out", "effect": "NoExecute"}]}})
        await cluster.after(10)
        assert cluster.names("pods") == ["q"]


async def test_a_cordoned_node_is_tainted_until_it_is_not(clock):
    async with living(clock) as cluster:
        cluster.nodes(1)
        seen = []
        for unschedulable in (True, False):
            await cluster.after(5)
            cluster.patch("nodes", "n1", {"spec": {"unschedulable": unschedulable}})
            await cluster.after(5)
            taints = cluster.get("nodes", "n1")["spec"].get("taints", [])
            seen.append([one["key"] for one in taints])
    assert seen == [["node.kubernetes.io/unschedulable"], []]


# In files


def test_a_change_of_limit_is_read_from_a_file():
    text = b"""{"controllers": true, "heartbeat": null, "drivers": [{"name": "d", "limit": 25,
        "realLimit": 20, "changes": [{"after": {"least": 600}, "limit": 3, "nodes": ["n?"]}]}]}"""
    found = msgspec.json.decode(text, type=WorldBehaviour)
    (change,) = found.drivers[0].changes
    assert (change.after, change.limit, change.nodes) == (Delay(600.0), 3, ("n?",))


async def _crowd(cluster: Cluster, pods: int) -> None:
    """So many pods on one node, each with a volume."""
    cluster.disk_class()
    cluster.nodes(1)
    for number in range(1, pods + 1):
        claim(cluster, f"c{number}")
    await cluster.after(5)
    for number in range(1, pods + 1):
        pod(cluster, f"p{number}", f"c{number}")
    await cluster.after(10)

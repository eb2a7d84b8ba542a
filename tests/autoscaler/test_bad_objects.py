"""One bad object of each kind that is watched: named in the status, and the rest goes on."""

from typing import Any

import pytest

from tests.autoscaler.harness import (
    ATTACHMENTS,
    CLAIMS,
    CLASSES,
    CSINODES,
    DRIVER,
    NODES,
    PODS,
    Cloud,
    autoscaling,
    metric,
    put_node,
    put_pod,
    started,
    status,
)
from tests.cluster.apiserver import ApiServer, Json
from tonnage.providers.protocol import Instance
from tonnage.testing.clock import VirtualClock

VOLUMES = "/api/v1/persistentvolumes"
NAMESPACES = "/api/v1/namespaces"
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
CAPACITIES = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities"
DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

UNKNOWN_OPERATOR = {"matchExpressions": [{"key": "x", "operator": "Near", "values": ["y"]}]}
NEVER = "nodeSelectorTerms[0].matchExpressions[0]: expected something that can match, found x Near"
NOWHERE = {"nodeSelectorTerms": [UNKNOWN_OPERATOR]}


def pod(**spec: Any) -> Json:
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {
        "metadata": {"name": "bad", "namespace": "default"},
        "spec": {"containers": [{"name": "a"}], **spec},
        "status": {"conditions": [waits]},
    }


def claim(**spec: Any) -> Json:
    return {"metadata": {"name": "bad", "namespace": "default"}, "spec": spec}


def daemon_set(**spec: Any) -> Json:
    template = {"spec": {"containers": [{"name": "a"}], **spec}}
    return {"metadata": {"name": "bad", "namespace": "default"}, "spec": {"template": template}}


def drivers(*counts: object) -> Json:
    listed = [{"name": DRIVER, "nodeID": "x", "allocatable": {"count": one}} for one in counts]
    return {"metadata": {"name": "bad"}, "spec": {"drivers": listed}}


def capacity(**parts: Any) -> Json:
    metadata = {"name": "bad", "namespace": "default"}
    return {"metadata": metadata, "storageClassName": "fast", **parts}


def named(name: str = "bad", **parts: Any) -> Json:
    return {"metadata": {"name": name}, **parts}


LOTS = [{"name": "a", "resources": {"requests": {"cpu": "lots"}}}]
NO_QUANTITY = "expected a quantity such as 500m, 2 or 10Gi, found"

BAD: dict[str, tuple[str, Json, str]] = {
    "a node with a quantity that is none": (
        NODES,
        named(status={"allocatable": {"cpu": "four"}}),
        f'Node bad: status.allocatable.cpu: {NO_QUANTITY} "four"',
    ),
    "a node with less than nothing": (
        NODES,
        named(status={"allocatable": {"cpu": "-4"}}),
        "Node bad: status.allocatable.cpu: expected a quantity that is not negative",
    ),
    "a node with taints that are no list": (
        NODES,
        named(spec={"taints": "x"}),
        'Node bad: spec.taints: expected a list, found "x"',
    ),
    "a pod with a request that is none": (
        PODS,
        pod(containers=LOTS),
        f'Pod default/bad: spec.containers[0].resources.requests.cpu: {NO_QUANTITY} "lots"',
    ),
    "a pod with an affinity that never matches": (
        PODS,
        pod(affinity={"nodeAffinity": {REQUIRED: NOWHERE}}),
        f"Pod default/bad: spec.affinity.nodeAffinity.{REQUIRED}.{NEVER}",
    ),
    "a pod with a selector that is none": (
        PODS,
        pod(affinity={"podAntiAffinity": {REQUIRED: [
            {"topologyKey": "zone", "labelSelector": UNKNOWN_OPERATOR}
        ]}}),
        f"Pod default/bad: spec.affinity.podAntiAffinity.{REQUIRED}[0].labelSelector: expected a",
    ),
    "a pod that runs, with a selector that is none": (
        PODS,
        pod(nodeName="n1", affinity={"podAffinity": {REQUIRED: [
            {"topologyKey": "zone", "namespaceSelector": UNKNOWN_OPERATOR}
        ]}}),
        f"Pod default/bad: spec.affinity.podAffinity.{REQUIRED}[0].namespaceSelector: expected a",
    ),
    "a pod without a topology": (
        PODS,
        pod(affinity={"podAffinity": {REQUIRED: [{"labelSelector": {}}]}}),
        f"Pod default/bad: spec.affinity.podAffinity.{REQUIRED}[0].topologyKey: expected the key",
    ),
    "a pod spread by nothing known": (
        PODS,
        pod(topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "Maybe"}
        ]),
        "Pod default/bad: spec.topologySpreadConstraints[0].whenUnsatisfiable: expected DoNotSch",
    ),
    "a pod that tolerates in an unknown way": (
        PODS,
        pod(tolerations=[{"key": "x", "operator": "Near"}]),
        "Pod default/bad: spec.tolerations[0].operator: expected Equal or Exists or Lt or Gt",
    ),
    "a claim of a class that is not there": (
        CLAIMS,
        claim(storageClassName="gone"),
        "PersistentVolumeClaim default/bad: spec.storageClassName: expected a StorageClass that is",
    ),
    "a claim for an amount that is none": (
        CLAIMS,
        claim(storageClassName="fast", resources={"requests": {"storage": "big"}}),
        f"PersistentVolumeClaim default/bad: spec.resources.requests.storage: {NO_QUANTITY}",
    ),
    "a claim with a selector that is none": (
        CLAIMS,
        claim(storageClassName="fast", selector=UNKNOWN_OPERATOR),
        "PersistentVolumeClaim default/bad: spec.selector: expected a label selector",
    ),
    "a volume that can be nowhere": (
        VOLUMES,
        named(spec={"nodeAffinity": {"required": NOWHERE}}),
        "PersistentVolume bad: spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0]",
    ),
    "a volume of a size that is none": (
        VOLUMES,
        named(spec={"capacity": {"storage": "big"}}),
        f"PersistentVolume bad: spec.capacity.storage: {NO_QUANTITY}",
    ),
    "a CSINode with less than no slots": (
        CSINODES,
        drivers(-1),
        "CSINode bad: spec.drivers[0].allocatable.count: expected a whole number, 0 or more",
    ),
    "a CSINode with a driver twice": (
        CSINODES,
        drivers(3, 9),
        f'CSINode bad: spec.drivers[0].name: expected each driver once, found "{DRIVER}" more',
    ),
    "a capacity that is none": (
        CAPACITIES,
        capacity(capacity="much"),
        f'CSIStorageCapacity default/bad: capacity: {NO_QUANTITY} "much"',
    ),
    "a capacity that is nowhere": (
        CAPACITIES,
        capacity(nodeTopology=UNKNOWN_OPERATOR),
        "CSIStorageCapacity default/bad: nodeTopology: expected a label selector, found none",
    ),
    "a class with topologies that are no list": (
        CLASSES,
        named(provisioner=DRIVER, allowedTopologies="zone-a"),
        'StorageClass bad: allowedTopologies: expected a list, found "zone-a"',
    ),
    "a class that allows no value": (
        CLASSES,
        named(provisioner=DRIVER, allowedTopologies=[{"matchLabelExpressions": [{"key": "z"}]}]),
        "StorageClass bad: allowedTopologies[0].matchLabelExpressions[0].values: expected at least",
    ),
    "a class that binds in an unknown way": (
        CLASSES,
        named(provisioner=DRIVER, volumeBindingMode="Later"),
        "StorageClass bad: volumeBindingMode: expected Immediate or WaitForFirstConsumer, found",
    ),
    "a driver of which a field is no boolean": (
        DRIVERS,
        named(spec={"storageCapacity": "sure"}),
        'CSIDriver bad: spec.storageCapacity: expected true or false, found "sure"',
    ),
    "a DaemonSet with a request that is none": (
        DAEMON_SETS,
        daemon_set(containers=LOTS),
        "DaemonSet default/bad: spec.template.spec.containers[0].resources.requests.cpu: expected",
    ),
    "a DaemonSet for no node": (
        DAEMON_SETS,
        daemon_set(affinity={"nodeAffinity": {REQUIRED: NOWHERE}}),
        f"DaemonSet default/bad: spec.template.spec.affinity.nodeAffinity.{REQUIRED}",
    ),
    "an attachment to no node": (
        ATTACHMENTS,
        named(spec={"nodeName": 5}),
        "VolumeAttachment bad: spec.nodeName: expected a string (in quotes), found 5",
    ),
    "a namespace with labels that are no mapping": (
        NAMESPACES,
        {"metadata": {"name": "bad", "labels": "x"}},
        'Namespace bad: metadata.labels: expected a mapping, found "x"',
    ),
}  # fmt: skip


class Unread(Cloud):
    """Looks only at nodes that can be read, as a provider does that is told of the watched ones."""

    def grow_to(self, nodes: int) -> None:
        self._set_target(self._groups["g"], nodes)

    async def refresh(self) -> None:
        bad = self._server.objects.pop(f"{NODES}/bad", None)
        await super().refresh()
        if bad is not None:
            self._server.objects[f"{NODES}/bad"] = bad


@pytest.mark.parametrize(("collection", "obj", "problem"), BAD.values(), ids=BAD)
async def test_a_bad_object_is_named_and_the_rest_goes_on(
    clock: VirtualClock, collection: str, obj: Json, problem: str
) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "n1", age=3600.0)
        cloud = Unread(server)
        async with autoscaling(server, cloud, clock) as program:
            server.put(collection, obj)
            await clock.sleep(15)
            problems = status(server)["tonnage"]["problems"]
            assert [one for one in problems if one.startswith(problem)]
            assert metric(program, "tonnage_problems") == len(problems)
            # One of them fits on the node there is.
            put_pod(server, "good-1", cpu="3", claims=["data"])
            put_pod(server, "good-2", cpu="3")
            await clock.sleep(15)
            assert cloud.asked == [("increase", "g", 1)]
            assert program.autoscaler.failure is None


@pytest.mark.parametrize(
    "which", ["a pod with an affinity that never matches", "a claim of a class that is not there"]
)
async def test_an_object_that_was_used_and_is_mended_or_gone_is_named_no_more(
    clock: VirtualClock, which: str
) -> None:
    collection, obj, problem = BAD[which]
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "n1", age=3600.0)
        async with autoscaling(server, Cloud(server), clock):
            server.put(collection, obj)
            await clock.sleep(15)
            assert any(problem in one for one in status(server)["tonnage"]["problems"])
            server.remove(f"{collection}/bad")
            await clock.sleep(15)
            assert status(server)["tonnage"]["problems"] == []


async def test_a_class_that_comes_later_is_what_its_claim_waited_for(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "n1", age=3600.0)
        async with autoscaling(server, Cloud(server), clock):
            server.put(CLAIMS, claim(storageClassName="late"))
            await clock.sleep(15)
            assert status(server)["tonnage"]["problemCount"] == 1
            server.put(CLASSES, named("late", provisioner=DRIVER))
            await clock.sleep(15)
            assert status(server)["tonnage"]["problemCount"] == 0


async def test_a_machine_whose_node_cannot_be_read_is_not_deleted_for_want_of_a_node(
    clock: VirtualClock,
) -> None:
    collection, obj, _ = BAD["a node with a quantity that is none"]
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "n1", age=3600.0)
        server.put(collection, obj)
        cloud = Unread(server)
        cloud.machines["g"] = [
            Instance(id="i-1", state="running", node="n1"),
            Instance(id="i-2", state="running", node="bad"),
        ]
        async with autoscaling(server, cloud, clock, maxNodeProvisionTime=60):
            cloud.grow_to(2)
            await clock.sleep(300)
            assert cloud.asked == []

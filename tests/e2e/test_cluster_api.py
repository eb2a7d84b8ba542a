"""Cluster API on a real API server: our provider, its rights, and somebody who makes machines."""

import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import deployed, manifests, scale_up
from tests.e2e.connections import connected
from tests.e2e.controlplane import REPOSITORY, ControlPlane, wait_until
from tests.e2e.crds import cluster_api
from tests.e2e.fleet import KEYS, Fleet
from tests.e2e.machinecontroller import MachineController
from tests.e2e.processes import Watchdog
from tests.e2e.scale_up import DRIVER, Stage, stateful_set
from tests.e2e.workspace import Workspace
from tonnage.clock import SystemClock
from tonnage.embedded.world.behaviour import DriverBehaviour
from tonnage.errors import ProviderError
from tonnage.groups.model import Group
from tonnage.objects.nodes import Node
from tonnage.providers.clusterapi import ClusterApiProvider, ClusterApiSettings, discovery
from tonnage.providers.clusterapi.annotations import (
    CPU,
    CSI_DRIVER,
    EPHEMERAL_DISK,
    GPU_COUNT,
    GPU_TYPE,
    LABELS,
    MAX_PODS,
    MEMORY,
    PRICE,
    TAINTS,
)

Json = dict[str, Any]

FROM_ZERO = {CPU: "16", MEMORY: "64Gi", CSI_DRIVER: f"{DRIVER}=5"}
MALFORMED = {
    KEYS.min_size: "a few",
    KEYS.max_size: "-1",
    CPU: "many",
    MEMORY: "64 gigabytes",
    EPHEMERAL_DISK: "100GiB",
    MAX_PODS: "1.5",
    GPU_COUNT: "two",
    GPU_TYPE: "not a name",
    LABELS: "tier",
    TAINTS: "db:Never",
    CSI_DRIVER: "ebs.csi.aws.com",
    PRICE: "cheap",
    KEYS.option("scaledownutilizationthreshold"): "half",
    KEYS.option("scaledowngpuutilizationthreshold"): "2",
    KEYS.option("scaledownunneededtime"): "soon",
    KEYS.option("scaledownunreadytime"): "10",
    KEYS.option("maxnodeprovisiontime"): "-1m",
    KEYS.option("maxnodestartuptime"): "1 hour",
}


@pytest.fixture(scope="session")
def definitions(cluster: ControlPlane) -> None:
    made = cluster_api.definitions()
    cluster.kubectl(
        "apply", "-f", "-", stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": made})
    )
    names = [f"crd/{one['metadata']['name']}" for one in made]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=150s", *names)
    wanted = {one["metadata"]["name"] for one in made}
    # What is established is told to whoever asks for kinds a moment later.
    wait_until(
        lambda: wanted <= {*cluster.kubectl("api-resources", "-o", "name").split()},
        what="the kinds can be found",
    )


@pytest.fixture(scope="module", autouse=True)
def rights_put_back(cluster: ControlPlane) -> Iterator[None]:
    """Other tests have the rights of another overlay, and no others."""
    yield
    cluster.kubectl(
        "delete", "clusterrole,clusterrolebinding", "tonnage-cluster-api", "--ignore-not-found"
    )
    deployed.apply(cluster)


@pytest.fixture
def fleet(
    work: Workspace,
    definitions: None,  # noqa: ARG001 - they have to be there
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Fleet]:
    """With the rights of the overlay for Cluster API, which replace those of another."""
    more: list[str] = []
    shipped = deployed.arguments
    monkeypatch.setattr(deployed, "OVERLAY", REPOSITORY / "deploy" / "cluster-api")
    monkeypatch.setattr(deployed, "arguments", lambda cluster: [*shipped(cluster), *more])
    work.cluster.kubectl(
        "delete", "clusterrole,clusterrolebinding", "tonnage-kwok", "--ignore-not-found"
    )
    deployed.apply(work.cluster)
    made = Fleet(work, more)
    try:
        yield made
    finally:
        made.remove()


@pytest.fixture
def controller(fleet: Fleet) -> Iterator[MachineController]:
    with MachineController(fleet.cluster.kubeconfig()) as started:
        yield started


@pytest.fixture
def played(
    fleet: Fleet,
    controller: MachineController,  # noqa: ARG001 - somebody has to make the machines
    work: Workspace,
    watchdog: Watchdog,
    tmp_path: Path,
) -> Iterator[Stage]:
    """A stage on which new nodes start, with a driver of five slots."""
    assert fleet.work is work
    with scale_up.stage(work, tmp_path, watchdog=watchdog) as stage:
        stage.play(DriverBehaviour(name=DRIVER, limit=5))
        stage.storage()
        yield stage


@asynccontextmanager
async def provider(
    fleet: Fleet, *flags: str, settings: ClusterApiSettings | None = None
) -> AsyncIterator[ClusterApiProvider]:
    """As the account of the autoscaler; nodes are looked up when they are asked for."""
    kubeconfig = fleet.cluster.kubeconfig_of_account(deployed.ACCOUNT, namespace=deployed.NAMESPACE)
    async with connected(kubeconfig) as client:
        nodes: list[Node] = []
        made = ClusterApiProvider(
            client,
            nodes=lambda: nodes,
            clock=SystemClock(),
            rng=random.Random(1),
            found_by=discovery.parse(flags or [f"clusterapi:namespace={fleet.namespace}"]),
            settings=settings,
        )
        nodes.extend((await client.list(Node)).items)
        try:
            await made.refresh()
            yield made
        finally:
            await made.close()


async def only(made: ClusterApiProvider) -> Group:
    (group,) = await made.groups()
    return group


# Looking


async def test_from_zero_every_annotation_is_in_the_template(fleet: Fleet) -> None:
    group = fleet.create(
        "db",
        annotations={
            CPU: "8",
            MEMORY: "32Gi",
            EPHEMERAL_DISK: "100Gi",
            MAX_PODS: "50",
            GPU_COUNT: "2",
            GPU_TYPE: "nvidia.com/gpu",
            LABELS: "tier=db,example.com/disk=fast",
            TAINTS: "db=only:NoSchedule,spot:PreferNoSchedule",
            CSI_DRIVER: f"{DRIVER}=25,efs.csi.aws.com=0",
            PRICE: "0.504",
            KEYS.option("maxnodeprovisiontime"): "20m",
        },
    )
    async with provider(fleet) as made:
        assert (await only(made)).problems == ()
        template = await made.template(group)
        assert template is not None
        assert template.node.status.allocatable == {
            "cpu": "8",
            "memory": "32Gi",
            "ephemeral-storage": "100Gi",
            "pods": "50",
            "nvidia.com/gpu": "2",
        }
        assert template.node.metadata.labels == {
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "tier": "db",
            "example.com/disk": "fast",
        }
        taints = [(one.key, one.value, one.effect) for one in template.node.spec.taints]
        assert taints == [("db", "only", "NoSchedule"), ("spot", "", "PreferNoSchedule")]
        assert template.csi_node is not None
        limits = {one.name: one.limit for one in template.csi_node.spec.drivers}
        assert limits == {DRIVER: 25, "efs.csi.aws.com": None}
        assert await made.price(group) == 0.504
        assert (await made.options(group)).max_node_provision_time == 1200


async def test_what_the_infrastructure_says_is_read_with_the_shipped_rights(fleet: Fleet) -> None:
    meta = {"name": "small", "namespace": fleet.namespace}
    fleet.cluster.create(
        {
            "apiVersion": f"{cluster_api.INFRASTRUCTURE}/v1beta2",
            "kind": "DockerMachineTemplate",
            "metadata": meta,
        }
    )
    status = {"status": {"capacity": {"cpu": "4", "memory": "16Gi"}}}
    fleet.cluster.kubectl(
        "patch", "dockermachinetemplate", "small", "-n", fleet.namespace, "--subresource=status",
        "--type=merge", "-p", json.dumps(status),
    )  # fmt: skip
    group = fleet.create("db", annotations={CPU: "8"})
    reference = {
        "apiGroup": cluster_api.INFRASTRUCTURE,
        "kind": "DockerMachineTemplate",
        "name": "small",
    }
    spec = {"template": {"spec": {"infrastructureRef": reference}}}
    fleet.patch("machinedeployment", "db", {"spec": spec})
    async with provider(fleet) as made:
        template = await made.template(group)
        assert template is not None
        expected = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        assert template.node.status.allocatable == expected


async def test_every_malformed_annotation_is_reported(fleet: Fleet) -> None:
    fleet.create("bad", sizes=None, annotations=MALFORMED)
    async with provider(fleet) as made:
        problems = (await only(made)).problems
    for key, value in MALFORMED.items():
        assert [one for one in problems if f"{key}: expected" in one and value in one], key
    assert len(problems) == len(MALFORMED) + 1


async def test_paused_and_deleting_groups_stand_still_and_say_why(fleet: Fleet) -> None:
    paused = fleet.create("paused", replicas=2, annotations={KEYS.paused: ""})
    deleting = fleet.create("deleting", replicas=2, finalizer="example.com/wait")
    fleet.cluster.kubectl(
        "delete", "machinedeployment", "deleting", "-n", fleet.namespace, "--wait=false"
    )
    async with provider(fleet) as made:
        reasons = {one.id: one.problems[0] for one in await made.groups()}
        assert "paused" in reasons[paused]
        assert "being deleted" in reasons[deleting]
        for group in (paused, deleting):
            with pytest.raises(ProviderError, match="not scaled"):
                await made.increase(group, 1)
    assert (fleet.replicas("paused"), fleet.replicas("deleting")) == (2, 2)


async def test_the_groups_of_a_paused_cluster_stand_still(fleet: Fleet) -> None:
    fleet.create("db", cluster="prod")
    meta = {"name": "prod", "namespace": fleet.namespace}
    head = {"apiVersion": f"{cluster_api.GROUP}/v1beta2", "kind": "Cluster"}
    fleet.cluster.create({**head, "metadata": meta, "spec": {"paused": True}})
    async with provider(fleet) as made:
        assert "Cluster prod is paused" in (await only(made)).problems[0]


async def test_of_two_clusters_only_the_one_that_is_named_is_scaled(fleet: Fleet) -> None:
    ours = fleet.create("db", cluster="ours")
    fleet.create("db-2", cluster="theirs")
    with fleet.cluster.namespace(f"{fleet.namespace}-other") as other:
        fleet.create("db", cluster="ours", namespace=other)
        spec = f"clusterapi:namespace={fleet.namespace},clusterName=ours"
        async with provider(fleet, spec) as made:
            assert [one.id for one in await made.groups()] == [ours]
        fleet.cluster.kubectl("delete", "machinedeployments", "--all", "-n", other)


async def test_the_older_version_of_the_api_does_as_well(fleet: Fleet) -> None:
    group = fleet.create("db", replicas=1)
    async with provider(fleet, settings=ClusterApiSettings(version="v1beta1")) as made:
        await made.increase(group, 2)
    assert fleet.replicas("db") == 3


# Changing


@pytest.mark.parametrize("kind", ["MachineDeployment", "MachineSet", "MachinePool"])
async def test_of_every_kind_the_chosen_machine_goes_and_no_other(
    fleet: Fleet,
    controller: MachineController,  # noqa: ARG001 - it makes and deletes the machines
    kind: str,
) -> None:
    group = fleet.create("db", kind=kind, replicas=3)
    before = fleet.wait_machines(3)
    chosen = max(before)
    async with provider(fleet) as made:
        await made.delete(group, [chosen])
        assert (await only(made)).target == 2
    wait_until(lambda: len(fleet.machines()) < 3, what="a machine went")
    assert fleet.machines() == before - {chosen}
    wait_until(lambda: chosen not in fleet.nodes(), what="its node went")
    assert fleet.replicas("db", kind=kind.lower()) == 2


async def test_a_group_at_its_minimum_loses_no_machine(
    fleet: Fleet,
    controller: MachineController,  # noqa: ARG001 - it makes the machines
) -> None:
    group = fleet.create("db", replicas=2, sizes=(2, 5))
    before = fleet.wait_machines(2)
    async with provider(fleet) as made:
        with pytest.raises(ProviderError, match="its minimum is 2"):
            await made.delete(group, [min(before)])
    marks = fleet.get("machine", min(before))["metadata"].get("annotations", {})
    assert KEYS.delete_machine not in marks
    assert fleet.replicas("db") == 2


async def test_sizes_add_up_while_a_controller_writes_to_the_same_object(
    fleet: Fleet,
    controller: MachineController,  # noqa: ARG001 - it writes the status all the time
) -> None:
    group = fleet.create("db", sizes=(0, 50))
    async with provider(fleet) as made:
        for _ in range(20):
            await made.increase(group, 1)
        assert (await only(made)).target == 20
    assert fleet.replicas("db") == 20


# The whole program


@pytest.mark.patience(600)
def test_a_stateful_set_gets_its_machines_from_zero(fleet: Fleet, played: Stage) -> None:
    group = fleet.create("db", annotations=FROM_ZERO)
    autoscaler = played.autoscaler(batchWindow=3)
    fleet.cluster.create(stateful_set("db", 12, namespace=fleet.namespace))
    played.wait_running(12)
    assert autoscaler.requests() == [(group, 3)]
    assert fleet.replicas("db") == 3


@pytest.mark.patience(600)
def test_from_one_the_limit_of_the_live_node_counts(fleet: Fleet, played: Stage) -> None:
    group = fleet.create("db", replicas=1)
    (machine,) = fleet.wait_machines(1)
    played.wait(lambda: played.ready_nodes("db") == [machine], "the first node is ready")
    played.wait_registered(machine)
    autoscaler = played.autoscaler(batchWindow=3)
    fleet.cluster.create(stateful_set("db", 12, namespace=fleet.namespace))
    played.wait_running(12)
    assert autoscaler.requests() == [(group, 2)]
    assert fleet.replicas("db") == 3


@pytest.mark.patience(600)
def test_a_machine_pool_grows(fleet: Fleet, played: Stage) -> None:
    group = fleet.create("pool", kind="MachinePool", annotations=FROM_ZERO)
    autoscaler = played.autoscaler(batchWindow=3)
    fleet.cluster.create(stateful_set("db", 6, namespace=fleet.namespace))
    played.wait_running(6)
    assert autoscaler.requests() == [(group, 2)]
    assert fleet.replicas("pool", kind="machinepool") == 2


@pytest.mark.patience(600)
def test_a_management_cluster_apart_is_reached_by_its_own_kubeconfig(
    fleet: Fleet, played: Stage
) -> None:
    """One server plays both clusters: the account of each may do nothing in the other."""
    namespace = fleet.namespace
    kubectl = fleet.cluster.kubectl
    kubectl("create", "serviceaccount", "manager", "-n", namespace)
    kubectl("delete", "clusterrolebinding", "tonnage-cluster-api")
    kubectl(
        "create", "rolebinding", "manager", "-n", namespace,
        "--clusterrole=tonnage-cluster-api", f"--serviceaccount={namespace}:manager",
    )  # fmt: skip
    management = fleet.cluster.kubeconfig_of_account("manager", namespace=namespace)
    fleet.add_argument(f"--cloud-config={management}")
    fleet.add_argument(
        f"--node-group-auto-discovery=clusterapi:namespace={namespace},clusterName=prod"
    )
    group = fleet.create("db", annotations=FROM_ZERO)
    fleet.create("foreign", cluster="test", annotations=FROM_ZERO)
    autoscaler = played.autoscaler(batchWindow=3)
    fleet.cluster.create(stateful_set("db", 7, namespace=namespace))
    played.wait_running(7)
    assert autoscaler.requests() == [(group, 2)]
    assert fleet.replicas("foreign") == 0


@pytest.mark.patience(600)
def test_a_machine_that_never_registers_is_deleted(
    fleet: Fleet, controller: MachineController, played: Stage
) -> None:
    controller.without_nodes.add("db")
    fleet.create("db", annotations={**FROM_ZERO, KEYS.option("maxnodeprovisiontime"): "10s"})
    played.work.create(manifests.node(played.work.name("elsewhere"), cpu="0"))
    autoscaler = played.autoscaler()
    fleet.cluster.create(stateful_set("db", 3, namespace=fleet.namespace))
    played.wait(lambda: fleet.replicas("db") == 1, "a machine is asked for")
    played.wait(lambda: fleet.replicas("db") == 0, "it is given up")
    played.wait(lambda: not fleet.machines(), "its machine is gone")
    assert [nodes for _, nodes in autoscaler.requests("delete")] == [1]


@pytest.mark.patience(600)
def test_a_malformed_annotation_is_an_event_and_a_line_of_the_status(
    fleet: Fleet, played: Stage
) -> None:
    group = fleet.create("bad", annotations={**FROM_ZERO, CSI_DRIVER: f"{DRIVER}=many"})
    autoscaler = played.autoscaler()
    found = f'found "{DRIVER}=many"; not used'
    line = f"group {group}: {CSI_DRIVER}: expected DRIVER=LIMIT, a whole number, {found}"
    played.wait(lambda: line in (autoscaler.tells("problems") or ()), "the status says it")

    def events() -> str:
        return fleet.cluster.kubectl(
            "get", "events", "-n", deployed.NAMESPACE, "--field-selector=reason=NodeGroupProblem",
            "-o", "jsonpath={.items[*].message}",
        )  # fmt: skip

    played.wait(lambda: line in events(), "an event says it")

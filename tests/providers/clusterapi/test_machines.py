"""Machines as instances, and which node is whose."""

import pytest

from tests.providers.clusterapi.management import KEYS, NAMESPACE, ManagementCluster
from tonnage.providers.clusterapi import machines
from tonnage.providers.protocol import Instance, InstanceError


async def instances(management: ManagementCluster, group: str) -> list[Instance]:
    provider = management.provider()
    await provider.refresh()
    return list(await provider.instances(group))


async def only(clock, **machine) -> Instance:
    """The instance of a group with one machine."""
    management = ManagementCluster(clock)
    group = management.group("a", replicas=1)
    management.machine("m", owner="a", **machine)
    (one,) = await instances(management, group)
    return one


async def test_a_machine_whose_node_has_registered_runs(clock):
    assert await only(clock) == Instance(id="cloud:///zone/m", state="running", node="m")


async def test_a_machine_without_a_node_runs_by_its_id(clock):
    assert await only(clock, node=False) == Instance(id="cloud:///zone/m", state="running")


async def test_a_machine_without_an_id_is_being_created(clock):
    one = await only(clock, node=False, provider_id="", status={"phase": "Provisioning"})
    assert one == Instance(id=f"pending-machine-{NAMESPACE}_m", state="creating")


@pytest.mark.parametrize(
    ("status", "error_class", "message"),
    [
        (
            {"failureReason": "CreateError", "failureMessage": "the disk is bad"},
            "other",
            "CreateError: the disk is bad",
        ),
        (
            {"failureReason": "InsufficientResources", "failureMessage": "none left"},
            "outOfResources",
            "InsufficientResources: none left",
        ),
        (
            {"failureMessage": "InsufficientInstanceCapacity: try another zone"},
            "outOfResources",
            "InsufficientInstanceCapacity: try another zone",
        ),
        (
            {"failureReason": "CreateError", "failureMessage": "Quota 'CPUS' exceeded"},
            "quota",
            "CreateError: Quota 'CPUS' exceeded",
        ),
        (
            {"failureReason": "CreateError", "failureMessage": "VcpuLimitExceeded"},
            "quota",
            "CreateError: VcpuLimitExceeded",
        ),
        (
            {"deprecated": {"v1beta1": {"failureReason": "X", "failureMessage": "y"}}},
            "other",
            "X: y",
        ),
        (
            {
                "phase": "Failed",
                "conditions": [
                    {"type": "Ready", "status": "False", "message": "not ready"},
                    {"type": "InfrastructureReady", "status": "False", "message": "no quota"},
                ],
            },
            "quota",
            "no quota",
        ),
        ({"phase": "Failed"}, "other", "phase Failed"),
    ],
)
async def test_why_a_machine_failed_is_told_by_class(clock, status, error_class, message):
    one = await only(clock, node=False, provider_id="", status=status)
    assert one == Instance(
        id=f"failed-machine-{NAMESPACE}_m",
        state="creating",
        error=InstanceError(error_class=error_class, code="ProvisioningFailed", message=message),
    )


async def test_a_machine_that_fails_under_its_node_still_runs(clock):
    status = {"phase": "Failed", "failureMessage": "late", "nodeRef": {"name": "m"}}
    one = await only(clock, status=status)
    assert (one.state, one.node, one.error) == ("running", "m", None)


@pytest.mark.parametrize("phase", ["Deleting", "Deleted"])
async def test_a_machine_in_its_last_phase_is_being_deleted(clock, phase):
    management = ManagementCluster(clock)
    group = management.group("a", replicas=0)
    management.machine("m", owner="a", status={"phase": phase})
    (one,) = await instances(management, group)
    assert one == Instance(id="cloud:///zone/m", state="deleting", node="m")


async def test_a_machine_that_cannot_be_deleted_says_why(clock):
    management = ManagementCluster(clock)
    group = management.group("a", replicas=0)
    status = {"phase": "Deleting", "failureMessage": "a volume is stuck"}
    management.machine("m", owner="a", provider_id="", node=False, status=status)
    (one,) = await instances(management, group)
    assert (one.id, one.state) == (f"deleting-machine-{NAMESPACE}_m", "deleting")
    assert one.error is not None
    assert one.error.code == "DeletingFailed"


async def test_a_replacement_for_a_machine_that_is_deleted_is_being_created(clock):
    management = ManagementCluster(clock)
    group = management.group("a", replicas=1)
    management.machine("m", owner="a", status={"phase": "Deleting"})
    states = [one.state for one in await instances(management, group)]
    assert states == ["deleting", "creating"]


async def test_a_mark_alone_deletes_nothing(clock):
    one = await only(clock, annotations={KEYS.delete_machine: "yes"})
    assert one.state == "running"


async def test_of_too_many_machines_the_marked_one_is_leaving(clock):
    management = ManagementCluster(clock)
    group = management.group("a", replicas=1)
    management.machine("m1", owner="a")
    management.machine("m2", owner="a", annotations={KEYS.delete_machine: "yes"})
    states = {one.node: one.state for one in await instances(management, group)}
    assert states == {"m1": "running", "m2": "deleting"}


# Nodes


async def test_a_node_that_names_its_machine_is_of_that_one(clock):
    management = ManagementCluster(clock)
    group = management.group("a", replicas=2)
    management.machine("m1", owner="a", node=False, provider_id="cloud:///same")
    management.machine("m2", owner="a", node=False, provider_id="cloud:///same")
    annotations = {KEYS.machine: "m2", KEYS.cluster_namespace: NAMESPACE}
    management.node("node", provider_id="cloud:///same", annotations=annotations)
    assert [one.node for one in await instances(management, group)] == ["", "node"]


async def test_a_node_that_names_a_machine_of_another_cluster_is_not_ours(clock):
    management = ManagementCluster(clock)
    group = management.group("a", replicas=1)
    management.machine("m", owner="a", node=False)
    annotations = {KEYS.machine: "m", KEYS.cluster_namespace: "elsewhere"}
    management.node("node", provider_id="cloud:///zone/m", annotations=annotations)
    assert [one.node for one in await instances(management, group)] == [""]


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ("aws:///eu-1a/i-1", "aws:///eu-1a/i-1", True),
        ("aws:///eu-1a/i-1", "aws://eu-1a/i-1", True),
        ("aws:///eu-1a/i-1", "aws:///eu-1a/i-2", False),
        ("docker:////m-1", "docker://m-1", True),
        (
            "azure:///x/virtualMachineScaleSets/one/virtualMachines/0",
            "azure:///x/virtualMachineScaleSets/two/virtualMachines/0",
            False,
        ),
    ],
)
def test_ids_are_compared_by_the_part_that_is_the_machines(
    ours: str, theirs: str, same: bool
) -> None:
    assert (machines.normalized(ours) == machines.normalized(theirs)) is same


async def test_a_pool_without_machines_has_the_instances_it_lists(clock):
    management = ManagementCluster(clock)
    ids = ["cloud:///i-1", "cloud:///i-2"]
    group = management.group("p", kind="MachinePool", replicas=3, providerIDList=ids)
    management.node("n1", provider_id="cloud:///i-1")
    assert await instances(management, group) == [
        Instance(id="cloud:///i-1", state="running", node="n1"),
        Instance(id="cloud:///i-2", state="running"),
        Instance(id=f"{group}/not-created-0", state="creating"),
    ]


async def test_a_pool_counts_what_it_lists_and_has_a_machine_for_once(clock):
    management = ManagementCluster(clock)
    ids = ["cloud:///zone/m", "cloud:///zone/x"]
    group = management.group("p", kind="MachinePool", replicas=2, providerIDList=ids)
    management.machine("m", owner="p", kind="MachinePool")
    found = await instances(management, group)
    assert [(one.id, one.node) for one in found] == [
        ("cloud:///zone/m", "m"),
        ("cloud:///zone/x", ""),
    ]

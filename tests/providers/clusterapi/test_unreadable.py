"""Objects of the management cluster that cannot be read cost themselves, and nothing else."""

import pytest

from tests.providers.clusterapi.management import NAMESPACE, ManagementCluster
from tonnage.errors import ProviderError
from tonnage.providers.clusterapi import ClusterApiProvider

MALFORMED = {"clusterName": "prod", "providerID": ["a", "b"]}


async def looked(management: ManagementCluster) -> ClusterApiProvider:
    provider = management.provider()
    await provider.refresh()
    return provider


async def test_a_deployment_that_cannot_be_read_is_named_and_the_others_go_on(clock):
    management = ManagementCluster(clock)
    management.group("bad", template={"spec": {"taints": "none"}})
    good = management.group("good")
    provider = await looked(management)
    assert [one.id for one in await provider.groups()] == [good]
    (problem,) = await provider.problems()
    assert problem == (
        f"management cluster: MachineDeployment {NAMESPACE}/bad: spec.template.spec.taints:"
        ' expected a list, found "none"'
    )


async def test_a_deployment_that_can_no_longer_be_read_is_what_it_was(clock):
    management = ManagementCluster(clock)
    group = management.group("a", replicas=2)
    provider = await looked(management)
    management.change("MachineDeployment", "a", {"spec": {"template": {"spec": {"taints": "x"}}}})
    await clock.sleep(1)
    await provider.refresh()
    assert [(one.id, one.target) for one in await provider.groups()] == [(group, 2)]
    (problem,) = await provider.problems()
    assert 'MachineDeployment fleet/a: spec.template.spec.taints: expected a list, found "x"' in (
        problem
    )


async def test_nothing_is_given_back_while_a_machine_cannot_be_read(clock):
    management = ManagementCluster(clock)
    group = management.group("a", replicas=2)
    management.machine("n1", owner="a")
    management.put("Machine", "n2", owner=("MachineSet", "a"), spec=MALFORMED)
    provider = await looked(management)
    with pytest.raises(ProviderError, match="Machine fleet/n2 cannot be read and may be one of"):
        await provider.decrease_target(group, 1)
    assert management.replicas("a") == 2


async def test_a_machine_that_can_no_longer_be_read_still_has_its_node(clock):
    management = ManagementCluster(clock)
    management.group("a", replicas=1)
    management.machine("n1", owner="a")
    provider = await looked(management)
    management.change("Machine", "n1", {"spec": MALFORMED})
    await clock.sleep(1)
    await provider.refresh()
    (group,) = await provider.groups()
    assert group.nodes == ("n1",)


async def test_an_infrastructure_template_that_cannot_be_read_is_named(clock):
    management = ManagementCluster(clock)
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerMachineTemplate"}
    infrastructure = {"infrastructureRef": {**reference, "name": "big"}}
    management.infrastructure("big", {"capacity": ["cpu"]})
    for name in ("a", "b"):
        management.group(name, template={"spec": infrastructure})
    provider = await looked(management)
    (problem,) = await provider.problems()
    assert problem.startswith("management cluster: DockerMachineTemplate fleet/big: ")
    assert problem.endswith("status.capacity: expected a mapping, found a list")

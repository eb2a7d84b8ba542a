"""Which objects are groups, what they are made of, and what is said of those that stand still."""

import pytest

from tests.providers.clusterapi.management import FROM_ZERO, KEYS, NAMESPACE, ManagementCluster
from tonnage.errors import InputError, ProviderError
from tonnage.groups.model import Group
from tonnage.objects.nodes import Taint
from tonnage.providers.clusterapi import (
    ClusterApiProvider,
    ClusterApiSettings,
    discovery,
    settings_from,
)
from tonnage.providers.clusterapi.annotations import CPU, CSI_DRIVER, LABELS, MAX_PODS, TAINTS


async def seen(management: ManagementCluster, *flags: str) -> dict[str, Group]:
    provider = management.provider(found_by=discovery.parse(flags))
    await provider.refresh()
    return {one.id: one for one in await provider.groups()}


async def looked(management: ManagementCluster, **more) -> ClusterApiProvider:
    provider = management.provider(**more)
    await provider.refresh()
    return provider


# Which objects are groups


async def test_deployments_sets_and_pools_with_sizes_are_groups(clock):
    management = ManagementCluster(clock)
    kinds = ("MachineDeployment", "MachinePool", "MachineSet")
    made = [management.group(f"a-{kind.lower()}", kind=kind) for kind in kinds]
    assert list(await seen(management)) == made


async def test_the_set_of_a_deployment_is_no_group_even_with_its_annotations(clock):
    management = ManagementCluster(clock)
    management.group("a", sizes=None)
    sizes = {KEYS.min_size: "0", KEYS.max_size: "5"}
    management.change("MachineSet", "a", {"metadata": {"annotations": sizes}})
    assert await seen(management) == {}


async def test_without_sizes_it_is_no_group(clock):
    management = ManagementCluster(clock)
    management.group("a", sizes=None)
    assert await seen(management) == {}


async def test_a_maximum_of_zero_is_no_group(clock):
    management = ManagementCluster(clock)
    management.group("a", sizes=(0, 0))
    assert await seen(management) == {}


async def test_only_what_the_flags_find_is_ours(clock):
    management = ManagementCluster(clock)
    management.namespace("elsewhere")
    ours = management.group("a", cluster="prod", labels={"team": "db"})
    management.group("b", cluster="test", labels={"team": "db"})
    management.group("c", cluster="prod")
    management.group("a", namespace="elsewhere", labels={"team": "db"})
    found = await seen(management, "clusterapi:namespace=fleet,clusterName=prod,team=db")
    assert list(found) == [ours]


async def test_several_flags_find_together(clock):
    management = ManagementCluster(clock)
    both = [management.group("a", cluster="one"), management.group("b", cluster="two")]
    management.group("c", cluster="three")
    found = await seen(management, "clusterapi:clusterName=one", "clusterapi:clusterName=two")
    assert list(found) == both


async def test_where_there_are_only_sets_and_machines_sets_are_groups(clock):
    management = ManagementCluster(clock, kinds=["Machine", "MachineSet"])
    group = management.group("a", kind="MachineSet", replicas=1)
    management.machine("n1", owner="a")
    assert (await seen(management))[group].nodes == ("n1",)


async def test_the_older_version_is_found_and_read(clock):
    management = ManagementCluster(clock, version="v1beta1")
    group = management.group("a", replicas=1)
    failed = {"failureReason": "CreateError", "failureMessage": "no"}
    management.machine("m", owner="a", provider_id="", node=False, status=failed)
    provider = await looked(management)
    (one,) = await provider.instances(group)
    assert one.error is not None
    assert one.error.message == "CreateError: no"


async def test_a_version_that_is_set_is_the_one_that_is_used(clock):
    management = ManagementCluster(clock)
    with pytest.raises(ProviderError, match=r"does not serve machines\.cluster\.x-k8s\.io"):
        await looked(management, settings=ClusterApiSettings(version="v1alpha3"))


async def test_a_cluster_without_cluster_api_is_named(clock):
    management = ManagementCluster(clock, kinds=[])
    with pytest.raises(ProviderError, match=r"does not serve the API group cluster\.x-k8s\.io"):
        await looked(management)


async def test_a_missing_right_is_named(clock):
    management = ManagementCluster(clock)
    management.wire.forbidden = "/machinesets"
    with pytest.raises(
        ProviderError, match=r"missing right: watch machinesets\.cluster\.x-k8s\.io"
    ):
        await looked(management)


@pytest.mark.parametrize("kind", ["clusters", "machinepools"])
async def test_what_is_not_needed_need_not_be_readable(clock, kind):
    management = ManagementCluster(clock)
    group = management.group("a")
    management.wire.forbidden = f"/{kind}"
    assert list(await seen(management)) == [group]


def test_the_environment_says_group_version_and_architecture() -> None:
    environ = {
        "CAPI_GROUP": "machine.openshift.io",
        "CAPI_VERSION": "v1beta1",
        "CAPI_SCALE_ZERO_DEFAULT_ARCH": "arm64",
    }
    assert settings_from(environ) == ClusterApiSettings(
        group="machine.openshift.io", version="v1beta1", architecture="arm64"
    )
    assert settings_from({}) == ClusterApiSettings()


def test_an_architecture_nobody_has_is_a_mistake() -> None:
    with pytest.raises(InputError, match="CAPI_SCALE_ZERO_DEFAULT_ARCH=vax: expected one of"):
        settings_from({"CAPI_SCALE_ZERO_DEFAULT_ARCH": "vax"})


# Groups that stand still


async def frozen_reason(management: ManagementCluster, group: str) -> str:
    """Why the group is not scaled; and it is not, whatever is asked."""
    provider = await looked(management)
    (found,) = await provider.groups()
    assert found.min_size == found.target == found.max_size == len(found.nodes)
    assert "creating" not in [one.state for one in await provider.instances(group)]
    before = dict(management.wire.asked)
    for request in (
        provider.increase(group, 1),
        provider.delete(group, list(found.nodes)),
        provider.decrease_target(group, 1),
    ):
        with pytest.raises(ProviderError, match="not scaled"):
            await request
    assert dict(management.wire.asked) == before
    return found.problems[0].removeprefix(f"group {group}: not scaled: ")


async def test_a_paused_group_stands_still(clock):
    management = ManagementCluster(clock)
    group = management.group("a", replicas=3, annotations={KEYS.paused: ""})
    management.machine("n1", owner="a")
    reason = await frozen_reason(management, group)
    assert reason == "it is paused by annotation cluster.x-k8s.io/paused"


async def test_a_group_that_is_being_deleted_stands_still(clock):
    management = ManagementCluster(clock)
    group = management.group("a", replicas=3)
    management.machine("n1", owner="a")
    management.change("MachineDeployment", "a", {"metadata": {"finalizers": ["x.io/wait"]}})
    management.remove("MachineDeployment", "a")
    assert await frozen_reason(management, group) == "it is being deleted"


async def test_the_groups_of_a_paused_cluster_stand_still(clock):
    management = ManagementCluster(clock)
    management.put("Cluster", "prod", spec={"paused": True})
    group = management.group("a", replicas=2)
    assert await frozen_reason(management, group) == "its Cluster prod is paused"


async def test_the_groups_of_a_cluster_that_is_being_deleted_stand_still(clock):
    management = ManagementCluster(clock)
    management.put("Cluster", "prod")
    management.change("Cluster", "prod", {"metadata": {"finalizers": ["x.io/wait"]}})
    management.remove("Cluster", "prod")
    group = management.group("a", replicas=2)
    assert await frozen_reason(management, group) == "its Cluster prod is being deleted"


async def test_a_group_whose_sizes_cannot_be_used_stands_still_and_the_others_do_not(clock):
    management = ManagementCluster(clock)
    bad = management.group("bad", sizes=("few", "many"), replicas=1)
    good = management.group("good", sizes=(1, 5))
    found = await seen(management)
    assert (found[bad].min_size, found[bad].max_size, found[bad].target) == (1, 1, 1)
    assert [one.split(": ", 1)[1] for one in found[bad].problems] == [
        "not scaled: its sizes cannot be used",
        f'{KEYS.min_size}: expected a whole number, 0 or more, found "few"; not used',
        f'{KEYS.max_size}: expected a whole number, 0 or more, found "many"; not used',
    ]
    assert (found[good].min_size, found[good].max_size, found[good].problems) == (1, 5, ())


async def test_a_group_goes_on_when_it_is_no_longer_paused(clock):
    management = ManagementCluster(clock)
    group = management.group("a", annotations={KEYS.paused: ""})
    provider = await looked(management)
    patch = {"metadata": {"annotations": {KEYS.paused: None}}}
    management.change("MachineDeployment", "a", patch)
    await clock.sleep(1)
    await provider.refresh()
    await provider.increase(group, 1)
    assert management.replicas("a") == 1


# Templates


async def test_from_zero_the_annotations_say_what_a_node_is(clock):
    management = ManagementCluster(clock)
    group = management.group(
        "a",
        annotations={
            **FROM_ZERO,
            LABELS: "tier=db",
            TAINTS: "db:NoSchedule",
            CSI_DRIVER: "disk.example.com=12",
        },
    )
    template = await (await looked(management)).template(group)
    assert template is not None
    assert template.node.status.allocatable == {"cpu": "8", "memory": "32Gi", "pods": "110"}
    assert template.node.metadata.labels == {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "tier": "db",
    }
    assert template.node.spec.taints == (Taint(key="db", effect="NoSchedule"),)
    assert template.csi_node is not None
    (driver,) = template.csi_node.spec.drivers
    assert (driver.name, driver.limit) == ("disk.example.com", 12)


async def test_without_cpu_or_memory_there_is_no_template(clock):
    management = ManagementCluster(clock)
    group = management.group("a", annotations={CPU: "8"})
    assert await (await looked(management)).template(group) is None


async def test_labels_that_cluster_api_puts_on_nodes_are_in_the_template(clock):
    management = ManagementCluster(clock)
    labels = {
        "node-role.kubernetes.io/db": "",
        "node-restriction.kubernetes.io/a": "1",
        "x.node-restriction.kubernetes.io/b": "2",
        "node.cluster.x-k8s.io/c": "3",
        "other.io/d": "4",
        "plain": "5",
    }
    group = management.group("a", annotations=FROM_ZERO, template={"metadata": {"labels": labels}})
    template = await (await looked(management)).template(group)
    assert template is not None
    found = template.node.metadata.labels.keys() & labels.keys()
    assert sorted(found) == sorted(list(labels)[:4])


async def test_an_annotated_taint_stands_for_one_of_the_machines(clock):
    management = ManagementCluster(clock)
    taints = [
        {"key": "a", "value": "old", "effect": "NoSchedule"},
        {"key": "b", "effect": "NoSchedule"},
    ]
    group = management.group(
        "a",
        annotations={**FROM_ZERO, TAINTS: "a=new:NoSchedule,a=too:NoExecute"},
        template={"spec": {"taints": taints}},
    )
    template = await (await looked(management)).template(group)
    assert template is not None
    found = [(one.key, one.value, one.effect) for one in template.node.spec.taints]
    assert found == [
        ("a", "new", "NoSchedule"),
        ("b", "", "NoSchedule"),
        ("a", "too", "NoExecute"),
    ]


@pytest.mark.parametrize(
    "reference",
    [
        {"apiGroup": "infrastructure.cluster.x-k8s.io"},
        {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "namespace": NAMESPACE},
    ],
)
async def test_the_infrastructure_says_what_annotations_do_not(clock, reference):
    management = ManagementCluster(clock)
    capacity = {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "50Gi"}
    info = {"architecture": "arm64", "operatingSystem": "linux"}
    management.infrastructure("small", {"capacity": capacity, "nodeInfo": info})
    reference = {**reference, "kind": "DockerMachineTemplate", "name": "small"}
    group = management.group(
        "a",
        annotations={CPU: "8", MAX_PODS: "20"},
        template={"spec": {"infrastructureRef": reference}},
    )
    template = await (await looked(management)).template(group)
    assert template is not None
    expected = {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "50Gi", "pods": "20"}
    assert template.node.status.allocatable == expected
    assert template.node.metadata.labels["kubernetes.io/arch"] == "arm64"


async def test_an_infrastructure_that_is_not_there_is_asked_again_later(clock):
    management = ManagementCluster(clock)
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerMachineTemplate"}
    template = {"spec": {"infrastructureRef": {**reference, "name": "late"}}}
    group = management.group("a", template=template)
    provider = await looked(management)
    assert await provider.template(group) is None
    capacity = {"cpu": "4", "memory": "16Gi"}
    management.infrastructure("late", {"capacity": capacity})
    await provider.refresh()
    assert await provider.template(group) is None
    await clock.sleep(301)
    await provider.refresh()
    assert await provider.template(group) is not None


async def test_a_node_of_the_group_lends_its_type_and_region(clock):
    management = ManagementCluster(clock)
    group = management.group("a", replicas=1, annotations=FROM_ZERO)
    management.machine("n1", owner="a")
    labels = {
        "kubernetes.io/arch": "arm64",
        "node.kubernetes.io/instance-type": "large",
        "topology.kubernetes.io/region": "north",
        "kubernetes.io/hostname": "n1",
    }
    management.node("n1", provider_id="cloud:///zone/n1", labels=labels)
    template = await (await looked(management)).template(group)
    assert template is not None
    assert template.node.metadata.labels == {
        "kubernetes.io/arch": "arm64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "large",
        "topology.kubernetes.io/region": "north",
    }


# Quiet


async def test_a_quiet_loop_makes_no_requests(clock):
    management = ManagementCluster(clock)
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerMachineTemplate"}
    management.infrastructure("small", {"capacity": {"cpu": "4", "memory": "16Gi"}})
    for n in range(5):
        management.group(
            f"g{n}",
            replicas=1,
            template={"spec": {"infrastructureRef": {**reference, "name": "small"}}},
        )
        management.machine(f"n{n}", owner=f"g{n}")
    provider = await looked(management)
    before = dict(management.wire.asked)
    for _ in range(10):
        await provider.refresh()
        for group in await provider.groups():
            await provider.instances(group.id)
            assert await provider.template(group.id) is not None
    assert dict(management.wire.asked) == before

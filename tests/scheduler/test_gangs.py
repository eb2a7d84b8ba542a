"""The scheduler holds a gang until it fits, and then gives all of it nodes at once."""

import msgspec

from tests.scheduler.harness import DRIVER, Cluster, a_pod, claims, scheduling
from tonnage.objects.gangs import (
    COSCHEDULING_LABELS,
    CoschedulingPodGroup,
    CoschedulingPodGroupSpec,
    GangPolicy,
    PodGroupPolicy,
    WorkloadPodGroup,
    WorkloadPodGroupSpec,
)
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import SchedulingGroup
from tonnage.objects.storage import SELECTED_NODE_ANNOTATION, PersistentVolumeClaim
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

LABELS = {COSCHEDULING_LABELS[0]: "job"}


def job(minimum: int) -> CoschedulingPodGroup:
    return CoschedulingPodGroup(
        metadata=ObjectMeta(name="job", namespace="default"),
        spec=CoschedulingPodGroupSpec(min_member=minimum),
    )


async def workers(cluster: Cluster, count: int, first: int = 0) -> list[str]:
    names = [f"job-{number}" for number in range(first, first + count)]
    for name in names:
        await cluster.add(a_pod(name, labels=LABELS, cpu="1"))
    return names


async def nodes_of(cluster: Cluster, names: list[str]) -> list[str]:
    return [await cluster.where(name) for name in names]


async def test_a_gang_that_fits_gets_its_nodes(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1", cpu="2")
        await cluster.node("n2", cpu="2")
        await cluster.add(job(4))
        names = await workers(cluster, 4)
        await clock.sleep(5)
        assert sorted(await nodes_of(cluster, names)) == ["n1", "n1", "n2", "n2"]


async def test_a_gang_that_does_not_fit_takes_no_room(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1", cpu="3")
        await cluster.add(job(4))
        names = await workers(cluster, 4)
        await clock.sleep(5)
        assert await nodes_of(cluster, names) == [""] * 4
        assert (
            "gang PodGroup default/job (scheduling.x-k8s.io): 4 pods have to run at once, and there"
            " is room for 3. 0/1 nodes are available: 1 Insufficient cpu."
        ) in await cluster.refused("job-0")
        await cluster.pod("web", cpu="3")
        assert await cluster.bound("web") == {"web": "n1"}


async def test_a_gang_goes_once_a_node_comes(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1", cpu="3")
        await cluster.add(job(4))
        names = await workers(cluster, 4)
        await clock.sleep(5)
        await cluster.node("n2", cpu="3")
        await clock.sleep(15)
        assert "" not in await nodes_of(cluster, names)


async def test_a_gang_waits_for_its_last_pod(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1", cpu="8")
        await cluster.add(job(4))
        names = await workers(cluster, 3)
        await clock.sleep(5)
        assert await nodes_of(cluster, names) == [""] * 3
        assert "it waits for 1 more pod to be made" in await cluster.refused("job-0")
        names += await workers(cluster, 1, first=3)
        await clock.sleep(5)
        assert await nodes_of(cluster, names) == ["n1"] * 4


async def test_a_lower_minimum_lets_a_gang_go(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1", cpu="8")
        await cluster.add(job(4))
        names = await workers(cluster, 3)
        await clock.sleep(5)
        changed = {"spec": {"minMember": 3}}
        await cluster.client.patch(CoschedulingPodGroup, "job", changed, namespace="default")
        await clock.sleep(15)
        assert await nodes_of(cluster, names) == ["n1"] * 3


async def test_slots_hold_a_gang_back(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1", cpu="8", drivers={DRIVER: 3})
        await cluster.add(job(4))
        data = [f"data-{number}" for number in range(4)]
        await cluster.add(builders.storage_class("fast", DRIVER))
        await claims(cluster, data)
        for number, claim in enumerate(data):
            await cluster.add(a_pod(f"job-{number}", labels=LABELS, pvcs=[claim]))
        await clock.sleep(5)
        for claim in data:
            found = await cluster.get(PersistentVolumeClaim, claim)
            assert SELECTED_NODE_ANNOTATION not in found.metadata.annotations
        assert "there is room for 3" in await cluster.refused("job-0")
        await cluster.node("n2", cpu="8", drivers={DRIVER: 3})
        await clock.sleep(20)
        for claim in data:
            found = await cluster.get(PersistentVolumeClaim, claim)
            assert SELECTED_NODE_ANNOTATION in found.metadata.annotations


async def test_a_group_of_the_servers_own_api_is_a_gang(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1", cpu="1")
        policy = PodGroupPolicy(gang=GangPolicy(min_count=2))
        await cluster.add(
            WorkloadPodGroup(
                metadata=ObjectMeta(name="train", namespace="default"),
                spec=WorkloadPodGroupSpec(scheduling_policy=policy),
            )
        )
        for number in range(2):
            pod = a_pod(f"w-{number}", cpu="1")
            named = SchedulingGroup(pod_group_name="train")
            spec = msgspec.structs.replace(pod.spec, scheduling_group=named)
            await cluster.add(msgspec.structs.replace(pod, spec=spec))
        await clock.sleep(5)
        assert await nodes_of(cluster, ["w-0", "w-1"]) == ["", ""]
        await cluster.node("n2", cpu="1")
        await clock.sleep(15)
        assert sorted(await nodes_of(cluster, ["w-0", "w-1"])) == ["n1", "n2"]

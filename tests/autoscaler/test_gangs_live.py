"""Gangs of a live cluster: PodGroups are read once pods name them."""

import pytest

from tests.autoscaler.harness import Cloud, autoscaling, events, group, put_pod, started, status
from tests.cluster.apiserver import ApiServer, answer
from tests.cluster.apiserver import status as refusal
from tonnage.objects.gangs import COSCHEDULING_LABELS
from tonnage.testing.clock import VirtualClock

GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
ALL_GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
LABELS = {COSCHEDULING_LABELS[0]: "job"}


def pod_group(server: ApiServer, minimum: int) -> None:
    meta = {"name": "job", "namespace": "default"}
    server.put(GROUPS, {"metadata": meta, "spec": {"minMember": minimum}})


def workers(server: ApiServer, count: int, *, refused: int | None = None) -> None:
    for number in range(count):
        told = refused is None or number < refused
        put_pod(server, f"job-{number}", cpu="4", labels=LABELS, unschedulable=told)


@pytest.mark.parametrize(("most", "nodes"), [(3, 0), (4, 4)])
async def test_a_gang_is_bought_for_whole_or_not_at_all(
    clock: VirtualClock, most: int, nodes: int
) -> None:
    async with ApiServer() as server:
        started(server)
        pod_group(server, 4)
        cloud = Cloud(server, group(most=most, cpu="4"))
        async with autoscaling(server, cloud, clock):
            workers(server, 4)
            await clock.sleep(30)

            assert sum(count for *_, count in cloud.asked) == nodes
            if not nodes:
                told = events(server, "NotTriggerScaleUp")
                assert "4 pods have to run at once, and there is room for 3" in told[0]["message"]


async def test_pods_that_the_scheduler_holds_back_for_the_others_count(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        pod_group(server, 4)
        cloud = Cloud(server, group(cpu="4"))
        async with autoscaling(server, cloud, clock):
            workers(server, 4, refused=1)
            await clock.sleep(30)

            assert sum(count for *_, count in cloud.asked) == 4


async def test_without_the_right_to_read_pod_groups_pods_go_one_by_one(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        server.script("GET", ALL_GROUPS, *[answer(lambda: refusal(403, "Forbidden"))] * 50)
        cloud = Cloud(server, group(most=3, cpu="4"))
        async with autoscaling(server, cloud, clock):
            workers(server, 4)
            await clock.sleep(30)

            assert sum(count for *_, count in cloud.asked) == 3
            assert any(
                "kind PodGroup, group scheduling.x-k8s.io" in one
                for one in status(server)["tonnage"]["problems"]
            )

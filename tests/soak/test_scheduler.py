"""Weeks of churn for the scheduler and for the replica that stands by: pods of all fates."""

import pytest

from tests.scheduler.harness import DRIVER, Cluster, a_pod, a_program, running, scheduling_on
from tests.soak.measure import left_behind
from tonnage.embedded.world import DriverBehaviour
from tonnage.objects.nodes import Namespace, Node
from tonnage.objects.pods import Pod, PodAffinityTerm
from tonnage.objects.storage import CSIDriver, CSINode, PersistentVolumeClaim, StorageClass
from tonnage.testing import builders as make
from tonnage.testing.clock import VirtualClock

NODES = 5
SETTLED = 400.0
"""Seconds: longer than pods that nothing cures are left alone, and than space is held."""


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(horizon=86_400.0)


def pods_of(day: int) -> list[Pod]:
    """Pods that are bound, with and without volumes, refused, gated, and that preempt."""
    space, labels = f"team-{day}", {f"app-{day}": f"build-{day}"}
    apart = PodAffinityTerm(topology_key=make.HOSTNAME, label_selector=make.selecting(labels))
    device = {f"example.com/device-{day}": "1"}
    return [
        *(
            a_pod(f"plain-{n}", namespace=space, cpu="1", labels=labels, apart=[apart])
            for n in range(NODES + 1)
        ),
        *(a_pod(f"disk-{n}", namespace=space, pvcs=[f"disk-{n}"]) for n in range(3)),
        a_pod("slow-disk", namespace=space, pvcs=["slow-disk"]),
        a_pod("no-claim", namespace=space, pvcs=["nowhere"]),
        a_pod("too-big", namespace=space, cpu="1000", preempts=False),
        a_pod("no-device", namespace=space, requests=device),
        a_pod("elsewhere", namespace=space, node_selector={f"rack-{day}": "no"}),
        a_pod("gated", namespace=space, gates=["wait"]),
    ]


async def play(cluster: Cluster, day: int) -> None:
    """A day of a minute: all of it comes, has its fate, and is gone."""
    space, node, driver = f"team-{day}", f"node-{day}", f"csi-{day}.example.com"
    add, delete = cluster.add, cluster.client.delete
    await add(make.namespace(space), make.csidriver(driver))
    await add(make.storage_class(f"fast-{day}", DRIVER), make.storage_class(f"slow-{day}", driver))
    await cluster.node(node, drivers={driver: 2}, labels={f"rack-{day}": "yes"})
    claims = [
        make.pvc("slow-disk", namespace=space, storage_class=f"slow-{day}"),
        *(make.pvc(f"disk-{n}", namespace=space, storage_class=f"fast-{day}") for n in range(3)),
    ]
    await add(*claims, *pods_of(day))
    await cluster.clock.sleep(5)
    await add(a_pod("urgent", namespace=space, cpu="4", priority=10 + day))
    await cluster.clock.sleep(20)
    for pod in (await cluster.client.list(Pod)).items:
        await delete(Pod, pod.metadata.name, namespace=space, grace_period=0)
    for claim in claims:
        await delete(PersistentVolumeClaim, claim.metadata.name, namespace=space)
    await delete(Node, node)
    await delete(CSINode, node)
    await delete(StorageClass, f"fast-{day}")
    await delete(StorageClass, f"slow-{day}")
    await delete(CSIDriver, driver)
    await delete(Namespace, space)
    cluster.transport.sent.clear()
    await cluster.clock.sleep(25)


async def test_scheduler(clock: VirtualClock) -> None:
    cluster = Cluster(clock)
    for number in range(NODES):
        await cluster.node(f"n{number}", cpu="4")
    async with scheduling_on(cluster, drivers=[DriverBehaviour(name=DRIVER)], elect=True):
        await clock.sleep(5)
        standby = a_program(cluster, identity="b", elect=True)
        async with running(standby):
            both = [cluster.program, standby]
            found = await left_behind(
                both, lambda number: play(cluster, number), clock, settled=SETTLED
            )
            assert [one.leadership.leading() for one in both] == [True, False]
            assert found == {}

"""Autoscaler, scheduler, world and cloud together on the embedded API, in virtual time."""

import asyncio
import random
from collections import Counter

import pytest

from tests.embedded.embedded_cluster import DRIVER, Cluster, living, workload
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.program import AutoscalerProgram
from tonnage.autoscaler.program import AutoscalerSettings as AutoscalerSettings
from tonnage.embedded.cloud import CloudBehaviour
from tonnage.embedded.world import Delay, DriverBehaviour
from tonnage.objects.scenarios import GroupTemplate
from tonnage.scheduler.config import SchedulerConfig
from tonnage.scheduler.program import SchedulerProgram
from tonnage.scheduler.program import SchedulerSettings as SchedulerSettings
from tonnage.service.config_file import ConfigFile
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock, run
from tonnage.testing.provider_contract import declared

GROUP = declared(
    "disks",
    max_size=10,
    price="1",
    template=GroupTemplate(
        node=builders.node("any", cpu="16", memory="64Gi", pods="110"),
        csi_node=builders.csinode("any", {DRIVER: 8}),
    ),
)


async def burst(clock: VirtualClock, *, opted_in: bool = True) -> tuple[Cluster, list[bytes]]:
    """Twenty pods with a volume each, in a cluster without a node; ten minutes later."""
    seed = 1
    driver = DriverBehaviour(name=DRIVER, limit=8, registers_after=Delay(10.0, 40.0))
    cloud = CloudBehaviour(start=Delay(30.0, 60.0))
    async with living(
        clock, groups=[GROUP], cloud=cloud, seed=seed, drivers=(driver,), binds=False
    ) as cluster:
        cluster.disk_class(mode="WaitForFirstConsumer")
        cluster.put("csidrivers", DRIVER, spec={"preventPodSchedulingIfMissing": opted_in})
        numbers = iter(range(10**9))
        autoscaler = AutoscalerProgram(
            cluster.client,
            lambda _: cluster.cloud,
            config=ConfigFile(None, AutoscalerConfig, given={}),
            settings=AutoscalerSettings(
                identity="a", address="127.0.0.1:0", leader_elect=False, namespace="default"
            ),
            server_version="v1.37.0",
            clock=clock,
            rng=random.Random(seed),
            new_id=lambda: f"{next(numbers):016x}",
        )
        scheduler = SchedulerProgram(
            cluster.client,
            config=ConfigFile(None, SchedulerConfig, given={}),
            settings=SchedulerSettings(
                identity="s", address="", leader_elect=False, scheduler_name="default-scheduler"
            ),
            server_version="v1.37.0",
            clock=clock,
            rng=random.Random(seed),
            new_id=lambda: f"{next(numbers):016x}",
        )
        tasks = [asyncio.create_task(one.run()) for one in (autoscaler, scheduler)]
        await cluster.after(30)
        claim = {
            "metadata": {"name": "data"},
            "spec": {
                "storageClassName": "disk",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        spec = workload(replicas=20, podManagementPolicy="Parallel", volumeClaimTemplates=[claim])
        cluster.put("statefulsets", "db", spec=spec)
        await cluster.after(600)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return cluster, cluster.history()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


async def test_a_burst_gets_as_many_nodes_as_its_volumes_need_and_all_of_it_runs(clock):
    cluster, _ = await burst(clock)
    assert cluster.phases() == {"Running": 20}
    assert len(cluster.names("nodes")) == 3
    assert max(Counter(cluster.places().values()).values()) <= 8


async def test_without_the_opt_in_pods_crowd_onto_the_node_whose_driver_is_late(clock):
    cluster, _ = await burst(clock, opted_in=False)
    assert len(cluster.names("nodes")) == 3
    assert len(set(cluster.places().values())) == 1
    assert cluster.phases() == {"Running": 8, "Pending": 12}


def test_the_whole_cluster_does_the_same_twice():
    def lived() -> list[bytes]:
        clock = VirtualClock()
        return run(lambda: burst(clock), clock=clock)[1]

    assert lived() == lived()

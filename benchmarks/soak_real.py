"""The same on a control plane of Kubernetes itself: API server, etcd, scheduler, controllers.

The programs are those that `tools/control-plane build` makes. The cluster is created through the
API. There are no kubelets and no storage drivers; what they would do for the nodes that are bought,
and for their volumes, is played here, while the scheduler places the pods.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks import soak, soak_live, soak_load, soak_process
from benchmarks.clusters import QUICK, SEED, LargeCluster, Size
from benchmarks.context import Context
from benchmarks.measurement import Row
from benchmarks.soak_churn import Churn, ChurnPace
from benchmarks.soak_live import SETTINGS, Soak, say
from benchmarks.soak_process import SoakedAutoscaler
from benchmarks.workloads import EBS, GP3
from tests.e2e import controlplane
from tests.e2e.controlplane import API_SERVER, CONTROLLER_MANAGER, ControlPlane
from tonnage.clock import Clock, SystemClock
from tonnage.cluster import config
from tonnage.cluster.client import Selection
from tonnage.cluster.http import HttpTransport
from tonnage.cluster.transport import Transport
from tonnage.objects.pods import Pod
from tonnage.objects.storage import (
    SELECTED_NODE_ANNOTATION,
    PersistentVolume,
    PersistentVolumeClaim,
)
from tonnage.testing import builders

NAME = "soak-real"
_NODES = 2_000
_PODS_PER_NODE = 10
FLAGS: Mapping[str, dict[str, str]] = {
    # Accounts of workloads that are not there either.
    API_SERVER: {"disable-admission-plugins": "ServiceAccount"},
    CONTROLLER_MANAGER: {
        # It would delete pods whose owners were never made.
        "controllers": "*,-garbage-collector-controller",
        # No kubelet renews anything.
        "node-monitor-grace-period": "24h",
        "node-startup-grace-period": "24h",
    },
}


def run(context: Context) -> Iterator[Row]:
    try:
        controlplane.programs()
    except AssertionError as error:
        say(f"left out: {error}")
        return
    nodes = context.nodes or (QUICK.nodes if context.quick else _NODES)
    cluster = LargeCluster(Size(nodes, nodes * _PODS_PER_NODE))
    directory = Path(tempfile.mkdtemp(prefix="tonnage-soak-"))
    (directory / "plane").mkdir()
    minutes = context.minutes or (1 if context.quick else soak.MINUTES)
    with ControlPlane(directory / "plane", flags=FLAGS) as plane:
        found = asyncio.run(_played(cluster, plane, directory, minutes=minutes))
    yield from soak.rows(NAME, found, plain_start=soak.plain_reading(cluster))
    soak.clear(directory, found)


async def _played(
    cluster: LargeCluster, plane: ControlPlane, directory: Path, *, minutes: float
) -> Soak:
    kubeconfig = plane.kubeconfig()
    access = config.from_files([kubeconfig])
    transport = HttpTransport(access, clock=SystemClock(), environ={})
    autoscaler = SoakedAutoscaler(cluster, directory, kubeconfig, SETTINGS)
    try:
        await soak_load.load(cluster, transport)
        start = await asyncio.to_thread(
            soak_live.started, autoscaler, rest=10.0 if minutes < 5 else 60.0
        )
        churn = RealChurn(
            transport,
            clock=SystemClock(),
            seed=SEED,
            others=soak_live.others_of(cluster),
            pace=ChurnPace(),
        )
        return await soak_live.churned(
            cluster.size, churn, RealApi(plane), autoscaler, start, minutes=minutes
        )
    finally:
        autoscaler.kill()
        await transport.close()


class RealApi:
    """The API server of a control plane, to be killed and held up."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def start(self) -> float:
        began = time.monotonic()
        self._plane.start(API_SERVER)
        # Others end when it is away for long, and whoever runs them starts them again.
        self._plane.mend()
        return time.monotonic() - began

    def kill(self) -> None:
        self._plane.kill(API_SERVER)

    def held_up(self) -> AbstractContextManager[None]:
        return self._plane.paused(API_SERVER)

    @property
    def resident(self) -> int:
        return soak_process.resident(self._plane.pids()[API_SERVER])


class RealChurn(Churn):
    """The scheduler is there; storage drivers and kubelets are played."""

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock,
        seed: int,
        others: Sequence[tuple[str, str]],
        pace: ChurnPace,
    ) -> None:
        super().__init__(transport, clock=clock, seed=seed, others=others, pace=pace)
        self._pods = self.mirror.add(Pod, Selection(labels="soak"))
        self._claims = self.mirror.add(PersistentVolumeClaim)
        self._volumes: set[str] = set()

    async def refuse(self, name: str) -> None:
        """The scheduler says so."""

    async def schedule(self) -> None:
        """The scheduler does so, once there are volumes for the nodes that it chose."""
        for claim in list(self._claims):
            name = claim.metadata.name
            chosen = claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION)
            if chosen and not claim.spec.volume_name and name not in self._volumes:
                volume = builders.pv(name, driver=EBS, storage_class=GP3, claim=claim)
                if await self.tried(self.client.create(PersistentVolume, volume)):
                    self._volumes.add(name)
        for pod in list(self._pods):
            if pod.spec.node_name and pod.metadata.name in self.judge.waiting:
                await self.runs(pod.metadata.name, pod.spec.node_name)

    async def end(self, name: str) -> bool:
        if not await super().end(name):
            return False
        await self.tried(self.client.delete(PersistentVolume, name))
        await self.tried(
            self.client.patch(PersistentVolume, name, {"metadata": {"finalizers": None}})
        )
        self._volumes.discard(name)
        return True

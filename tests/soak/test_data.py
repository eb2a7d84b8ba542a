"""The cluster that a soak begins with, as an embedded API reads it."""

import random
from pathlib import Path

from benchmarks import soak_process
from benchmarks.clusters import LargeCluster, Size
from tonnage.cluster.client import Client
from tonnage.embedded.apiserver import ApiServer, InProcessTransport
from tonnage.objects.pods import Pod
from tonnage.testing.clock import VirtualClock


async def test_pods_that_change_stay(clock: VirtualClock, tmp_path: Path) -> None:
    """The API deletes pods whose owners are not there."""
    path = tmp_path / "cluster.jsonl"
    soak_process.write_data(LargeCluster(Size(20, 200)), path)
    server = ApiServer(clock=clock, rng=random.Random(1), data=path)
    client = Client(InProcessTransport(server), clock=clock, rng=random.Random(1))
    pods = (await client.list(Pod)).items
    assert len(pods) == 200
    for pod in pods:
        meta = pod.metadata
        change = {"status": {"message": "changed"}}
        await client.patch(Pod, meta.name, change, namespace=meta.namespace, subresource="status")
    assert not [
        pod.metadata.name
        for pod in (await client.list(Pod)).items
        if pod.metadata.deletion_timestamp is not None
    ]

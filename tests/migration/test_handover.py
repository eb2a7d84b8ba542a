"""From cluster-autoscaler to Tonnage and back: by one Lease, so that never two of them act."""

from typing import Any

from tests.autoscaler.harness import Cloud, a_program, put_pod, started
from tests.cluster.apiserver import ApiServer, until
from tests.cluster.programs import running
from tonnage.testing.clock import VirtualClock

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = f"{LEASES}/cluster-autoscaler"


def held_by(server: ApiServer, holder: str, clock: VirtualClock) -> None:
    """The Lease as client-go writes it for cluster-autoscaler."""
    now = clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec: dict[str, Any] = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 15,
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": 3,
    }
    metadata = {"name": "cluster-autoscaler", "namespace": "kube-system"}
    server.put(LEASES, {"metadata": metadata, "spec": spec})


async def test_while_the_old_one_holds_the_lease_nothing_is_bought(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web")
        program = a_program(server, cloud, clock, elect=True)
        held_by(server, "cluster-autoscaler-7d4f", clock)
        async with running(program, server, clock):
            for _ in range(12):
                await clock.sleep(10)
                held_by(server, "cluster-autoscaler-7d4f", clock)
            assert (cloud.asked, program.leadership.leading()) == ([], False)


async def test_once_the_old_one_gives_it_back_tonnage_goes_on(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web")
        program = a_program(server, cloud, clock, elect=True)
        held_by(server, "cluster-autoscaler-7d4f", clock)
        async with running(program, server, clock):
            await clock.sleep(10)
            held_by(server, "", clock)
            await until(program.leadership.leading, clock=clock)
            await until(lambda: bool(cloud.asked), clock=clock)
            assert cloud.asked == [("increase", "g", 1)]


async def test_on_the_way_back_the_lease_is_free_at_once(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        program = a_program(server, Cloud(server), clock, elect=True)
        async with running(program, server, clock):
            await until(program.leadership.leading, clock=clock)
        assert not server.objects[LEASE]["spec"].get("holderIdentity")

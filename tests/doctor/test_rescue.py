"""Pods that hang for want of a slot are found, and evicted youngest first."""

import random
from typing import TypeVar

import msgspec

from tests.doctor import broken_clusters
from tests.doctor.broken_clusters import EBS
from tonnage.clock import virtual
from tonnage.clock.virtual import VirtualClock
from tonnage.cluster.client import Client
from tonnage.doctor import rescue
from tonnage.embedded.apiserver import ApiServer, InProcessTransport
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import Pod
from tonnage.objects.storage import PersistentVolumeClaim
from tonnage.objects.workloads import DisruptionBudgetSpec, PodDisruptionBudget
from tonnage.testing import builders

T = TypeVar("T", Pod, PersistentVolumeClaim)


def crowded(limit: int, pods: int, *, phase: str = "Pending") -> list[KubeObject]:
    """More pods than slots; the claim of `db-N` is N hours old."""
    objects: list[KubeObject] = [broken_clusters.typed("n1"), builders.csinode("n1", {EBS: limit})]
    for one in broken_clusters.users("n1", pods, phase=phase):
        if isinstance(one, Pod):
            one = created(one, "2033-05-18T03:00:00Z")
        if isinstance(one, PersistentVolumeClaim):
            hour = 10 - int(one.metadata.name.removeprefix("db-"))
            one = created(one, f"2033-05-17T{hour:02}:00:00Z")
        objects.append(one)
    return objects


def created(one: T, when: str) -> T:
    meta = msgspec.structs.replace(one.metadata, creation_timestamp=when)
    return msgspec.structs.replace(one, metadata=meta)


def surplus(objects: list[KubeObject]) -> list[str]:
    found = rescue.find(broken_clusters.evidence(*objects))
    return [one.pod for one in found if one.surplus]


def test_as_many_as_are_too_many_are_to_go() -> None:
    assert len(surplus(crowded(3, 5))) == 2


def test_the_oldest_claim_goes_last() -> None:
    assert surplus(crowded(1, 3)) == ["default/db-0", "default/db-1"]


def test_a_node_at_its_limit_has_nobody_stuck() -> None:
    assert rescue.find(broken_clusters.evidence(*crowded(3, 3))) == []


def test_a_pod_that_runs_is_not_stuck() -> None:
    assert rescue.find(broken_clusters.evidence(*crowded(1, 3, phase="Running"))) == []


def test_a_pod_gets_its_time_to_start() -> None:
    assert rescue.find(broken_clusters.evidence(*crowded(1, 3)), after=1e6) == []


def test_a_pod_whose_volumes_are_attached_waits_for_something_else() -> None:
    objects = crowded(2, 3)
    objects.append(builders.attachment("db-0", "n1", attacher=EBS))
    assert "default/db-0" not in [
        one.pod for one in rescue.find(broken_clusters.evidence(*objects))
    ]


# Evicting, through the API.


def evicted(stuck: list[str], *, budget: int, protected: bool = False) -> tuple[int, list[str]]:
    """Pods of a small cluster that are to go; how many went, and what was said."""
    clock = VirtualClock()
    told: list[str] = []

    async def main() -> int:
        server = ApiServer(clock=clock, rng=random.Random(1))
        client = Client(InProcessTransport(server), clock=clock, rng=random.Random(2))
        for name in stuck:
            await client.create(Pod, builders.pod(name, labels={"app": "db"}))
        if protected:
            spec = DisruptionBudgetSpec(
                selector=builders.selecting({"app": "db"}), max_unavailable=0
            )
            budgeted = PodDisruptionBudget(
                metadata=ObjectMeta(name="db", namespace="default"), spec=spec
            )
            await client.create(PodDisruptionBudget, budgeted)
        pods = (await client.list(Pod)).items
        found = [a_stuck(name) for name in stuck]
        gone = await rescue.evict(client, found, pods, budget=budget, tell=told.append)
        left = [one for one in (await client.list(Pod)).items if not leaving(one)]
        assert len(left) == len(stuck) - gone
        return gone

    return virtual.run(main, clock=clock), told


def a_stuck(name: str) -> rescue.Stuck:
    return rescue.Stuck(
        pod=f"default/{name}",
        node="n1",
        driver=EBS,
        volumes=1,
        waited=600.0,
        claimed_at=0.0,
        surplus=name != "stays",
    )


def leaving(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def test_those_of_the_surplus_go_and_the_others_stay() -> None:
    assert evicted(["db-0", "stays"], budget=5)[0] == 1


def test_no_more_go_than_the_budget_allows() -> None:
    assert evicted(["db-0", "db-1", "db-2"], budget=2)[0] == 2


def test_a_pod_that_never_started_is_no_disruption_to_a_budget() -> None:
    assert evicted(["db-0"], budget=5, protected=True)[0] == 1

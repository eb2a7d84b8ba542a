"""Storage that was given counts until it shows in what drivers publish, and not longer."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.clusters import random_cluster
from tests.scheduler.harness import Cluster, scheduling_on
from tonnage.embedded.world import Delay, DriverBehaviour
from tonnage.objects.pods import Pod
from tonnage.objects.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim
from tonnage.rules import features, pipeline
from tonnage.scheduler.claim_space import SHOWS_WITHIN, ClaimSpace, counted
from tonnage.snapshot import published_storage, storage_ledger
from tonnage.snapshot.reservations import Reservations
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

LOCAL = "local.example.com"


def a_claim(name: str, size: str = "60Gi") -> PersistentVolumeClaim:
    return builders.pvc(name, storage_class="local", size=size)


def a_capacity(free: str, *, storage_class: str = "local") -> CSIStorageCapacity:
    return builders.capacity("one", storage_class, free=free)


def sizes(space: ClaimSpace) -> list[int]:
    return [one.amounts["local"] // 2**30 for one in space]


def on(*nodes: str) -> Callable[[str], bool]:
    return lambda node: node in nodes


def two_claims() -> ClaimSpace:
    space = ClaimSpace(Reservations())
    space.give(a_claim("a", "60Gi"), "n1", now=0.0)
    space.give(a_claim("b", "30Gi"), "n1", now=0.0)
    return space


# What is kept


@pytest.mark.parametrize(
    ("free", "left"),
    [
        ("100Gi", [60, 30]),
        ("71Gi", [60, 30]),
        ("70Gi", [60]),
        ("40Gi", [30]),
        ("10Gi", []),
        ("200Gi", [60, 30]),
    ],
)
def test_space_is_free_again_once_published_capacity_went_down_by_it(
    free: str, left: list[int]
) -> None:
    space = two_claims()
    space.published(a_capacity("100Gi"), a_capacity(free), covers=on("n1"))
    assert sizes(space) == left


def test_what_is_published_of_other_nodes_frees_none() -> None:
    space = two_claims()
    space.published(a_capacity("100Gi"), a_capacity("0"), covers=on("n2"))
    assert sizes(space) == [60, 30]


def test_what_is_published_of_another_class_frees_none() -> None:
    space, other = two_claims(), "other"
    space.published(
        a_capacity("100Gi", storage_class=other),
        a_capacity("0", storage_class=other),
        covers=on("n1"),
    )
    assert sizes(space) == [60, 30]


def test_space_whose_volume_does_not_show_lapses_in_the_end() -> None:
    space = two_claims()
    space.made(a_claim("a"), now=100.0)
    assert not space.lapse(99.0 + SHOWS_WITHIN)
    assert space.lapse(100.0 + SHOWS_WITHIN)
    assert sizes(space) == [30]


def test_space_whose_volume_is_still_to_be_made_never_lapses() -> None:
    space = two_claims()
    assert not space.lapse(1e9)
    assert sizes(space) == [60, 30]


def test_space_is_not_taken_back_once_its_volume_is_there() -> None:
    space = two_claims()
    space.made(a_claim("a"), now=1.0)
    space.take_back(a_claim("a"))
    space.take_back(a_claim("b"))
    assert sizes(space) == [60]


def test_that_space_was_freed_is_told_once() -> None:
    space = two_claims()
    space.take_back(a_claim("a"))
    assert (space.lapse(0.0), space.lapse(0.0)) == (True, False)


# What filters make of it


@pytest.mark.parametrize("seed", range(30))
def test_where_nothing_was_given_every_verdict_is_as_without_a_ledger(seed: int) -> None:
    made = random_cluster(seed)
    snapshot = Snapshot.of(made.objects)
    pending = [one for one in snapshot.pods.values() if one.pending]
    now = features.of_version("", {})

    def verdicts() -> list[list[int]]:
        return [pipeline.evaluate(snapshot, one, now).codes.tolist() for one in pending]

    plain = verdicts()
    classes = storage_ledger.tracked(snapshot.storage)
    published_storage.open_for_given(snapshot, classes, given=())
    assert bool(snapshot.storage_ledger.class_names) == bool(classes)
    assert verdicts() == plain


def local_disks(*claims: PersistentVolumeClaim) -> Snapshot:
    pod = builders.pod("p", volumes=[builders.claim_volume(one.metadata.name) for one in claims])
    return Snapshot.of(
        [
            builders.csidriver(LOCAL, storage_capacity=True),
            builders.storage_class("local", LOCAL),
            builders.node("n1"),
            a_capacity("100Gi"),
            *claims,
            pod,
        ]
    )


def fits(snapshot: Snapshot) -> bool:
    (record,) = snapshot.pods.values()
    verdicts = pipeline.evaluate(snapshot, record, features.of_version("", {}))
    return bool(verdicts.fits.any())


@pytest.mark.parametrize(("given", "free"), [("40Gi", True), ("41Gi", False)])
def test_what_was_given_is_not_there_for_others(given: str, free: bool) -> None:
    snapshot, space = local_disks(a_claim("mine")), ClaimSpace(Reservations())
    space.give(a_claim("other", given), "n1", now=0.0)
    with counted(snapshot, snapshot.pods.values(), space):
        assert fits(snapshot) is free


def test_claims_of_one_pod_are_held_against_capacity_one_by_one_as_kube_scheduler_does() -> None:
    snapshot, space = local_disks(a_claim("a"), a_claim("b")), ClaimSpace(Reservations())
    space.give(a_claim("other", "40Gi"), "n1", now=0.0)
    with counted(snapshot, snapshot.pods.values(), space):
        assert fits(snapshot)


def test_what_was_given_on_a_node_that_is_gone_counts_for_nothing() -> None:
    snapshot, space = local_disks(a_claim("mine")), ClaimSpace(Reservations())
    space.give(a_claim("other"), "gone", now=0.0)
    with counted(snapshot, snapshot.pods.values(), space):
        assert fits(snapshot)


# On a cluster


@asynccontextmanager
async def with_disks(
    clock: VirtualClock, *, nodes: int, published_after: float = 1.0, **given: Any
) -> AsyncIterator[Cluster]:
    """Nodes with local disks of 100Gi each, whose driver is there."""
    disks = DriverBehaviour(name=LOCAL, capacity="100Gi", published_after=Delay(published_after))
    async with scheduling_on(Cluster(clock), drivers=(disks,), **given) as cluster:
        await cluster.add(
            builders.csidriver(LOCAL, opt_in=True, storage_capacity=True),
            builders.storage_class("local", LOCAL),
        )
        for number in range(1, nodes + 1):
            await cluster.node(f"n{number}")
        await clock.sleep(published_after + 5)
        yield cluster


async def burst(cluster: Cluster, names: Sequence[str], *, size: str = "60Gi") -> None:
    for name in names:
        await cluster.add(a_claim(f"c-{name}", size))
    for name in names:
        volumes = [builders.claim_volume(f"c-{name}")]
        await cluster.pod(name, volumes=volumes)


async def sent_back(cluster: Cluster) -> int:
    """Pods whose volume could not be made where they were sent."""
    told = await cluster.events("FailedScheduling")
    return sum("provisioning failed" in one.message for one in told)


async def test_of_a_burst_each_node_gets_what_its_disk_holds(clock: VirtualClock) -> None:
    async with with_disks(clock, nodes=3, published_after=30.0) as cluster:
        names = [f"p{number}" for number in range(8)]
        await burst(cluster, names, size="40Gi")
        await clock.sleep(20)
        places = Counter([await cluster.where(name) for name in names])
        assert places == {"n1": 2, "n2": 2, "n3": 2, "": 2}
        assert await sent_back(cluster) == 0


async def test_kube_schedulers_way_sends_pods_where_there_is_no_room(clock: VirtualClock) -> None:
    given = {"countPledgedStorage": False}
    async with with_disks(clock, nodes=1, published_after=30.0, **given) as cluster:
        await burst(cluster, ["p1", "p2", "p3"], size="40Gi")
        await clock.sleep(20)
        assert await sent_back(cluster) > 0


async def test_until_a_volume_shows_its_space_is_not_given_again(clock: VirtualClock) -> None:
    async with with_disks(clock, nodes=1, published_after=30.0) as cluster:
        await burst(cluster, ["p1"])
        await cluster.bound("p1")
        await burst(cluster, ["p2"])
        assert "did not have enough free storage" in await cluster.refused("p2")
        (published,) = (await cluster.client.list(CSIStorageCapacity)).items
        assert published.capacity == "100Gi"
        await clock.sleep(60)
        assert (await cluster.where("p2"), await sent_back(cluster)) == ("", 0)


async def test_a_pod_gets_the_space_that_was_given_to_one_that_is_gone(
    clock: VirtualClock,
) -> None:
    async with with_disks(clock, nodes=1, provision=600.0) as cluster:
        await burst(cluster, ["p1"])
        await clock.sleep(2)
        await burst(cluster, ["p2"])
        await cluster.refused("p2")
        await cluster.client.delete(Pod, "p1", namespace="default")
        await cluster.client.delete(PersistentVolumeClaim, "c-p1", namespace="default")
        await clock.sleep(15)
        claim = await cluster.get(PersistentVolumeClaim, "c-p2")
        assert "n1" in claim.metadata.annotations.values()


async def test_a_volume_that_is_still_to_be_made_keeps_its_space_when_its_pod_is_gone(
    clock: VirtualClock,
) -> None:
    async with with_disks(clock, nodes=1, provision=600.0) as cluster:
        await burst(cluster, ["p1"])
        await clock.sleep(2)
        await cluster.client.delete(Pod, "p1", namespace="default")
        await clock.sleep(15)
        await burst(cluster, ["p2"])
        assert "did not have enough free storage" in await cluster.refused("p2")


async def test_a_pod_gets_the_space_of_a_volume_that_was_deleted(clock: VirtualClock) -> None:
    async with with_disks(clock, nodes=1) as cluster:
        await burst(cluster, ["p1"])
        await cluster.bound("p1")
        await burst(cluster, ["p2"])
        await cluster.refused("p2")
        await clock.sleep(10)
        await cluster.client.delete(Pod, "p1", namespace="default")
        await cluster.client.delete(PersistentVolumeClaim, "c-p1", namespace="default")
        assert await cluster.bound("p2") == {"p2": "n1"}
        assert len((await cluster.client.list(PersistentVolume)).items) == 1

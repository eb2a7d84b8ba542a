"""Who has to go for a more important pod."""

from typing import Any

import msgspec
import numpy as np

from tests.scheduler import harness
from tests.scheduler.harness import DRIVER, Cluster, a_program, claims, scheduling
from tonnage.cluster.transport import HttpRequest, Response
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import Pod, PodStatus
from tonnage.objects.workloads import (
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
    PodDisruptionBudget,
)
from tonnage.rules import pipeline
from tonnage.rules.features import Features
from tonnage.scheduler.preemption import Search
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock


def budget(allowed: int, **labels: str) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="b", namespace="default"),
        spec=DisruptionBudgetSpec(selector=builders.selecting(labels)),
        status=DisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def victims(
    newcomer: Pod, *objects: object, budgets: tuple[PodDisruptionBudget, ...] = ()
) -> tuple[str, set[str]] | None:
    """The node that is freed and who goes there."""
    pods = {f"default/{one.metadata.name}": one for one in objects if isinstance(one, Pod)}
    snapshot = Snapshot.of([*objects, newcomer])
    record = snapshot.pods[f"default/{newcomer.metadata.name}"]
    verdicts = pipeline.evaluate(snapshot, record, Features())
    codes = verdicts.codes.astype(np.int64)
    alive = snapshot.table.alive.data[: len(codes)]
    search = Search(
        snapshot, Features(), pod_of=pods.get, budgets=budgets, rng=np.random.default_rng(1)
    )
    found = search.find(record, codes, alive)
    assert set(snapshot.pods) == {*pods, record.key}, "the snapshot is not as it was"
    return None if found is None else (found.node, {one.meta.name for one in found.pods})


def running(name: str, *, on: str = "n", priority: int = 0, started: str = "", **more: Any) -> Pod:
    made = builders.pod(name, on=on, priority=priority, **more)
    status = PodStatus(phase="Running", start_time=started or None)
    return msgspec.structs.replace(made, status=status)


NEW = builders.pod("new", cpu="2", priority=100)


def test_nobody_goes_who_need_not() -> None:
    found = victims(
        NEW,
        builders.node("n", cpu="4"),
        running("a", cpu="1"),
        running("b", cpu="2"),
        running("c", cpu="1"),
    )
    assert found == ("n", {"b"})


def test_the_least_important_go_first() -> None:
    found = victims(
        NEW,
        builders.node("n", cpu="4"),
        running("low", cpu="2", priority=1),
        running("middle", cpu="2", priority=50),
    )
    assert found == ("n", {"low"})


def test_nobody_goes_for_an_equal() -> None:
    assert victims(NEW, builders.node("n", cpu="2"), running("a", cpu="2", priority=100)) is None


def test_the_node_with_the_least_important_victims_is_freed() -> None:
    found = victims(
        NEW,
        builders.node("n", cpu="2"),
        builders.node("m", cpu="2"),
        running("a", cpu="2", priority=50),
        running("b", on="m", cpu="2", priority=10),
    )
    assert found == ("m", {"b"})


def test_fewer_victims_are_better() -> None:
    found = victims(
        NEW,
        builders.node("n", cpu="2"),
        builders.node("m", cpu="2"),
        running("a", cpu="1"),
        running("b", cpu="1"),
        running("c", on="m", cpu="2"),
    )
    assert found == ("m", {"c"})


def test_who_started_last_goes_before_who_has_run_for_long() -> None:
    found = victims(
        NEW,
        builders.node("n", cpu="2"),
        builders.node("m", cpu="2"),
        running("old", cpu="2", started="2026-01-01T00:00:00Z"),
        running("young", on="m", cpu="2", started="2026-02-01T00:00:00Z"),
    )
    assert found == ("m", {"young"})


def test_budgets_are_broken_last() -> None:
    found = victims(
        NEW,
        builders.node("n", cpu="2"),
        builders.node("m", cpu="2"),
        running("guarded", cpu="2", priority=1, labels={"app": "a"}),
        running("free", on="m", cpu="2", priority=50),
        budgets=(budget(0, app="a"),),
    )
    assert found == ("m", {"free"})


def test_on_one_node_pods_under_a_budget_stay_rather_than_others() -> None:
    found = victims(
        NEW,
        builders.node("n", cpu="4"),
        running("guarded", cpu="2", priority=1, labels={"app": "a"}),
        running("free", cpu="2", priority=50),
        budgets=(budget(0, app="a"),),
    )
    assert found == ("n", {"free"})


def test_a_budget_that_allows_it_does_not_protect() -> None:
    found = victims(
        NEW,
        builders.node("n", cpu="4"),
        running("guarded", cpu="2", priority=1, labels={"app": "a"}),
        running("other", cpu="2", priority=50),
        budgets=(budget(1, app="a"),),
    )
    assert found == ("n", {"guarded"})


def test_budgets_are_broken_if_there_is_no_other_way() -> None:
    found = victims(
        NEW,
        builders.node("n", cpu="2"),
        running("guarded", cpu="2", labels={"app": "a"}),
        budgets=(budget(0, app="a"),),
    )
    assert found == ("n", {"guarded"})


def test_slots_are_freed_as_well() -> None:
    found = victims(
        builders.pod("db", pvcs=["new"], priority=100),
        builders.storage_class("fast", DRIVER),
        builders.pvc("new", storage_class="fast"),
        builders.pvc("old", storage_class="fast"),
        builders.node("n"),
        builders.csinode("n", {DRIVER: 1}),
        running("plain", priority=0),
        running("holder", pvcs=["old"], priority=10),
    )
    assert found == ("n", {"holder"})


def test_where_nobodys_going_helps_nobody_goes() -> None:
    assert victims(NEW, builders.node("n", cpu="1"), running("a", cpu="1")) is None


# On a cluster.


async def crowded(cluster: Cluster) -> None:
    await cluster.node("n1", cpu="2")
    await cluster.pod("low", on="n1", cpu="2", priority=1)


async def test_a_more_important_pod_takes_the_place_of_another(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await crowded(cluster)
        await cluster.pod("high", cpu="2", priority=10)
        assert await cluster.bound("high") == {"high": "n1"}
        names = [one.metadata.name for one in (await cluster.client.list(Pod)).items]
        assert names == ["high"]
        (event,) = await cluster.events("Preempted")
        assert event.involved_object.name == "low"
        assert event.message.endswith("on node n1")


async def test_what_was_cut_short_by_the_loss_of_a_lease_is_begun_again(
    clock: VirtualClock,
) -> None:
    cluster = Cluster(clock)
    await crowded(cluster)
    await cluster.pod("high", cpu="2", priority=10)
    program = a_program(cluster, elect=True)

    def fault(request: HttpRequest) -> Response | None:
        if request.method == "DELETE":
            return Response(status=429, headers={"retry-after": "20"})
        lost = "/leases" in request.path and deleting()
        return Response(status=500) if lost else None

    def deleting() -> bool:
        return any(one.method == "DELETE" for one in cluster.transport.sent)

    cluster.transport.fault = fault
    async with harness.running(program):
        await cluster.refused("high")
        while program.leadership.leading():
            await clock.sleep(1)
        cluster.transport.fault = lambda _: None
        await clock.sleep(60)
        assert program.leadership.leading()
    assert (await cluster.get(Pod, "low")).metadata.deletion_timestamp


async def test_until_the_victim_is_gone_the_node_is_promised(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await crowded(cluster)
        await cluster.pod("high", cpu="2", priority=10)
        await cluster.refused("high")
        high = await cluster.get(Pod, "high")
        assert (high.spec.node_name, high.status.nominated_node_name) == ("", "n1")


async def test_a_promised_node_is_not_given_to_another(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await crowded(cluster)
        await cluster.pod("high", cpu="2", priority=10)
        await cluster.refused("high")
        await cluster.pod("sneaky", cpu="1", priority=1)
        assert await cluster.bound("high") == {"high": "n1"}
        assert await cluster.where("sneaky") == ""


async def test_a_pod_that_may_not_preempt_waits(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await crowded(cluster)
        await cluster.pod("meek", cpu="2", priority=10, preempts=False)
        assert (await cluster.refused("meek")).endswith(
            " preemption: not eligible due to preemptionPolicy=Never."
        )
        await clock.sleep(30)
        assert await cluster.where("low") == "n1"


async def test_preemption_can_be_switched_off(clock: VirtualClock) -> None:
    async with scheduling(clock, preemption=False) as cluster:
        await crowded(cluster)
        await cluster.pod("high", cpu="2", priority=10)
        assert await cluster.refused("high") == "0/1 nodes are available: 1 Insufficient cpu."
        await clock.sleep(30)
        assert await cluster.where("low") == "n1"


async def test_one_pod_costs_no_more_victims_while_the_first_leave(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        for name in ("n1", "n2", "n3"):
            await cluster.node(name, cpu="2")
            await cluster.pod(f"low-{name}", on=name, cpu="2", priority=1)
        await cluster.pod("high", cpu="2", priority=10)
        await cluster.refused("high")
        # Something that cures, but not enough.
        await cluster.node("tiny", cpu="1")
        await cluster.bound("high")
        assert len(await cluster.events("Preempted")) == 1


async def test_a_freed_slot_goes_to_the_more_important_pod(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.add(builders.storage_class("fast", DRIVER))
        await cluster.node("n1", drivers={DRIVER: 1})
        await claims(cluster, ["old", "new"])
        await cluster.pod("low", pvcs=["old"], priority=1)
        await cluster.bound("low")
        await cluster.pod("high", pvcs=["new"], priority=10)
        assert await cluster.bound("high") == {"high": "n1"}

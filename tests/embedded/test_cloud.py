"""The simulated cloud: the contract of all providers, and what it alone can do."""

from collections import Counter

import msgspec
import pytest

from tests.embedded.embedded_cluster import DRIVER, Cluster, group, living, workload
from tonnage.embedded.cloud import CapacityShortage, CloudBehaviour, CloudOutage
from tonnage.embedded.world import Delay, DriverBehaviour, WorldBehaviour
from tonnage.errors import InputError, ProviderError
from tonnage.objects.nodes import Taint
from tonnage.testing.clock import VirtualClock, run


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


async def told(cluster: Cluster, name: str = "a") -> Counter[tuple[str, str]]:
    """State and class of error of each instance."""
    found = await cluster.cloud.instances(name)
    return Counter((one.state, one.error.error_class if one.error else "") for one in found)


SLOW = CloudBehaviour(start=Delay(60.0), stop=Delay(10.0), fails_after=Delay(5.0))


def but(**more: object) -> CloudBehaviour:
    return msgspec.structs.replace(SLOW, **more)


# Machines that come and go


async def test_a_machine_takes_its_time_and_then_is_a_node(clock):
    async with living(clock, groups=[group(zone="z1")], cloud=SLOW) as cluster:
        await cluster.cloud.increase("a", 1)
        await cluster.after(59)
        assert cluster.names("nodes") == []
        await cluster.after(2)
        (node,) = cluster.all("nodes")
        (instance,) = await cluster.cloud.instances("a")
    assert (instance.state, instance.node) == ("running", node["metadata"]["name"])
    assert node["spec"]["providerID"] == instance.id
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "z1"


async def test_a_new_node_comes_to_life_with_the_worlds_drivers(clock):
    driver = DriverBehaviour(name=DRIVER, limit=25, registers_after=Delay(20.0))
    async with living(clock, groups=[group()], cloud=SLOW, drivers=(driver,)) as cluster:
        await cluster.cloud.increase("a", 1)
        await cluster.after(65)
        (name,) = cluster.names("nodes")
        assert cluster.limits(name) == {}
        await cluster.after(20)
        assert cluster.limits(name) == {DRIVER: 25}


async def test_startup_taints_are_on_a_node_from_the_beginning(clock):
    taint = Taint(key="d/agent-not-ready", effect="NoExecute")
    cloud = but(startup_taints=(taint,))
    async with living(clock, groups=[group()], cloud=cloud) as cluster:
        await cluster.cloud.increase("a", 1)
        await cluster.after(70)
        (node,) = cluster.all("nodes")
        assert "d/agent-not-ready" in [one["key"] for one in node["spec"]["taints"]]


async def test_a_deleted_machine_and_its_node_are_gone_after_a_while(clock):
    async with living(clock, groups=[group(target=2)], cloud=SLOW) as cluster:
        await cluster.after(70)
        gone, kept = cluster.names("nodes")
        await cluster.cloud.delete("a", [gone])
        assert await told(cluster) == {("deleting", ""): 1, ("running", ""): 1}
        await cluster.after(11)
        assert cluster.names("nodes") == [kept]
        assert await told(cluster) == {("running", ""): 1}


async def test_deleting_what_is_gone_already_is_no_mistake(clock):
    async with living(clock, groups=[group(target=2)], cloud=SLOW) as cluster:
        await cluster.after(70)
        gone = cluster.names("nodes")[0]
        await cluster.cloud.delete("a", [gone])
        await cluster.after(11)
        await cluster.cloud.delete("a", [gone])
        assert (await cluster.cloud.groups())[0].target == 1


async def test_a_machine_that_is_still_being_created_is_deleted_by_its_id(clock):
    async with living(clock, groups=[group(target=1)], cloud=SLOW) as cluster:
        (instance,) = await cluster.cloud.instances("a")
        await cluster.cloud.delete("a", [instance.id])
        await cluster.after(120)
        assert cluster.names("nodes") == []
        assert await told(cluster) == {}


async def test_a_target_above_the_maximum_is_named(clock):
    cluster = Cluster(clock, WorldBehaviour(), groups=[group(max_size=2, target=3)])
    with pytest.raises(InputError, match=r"NodeGroup a: spec\.targetSize: 3: expected"):
        await cluster.cloud.open()


async def test_nodes_that_are_there_are_labelled_so_that_the_world_plays_them(clock):
    cluster = Cluster(clock, WorldBehaviour(), groups=[group(nodes=["old"])])
    cluster.put("nodes", "old")
    await cluster.cloud.open()
    assert cluster.get("nodes", "old")["metadata"]["labels"] == {"kwok.tonnage.dev/group": "a"}


# What goes wrong


async def test_out_of_stock_in_a_zone_for_a_while(clock):
    shortage = CapacityShortage(zones=("z1",), since=0.0, until=600.0)
    groups = [group("a", zone="z1"), group("b", zone="z2")]
    async with living(clock, groups=groups, cloud=but(shortages=(shortage,))) as cluster:
        await cluster.cloud.increase("a", 2)
        await cluster.cloud.increase("b", 1)
        await cluster.after(4)
        assert await told(cluster, "a") == {("creating", ""): 2}
        await cluster.after(70)
        assert await told(cluster, "a") == {("creating", "outOfResources"): 2}
        assert await told(cluster, "b") == {("running", ""): 1}
        await cluster.after(600)
        await cluster.cloud.increase("a", 1)
        await cluster.after(70)
        assert (await told(cluster, "a"))["running", ""] == 1


async def test_a_stock_is_used_up_by_all_groups_it_is_for(clock):
    shortage = CapacityShortage(left=3)
    groups = [group("a"), group("b")]
    async with living(clock, groups=groups, cloud=but(shortages=(shortage,))) as cluster:
        await cluster.cloud.increase("a", 2)
        await cluster.cloud.increase("b", 2)
        await cluster.after(70)
        assert await told(cluster, "a") == {("running", ""): 2}
        assert await told(cluster, "b") == {("running", ""): 1, ("creating", "outOfResources"): 1}


async def test_a_quota_says_that_it_is_one(clock):
    shortage = CapacityShortage(left=1, error="quota", message="1 of 1 machines used")
    async with living(clock, groups=[group()], cloud=but(shortages=(shortage,))) as cluster:
        await cluster.cloud.increase("a", 2)
        await cluster.after(70)
        (error,) = [one.error for one in await cluster.cloud.instances("a") if one.error]
    told = (error.error_class, error.code, error.message)
    assert told == ("quota", "QuotaExceeded", "1 of 1 machines used")


async def test_a_bad_instance_type_never_works_and_others_do(clock):
    shortage = CapacityShortage(instance_types=("bad.*",), error="other")
    groups = [group("a", instance_type="bad.large"), group("b", instance_type="good.large")]
    async with living(clock, groups=groups, cloud=but(shortages=(shortage,))) as cluster:
        for name in "ab":
            await cluster.cloud.increase(name, 1)
        await cluster.after(70)
        assert await told(cluster, "a") == {("creating", "other"): 1}
        assert await told(cluster, "b") == {("running", ""): 1}


async def test_a_machine_that_never_registers_runs_without_a_node(clock):
    async with living(clock, groups=[group()], cloud=but(never_register=("a",))) as cluster:
        await cluster.cloud.increase("a", 1)
        await cluster.after(3600)
        (instance,) = await cluster.cloud.instances("a")
        assert (instance.state, instance.node) == ("running", "")
        assert cluster.names("nodes") == []
        await cluster.cloud.delete("a", [instance.id])
        await cluster.after(11)
        assert await told(cluster) == {}


async def test_chance_fails_some_machines_and_not_others(clock):
    async with living(clock, groups=[group(max_size=40)], cloud=but(failure_chance=0.5)) as cluster:
        await cluster.cloud.increase("a", 40)
        await cluster.after(70)
        states = await told(cluster)
    assert 5 < states["running", ""] < 35
    assert states["running", ""] + states["creating", "other"] == 40


async def test_failed_machines_are_the_first_to_be_given_up(clock):
    shortage = CapacityShortage(left=1)
    async with living(clock, groups=[group()], cloud=but(shortages=(shortage,))) as cluster:
        await cluster.cloud.increase("a", 2)
        await cluster.after(10)
        await cluster.cloud.decrease_target("a", 1)
        assert await told(cluster) == {("creating", ""): 1}


async def test_during_an_outage_requests_fail_and_change_nothing(clock):
    cloud = but(outages=(CloudOutage(since=10.0, until=20.0),))
    async with living(clock, groups=[group()], cloud=cloud) as cluster:
        await cluster.after(12)
        with pytest.raises(ProviderError) as caught:
            await cluster.cloud.increase("a", 1)
        assert caught.value.retryable
        await cluster.after(10)
        assert await told(cluster) == {}
        await cluster.cloud.increase("a", 1)


@pytest.mark.parametrize("window", [{"since": -1.0}, {"since": 5.0, "until": 5.0}])
def test_a_window_that_is_none_is_refused(window):
    with pytest.raises(InputError, match="expected 0 <= since < until"):
        CapacityShortage(**window)


# What it costs


async def test_a_machine_costs_from_its_request_to_its_end(clock):
    async with living(clock, groups=[group(price="2", target=1)], cloud=SLOW) as cluster:
        await cluster.after(3600 - clock.monotonic())
        assert cluster.cloud.bill().cost == pytest.approx(2.0, rel=1e-3)
        await cluster.cloud.delete("a", cluster.names("nodes"))
        await cluster.after(3600)
        bill = cluster.cloud.bill()
    assert bill.groups["a"].machine_hours == pytest.approx(1 + 10 / 3600, rel=1e-3)
    assert bill.cost == pytest.approx(2 * (1 + 10 / 3600), rel=1e-3)


async def test_a_machine_that_did_not_come_costs_nothing(clock):
    cloud = but(shortages=(CapacityShortage(),))
    async with living(clock, groups=[group(price="2", target=3)], cloud=cloud) as cluster:
        await cluster.after(3600)
        assert cluster.cloud.bill().cost == 0.0


# In files, and again


def test_behaviour_is_read_from_camel_case_and_unknown_fields_are_refused():
    text = b"""{"start": {"least": 40, "most": 90}, "neverRegisterChance": 0.1,
        "shortages": [{"instanceTypes": ["bad.*"], "error": "other"}],
        "outages": [{"since": 10, "until": 20}]}"""
    found = msgspec.json.decode(text, type=CloudBehaviour)
    assert found.shortages[0].instance_types == ("bad.*",)
    with pytest.raises(msgspec.ValidationError, match="unknown field `starts`"):
        msgspec.json.decode(b'{"starts": {}}', type=CloudBehaviour)


def lived(seed: int) -> list[bytes]:
    clock = VirtualClock()

    async def live() -> list[bytes]:
        cloud = CloudBehaviour(start=Delay(10.0, 100.0), failure_chance=0.2)
        crashing = DriverBehaviour(name=DRIVER, limit=2, crashes_after=Delay(5.0, 60.0))
        groups, attach = [group(target=8)], Delay(1.0, 20.0)
        async with living(
            clock, groups=groups, cloud=cloud, seed=seed, drivers=(crashing,), attach=attach
        ) as cluster:
            cluster.disk_class()
            cluster.put("daemonsets", "agent", spec=workload())
            cluster.put("deployments", "web", spec=workload(replicas=10))
            claims = {
                "metadata": {"name": "data"},
                "spec": {
                    "storageClassName": "disk",
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }
            spec = workload(
                replicas=12, podManagementPolicy="Parallel", volumeClaimTemplates=[claims]
            )
            cluster.put("statefulsets", "db", spec=spec)
            await cluster.after(120)
            await cluster.cloud.delete("a", cluster.names("nodes")[:2])
            await cluster.after(60)
            return cluster.history()

    return run(live, clock=clock)


def test_the_same_seed_gives_the_same_history_to_the_byte():
    assert lived(1) == lived(1) != lived(2)

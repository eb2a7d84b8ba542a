"""Sizes and deletions, and everybody who may be faster than we are."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.providers.clusterapi.management import KEYS, NAMESPACE, ManagementCluster
from tonnage.cluster.transport import HttpRequest
from tonnage.errors import ProviderError
from tonnage.providers.clusterapi import ClusterApiProvider


async def running(
    clock, *, nodes: int = 3, sizes: tuple[int, int] = (0, 10)
) -> tuple[ManagementCluster, ClusterApiProvider, str]:
    """A group with so many machines, all of them with a node."""
    management = ManagementCluster(clock)
    group = management.group("a", replicas=nodes, sizes=sizes)
    for n in range(nodes):
        management.machine(f"n{n}", owner="a")
    provider = management.provider()
    await provider.refresh()
    return management, provider, group


def once(
    management: ManagementCluster, *, path: str, do: Callable[[], Any], method: str = "PATCH"
) -> None:
    """Do something just before the first request of the kind arrives."""
    done: list[HttpRequest] = []

    def before(request: HttpRequest) -> None:
        if request.method == method and request.path.endswith(path) and not done:
            done.append(request)
            do()

    management.wire.before = before


async def refused(request: Any, match: str) -> ProviderError:
    with pytest.raises(ProviderError, match=match) as raised:
        await request
    return raised.value


# Growing


async def test_an_increase_that_is_overtaken_by_a_controller_is_made_all_the_same(clock):
    management, provider, group = await running(clock)
    status = {"status": {"replicas": 3}}
    touch = lambda: management.change("MachineDeployment", "a", status, part="/status")  # noqa: E731
    once(management, path="/a/scale", do=touch)
    await provider.increase(group, 2)
    assert management.replicas("a") == 5


async def test_an_increase_goes_on_top_of_what_others_have_asked_for(clock):
    management, provider, group = await running(clock)
    management.change("MachineDeployment", "a", {"spec": {"replicas": 4}})
    await provider.increase(group, 2)
    assert management.replicas("a") == 6


async def test_an_increase_beyond_the_maximum_because_of_others_is_refused(clock):
    management, provider, group = await running(clock, sizes=(0, 5))
    management.change("MachineDeployment", "a", {"spec": {"replicas": 5}})
    await refused(provider.increase(group, 1), "6 nodes asked for, its maximum is 5")
    assert management.replicas("a") == 5


async def test_an_increase_whose_answer_is_lost_is_made_once(clock):
    management, provider, group = await running(clock)
    answers = iter([True])
    management.wire.lost = lambda request: request.method == "PATCH" and next(answers, False)
    await provider.increase(group, 2)
    assert management.replicas("a") == 5


async def test_an_increase_nobody_knows_the_end_of_is_not_called_transient(clock):
    management, provider, group = await running(clock)
    management.wire.lost = lambda request: request.method == "PATCH"
    error = await refused(provider.increase(group, 2), "cut")
    assert not error.retryable


async def test_an_increase_that_is_overtaken_again_and_again_is_given_up_for_now(clock):
    management, provider, group = await running(clock)
    count = iter(range(100))

    def before(request: HttpRequest) -> None:
        if request.method == "PATCH":
            status = {"status": {"replicas": next(count)}}
            management.change("MachineDeployment", "a", status, part="/status")

    management.wire.before = before
    error = await refused(provider.increase(group, 2), "others changed it")
    assert error.retryable
    assert management.replicas("a") == 3


# Deleting chosen machines


async def test_the_chosen_machine_is_marked_before_the_size_is_lowered(clock):
    management, provider, group = await running(clock)
    seen: list[set[str]] = []
    once(management, path="/a/scale", do=lambda: seen.append(management.marked()))
    await provider.delete(group, ["n1"])
    assert seen == [{"n1"}]
    assert (management.replicas("a"), management.marked()) == (2, {"n1"})


async def test_several_are_deleted_with_one_change_of_the_size(clock):
    management, provider, group = await running(clock, nodes=5)
    patched: list[str] = []

    def before(request: HttpRequest) -> None:
        if request.method == "PATCH":
            patched.append(request.path.rsplit("/", 1)[1])

    management.wire.before = before
    await provider.delete(group, ["n1", "n3"])
    assert patched == ["n1", "n3", "scale"]
    assert management.replicas("a") == 3


async def test_a_machine_that_never_registered_is_deleted_by_its_id(clock):
    management, provider, group = await running(clock)
    management.change("MachineDeployment", "a", {"spec": {"replicas": 4}})
    management.machine("late", owner="a", node=False)
    await clock.sleep(1)
    await provider.refresh()
    await provider.delete(group, ["cloud:///zone/late"])
    assert (management.replicas("a"), management.marked()) == (3, {"late"})


@pytest.mark.parametrize(
    ("status", "prefix"),
    [({}, "pending"), ({"phase": "Failed"}, "failed")],
)
async def test_a_machine_without_an_id_is_deleted_by_its_name(clock, status, prefix):
    management, provider, group = await running(clock)
    management.change("MachineDeployment", "a", {"spec": {"replicas": 4}})
    management.machine("m", owner="a", node=False, provider_id="", status=status)
    await clock.sleep(1)
    await provider.refresh()
    await provider.delete(group, [f"{prefix}-machine-{NAMESPACE}_m"])
    assert (management.replicas("a"), management.marked()) == (3, {"m"})


async def test_a_machine_by_node_and_by_id_is_one(clock):
    management, provider, group = await running(clock)
    await provider.delete(group, ["n1", "cloud:///zone/n1"])
    assert management.replicas("a") == 2


async def test_a_deletion_repeated_before_the_watch_knows_counts_once(clock):
    management, provider, group = await running(clock)
    await provider.delete(group, ["n1"])
    await provider.delete(group, ["n1"])
    assert management.replicas("a") == 2


async def test_what_another_leader_has_just_deleted_is_not_deleted_again(clock):
    management, provider, group = await running(clock)
    other = management.provider()
    await other.refresh()
    await other.delete(group, ["n1"])
    await provider.delete(group, ["n1"])
    assert management.replicas("a") == 2


async def test_a_machine_that_somebody_deletes_meanwhile_lowers_nothing(clock):
    management, provider, group = await running(clock)
    management.change("Machine", "n1", {"metadata": {"finalizers": ["x.io/wait"]}})
    await clock.sleep(1)
    await provider.refresh()
    once(management, path="/n1", do=lambda: management.remove("Machine", "n1"))
    await provider.delete(group, ["n1"])
    assert management.replicas("a") == 3


async def test_a_machine_that_is_gone_meanwhile_lowers_nothing(clock):
    management, provider, group = await running(clock)
    once(management, path="/n1", do=lambda: management.remove("Machine", "n1"))
    await provider.delete(group, ["n1"])
    assert management.replicas("a") == 3


async def test_a_machine_that_a_controller_touches_meanwhile_is_deleted_all_the_same(clock):
    management, provider, group = await running(clock)
    touch = lambda: management.change("Machine", "n1", {"metadata": {"labels": {"x": "y"}}})  # noqa: E731
    once(management, path="/n1", do=touch)
    await provider.delete(group, ["n1"])
    assert (management.replicas("a"), management.marked()) == (2, {"n1"})


async def test_never_below_the_minimum_also_if_others_lower_the_size_meanwhile(clock):
    management, provider, group = await running(clock, sizes=(2, 10))
    lower = lambda: management.change("MachineDeployment", "a", {"spec": {"replicas": 2}})  # noqa: E731
    once(management, path="/n1", do=lower)
    await refused(provider.delete(group, ["n1"]), "1 nodes would be left, its minimum is 2")
    assert (management.replicas("a"), management.marked()) == (2, set())


async def test_a_refused_deletion_leaves_a_mark_of_the_operator_alone(clock):
    management, provider, group = await running(clock, sizes=(2, 10))
    marked = {"metadata": {"annotations": {KEYS.delete_machine: "mine"}}}
    management.change("Machine", "n1", marked)
    await clock.sleep(1)
    await provider.refresh()
    lower = lambda: management.change("MachineDeployment", "a", {"spec": {"replicas": 2}})  # noqa: E731
    once(management, path="/n1", do=lower)
    await refused(provider.delete(group, ["n1"]), "its minimum is 2")
    annotations = management.get("Machine", "n1")["metadata"]["annotations"]
    assert annotations[KEYS.delete_machine] == "mine"


async def test_marks_stay_where_nobody_knows_whether_the_size_was_lowered(clock):
    management, provider, group = await running(clock)
    management.wire.lost = lambda request: (
        request.path.endswith("/scale") and (request.method == "PATCH")
    )
    await refused(provider.delete(group, ["n1"]), "cut")
    assert (management.replicas("a"), management.marked()) == (2, {"n1"})


async def test_a_deletion_whose_end_was_not_known_is_not_made_twice(clock):
    management, provider, group = await running(clock)
    management.wire.lost = lambda request: (
        request.path.endswith("/scale") and (request.method == "PATCH")
    )
    await refused(provider.delete(group, ["n1"]), "cut")
    management.wire.lost = lambda _: False
    await provider.delete(group, ["n1"])
    assert management.replicas("a") == 2


async def test_nothing_is_chosen_while_machines_are_still_to_be_made(clock):
    management, provider, group = await running(clock)
    await provider.increase(group, 2)
    error = await refused(provider.delete(group, ["n1"]), "2 of its machines are not made yet")
    assert error.retryable
    assert (management.replicas("a"), management.marked()) == (5, set())


async def test_nothing_is_chosen_while_a_deployment_rolls_out(clock):
    management, provider, group = await running(clock)
    management.machine_set("a-new", deployment="a", replicas=1, revision=2)
    await clock.sleep(1)
    await provider.refresh()
    await refused(provider.delete(group, ["n1"]), "rolling out")
    assert (management.replicas("a"), management.marked()) == (3, set())


async def test_a_set_that_was_rolled_out_of_is_no_hindrance(clock):
    management, provider, group = await running(clock)
    management.machine_set("a-old", deployment="a", replicas=0, revision=0)
    await clock.sleep(1)
    await provider.refresh()
    await provider.delete(group, ["n1"])
    assert management.replicas("a") == 2


async def test_of_a_pool_without_machines_none_can_be_chosen(clock):
    management = ManagementCluster(clock)
    ids = ["cloud:///i-1", "cloud:///i-2"]
    group = management.group("p", kind="MachinePool", replicas=2, providerIDList=ids)
    management.node("n1", provider_id="cloud:///i-1")
    provider = management.provider()
    await provider.refresh()
    await refused(provider.delete(group, ["n1"]), "n1 has no Machine that could be chosen")
    assert management.replicas("p", kind="MachinePool") == 2


# Giving back


async def test_what_has_no_machine_yet_is_given_back_first(clock):
    management, provider, group = await running(clock)
    await provider.increase(group, 2)
    await provider.decrease_target(group, 2)
    assert (management.replicas("a"), management.marked()) == (3, set())


async def test_machines_that_have_not_started_are_marked_when_they_are_given_back(clock):
    management, provider, group = await running(clock)
    management.change("MachineDeployment", "a", {"spec": {"replicas": 5}})
    management.machine("late", owner="a", node=False, provider_id="")
    await clock.sleep(1)
    await provider.refresh()
    await provider.decrease_target(group, 2)
    assert (management.replicas("a"), management.marked()) == (3, {"late"})


async def test_a_machine_that_starts_meanwhile_is_not_given_back(clock):
    management, provider, group = await running(clock)
    management.change("MachineDeployment", "a", {"spec": {"replicas": 4}})
    management.machine("late", owner="a", node=False, provider_id="")
    await clock.sleep(1)
    await provider.refresh()
    started = {"spec": {"providerID": "cloud:///zone/late"}}
    once(management, path="/late", do=lambda: management.change("Machine", "late", started))
    error = await refused(provider.decrease_target(group, 1), "late has started meanwhile")
    assert error.retryable
    assert (management.replicas("a"), management.marked()) == (4, set())


# What is known in between


async def test_a_pause_is_noticed_although_the_size_is_ours(clock):
    management, provider, group = await running(clock)
    await provider.increase(group, 2)
    paused = {"metadata": {"annotations": {KEYS.paused: ""}}}
    management.change("MachineDeployment", "a", paused)
    await clock.sleep(1)
    await provider.refresh()
    await refused(provider.increase(group, 1), "paused")


async def test_a_size_that_was_set_is_known_before_the_watch_tells(clock):
    management, provider, group = await running(clock)
    await provider.increase(group, 2)
    (known,) = await provider.groups()
    assert known.target == 5
    management.change("MachineDeployment", "a", {"spec": {"replicas": 1}})
    await clock.sleep(1)
    await provider.refresh()
    (known,) = await provider.groups()
    assert known.target == 1

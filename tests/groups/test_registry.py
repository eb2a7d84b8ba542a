import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.groups.group_machines import Failure, GroupMachine
from tonnage.groups.model import Group, Purchase
from tonnage.groups.policy import GroupPolicy
from tonnage.groups.readiness import NOT_READY_FOR_SCALE_UP, GroupReadiness
from tonnage.groups.registry import (
    BACKED_OFF,
    GroupHealth,
    GroupObservation,
    GroupPatience,
    Observation,
    Registry,
    RegistryState,
    restored,
)

PATIENCE = GroupPatience()
NO_STOCK = Failure(error_class="outOfResources", code="NoStock")


def a_group(target: int = 0, *, least: int = 0, most: int = 100) -> Group:
    return Group(id="g", target=target, max_size=most, min_size=least)


def look(
    registry: Registry,
    target: int,
    *,
    now: float,
    ready: int = 0,
    coming_up: int = 0,
    unready: int = 0,
    deleting: int = 0,
    machines: list[GroupMachine] | None = None,
    registered: tuple[str, ...] = (),
    least: int = 0,
) -> Observation:
    readiness = GroupReadiness(
        group="g", ready=ready, coming_up=coming_up, unready=unready, deleting=deleting
    )
    sighting = GroupObservation(a_group(target, least=least), readiness, machines or [])
    return registry.observe(
        [sighting],
        registered=frozenset(registered),
        policy=GroupPolicy(),
        patience=PATIENCE,
        now=now,
    )


def standing(observation: Observation) -> GroupHealth:
    return observation.groups["g"]


def asked(delta: int = 2, *, target: int = 0, now: float = 0.0) -> Registry:
    registry = Registry()
    registry.asked(a_group(target), delta, now=now, patience=PATIENCE)
    return registry


# Requests


def test_whom_nodes_were_asked_for_is_remembered_as_long_as_they_are_waited_for() -> None:
    registry = Registry()
    registry.asked(a_group(0), 1, now=0, patience=PATIENCE, pods=["default/a"])
    registry.asked(a_group(1), 2, now=1, patience=PATIENCE, pods=["default/b", "default/a"])
    expected = {"g": Purchase(nodes=3, pods=("default/a", "default/b"))}
    assert registry.purchases == expected
    assert Registry(restored(registry.state, now=2)).purchases == expected
    look(registry, 3, now=30, ready=3)
    assert registry.purchases == {}


def test_pods_whose_nodes_are_refused_are_forgotten() -> None:
    registry = Registry()
    registry.asked(a_group(0), 1, now=0, patience=PATIENCE, pods=["default/a"])
    registry.asked(a_group(1), 1, now=1, patience=PATIENCE, pods=["default/b"])
    registry.gave_up("g", 1, pods={"default/b"})
    assert registry.purchases == {"g": Purchase(nodes=1, pods=("default/a",))}


def test_nobody_knows_whom_others_have_asked_for() -> None:
    registry = Registry()
    look(registry, 2, now=0)
    assert registry.state.requests["g"].found
    assert registry.purchases == {}


def test_nodes_asked_for_are_upcoming() -> None:
    one = standing(look(asked(2), 2, now=10))
    assert (one.upcoming, one.scaling_up) == (2, True)


def test_nodes_asked_for_are_upcoming_though_the_provider_does_not_tell_yet() -> None:
    assert standing(look(asked(2), 0, now=30)).upcoming == 2


def test_nodes_that_were_given_back_are_not_upcoming() -> None:
    registry = asked(2)
    registry.removed("g", 1)
    assert standing(look(registry, 1, now=30, ready=1)).upcoming == 0


def test_a_target_that_stays_low_is_believed_after_a_while() -> None:
    one = standing(look(asked(2), 0, now=61))
    assert (one.upcoming, one.scaling_up) == (0, False)


def test_a_node_that_registers_is_no_longer_upcoming() -> None:
    assert standing(look(asked(2), 2, now=30, ready=1)).upcoming == 1


def test_a_node_that_is_coming_up_is_upcoming_and_the_request_stands() -> None:
    one = standing(look(asked(2), 2, now=30, coming_up=2))
    assert (one.upcoming, one.scaling_up) == (2, True)


def test_nodes_that_are_up_end_the_request() -> None:
    one = standing(look(asked(2), 2, now=30, ready=2))
    assert (one.upcoming, one.scaling_up) == (0, False)


def test_past_the_deadline_nodes_that_are_not_up_back_the_group_off_and_stay() -> None:
    registry = asked(2)
    seen = look(registry, 2, now=900, ready=1, coming_up=1)
    assert [(one.nodes, one.failure.code) for one in seen.happened] == [(1, "timeout")]
    one = standing(seen)
    assert (one.skip_reason, one.give_back, one.upcoming) == (BACKED_OFF, 0, 1)


def test_nodes_that_are_not_up_time_out_once() -> None:
    registry = asked(1)
    look(registry, 1, now=900, coming_up=1)
    assert look(registry, 1, now=1900, coming_up=1).happened == ()


def test_nodes_that_come_up_without_a_request_we_know_of_have_no_deadline_of_ours() -> None:
    registry = Registry()
    look(registry, 1, now=0, coming_up=1)
    assert registry.state.requests == {}


def test_asking_again_moves_the_deadline() -> None:
    registry = asked(1)
    registry.asked(a_group(1), 2, now=500, patience=PATIENCE)
    request = registry.state.requests["g"]
    assert (request.increase, request.deadline, request.target) == (3, 1400, 3)


def test_nodes_nobody_is_known_to_have_asked_for_are_upcoming_and_get_a_deadline() -> None:
    registry = Registry()
    assert standing(look(registry, 3, now=100, ready=1)).upcoming == 2
    request = registry.state.requests["g"]
    assert (request.found, request.increase, request.deadline) == (True, 2, 1000)


def test_past_the_deadline_what_is_missing_is_to_be_given_back() -> None:
    seen = look(asked(3), 3, now=900, ready=1)
    assert standing(seen).give_back == 2
    assert [(one.nodes, one.failure.code) for one in seen.happened] == [(2, "timeout")]


def test_past_the_deadline_nothing_is_given_back_below_the_minimum() -> None:
    assert standing(look(asked(3), 3, now=900, least=2)).give_back == 1


def test_past_the_deadline_the_group_is_backed_off() -> None:
    assert standing(look(asked(1), 1, now=900)).skip_reason == BACKED_OFF


def test_a_machine_that_runs_is_not_given_back() -> None:
    registry = asked(2)
    machines = [GroupMachine("m1", "m1"), GroupMachine("p", "p", creating=True)]
    assert standing(look(registry, 2, now=900, machines=machines)).give_back == 1


def test_without_word_of_machines_nothing_times_out() -> None:
    registry = asked(1)
    sighting = GroupObservation(a_group(1), GroupReadiness(group="g"), None)
    seen = registry.observe(
        [sighting], registered=frozenset(), policy=GroupPolicy(), patience=PATIENCE, now=2000
    )
    assert (seen.happened, seen.groups["g"].give_back) == ((), 0)


def test_a_group_that_is_gone_is_forgotten() -> None:
    registry = asked(1)
    registry.observe([], registered=frozenset(), policy=GroupPolicy(), patience=PATIENCE, now=10)
    assert registry.state == RegistryState()


# Machines


def test_a_machine_without_a_node_is_unregistered_then_overdue() -> None:
    registry = Registry()
    machines = [GroupMachine("m1", "m1")]
    first = standing(look(registry, 1, now=0, machines=machines))
    later = standing(look(registry, 1, now=900, machines=machines))
    assert (first.unregistered, first.overdue) == (1, ())
    assert (later.unregistered, later.overdue) == (0, ("m1",))


@pytest.mark.parametrize("named", ["id-1", "node-1"], ids=["by its id", "by its name"])
def test_a_machine_whose_node_has_registered_is_not_unregistered(named: str) -> None:
    seen = look(
        Registry(),
        1,
        now=0,
        ready=1,
        machines=[GroupMachine("id-1", "node-1")],
        registered=(named,),
    )
    assert standing(seen).unregistered == 0


def test_a_node_whose_machine_is_being_deleted_does_not_stand_for_one_that_is_coming() -> None:
    going = GroupMachine(id="m1", name="n1", deleting=True)
    one = standing(
        look(asked(1, target=0), 1, now=10, unready=1, machines=[going], registered=("n1",))
    )
    assert (one.upcoming, one.scaling_up) == (1, True)


def test_nothing_comes_in_the_place_of_a_node_that_is_drained() -> None:
    """Else pods are counted there, and the drain is taken for a request that times out."""
    registry = Registry()
    machines = [GroupMachine(name, name, running=True) for name in ("m1", "m2")]
    for now in (0, 1000):
        seen = look(
            registry, 2, now=now, ready=1, deleting=1, machines=machines, registered=("m1", "m2")
        )
        one = standing(seen)
        assert (one.upcoming, one.scaling_up, one.give_back, seen.happened) == (0, False, 0, ())


@pytest.mark.parametrize(
    "drained",
    [
        pytest.param([GroupMachine("m2", "m2", deleting=True)], id="the provider deletes it"),
        pytest.param([GroupMachine("m2", "m2", running=True)], id="the provider tells it late"),
        pytest.param([], id="only its node is left"),
    ],
)
def test_a_node_that_is_deleted_does_not_stand_for_one_that_is_coming(
    drained: list[GroupMachine],
) -> None:
    machines = [GroupMachine("m1", "m1", running=True), GroupMachine("m3", "m3", creating=True)]
    one = standing(
        look(
            asked(1, target=1),
            2,
            now=10,
            ready=1,
            deleting=1,
            machines=[*machines, *drained],
            registered=("m1", "m2"),
        )
    )
    assert one.upcoming == 1


def test_an_overdue_machine_is_not_counted_on() -> None:
    registry = Registry()
    machines = [GroupMachine("m1", "m1")]
    look(registry, 1, now=0, machines=machines)
    assert standing(look(registry, 1, now=900, machines=machines)).upcoming == 0


def test_a_machine_that_failed_backs_the_group_off_once() -> None:
    registry = asked(2)
    machines = [
        GroupMachine("m1", "m1", failure=NO_STOCK),
        GroupMachine("m2", "m2", failure=NO_STOCK),
    ]
    first = look(registry, 2, now=10, machines=machines)
    second = look(registry, 2, now=20, machines=machines)
    assert [(one.nodes, one.failure) for one in first.happened] == [(2, NO_STOCK)]
    assert second.happened == ()
    assert standing(second).failed == ("m1", "m2")
    assert registry.state.backoffs["g"].failed_at == 10


@pytest.mark.parametrize("leaves", ["gone", "deleting"])
def test_a_machine_that_failed_before_the_request_is_not_awaited_once_it_goes(leaves: str) -> None:
    registry = Registry()
    failed = GroupMachine("m1", "m1", creating=True, failure=NO_STOCK)
    coming = [GroupMachine(name, name, creating=True) for name in ("m2", "m3")]
    look(registry, 1, now=0, machines=[failed], least=1)
    registry.asked(a_group(1), 2, now=10, patience=PATIENCE)
    there = standing(look(registry, 3, now=20, machines=[failed, *coming]))
    going = [GroupMachine("m1", "m1", deleting=True)] if leaves == "deleting" else []
    gone = standing(look(registry, 2, now=30, machines=[*going, *coming]))
    later = standing(look(registry, 2, now=40, machines=coming))
    assert (there.upcoming, gone.upcoming, later.upcoming) == (2, 2, 2)


def test_a_machine_that_fails_after_the_request_leaves_the_others_awaited() -> None:
    registry = asked(2)
    failed = GroupMachine("m1", "m1", creating=True, failure=NO_STOCK)
    coming = GroupMachine("m2", "m2", creating=True)
    # The provider tells of machines, and not of the new target yet.
    assert standing(look(registry, 0, now=10, machines=[failed, coming])).upcoming == 1
    assert standing(look(registry, 2, now=20, machines=[failed, coming])).upcoming == 1
    assert standing(look(registry, 1, now=30, machines=[coming])).upcoming == 1


def test_a_machine_that_recovers_is_awaited_again() -> None:
    registry = asked(2)
    failed = GroupMachine("m1", "m1", creating=True, failure=NO_STOCK)
    machines = [GroupMachine(name, name, creating=True) for name in ("m1", "m2")]
    look(registry, 2, now=10, machines=[failed, machines[1]])
    assert standing(look(registry, 2, now=20, machines=machines)).upcoming == 2


def test_many_overdue_machines_make_a_group_unhealthy() -> None:
    registry = Registry()
    machines = [GroupMachine(f"m{i}", f"m{i}") for i in range(5)]
    look(registry, 5, now=0, machines=machines)
    one = standing(look(registry, 5, now=900, machines=machines))
    assert (one.healthy, one.skip_reason) == (False, NOT_READY_FOR_SCALE_UP)


# Back-off


def durations(*failures: float) -> list[float]:
    registry = Registry()
    return [registry.failed("g", NO_STOCK, now=now, patience=PATIENCE).duration for now in failures]


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        pytest.param([0], [300], id="the first is short"),
        pytest.param([0, 100], [300, 300], id="a failure while backed off starts the same again"),
        pytest.param([0, 300], [300, 600], id="a failure afterwards doubles it"),
        pytest.param([0, 300, 900, 2100], [300, 600, 1200, 1800], id="up to the longest"),
        pytest.param(
            [0, 300, 11_100], [300, 600, 300], id="after the reset time it is short again"
        ),
    ],
)
def test_how_long_a_group_is_backed_off(failures: list[float], expected: list[float]) -> None:
    assert durations(*failures) == expected


def test_a_back_off_ends() -> None:
    registry = Registry()
    registry.failed("g", NO_STOCK, now=0, patience=PATIENCE)
    assert standing(look(registry, 0, now=299)).skip_reason == BACKED_OFF
    assert standing(look(registry, 0, now=300)).skip_reason == ""


def test_nodes_of_a_backed_off_group_are_still_counted_on() -> None:
    registry = asked(2)
    registry.failed("g", NO_STOCK, now=0, patience=PATIENCE)
    assert standing(look(registry, 2, now=10)).upcoming == 2


# Restarts


moves = st.lists(
    st.tuples(
        st.sampled_from(["ask", "fail", "look", "register"]),
        st.integers(1, 3),
        st.floats(1, 600),
    ),
    max_size=12,
)


@given(moves, st.integers(0, 12))
def test_a_restart_at_any_moment_changes_nothing(
    history: list[tuple[str, int, float]], restart_at: int
) -> None:
    ends = []
    for restarts in (False, True):
        registry, now, target, ready = Registry(), 0.0, 0, 0
        seen: list[Observation] = []
        for index, (move, number, pause) in enumerate(history):
            now += pause
            if restarts and index == restart_at:
                text = msgspec.json.encode(registry.state)
                kept = msgspec.json.decode(text, type=RegistryState)
                registry = Registry(restored(kept, now=now))
            if move == "ask":
                registry.asked(a_group(target), number, now=now, patience=PATIENCE)
                target += number
            elif move == "fail":
                registry.failed("g", NO_STOCK, now=now, patience=PATIENCE)
            elif move == "register":
                ready = min(target, ready + number)
            machines = [GroupMachine(f"m{i}", f"m{i}") for i in range(ready, target)]
            seen.append(look(registry, target, now=now, ready=ready, machines=machines))
        ends.append((registry.state, seen))
    assert ends[0] == ends[1]


def test_a_state_from_the_future_is_brought_back_to_now() -> None:
    registry = asked(1, now=10_000)
    registry.failed("g", NO_STOCK, now=10_000, patience=PATIENCE)
    state = restored(registry.state, now=0)
    request, backoff = state.requests["g"], state.backoffs["g"]
    assert (request.at, request.deadline) == (0, 900)
    assert (backoff.failed_at, backoff.until) == (0, 300)


@given(
    st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.floats(0, 3000)
)
def test_upcoming_is_never_more_than_what_is_wanted_and_not_there(
    target: int, ready: int, unready: int, coming_up: int, now: float
) -> None:
    one = standing(
        look(Registry(), target, now=now, ready=ready, unready=unready, coming_up=coming_up)
    )
    assert one.upcoming == max(0, target - ready - unready - coming_up) + coming_up

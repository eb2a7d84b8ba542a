"""The invariants notice what they are there for, and nothing else."""

from tests.simulation.context import OPTED_IN, PLAIN, SETTLED, Stage, played
from tonnage.simulation.checks import bindings, bounds, pending_pods

# Limits


def test_bindings_within_the_limit_are_fine() -> None:
    async def act(stage: Stage) -> None:
        stage.bound("a", OPTED_IN, PLAIN, node="east-1")
        stage.bound("b", OPTED_IN, PLAIN, node="east-1")

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {})


def test_a_binding_beyond_the_limit() -> None:
    async def act(stage: Stage) -> None:
        for name in ("a", "b", "c"):
            stage.bound(name, PLAIN, node="east-1")

    assert played(act).rules == [bindings.BEYOND_LIMIT]


def test_a_binding_beyond_a_limit_that_was_lowered_before_the_decision() -> None:
    async def act(stage: Stage) -> None:
        await stage.after(10)
        stage.csi_node("east-1", opted_in=1)
        await stage.after(10)
        stage.bound("a", OPTED_IN, node="east-1")
        stage.bound("b", OPTED_IN, node="east-1")

    assert played(act).rules == [bindings.BEYOND_LIMIT]


def test_a_limit_lowered_between_decision_and_binding_is_excused() -> None:
    async def act(stage: Stage) -> None:
        stage.pod("a", OPTED_IN)
        stage.pod("b", OPTED_IN)
        await stage.after(10)
        stage.decide("a", "east-1")
        stage.decide("b", "east-1")
        stage.something_happens()
        await stage.after(10)
        stage.csi_node("east-1", opted_in=1)
        stage.bind("a", "east-1")
        stage.bind("b", "east-1")

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {bindings.LOWERED_SINCE: 1})


def test_a_limit_lowered_under_volumes_is_excused() -> None:
    async def act(stage: Stage) -> None:
        stage.bound("a", OPTED_IN, node="east-1")
        stage.bound("b", OPTED_IN, node="east-1")
        stage.csi_node("east-1", opted_in=1)

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {bindings.LOWERED_UNDER: 1})


def test_an_attachment_beyond_the_limit() -> None:
    async def act(stage: Stage) -> None:
        for volume in ("a", "b", "c"):
            stage.attach(volume, PLAIN, "east-1")

    assert played(act).rules == [bindings.ATTACHED_BEYOND]


# Drivers


def test_a_binding_where_an_opted_in_driver_is_missing() -> None:
    async def act(stage: Stage) -> None:
        stage.csi_node("east-1", opted_in=None)
        await stage.after(10)
        stage.bound("a", OPTED_IN, node="east-1")

    assert played(act).rules == [bindings.DRIVER_MISSING]


def test_a_binding_where_a_driver_without_opt_in_is_missing_is_fine() -> None:
    async def act(stage: Stage) -> None:
        stage.csi_node("east-1", plain=None)
        await stage.after(10)
        stage.bound("a", PLAIN, node="east-1")

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {})


def test_a_pod_sent_where_an_opted_in_driver_is_missing() -> None:
    async def act(stage: Stage) -> None:
        stage.csi_node("east-1", opted_in=None)
        stage.pod("a", OPTED_IN)
        await stage.after(10)
        stage.something_happens()
        await stage.after(10)
        stage.decide("a", "east-1")
        stage.something_happens()

    assert played(act).rules == [bindings.SENT_ASTRAY]


def test_a_driver_that_leaves_between_decision_and_binding_is_excused() -> None:
    async def act(stage: Stage) -> None:
        stage.pod("a", OPTED_IN)
        stage.decide("a", "east-1")
        stage.something_happens()
        await stage.after(10)
        stage.csi_node("east-1", opted_in=None)
        stage.bind("a", "east-1")

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {bindings.LEFT_SINCE: 1})


def test_a_driver_without_opt_in_that_registers_after_the_decision_is_excused() -> None:
    async def act(stage: Stage) -> None:
        stage.csi_node("east-1", plain=None)
        await stage.after(10)
        for name in ("a", "b", "c"):
            stage.pod(name, PLAIN)
            stage.decide(name, "east-1")
        stage.something_happens()
        await stage.after(10)
        stage.csi_node("east-1")
        for name in ("a", "b", "c"):
            stage.bind(name, "east-1")

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {bindings.NOT_REGISTERED_YET: 1})


def test_a_driver_without_opt_in_that_was_there_at_the_decision_excuses_nothing() -> None:
    async def act(stage: Stage) -> None:
        stage.csi_node("east-1", plain=None)
        await stage.after(10)
        stage.csi_node("east-1")
        await stage.after(10)
        for name in ("a", "b", "c"):
            stage.bound(name, PLAIN, node="east-1")

    assert played(act).rules == [bindings.BEYOND_LIMIT]


def test_a_driver_without_opt_in_that_registers_below_what_is_there_is_excused() -> None:
    async def act(stage: Stage) -> None:
        stage.machine("east-2", "east")
        stage.node("east-2")
        for name in ("a", "b", "c"):
            stage.bound(name, PLAIN, node="east-2")
        stage.csi_node("east-2")

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {bindings.TOLD_LATE: 1})


def test_an_opted_in_driver_that_registers_below_what_is_there() -> None:
    async def act(stage: Stage) -> None:
        stage.machine("east-2", "east")
        stage.node("east-2")
        for name in ("a", "b", "c"):
            stage.bound(name, OPTED_IN, node="east-2")
        stage.csi_node("east-2")

    missing = [bindings.DRIVER_MISSING] * 3
    assert played(act).rules == [*missing, bindings.REGISTERED_BELOW]


# Bounds


def test_a_group_between_its_bounds_is_fine() -> None:
    async def act(stage: Stage) -> None:
        stage.machine("east-2", "east")
        stage.machine("east-3", "east")
        stage.something_happens()

    assert played(act).rules == []


def test_a_group_over_its_maximum() -> None:
    async def act(stage: Stage) -> None:
        for number in (2, 3, 4):
            stage.machine(f"east-{number}", "east")
        stage.something_happens()

    assert played(act).rules == [bounds.BEYOND]


def test_a_group_under_its_minimum() -> None:
    async def act(stage: Stage) -> None:
        stage.no_machine("east-1", "east")

    assert played(act).rules == [bounds.BEYOND]


def test_a_request_beyond_the_maximum_though_it_was_refused() -> None:
    async def act(stage: Stage) -> None:
        stage.refuse("east", 3)

    assert played(act).rules == [bounds.ASKED_BEYOND]


def test_a_request_that_was_refused_for_another_reason_is_fine() -> None:
    async def act(stage: Stage) -> None:
        stage.refuse("east", 2)

    assert played(act).rules == []


# Waiting


def test_a_pod_that_waits_with_a_place_in_reach() -> None:
    async def act(stage: Stage) -> None:
        await stage.after(1)
        stage.pod("p", OPTED_IN, PLAIN, zone="west")
        await stage.after(pending_pods.PATIENCE + 1)
        stage.something_happens()

    assert played(act).rules == [pending_pods.HAS_A_PLACE]


def test_a_pod_that_has_not_waited_for_long_is_fine() -> None:
    async def act(stage: Stage) -> None:
        await stage.after(1)
        stage.pod("p", OPTED_IN)
        await stage.after(pending_pods.PATIENCE - 1)
        stage.something_happens()

    assert played(act).rules == []


def test_a_place_that_has_only_just_come_free_is_fine() -> None:
    async def act(stage: Stage) -> None:
        stage.csi_node("west-1", opted_in=0)
        stage.pod("p", OPTED_IN, zone="west")
        await stage.after(pending_pods.PATIENCE + 1)
        stage.csi_node("west-1")
        await stage.after(30)
        stage.something_happens()

    assert played(act).rules == []


def test_a_place_on_a_node_that_keeps_pods_off_is_none() -> None:
    async def act(stage: Stage) -> None:
        stage.node("east-1", tainted=True)
        stage.node("west-1", ready=False)
        stage.pod("p", OPTED_IN)
        await stage.after(2 * pending_pods.PATIENCE)
        stage.something_happens()

    assert played(act).rules == []


def test_a_promised_pod_has_its_place_on_one_node_only() -> None:
    async def act(stage: Stage) -> None:
        stage.csi_node("west-1", opted_in=0)
        stage.pod("p", OPTED_IN, promised="west-1")
        await stage.after(2 * pending_pods.PATIENCE)
        stage.something_happens()

    assert played(act).rules == []


def test_a_pod_that_could_be_helped() -> None:
    async def act(stage: Stage) -> None:
        stage.bound("a", OPTED_IN, node="east-1")
        stage.bound("b", OPTED_IN, node="east-1")
        stage.pod("p", OPTED_IN, zone="east")
        await stage.after(SETTLED + 1)
        stage.invariants.at_the_end()

    assert played(act).rules == [pending_pods.COULD_BE_HELPED]


def test_a_pod_whose_groups_are_at_their_maximum_cannot_be_helped() -> None:
    async def act(stage: Stage) -> None:
        stage.csi_node("east-1", opted_in=0)
        stage.machine("east-2", "east")
        stage.machine("east-3", "east")
        stage.pod("p", OPTED_IN, zone="east")
        await stage.after(SETTLED + 1)
        stage.invariants.at_the_end()

    assert played(act).rules == []


def test_a_pod_that_a_machine_comes_for_at_the_end_is_excused() -> None:
    async def act(stage: Stage) -> None:
        stage.csi_node("east-1", opted_in=0)
        stage.pod("p", OPTED_IN, zone="east")
        await stage.after(SETTLED + 1)
        stage.machine("east-2", "east", node=False)
        stage.invariants.at_the_end()

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {pending_pods.STILL_COMING: 1})


def test_a_pod_that_live_nodes_say_cannot_be_helped_is_excused() -> None:
    async def act(stage: Stage) -> None:
        stage.csi_node("east-1", opted_in=0)
        stage.pod("p", OPTED_IN, zone="east")
        await stage.after(SETTLED + 1)
        stage.invariants.at_the_end()

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {pending_pods.MODEST_NODES: 1})


def test_a_pod_sent_where_a_driver_without_opt_in_never_comes_is_excused() -> None:
    async def act(stage: Stage) -> None:
        stage.csi_node("east-1", plain=None)
        stage.pod("p", PLAIN, promised="east-1")
        await stage.after(SETTLED + 1)
        stage.invariants.at_the_end()

    stage = played(act)
    assert (stage.rules, stage.excused) == ([], {pending_pods.NO_OPT_IN: 1})


def test_a_pod_sent_where_an_opted_in_driver_never_comes() -> None:
    async def act(stage: Stage) -> None:
        stage.csi_node("east-1", opted_in=None)
        stage.pod("p", OPTED_IN, promised="east-1")
        await stage.after(SETTLED + 1)
        stage.invariants.at_the_end()

    assert played(act).rules == [pending_pods.NO_DRIVER]

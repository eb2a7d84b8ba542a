"""Each example comes out as its description says."""

import msgspec
import pytest

from tests.simulation.scenarios import example, names, played
from tonnage.report.timeline import Decided, Sample
from tonnage.simulation import runner
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.scenario import Simulation

pytestmark = pytest.mark.xdist_group("examples")  # each is played once, for all tests of it

GIB = 2**30
DRIVER = "ebs.csi.aws.com"
LONG = {"a-day"}
"""Of which only the beginning is played here."""
STILL_WAITING = {"gangs"}
"""Examples that are about pods for which there is no room in the end (`test_gangs`)."""


def bought(name: str) -> list[Decided]:
    return [one for one in played(name).decisions if one.deed == "increase"]


def slots(sample: Sample) -> tuple[int, int]:
    return next(((one.used, one.limit) for one in sample.slots if one.driver == DRIVER), (0, 0))


@pytest.mark.parametrize("name", sorted(set(names()) - LONG - STILL_WAITING))
def test_in_the_end_every_pod_runs(name: str) -> None:
    last = played(name).samples[-1].pods
    assert (last.pending, last.starting) == (0, 0)
    assert last.running > 0


def test_the_day_begins_with_growth() -> None:
    morning = runner.simulate(example("a-day").with_duration(3600.0))
    assert morning.summary.pods_ran > 0
    assert morning.summary.nodes_bought > 0
    assert morning.summary.stuck_at_end == 0


def test_from_zero_all_nodes_are_bought_in_one_decision() -> None:
    assert [(one.group, one.nodes) for one in bought("scale-from-zero")] == [("db", 3)]


def test_from_one_the_slots_of_the_live_node_are_believed_and_counted_once() -> None:
    # Five of the fourteen are being bound to it when the other nine are decided on.
    assert [one.nodes for one in bought("scale-from-one")] == [2]


def test_in_the_registration_race_nothing_is_bought_twice() -> None:
    assert [one.nodes for one in bought("registration-race")] == [4]


def test_in_the_registration_race_nobody_is_stuck() -> None:
    assert played("registration-race").timeline().summary.stuck_peak == 0


def test_without_the_opt_in_the_registration_race_is_lost() -> None:
    simulation = example("registration-race")
    objects = tuple(
        {**one, "spec": {"attachRequired": True}} if one["kind"] == "CSIDriver" else one
        for one in simulation.objects
    )
    lost = runner.simulate(type(simulation)(
        name="lost", spec=simulation.spec, groups=simulation.groups, objects=objects
    ))  # fmt: skip
    assert lost.summary.stuck_at_end > 0


def test_no_node_is_bought_or_deleted_for_a_driver_that_comes_back() -> None:
    assert played("driver-crash").decisions == []


def test_empty_nodes_are_not_deleted_for_a_driver_that_comes_back() -> None:
    crash = [one for one in example("driver-crash").spec.script if one.at >= 1800]
    timeline = runner.simulate(changed("driver-crash", script=tuple(crash)))
    assert (timeline.decisions, timeline.summary.pending_at_end) == ((), 0)


def test_nobody_is_bound_while_the_driver_is_gone() -> None:
    gone = [one for one in played("driver-crash").samples if 1800 < one.at < 1980]
    assert {slots(one) for one in gone} == {(12, 0)}


def test_nodes_over_a_limit_that_shrank_get_nothing_more() -> None:
    cluster = played("shrinking-limit")
    over = [node for node, limits in cluster.accounts.slots.limits.items() if limits[DRIVER] == 3]
    used = sorted(cluster.accounts.slots.used(node, DRIVER) for node in over)
    assert used == [3, 5]


def test_two_drivers_untainting_at_once_leave_no_taint_over() -> None:
    nodes = list(played("two-drivers-untainting").server.store.built_in("nodes").within())
    assert len(nodes) == 50
    assert [node.name for node in nodes if node.tree["spec"].get("taints")] == []


def test_without_tonnage_two_drivers_untainting_at_once_leave_taints_over() -> None:
    simulation = example("two-drivers-untainting").with_options({"removeStartupTaints": False})
    cluster = runner.played(simulation.with_duration(300.0))
    nodes = list(cluster.server.store.built_in("nodes").within())
    assert len([node for node in nodes if node.tree["spec"].get("taints")]) == 50


def test_a_slot_is_not_free_before_its_volume_is_detached() -> None:
    waits = [
        one.at for one in played("detach-pending").samples if one.pods.pending and one.at > 540
    ]
    assert waits
    assert max(slots(one)[0] for one in played("detach-pending").samples) == 26


def test_with_an_empty_cache_the_autoscaler_says_that_it_does_nothing() -> None:
    held: list[str] = []

    def look(cluster: Ensemble) -> None:
        def note(_: object, __: object) -> None:
            report = cluster.autoscaler.autoscaler.report if cluster.autoscaler else None
            if report is not None and 700 < cluster.accounts.now < 800:
                held.append(report.held)

        cluster.accounts.listeners.append(note)

    runner.played(example("empty-cache"), prepare=look)
    assert held
    assert all("machines running" in one for one in held)


def test_with_an_empty_cache_nothing_is_bought_before_it_is_full_again() -> None:
    assert [one.at > 900 for one in bought("empty-cache")] == [False, True]


def test_with_an_empty_cache_nothing_is_deleted() -> None:
    assert {one.deed for one in played("empty-cache").decisions} == {"increase"}


def test_when_a_zone_is_out_of_stock_the_other_carries_the_pods() -> None:
    assert [one.group for one in bought("zone-out-of-stock")] == ["cheap", "dear", "cheap"]


def test_an_instance_type_that_never_starts_is_given_up() -> None:
    groups = {node.split("-")[0] for node in played("bad-instance-type").accounts.nodes}
    assert groups == {"dear"}


def test_a_node_that_flaps_costs_no_further_nodes() -> None:
    assert sum(one.nodes for one in bought("flapping-node")) == 3


def sent_back(cluster: Ensemble) -> int:
    """Pods whose volumes could not be made on the node they were given."""
    told = (one.tree.get("message", "") for one in cluster.server.store.built_in("events").within())
    return sum("provisioning failed" in one for one in told)


def changed(name: str, **fields: object) -> Simulation:
    simulation = example(name)
    spec = msgspec.structs.replace(simulation.spec, **fields)
    return msgspec.structs.replace(simulation, spec=spec)


def test_for_local_storage_as_many_nodes_are_bought_as_disks_are_needed() -> None:
    assert [one.nodes for one in bought("local-capacity")] == [5, 3]


def test_no_volume_is_asked_for_where_its_disk_is_full() -> None:
    cluster = played("local-capacity")
    used = [one.used for one in cluster.accounts.disks.by_node(cluster.accounts.slots.limits)]
    assert sorted(used) == [40 * GIB] + 7 * [80 * GIB]
    assert sent_back(cluster) == 0


def test_kube_schedulers_way_asks_for_volumes_where_there_is_no_room() -> None:
    cluster = runner.played(changed("local-capacity", scheduler={"countPledgedStorage": False}))
    assert sent_back(cluster) > 0


def test_nothing_is_bought_for_local_storage_that_nobody_publishes_for_new_nodes() -> None:
    timeline = runner.simulate(changed("local-capacity", capacity_templates=False))
    assert (timeline.decisions, timeline.summary.pending_at_end) == ((), 15)


def test_every_request_has_a_reason() -> None:
    every = [one for name in set(names()) - LONG for one in played(name).decisions]
    assert every
    assert all(one.reason for one in every)

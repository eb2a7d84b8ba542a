"""The questions that KEP-5030 asks of whoever puts it into production, answered by exercise.

Each indicator of docs/operations.md is seen to move, and each way of failing in it has its tests.
"""

import asyncio
import importlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.autoscaler.harness import (
    CSINODES,
    DRIVER,
    NODES,
    Cloud,
    autoscaling,
    group,
    metric,
    put,
    put_node,
    put_pod,
    started,
    status,
)
from tests.cluster.apiserver import ApiServer, until
from tests.deploy.manifests import DEPLOY, rights
from tonnage.autoscaler.program import AutoscalerProgram
from tonnage.errors import ProviderError
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

RUNBOOK = (DEPLOY.parent / "docs" / "operations.md").read_text()
CSIDRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
PODS_COUNT = "cluster_autoscaler_unschedulable_pods_count"
BLAMES = ("true", "false", "unknown")


def table(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading of the runbook."""
    lines = RUNBOOK.split(f"{heading}\n", 1)[1].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


# The metric that informs a rollback, with what the enhancement found missing in it.


def waiting(program: AutoscalerProgram) -> float | None:
    return metric(program, PODS_COUNT, type="unschedulable")


def blamed(program: AutoscalerProgram) -> dict[str, float | None]:
    name = "tonnage_unschedulable_pods"
    return {one: metric(program, name, because_of_volumes=one) for one in BLAMES}


async def test_pods_without_a_node_are_split_by_whether_their_volumes_are_why(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "g-1", age=7200, drivers={DRIVER: 1})
        put_pod(server, "there", claims=["there"], on="g-1")
        put_pod(server, "no-slot", claims=["a"])
        put_pod(server, "no-room", claims=["b"], cpu="400")
        put_pod(server, "no-volume", cpu="400")
        async with autoscaling(server, Cloud(server), clock) as program:
            assert blamed(program) == {"true": 1, "false": 2, "unknown": 0}
            assert waiting(program) == 3
            assert metric(program, "tonnage_unschedulable_pods_with_volumes") == 2


async def test_beyond_a_hundred_kinds_of_pods_it_is_said_that_nobody_looked(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "g-1", age=7200, drivers={DRIVER: 0})
        for number in range(103):
            put_pod(server, f"db-{number}", claims=[f"data-{number}"], cpu=f"{number + 1}m")
        async with autoscaling(server, Cloud(server), clock) as program:
            assert blamed(program) == {"true": 100, "false": 0, "unknown": 3}
            assert waiting(program) == 103


# Service level indicators.


async def test_the_latency_of_a_decision_is_below_its_objective(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock) as program:
            put_pod(server, "db", claims=["data"])
            await until(lambda: bool(cloud.asked), clock=clock)
            name = "tonnage_decision_latency_seconds"
            assert metric(program, f"{name}_bucket", le="2.0") == 1
            assert metric(program, f"{name}_count") == 1


async def test_pods_without_a_node_are_fewer_after_a_scale_up(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "db", claims=["data"])
        async with autoscaling(server, cloud, clock) as program:
            await until(lambda: bool(cloud.asked), clock=clock)
            assert waiting(program) == 1
            put_node(server, clock, "g-1")
            put_pod(server, "db", claims=["data"], on="g-1")
            await clock.sleep(20)
            assert waiting(program) == 0


async def test_an_opt_in_for_which_no_group_has_the_driver_shows_in_pods_not_helped(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "g-1", age=7200, drivers={})
        put_pod(server, "full", cpu="3900m", on="g-1")
        put_pod(server, "db", claims=["data"], cpu="1")
        cloud = Cloud(server, group(limit=None))
        async with autoscaling(server, cloud, clock) as program:
            name = "tonnage_not_helped_pods"
            assert metric(program, name, because_of_volumes="true") == 0
            put(server, CSIDRIVERS, builders.csidriver(DRIVER, opt_in=True))
            put_pod(server, "db-2", claims=["data-2"], cpu="1")
            await clock.sleep(30)
            assert metric(program, name, because_of_volumes="true") == 2


async def test_errors_rise_with_every_round_that_fails_and_stay_flat_otherwise(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock) as program:
            await clock.sleep(60)

            def errors() -> float:
                return (
                    metric(program, "cluster_autoscaler_errors_total", type="cloudProviderError")
                    or 0.0
                )

            assert errors() == 0
            cloud.refresh_fails = ProviderError("no credentials")
            await clock.sleep(35)
            assert errors() >= 3


async def test_nodes_are_bought_for_waiting_pods_only(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_pod(server, "db", claims=["data"])
        async with autoscaling(server, Cloud(server), clock) as program:
            await clock.sleep(20)
            put_node(server, clock, "g-1")
            put_pod(server, "db", claims=["data"], on="g-1")
            await clock.sleep(300)
            assert metric(program, "cluster_autoscaler_scaled_up_nodes_total") == 1
            assert metric(program, "tonnage_slots_free", node_group="g", driver=DRIVER) == 9


INDICATORS = {
    "tonnage_decision_latency_seconds": test_the_latency_of_a_decision_is_below_its_objective,
    PODS_COUNT: test_pods_without_a_node_are_fewer_after_a_scale_up,
    'tonnage_not_helped_pods{because_of_volumes="true"}': (
        test_an_opt_in_for_which_no_group_has_the_driver_shows_in_pods_not_helped
    ),
    "cluster_autoscaler_errors_total": (
        test_errors_rise_with_every_round_that_fails_and_stay_flat_otherwise
    ),
    "cluster_autoscaler_scaled_up_nodes_total": test_nodes_are_bought_for_waiting_pods_only,
}


def test_every_indicator_of_the_runbook_is_exercised_here() -> None:
    told = [row[0].strip("`") for row in table("### Objectives, and when to roll back")]
    assert sorted(told) == sorted(INDICATORS)


# Ways of failing.


async def test_a_limit_that_nobody_knows_is_counted_and_with_the_opt_in_nothing_is_bought(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        put(server, CSIDRIVERS, builders.csidriver(DRIVER, opt_in=True))
        put_pod(server, "db", claims=["data"])
        cloud = Cloud(server, group(limit=None))
        async with autoscaling(server, cloud, clock) as program:
            await clock.sleep(60)
            assert cloud.asked == []
            assert metric(program, "tonnage_unknown_limits", node_group="g") == 1
            assert status(server)["tonnage"]["unknownLimits"] == 1


async def test_an_opt_in_that_the_autoscaler_is_blind_to_is_told_with_the_remedy(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        put(server, CSIDRIVERS, builders.csidriver(DRIVER, opt_in=True))
        put_pod(server, "db", claims=["data"])
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock, csiAware=False):
            await clock.sleep(60)
            assert cloud.asked == []
            (told,) = [one for one in status(server)["tonnage"]["problems"] if DRIVER in one]
            assert "switch csiAware on, or drop the opt-in first" in told


HERE = "autoscaler.test_production_readiness"
FAILURES = {
    "API server or etcd down": "autoscaler.test_faults:test_nothing_is_bought_on_a_stale_cache",
    "no node at all, and the provider has machines running": (
        "autoscaler.test_faults:test_an_empty_cache_buys_and_deletes_nothing_until_nodes_are_known"
    ),
    "API server restarted, watch cut, 410": (
        "autoscaler.test_faults:test_a_forgotten_version_is_listed_anew"
    ),
    "the API server asks to be left alone for hours (`Retry-After`)": (
        "hostile.test_misleading_input"
        ":test_a_watch_is_asked_for_again_within_minutes_whatever_the_server_advises"
    ),
    "the API server tells events late or twice, or loses some": (
        "hostile.test_misleading_input:test_what_was_never_told_is_found_by_a_check"
    ),
    "a clock is set, be it the autoscaler's or the API server's": (
        "autoscaler.test_births:test_a_node_that_has_just_come_is_given_its_time"
    ),
    "a leader dies": (
        "autoscaler.test_faults:test_the_next_leader_goes_on_where_the_last_one_stopped"
    ),
    "a right is missing": (
        "autoscaler.test_faults"
        ":test_a_cluster_role_without_volumeattachments_is_named_and_decisions_go_on"
    ),
    "the lease is deleted or changed by hand": (
        "cluster.test_lease:test_a_lease_deleted_by_hand_is_written_anew_by_its_holder"
    ),
    "an object cannot be read": (
        "autoscaler.test_faults:test_one_object_that_cannot_be_read_stops_nothing_and_is_named"
    ),
    "an object can be read and makes no sense": (
        "autoscaler.test_bad_objects:test_a_bad_object_is_named_and_the_rest_goes_on"
    ),
    "the declaration of a node group is misspelt": (
        "autoscaler.test_misspelt_groups"
        ":test_a_slip_is_told_in_status_metrics_and_one_event_until_it_is_mended"
    ),
    "the provider throttles, or is overtaken by another change": (
        "autoscaler.test_provider_faults"
        ":test_a_refusal_that_passes_is_asked_again_at_the_next_scan_without_back_off"
    ),
    "the provider fails or is slow": (
        "autoscaler.test_provider_faults"
        ":test_a_group_that_refuses_is_backed_off_and_another_one_helps"
    ),
    "nodes never come, or register and never become ready": (
        "autoscaler.test_missing_nodes"
        ":test_nodes_that_do_not_come_in_time_are_given_back_and_the_group_backed_off"
    ),
    "a driver never registers": (
        "autoscaler.test_drivers:test_past_the_deadline_the_node_is_unready_and_told_so_once"
    ),
    "a driver restarts, or is gone for a while": (
        "autoscaler.test_driver_loss:test_a_driver_that_restarts_costs_no_node"
    ),
    "most nodes lack a driver": (
        "autoscaler.test_driver_loss"
        ":test_no_node_is_replaced_while_most_lack_the_driver_and_that_is_told"
    ),
    "no node has a driver that a group's template lists": (
        "groups.test_driver_absence"
        ":test_nodes_without_a_driver_that_no_node_has_do_no_harm_to_the_cluster"
    ),
    "nobody knows a driver's limit": (
        f"{HERE}:test_a_limit_that_nobody_knows_is_counted_and_with_the_opt_in_nothing_is_bought"
    ),
    "a driver opted in, and the autoscaler does not count drivers": (
        f"{HERE}:test_an_opt_in_that_the_autoscaler_is_blind_to_is_told_with_the_remedy"
    ),
    "a driver opted in, and no scheduler enforces it": (
        "doctor.test_findings:test_what_is_wrong_is_found"
    ),
    "the opt-in is enforced by somebody the autoscaler does not see": (
        "autoscaler.test_opt_in:test_the_operator_may_say_that_it_is_as_the_server_does"
    ),
    "most nodes unready, be it for want of a driver": (
        "autoscaler.test_status:test_a_cluster_too_unready_is_not_scaled"
    ),
    "a node should go and stays": (
        "autoscaler.scaledown.test_removal:test_a_budget_that_allows_nothing_keeps_the_node"
    ),
    "a removal fails in the middle": (
        "autoscaler.scaledown.test_removal:test_a_budget_that_allows_nothing_keeps_the_node"
    ),
    "a leader dies while a node is drained": (
        "autoscaler.scaledown.test_removal:test_killed_in_the_middle_the_drain_goes_on"
    ),
    "configuration broken": (
        "autoscaler.test_status:test_a_bad_file_leaves_the_old_settings_in_force_and_says_so"
    ),
}
"""Ways of failing as the runbook calls them, up to a colon, each with a test that shows it."""


def test_every_way_of_failing_in_the_runbook_has_its_test_and_the_other_way_round() -> None:
    told = [row[0].partition(":")[0] for row in table("## When something fails")]
    assert sorted(told) == sorted(FAILURES)


@pytest.mark.parametrize("what", FAILURES)
def test_the_test_of_a_way_of_failing_is_there(what: str) -> None:
    module, _, name = FAILURES[what].partition(":")
    assert callable(getattr(importlib.import_module(f"tests.{module}"), name))


def test_the_runbook_says_of_every_way_of_failing_what_happens_and_what_to_do() -> None:
    for row in table("## When something fails"):
        assert [bool(cell) for cell in row] == [True, True, True], row[0]


# No kubelet is asked for anything.

PASSED_ON = r"/(proxy|exec|attach|portforward|log|stats|metrics|checkpoint|configz)(/|$)"
"""What an API server passes on to kubelets."""


@asynccontextmanager
async def a_kubelet() -> AsyncIterator[tuple[int, list[object]]]:
    """A port that listens where nodes say that their kubelet does, and who came."""
    came: list[object] = []

    def taken(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(writer.get_extra_info("peername"))
        writer.close()

    listening = await asyncio.start_server(taken, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1], came


def put_with_kubelet(server: ApiServer, name: str, port: int) -> None:
    """Let a node say where its kubelet is."""
    node = server.objects[f"{NODES}/{name}"]
    where = {
        "addresses": [
            {"type": kind, "address": "127.0.0.1"} for kind in ("InternalIP", "Hostname")
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    server.put(NODES, {**node, "status": {**node["status"], **where}})


async def test_no_kubelet_is_called_while_nodes_come_lack_their_driver_and_go(
    clock: VirtualClock,
) -> None:
    async with a_kubelet() as (port, came), ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_node(server, clock, "g-1", age=7200)
        put_with_kubelet(server, "g-1", port)
        put_pod(server, "full", cpu="3900m", on="g-1")
        put_pod(server, "db", claims=["data"], cpu="1")
        async with autoscaling(server, cloud, clock, replaceUnreadyDrivers=True):
            await until(lambda: bool(cloud.asked), clock=clock)
            put_node(server, clock, "g-2", drivers={})
            put_with_kubelet(server, "g-2", port)
            await clock.sleep(1800)
            put(server, CSINODES, builders.csinode("g-2", {DRIVER: 10}))
            await clock.sleep(60)
        assert came == []
        assert [one.path for one in server.requests if re.search(PASSED_ON, one.path)] == []


@pytest.mark.parametrize(
    "overlay", sorted(path.parent.name for path in DEPLOY.glob("*/clusterrole.yaml"))
)
def test_no_role_that_is_shipped_allows_to_reach_a_kubelet(overlay: str) -> None:
    found = [one.resource for one in rights(overlay)]
    assert found
    assert [one for one in found if re.search(PASSED_ON, one)] == []

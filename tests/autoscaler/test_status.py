"""What operators read: the ConfigMap, the HTTP endpoints, the configuration that is in force."""

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.autoscaler.harness import (
    DRIVER,
    STATUS,
    Cloud,
    a_program,
    autoscaling,
    group,
    metric,
    put_node,
    put_pod,
    started,
    status,
)
from tests.cluster.apiserver import ApiServer, answer, until
from tests.cluster.apiserver import status as refusal
from tests.cluster.programs import running
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.metrics import AutoscalerMetrics
from tonnage.autoscaler.program import features_of
from tonnage.errors import InputError
from tonnage.objects.scenarios import LimitOverrides
from tonnage.service import config_file
from tonnage.testing.clock import VirtualClock


async def fetched(port: int, path: str) -> tuple[int, str]:
    url = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_no_candidates_are_told_of_a_scale_down_that_there_is_not(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "g-1", age=7200)
        async with autoscaling(server, Cloud(server), clock):
            await until(lambda: STATUS in server.objects, clock=clock)
            found = status(server)
            (one,) = found["nodeGroups"]
            assert found["clusterWide"]["scaleDown"]["status"] == "Disabled"
            assert one["scaleDown"]["status"] == "Disabled"


async def test_the_status_has_upstreams_form(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "g-1", age=7200)
        async with autoscaling(server, Cloud(server), clock):
            await until(lambda: STATUS in server.objects, clock=clock)
            found = status(server)
            assert found["autoscalerStatus"] == "Running"
            assert found["clusterWide"]["health"]["status"] == "Healthy"
            assert found["clusterWide"]["health"]["nodeCounts"] == {
                "longUnregistered": 0,
                "registered": {
                    "notStarted": 0,
                    "ready": 1,
                    "suspended": 0,
                    "total": 1,
                    "unready": {"resourceUnready": 0, "total": 0},
                },
                "unregistered": 0,
            }
            (one,) = found["nodeGroups"]
            assert one["name"] == "g"
            assert one["health"]["cloudProviderTarget"] == 1
            assert (one["health"]["minSize"], one["health"]["maxSize"]) == (0, 40)
            assert one["scaleUp"]["status"] == "NoActivity"
            assert found["time"].endswith(" +0000 UTC")


async def test_a_transition_time_moves_only_with_the_status(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        async with autoscaling(server, Cloud(server), clock):
            await clock.sleep(15)
            first = status(server)["clusterWide"]["scaleUp"]
            await clock.sleep(15)
            second = status(server)["clusterWide"]["scaleUp"]
            assert first["lastTransitionTime"] == second["lastTransitionTime"]
            assert first["lastProbeTime"] < second["lastProbeTime"]


async def test_a_limit_is_told_with_where_it_comes_from(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_pod(server, "db", claims=["data"])
        async with autoscaling(server, Cloud(server), clock) as program:
            await until(lambda: STATUS in server.objects, clock=clock)
            await clock.sleep(15)
            assert status(server)["tonnage"]["limits"] == [
                {"group": "g", "driver": DRIVER, "count": 10, "source": "provider"}
            ]
            labels = {"node_group": "g", "driver": DRIVER, "source": "provider"}
            assert metric(program, "tonnage_limit_source", **labels) == 1


async def test_a_limit_of_the_configuration_goes_before_what_a_provider_says(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        put_pod(server, "db", claims=["data"])
        limits = LimitOverrides(groups={"g": {DRIVER: 4}})
        async with autoscaling(server, Cloud(server), clock, limits=limits):
            await until(lambda: STATUS in server.objects, clock=clock)
            await clock.sleep(15)
            assert status(server)["tonnage"]["limits"] == [
                {"group": "g", "driver": DRIVER, "count": 4, "source": "override"}
            ]


async def test_slots_are_counted_by_group_and_driver(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "g-1", age=7200)
        put_pod(server, "db", claims=["data"], on="g-1")
        async with autoscaling(server, Cloud(server), clock) as program:
            labels = {"node_group": "g", "driver": DRIVER}
            assert metric(program, "tonnage_slots_limit", **labels) == 10
            assert metric(program, "tonnage_slots_used", **labels) == 1
            assert metric(program, "tonnage_slots_free", **labels) == 9


async def test_what_is_served_over_http() -> None:
    from tonnage.clock import SystemClock

    clock: Any = SystemClock()
    async with ApiServer() as server:
        started(server)
        put_pod(server, "web")
        async with running(a_program(server, Cloud(server), clock), server, clock) as program:
            while program.autoscaler.report is None or program.autoscaler.report.plan is None:
                await clock.sleep(0.02)
            port = program.server.port
            assert await fetched(port, "/healthz") == (200, "ok")
            assert await fetched(port, "/readyz") == (200, "ok")
            _, metrics = await fetched(port, "/metrics")
            assert "cluster_autoscaler_cluster_safe_to_autoscale 1.0" in metrics
            assert 'tonnage_cache_stale{group="",kind="Pod"} 0.0' in metrics
            assert '"nodeGroups":[{"name":"g"' in (await fetched(port, "/status"))[1]
            debug = program.debug.port
            assert '"waiting":["default/web"]' in (await fetched(debug, "/debug/snapshot"))[1]
            assert '"delta":1' in (await fetched(debug, "/debug/decisions"))[1]
            inside = ("/debug/decisions", "/debug/recorded-decisions", "/debug/snapshot")
            assert [(await fetched(port, path))[0] for path in inside] == [404] * 3


async def test_a_replica_that_may_not_have_the_lease_is_not_ready_and_says_why(
    clock: VirtualClock,
) -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cluster-autoscaler"
    async with ApiServer() as server:
        started(server)
        server.script("GET", lease, *[answer(lambda: refusal(403, "Forbidden"))] * 50)
        program = a_program(server, Cloud(server), clock, elect=True)
        async with running(program, server, clock):
            await until(lambda: program.world.synced, clock=clock)
            await clock.sleep(5)
            code, said = await fetched(program.server.port, "/readyz")
            assert (code, said) == (503, program.leadership.refused)
            assert "verb get, kind Lease" in said
            assert said in (await fetched(program.server.port, "/status"))[1]
            assert await fetched(program.server.port, "/healthz") == (200, "ok")


async def test_once_ends_after_one_round(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_pod(server, "web")
        cloud = Cloud(server)
        await a_program(server, cloud, clock, once=True, elect=True).run()
        assert cloud.asked == [("increase", "g", 1)]


async def test_a_changed_file_is_in_force_without_a_restart(
    clock: VirtualClock, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("maxNodesTotal: 1\n")
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web-1", cpu="3")
        put_pod(server, "web-2", cpu="3")
        async with autoscaling(server, cloud, clock, config=file):
            await clock.sleep(30)
            assert cloud.target() == 1
            file.write_text("maxNodesTotal: 5\n")
            await clock.sleep(30)
            assert cloud.target() == 2


async def test_a_bad_file_leaves_the_old_settings_in_force_and_says_so(
    clock: VirtualClock, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("maxNodesTotal: 1\n")
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web-1", cpu="3")
        put_pod(server, "web-2", cpu="3")
        async with autoscaling(server, cloud, clock, config=file) as program:
            file.write_text("\nmaxNodesTotal: many\n")
            await clock.sleep(30)
            assert cloud.target() == 1
            problem = status(server)["tonnage"]["configProblem"]
            assert problem.startswith(f"{file}:2: maxNodesTotal: ")
            assert metric(program, "tonnage_config_reload_failed") == 1


def parsed(text: str, **given: object) -> AutoscalerConfig:
    return config_file.parse(text.encode(), AutoscalerConfig, where="config.yaml", given=given)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("expander: least-waste\nscanIntervall: 3\n", "config.yaml:2: "),
        ("\nscanInterval: soon\n", "config.yaml:2: scanInterval: "),
        ("scanInterval: -1\n", "config.yaml:1: "),
        ("csiAware: true\nkind: Pod\n", "config.yaml:2: `kind`: 'Pod': expected AutoscalerConfig"),
        ("\napiVersion: v1\n", "config.yaml:2: `apiVersion`: 'v1': expected tonnage.dev/v1alpha1"),
        ("csiAware: true\nexpander: nope\n", "config.yaml:2: `expander`: no expander 'nope'; "),
        ("\n\nmaxNodesTotal: -3\n", "config.yaml:3: `maxNodesTotal`: -3: expected 0 or more"),
        ("\nstepsPerLoop: -1\n", "config.yaml:2: `stepsPerLoop`: -1: expected 0 or more"),
        ("a: [\n", "config.yaml:1: not YAML"),
        ("- 1\n", "config.yaml:1: expected fields and values"),
        ("compatibility: some\n", "expected none or cluster-autoscaler-1.37"),
        ("batchWindowMax: -1\n", "`batchWindowMax`: -1: expected 0 or more"),
        (
            "batchWindow: 2s\nbatchWindowMax: 1s\n",
            "`batchWindowMax`: 1: expected no less than batchWindow, which is 2",
        ),
    ],
)
def test_a_wrong_setting_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        parsed(text)
    assert message in str(error.value)


def test_a_cutoff_of_priorities_may_be_negative() -> None:
    assert parsed("expendablePodsPriorityCutoff: -20\n").expendable_pods_priority_cutoff == -20


def test_times_may_be_written_as_go_durations() -> None:
    assert parsed("scanInterval: 1m30s\nbatchWindow: 500ms\n").scan_interval == 90


@pytest.mark.parametrize(
    ("text", "longest"),
    [("", 5), ("batchWindow: 7s\n", 7), ("batchWindowMax: 2s\n", 2)],
)
def test_a_batch_takes_a_second_at_most_unless_more_is_asked_for(text: str, longest: float) -> None:
    assert parsed(text).longest_batch_window == longest


def test_flags_go_before_the_file() -> None:
    assert parsed("expander: random\n", expander="price").expander == "price"


@pytest.mark.parametrize(
    ("server", "version"),
    [("v1.36.2", (1, 36)), ("v1.40.0", (1, 37)), ("v1.30.1-eks", (1, 34)), ("odd", (1, 37))],
)
def test_a_server_of_any_version_is_taken_as_the_nearest_known(
    server: str, version: tuple[int, int]
) -> None:
    assert features_of(AutoscalerConfig(), server).version == version


async def test_a_cluster_too_unready_is_not_scaled(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group())
        for index in range(5):
            put_node(server, clock, f"g-{index}", ready=False, age=7200)
        put_pod(server, "web")
        async with running(a_program(server, cloud, clock), server, clock) as program:
            await clock.sleep(15)
            assert status(server)["clusterWide"]["health"]["status"] == "Unhealthy"
            assert metric(program, "cluster_autoscaler_cluster_safe_to_autoscale") == 0
            assert cloud.asked == []


async def test_without_node_groups_it_runs_and_says_so(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_pod(server, "web")
        none = Cloud(server)
        none._declared = ()
        async with autoscaling(server, none, clock) as program:
            assert program.unready() == "no node groups: nothing can be bought"
            assert program.unhealthy() == ""
            assert program.unready() in program.autoscaler.document["tonnage"]["problems"]
            assert program.autoscaler.document["tonnage"]["lastDecision"]["notHelped"] == 1


async def test_nodes_that_never_got_their_driver_are_told_apart_in_the_status(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "g-1", age=7200, drivers={})
        put_node(server, clock, "g-2", age=7200)
        put_node(server, clock, "g-3", age=7200, ready=False)
        async with autoscaling(server, Cloud(server), clock) as program:
            await clock.sleep(960)
            (one,) = program.autoscaler.document["nodeGroups"]
            unready = one["health"]["nodeCounts"]["registered"]["unready"]
            assert unready == {"total": 2, "resourceUnready": 1}
            whole = program.autoscaler.document["clusterWide"]["health"]["nodeCounts"]
            assert whole["registered"]["unready"] == unready


async def test_waiting_pods_are_counted_by_whether_volumes_are_why(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "g-1", age=7200, drivers={DRIVER: 1})
        put_pod(server, "there", claims=["there"], on="g-1")
        put_pod(server, "db-0", claims=["data-0"])
        put_pod(server, "db-1", claims=["data-1"])
        put_pod(server, "huge", cpu="400")
        put_pod(server, "huge-db", claims=["huge"], cpu="400")
        async with autoscaling(server, Cloud(server), clock) as program:
            counts = {
                blame: metric(program, "tonnage_unschedulable_pods", because_of_volumes=blame)
                for blame in ("true", "false", "unknown")
            }
            assert counts == {"true": 2, "false": 2, "unknown": 0}


async def test_the_last_decisions_stay_in_the_status_when_their_round_is_over(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        async with autoscaling(server, Cloud(server), clock):
            put_pod(server, "web")
            await clock.sleep(20)
            put_pod(server, "huge", cpu="400")
            await clock.sleep(60)
            second, first = status(server)["tonnage"]["lastDecisions"]
            assert first["scaleUps"] == [{"group": "g", "delta": 1}]
            assert first["done"] == [{"deed": "increase", "group": "g", "nodes": 1, "error": ""}]
            assert first["reasons"] == ["the only group that helps: 1 node for 1 pod"]
            assert (second["scaleUps"], second["notHelped"]) == ([], 1)
            assert first["time"] < second["time"]


async def test_when_the_loop_last_did_what_is_told_under_upstreams_names(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        async with autoscaling(server, Cloud(server), clock) as program:
            name = "cluster_autoscaler_last_activity"
            assert metric(program, name, activity="scaleUp") is None
            put_pod(server, "web")
            await clock.sleep(20)
            now = clock.now().timestamp()
            for activity in ("main", "mainSuccessful", "autoscaling", "scaleUp"):
                assert metric(program, name, activity=activity) == pytest.approx(now, abs=11)


@pytest.mark.parametrize("reason", ["cloudProviderError", "transientError", "timeout"])
def test_what_has_not_failed_yet_is_counted_as_zero(reason: str) -> None:
    metrics = AutoscalerMetrics(clock=VirtualClock())
    name = "cluster_autoscaler_failed_scale_ups_total"
    assert metrics.registry.get_sample_value(name, {"reason": reason}) == 0


async def test_pods_left_out_for_slots_that_drivers_share_are_left_out_for_volumes(
    clock: VirtualClock,
) -> None:
    pool = {"name": "attachments", "members": {DRIVER: 1}, "size": 1}
    async with ApiServer() as server:
        started(server)
        put_pod(server, "db", claims=["a", "b"])
        put_pod(server, "huge", cpu="400")
        async with autoscaling(server, Cloud(server), clock, pools=[pool]) as program:
            name = "tonnage_not_helped_pods"
            assert metric(program, name, because_of_volumes="true") == 1
            assert metric(program, name, because_of_volumes="false") == 1

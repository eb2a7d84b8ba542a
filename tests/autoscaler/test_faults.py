"""What goes wrong around the loop, and that it comes out right."""

import asyncio
import random

import pytest

from tests.autoscaler.harness import (
    ATTACHMENTS,
    NODES,
    STATE,
    STATUS,
    Cloud,
    LosesAnswers,
    a_program,
    autoscaling,
    metric,
    put_node,
    put_pod,
    settled,
    started,
    status,
)
from tests.cluster.apiserver import ApiServer, answer, until
from tests.cluster.apiserver import status as refusal
from tests.cluster.programs import running
from tonnage.autoscaler import program as programs
from tonnage.autoscaler.actuator import Actuator, NotLeadingError
from tonnage.autoscaler.provider_state import ProviderReader
from tonnage.objects.pods import PodAffinityTerm
from tonnage.providers.protocol import Instance
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask, Outcome, Rule
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

ALL_PODS = "/api/v1/pods"


async def hangs() -> None:
    await asyncio.Event().wait()


def forbidden(times: int = 20) -> list[object]:
    return [answer(lambda: refusal(403, "Forbidden")) for _ in range(times)]


# The API server


async def test_nothing_is_bought_before_the_caches_are_full(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_pod(server, "web")
        server.script("GET", NODES, *[answer(lambda: refusal(500, "Odd")) for _ in range(30)])
        cloud = Cloud(server)
        async with running(a_program(server, cloud, clock), server, clock) as program:
            await clock.sleep(5)
            assert cloud.asked == []
            message = program.autoscaler.document["message"]
            assert message == "Node objects are not all known yet"
            assert program.unready() == "not synced: Node"
            await until(lambda: bool(cloud.asked), clock=clock)
            assert program.unready() == ""


async def test_nothing_is_bought_on_a_stale_cache(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock) as program:
            server.freeze()
            server.cut_watches()
            await clock.sleep(300)
            assert "nothing was heard of" in program.autoscaler.document["tonnage"]["held"]
            assert metric(program, "tonnage_held") == 1
            assert metric(program, "tonnage_cache_stale", kind="Pod", group="") == 1
            put_pod(server, "web")
            await clock.sleep(60)
            assert cloud.asked == []
            server.thaw()
            await until(lambda: bool(cloud.asked), clock=clock)
            assert metric(program, "tonnage_held") == 0


async def test_a_cut_watch_delays_a_decision_and_loses_none(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock):
            server.cut_watches()
            put_pod(server, "web")
            await until(lambda: bool(cloud.asked), clock=clock, within=60)
            assert cloud.asked == [("increase", "g", 1)]


async def test_a_forgotten_version_is_listed_anew(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock):
            put_pod(server, "web")
            server.forget()
            server.cut_watches()
            await until(lambda: bool(cloud.asked), clock=clock, within=60)
            await clock.sleep(60)
            assert cloud.asked == [("increase", "g", 1)]


@pytest.mark.parametrize(
    ("code", "reason"), [(429, "TooManyRequests"), (500, "InternalError"), (503, "Unavailable")]
)
async def test_status_that_cannot_be_written_stops_nothing(
    clock: VirtualClock, code: int, reason: str
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        refusals = [answer(lambda: refusal(code, reason)) for _ in range(3)]
        server.script("PATCH", STATUS, *refusals)
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock):
            await until(lambda: bool(cloud.asked) and STATUS in server.objects, clock=clock)
            assert cloud.asked == [("increase", "g", 1)]


async def test_a_state_somebody_else_changed_ends_the_round_before_it_acts(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock):
            await until(lambda: STATE in server.objects, clock=clock)
            server.script("PUT", STATE, answer(lambda: refusal(409, "Conflict")))
            put_pod(server, "web")
            await clock.sleep(2)
            assert cloud.asked == []
            await clock.sleep(30)
            assert cloud.asked == [("increase", "g", 1)]


async def test_without_the_right_to_store_state_decisions_go_on(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        server.script("POST", STATE.rpartition("/")[0], *forbidden())  # type: ignore[arg-type]
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock) as program:
            await until(lambda: bool(cloud.asked), clock=clock)
            problems = program.autoscaler.document["tonnage"]["problems"]
            assert any("state not stored" in problem for problem in problems)


async def test_a_cluster_role_without_volumeattachments_is_named_and_decisions_go_on(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        server.script("GET", ATTACHMENTS, *forbidden())  # type: ignore[arg-type]
        put_pod(server, "db", claims=["data"])
        async with autoscaling(server, cloud, clock) as program:
            await until(lambda: bool(cloud.asked), clock=clock)
            await until(lambda: STATUS in server.objects, clock=clock)
            (right,) = status(server)["tonnage"]["missingRights"]
            assert right["verb"] in ("list", "watch")
            assert (right["kind"], right["group"]) == ("VolumeAttachment", "storage.k8s.io")
            labels = {"kind": "VolumeAttachment", "group": "storage.k8s.io"}
            assert metric(program, "tonnage_cache_forbidden", **labels) == 1


async def test_without_the_right_to_claims_only_pods_with_volumes_are_left_alone(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "db", claims=["data"], cpu="3")
        put_pod(server, "web", cpu="3")
        claims = "/api/v1/persistentvolumeclaims"
        server.script("GET", claims, *forbidden())  # type: ignore[arg-type]
        async with autoscaling(server, cloud, clock):
            await until(lambda: bool(cloud.asked), clock=clock)
            await clock.sleep(20)
            assert cloud.asked == [("increase", "g", 1)]
            left = status(server)["tonnage"]["podsWithVolumesLeftAlone"]
            assert left == "no PersistentVolumeClaim objects"


async def test_a_right_given_back_is_used(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web")
        server.script("GET", ALL_PODS, *forbidden(6))  # type: ignore[arg-type]
        async with running(a_program(server, cloud, clock), server, clock) as program:
            await clock.sleep(20)
            assert program.autoscaler.document["message"] == "Pod objects cannot be read"
            assert cloud.asked == []
            await until(lambda: bool(cloud.asked), clock=clock)
            await clock.sleep(20)
            assert status(server)["tonnage"]["missingRights"] == []


async def test_an_empty_cache_buys_and_deletes_nothing_until_nodes_are_known(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        cloud.machines["g"] = [Instance(id=f"m{i}", state="running") for i in range(3)]
        put_pod(server, "web")
        async with running(a_program(server, cloud, clock), server, clock) as program:
            await clock.sleep(800)
            held = program.autoscaler.document["message"]
            assert held == "no node is known, and the provider has 3 machines running"
            assert cloud.asked == []
            for index in range(3):
                put_node(server, clock, f"m{index}")
                put_pod(server, f"busy-{index}", cpu="4", on=f"m{index}")
            cloud.machines, cloud.refreshed = {}, 0  # from here on it counts the nodes there are
            await clock.sleep(30)
            assert cloud.asked == [("increase", "g", 1)]
            assert (program.unhealthy(), program.autoscaler.document["tonnage"]["held"]) == ("", "")


async def test_nodes_that_pods_are_known_to_have_are_missed_for_ever(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        cloud.machines["g"] = [Instance(id="m0", state="running")]
        put_pod(server, "busy", on="m0")
        put_pod(server, "web")
        async with running(a_program(server, cloud, clock), server, clock) as program:
            await clock.sleep(7200)
            assert cloud.asked == []
            assert "no node is known" in program.autoscaler.document["message"]


async def test_first_machines_that_never_become_nodes_are_given_up_in_the_end(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        cloud.machines["g"] = [Instance(id="m0", state="running")]
        put_pod(server, "web")
        async with running(a_program(server, cloud, clock), server, clock):
            await clock.sleep(7200)
            assert ("increase", "g", 1) in cloud.asked
            # As long as no node is known at all, none of their machines is deleted.
            assert "delete" not in {deed for deed, *_ in cloud.asked}


async def test_one_object_that_cannot_be_read_stops_nothing_and_is_named(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        server.put(NODES, {"metadata": {"name": "odd"}, "status": {"allocatable": {"cpu": "?"}}})
        put_pod(server, "web")
        cloud.refresh_fails = None
        async with running(a_program(server, Blindfolded(server), clock), server, clock) as program:
            await settled(program, clock)
            assert program.autoscaler.document["tonnage"]["lastDecision"]["scaleUps"] == [
                {"group": "g", "delta": 1}
            ]
            problems = program.autoscaler.document["tonnage"]["problems"]
            assert any(problem.startswith("Node odd: ") for problem in problems)


class Blindfolded(Cloud):
    """A provider that does not look at nodes."""

    async def refresh(self) -> None:
        pass


# Crashes and leaders


async def test_killed_before_the_provider_was_asked_the_nodes_are_asked_for_once(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        cloud.before_increase = hangs
        put_pod(server, "web")
        async with running(a_program(server, cloud, clock, identity="a"), server, clock):
            await until(lambda: "requests" in stored(server), clock=clock)
        cloud.before_increase = None
        assert cloud.target() == 0
        async with autoscaling(server, cloud, clock, identity="b"):
            await clock.sleep(120)
            assert cloud.asked == [("increase", "g", 1)]


async def test_killed_after_the_provider_was_asked_nothing_is_bought_twice(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = LosesAnswers(server)
        put_pod(server, "web")
        async with running(a_program(server, cloud, clock, identity="a"), server, clock):
            await until(lambda: bool(cloud.asked), clock=clock)
        async with autoscaling(server, cloud, clock, identity="b"):
            await clock.sleep(120)
            assert cloud.asked == [("increase", "g", 1)]


def stored(server: ApiServer) -> str:
    return str(server.objects.get(STATE, {"data": {"state": ""}})["data"]["state"])


async def test_of_two_replicas_one_acts(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        first = a_program(server, cloud, clock, identity="a", elect=True)
        second = a_program(server, cloud, clock, identity="b", elect=True)
        async with running(first, server, clock), running(second, server, clock):
            await until(
                lambda: first.leadership.leading() or second.leadership.leading(), clock=clock
            )
            put_pod(server, "web")
            await clock.sleep(120)
            assert cloud.asked == [("increase", "g", 1)]
            assert first.leadership.leading() != second.leadership.leading()


async def test_the_next_leader_goes_on_where_the_last_one_stopped(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web")
        second = a_program(server, cloud, clock, identity="b", elect=True)
        async with running(
            a_program(server, cloud, clock, identity="a", elect=True), server, clock
        ):
            await until(lambda: bool(cloud.asked), clock=clock)
            await clock.sleep(600)
        async with running(second, server, clock):
            await until(second.leadership.leading, clock=clock)
            # 15 minutes after the request was made, not after the second leader came.
            await clock.sleep(330)
            assert cloud.asked == [("increase", "g", 1), ("decrease", "g", 1)]


async def test_who_no_longer_leads_asks_for_nothing(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cloud = Cloud(server)
        provider_reader = ProviderReader(cloud, clock=clock)
        actuator = Actuator(provider_reader, leading=lambda: False, recorder=None, dry_run=False)
        with pytest.raises(NotLeadingError):
            await actuator.increase("g", 1, reason="a pod waits")
        assert cloud.asked == []


async def test_a_replica_that_does_not_lead_is_healthy(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        first = a_program(server, cloud, clock, identity="a", elect=True)
        second = a_program(server, cloud, clock, identity="b", elect=True)
        async with running(first, server, clock):
            await until(first.leadership.leading, clock=clock)
            async with running(second, server, clock):
                # Longer than a round may be missed for.
                await clock.sleep(1200)
                assert (first.unhealthy(), second.unhealthy()) == ("", "")


# Time


@pytest.mark.parametrize("step", [3600, -3600])
async def test_a_stepped_clock_makes_nothing_overdue(clock: VirtualClock, step: int) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock, replaceUnreadyDrivers=True) as program:
            await until(lambda: bool(cloud.asked), clock=clock)
            put_node(server, clock, "g-1", drivers={})
            await clock.sleep(30)
            clock.step(step)
            await clock.sleep(60)
            assert cloud.asked == [("increase", "g", 1)]
            assert program.autoscaler.document["tonnage"]["comingUp"][0]["node"] == "g-1"
            assert (program.unhealthy(), program.autoscaler.document["tonnage"]["held"]) == ("", "")


async def test_random_refusals_of_the_api_server_never_buy_twice(clock: VirtualClock) -> None:
    dice = random.Random(5)
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        for path in (STATUS, STATE):
            for method in ("GET", "PUT", "PATCH"):
                codes = dice.choices([409, 410, 429, 500], k=6)
                answers = [answer(lambda code=code: refusal(code, "Odd")) for code in codes]  # type: ignore[misc]
                server.script(method, path, *answers)
        put_pod(server, "web")
        async with running(a_program(server, cloud, clock), server, clock) as program:
            await clock.sleep(600)
            assert cloud.asked == [("increase", "g", 1)]
            assert program.unhealthy() == ""


# Rules


class StumblesOverNewNodes(Rule):
    """A rule that fails for one pod as soon as a node is imagined for it."""

    name = "Stumbles"
    cures = ()

    def pre_filter(self, ask: Ask) -> Outcome:
        if ask.pod.key == "default/bad" and any("-new-" in name for name in ask.snapshot.nodes):
            raise RuntimeError("this rule does not work")
        return None


async def test_pods_that_no_decision_can_be_made_with_together_are_decided_on_apart(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of them alone is fine: without a node that is imagined for the other."""
    stumbling = Features(more_rules=(StumblesOverNewNodes(),))
    monkeypatch.setattr(programs, "features_of", lambda *_: stumbling)
    term = PodAffinityTerm(
        topology_key=builders.HOSTNAME, label_selector=builders.selecting({"app": "bad"})
    )
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "good", cpu="3")
        put_pod(server, "bad", cpu="3", labels={"app": "bad"}, apart=[term])
        async with autoscaling(server, cloud, clock) as program:
            await until(lambda: bool(cloud.asked), clock=clock)
            await clock.sleep(30)
            snapshot = program.world.snapshot
            left = [name for name in snapshot.nodes if "-new-" in name]
            told = str(status(server))
    assert [wanted for _, _, wanted in cloud.asked] == [1]
    assert left == []
    assert not snapshot._journal.recording, "changes of the watch are for good"
    assert told.count("not decided on: RuntimeError: this rule does not work") == 1
    assert "round failed" not in caplog.text
